//go:build amd64 || arm64

package jsonx

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorText can be used. Every arm64 has NEON, but the flag is still
// queried. GODEBUG=cpu.asimd=off can thus disable NEON, like cpu.avx2=off disables AVX2. (Go's own
// runtime does not know the name asimd and prints a warning.) Tests also set hasVector to false.
var hasVector = cpu.X86.HasAVX2 || cpu.ARM64.HasASIMD

// vectorText passes over blocks of 64 bytes in a string as long as they contain only valid
// characters and two-byte escapes. The memory at p must hold the given number of blocks. The three
// bytes before p must be readable and must not belong to a character that continues at p. If a
// block contains anything else, vectorText returns the block's number and a mask with a bit for
// each special byte in it, the lowest bit for the first byte. Otherwise it returns the number of
// blocks and 0. A character may start before the returned block and continue in it.
//
// If vectorText passed escapes, escapes is not 0. If it passed multi-byte characters, wide is not
// 0. If the byte before the returned block is a backslash that starts an escape, open is 1,
// otherwise 0.
//
// The function is written in Go's assembler, once with AVX2 and once with NEON. No generator can
// write both: avo supports only amd64, and so does Go 1.26's experimental package simd.
//
//go:noescape
func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)

// The errors of two consecutive bytes. UTF-8 is validated by the method of Keiser and Lemire
// ("Validating UTF-8 In Less Than One Instruction Per Byte", 2020). Look-ups of both halves of the
// first byte and of the high half of the second byte give three sets of errors. The bytes are
// invalid if the three sets have an error in common.
const (
	tooShort  = 1 << iota // a first byte without a continuation
	tooLong               // ASCII followed by a continuation
	overlong3             // a character of three bytes that could be shorter
	tooLarge              // above U+10FFFF: 0xf4 0x90, or 0xf5 and more with 0x90 and more
	surrogate
	overlong2
	overlong4 // overlong too, or above U+10FFFF: 0xf5 and more with 0x80 to 0x8f
	twoMore   // two continuations: wrong unless the second is the third or fourth byte

	anyFirst = tooShort | tooLong | twoMore    // for any low half of the first byte
	fromFive = anyFirst | tooLarge | overlong4 // for a low half of 5 or more
)

// The columns of bytes that may follow a backslash, by the high half of the byte.
const (
	column2 = 1 << iota
	column5
	column6
	column7
)

// vectorTables holds tables that are indexed by half a byte. The assembler addresses each table by
// its position.
var vectorTables = [8][16]byte{
	{ // by the high half of a first byte
		tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong,
		twoMore, twoMore, twoMore, twoMore,
		tooShort | overlong2, tooShort, tooShort | overlong3 | surrogate, tooShort | tooLarge | overlong4,
	},
	{ // by the low half of a first byte
		anyFirst | overlong3 | overlong2 | overlong4, anyFirst | overlong2, anyFirst, anyFirst,
		anyFirst | tooLarge, fromFive, fromFive, fromFive, fromFive, fromFive, fromFive, fromFive,
		fromFive, fromFive | surrogate, fromFive, fromFive,
	},
	{ // by the high half of a second byte
		tooShort, tooShort, tooShort, tooShort, tooShort, tooShort, tooShort, tooShort,
		tooLong | overlong2 | twoMore | overlong3 | overlong4,
		tooLong | overlong2 | twoMore | overlong3 | tooLarge,
		tooLong | overlong2 | twoMore | surrogate | tooLarge,
		tooLong | overlong2 | twoMore | surrogate | tooLarge,
		tooShort, tooShort, tooShort, tooShort,
	},
	{0xe: twoMore, 0xf: twoMore}, // by the high half of a first byte: it has a third byte
	{0xf: twoMore},               // and a fourth
	{ // what may follow a backslash, except u: by its low half
		0x2: column2 | column6 | column7, 0x4: column7, 0x6: column6,
		0xc: column5, 0xe: column6, 0xf: column2,
	},
	{0x2: column2, 0x5: column5, 0x6: column6, 0x7: column7},   // and by its high half
	{1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128}, // yields the bits of a mask
}

var _ = vectorTables // read by the assembler
