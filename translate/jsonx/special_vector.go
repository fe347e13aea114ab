//go:build amd64 || arm64

package jsonx

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorText can be used. Every arm64 has NEON, but being asked for it,
// GODEBUG=cpu.asimd=off switches it off as cpu.avx2=off does AVX2. (Go's own runtime does not know
// that name, and says so.) Tests switch it off, too.
var hasVector = cpu.X86.HasAVX2 || cpu.ARM64.HasASIMD

// vectorText passes over blocks of 64 bytes in a string, of which there must be so many at p, as
// long as there is nothing in them but valid characters and escapes of two bytes. Before p there
// must be three bytes that can be read and are part of no character that goes on behind. It returns
// the first block that has something else, and a mask with a bit for each byte of that block that
// is special, the lowest for the first; or blocks and 0. A character may begin before that block
// and go on in it.
//
// escapes and wide are not 0 if it has passed any escapes or characters of several bytes, and open
// is 1, and otherwise 0, if the byte before that block is a backslash that begins an escape.
//
// It is written in Go's assembler, once with AVX2 and once with NEON. No generator serves both: avo
// knows amd64 alone, and so does package simd of Go 1.26, which is an experiment.
//
//go:noescape
func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)

// What can be wrong with two bytes that follow each other. UTF-8 is validated as Keiser and Lemire
// found ("Validating UTF-8 In Less Than One Instruction Per Byte", 2020): it is looked up by the
// halves of the first byte and the high half of the second, and is wrong if all three agree.
const (
	tooShort  = 1 << iota // a first byte, and no continuation
	tooLong               // ASCII, and a continuation
	overlong3             // a character of three bytes that could be shorter
	tooLarge              // above U+10FFFF: 0xf4 0x90, or 0xf5 and more with 0x90 and more
	surrogate
	overlong2
	overlong4 // the same, or above U+10FFFF: 0xf5 and more with 0x80 to 0x8f
	twoMore   // two continuations: wrong unless the second is the third or fourth byte

	anyFirst = tooShort | tooLong | twoMore    // whatever the low half of the first byte is
	fromFive = anyFirst | tooLarge | overlong4 // if that is 5 or more
)

// Columns of what may follow a backslash: by the high half of the byte.
const (
	column2 = 1 << iota
	column5
	column6
	column7
)

// vectorTables are looked up by half a byte. The assembler knows them by their place.
var vectorTables = [8][16]byte{
	{ // by the high half of a first byte
		tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong,
		twoMore, twoMore, twoMore, twoMore,
		tooShort | overlong2, tooShort, tooShort | overlong3 | surrogate, tooShort | tooLarge | overlong4,
	},
	{ // by its low half
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
	{0xe: twoMore, 0xf: twoMore}, // by the high half of what begins a character: it has a third byte
	{0xf: twoMore},               // and a fourth
	{ // what may follow a backslash, but for u: by its low half
		0x2: column2 | column6 | column7, 0x4: column7, 0x6: column6,
		0xc: column5, 0xe: column6, 0xf: column2,
	},
	{0x2: column2, 0x5: column5, 0x6: column6, 0x7: column7},   // and by its high half
	{1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128}, // makes the bits of a mask
}

var _ = vectorTables // the assembler does
