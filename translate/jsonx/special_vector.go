//go:build amd64 || arm64

package jsonx

import "golang.org/x/sys/cpu"

// Every arm64 has NEON, but GODEBUG=cpu.asimd=off disables it, as cpu.avx2=off disables AVX2. (Go's
// runtime does not recognize asimd and prints a warning.) Tests also set hasVectorText to false.
var hasVectorText = cpu.X86.HasAVX2 || cpu.ARM64.HasASIMD

// vectorText skips 64-byte blocks of a string as long as they contain only valid characters and
// two-byte escapes. p must point to at least the given number of blocks. The three bytes before p
// must be readable. p must not be in the middle of a character.
//
// If a block contains anything else, vectorText returns the number of this block and a mask of its
// special bytes. The lowest bit of the mask is the block's first byte. Otherwise vectorText returns
// the number of blocks and a mask of 0. The returned block may begin in the middle of a character.
//
// escapes is not 0 if vectorText skipped escapes. wide is not 0 if vectorText skipped multi-byte
// characters. open is 1 if the byte before the returned block is a backslash that starts an escape,
// and otherwise 0.
//
// The function is written in Go's assembler, once with AVX2 and once with NEON. No generator
// supports both architectures: avo and Go 1.26's experimental package simd support only amd64.
//
//go:noescape
func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)

// These constants are errors in two consecutive bytes. The validation of UTF-8 follows Keiser and
// Lemire ("Validating UTF-8 In Less Than One Instruction Per Byte", 2020). vectorText looks up
// three sets of errors, indexed by the high half of the first byte, its low half, and the high half
// of the second byte. The bytes are invalid if all three sets contain the same error.
const (
	utf8TooShort  = 1 << iota // a first byte without a continuation
	utf8TooLong               // ASCII followed by a continuation
	utf8Overlong3             // a character of three bytes that could be shorter
	utf8TooLarge              // above U+10FFFF: 0xf4 0x90, or 0xf5 or more followed by 0x90 or more
	utf8Surrogate
	utf8Overlong2
	utf8Overlong4 // four bytes that could be fewer; or above U+10FFFF: 0xf5 or more, then 0x80 to 0x8f
	// Two continuations: wrong unless the second is the third or fourth byte of a character.
	utf8TwoContinuations

	utf8AnyFirstByte = utf8TooShort | utf8TooLong | utf8TwoContinuations // for any low half of the first byte
	// For a low half of 5 or more in the first byte.
	utf8FromLowFive = utf8AnyFirstByte | utf8TooLarge | utf8Overlong4
)

// These constants are sets of bytes that may follow a backslash, grouped by the byte's high half.
const (
	escapeColumn2 = 1 << iota
	escapeColumn5
	escapeColumn6
	escapeColumn7
)

// vectorTables are indexed by half a byte. The assembly code addresses each table by its
// position.
var vectorTables = [8][16]byte{
	{ // by the high half of a first byte
		utf8TooLong, utf8TooLong, utf8TooLong, utf8TooLong, utf8TooLong, utf8TooLong, utf8TooLong, utf8TooLong,
		utf8TwoContinuations, utf8TwoContinuations, utf8TwoContinuations, utf8TwoContinuations,
		utf8TooShort | utf8Overlong2, utf8TooShort, utf8TooShort | utf8Overlong3 | utf8Surrogate, utf8TooShort | utf8TooLarge | utf8Overlong4,
	},
	{ // by the low half of a first byte
		utf8AnyFirstByte | utf8Overlong3 | utf8Overlong2 | utf8Overlong4, utf8AnyFirstByte | utf8Overlong2, utf8AnyFirstByte, utf8AnyFirstByte,
		utf8AnyFirstByte | utf8TooLarge, utf8FromLowFive, utf8FromLowFive, utf8FromLowFive, utf8FromLowFive, utf8FromLowFive, utf8FromLowFive, utf8FromLowFive,
		utf8FromLowFive, utf8FromLowFive | utf8Surrogate, utf8FromLowFive, utf8FromLowFive,
	},
	{ // by the high half of a second byte
		utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort,
		utf8TooLong | utf8Overlong2 | utf8TwoContinuations | utf8Overlong3 | utf8Overlong4,
		utf8TooLong | utf8Overlong2 | utf8TwoContinuations | utf8Overlong3 | utf8TooLarge,
		utf8TooLong | utf8Overlong2 | utf8TwoContinuations | utf8Surrogate | utf8TooLarge,
		utf8TooLong | utf8Overlong2 | utf8TwoContinuations | utf8Surrogate | utf8TooLarge,
		utf8TooShort, utf8TooShort, utf8TooShort, utf8TooShort,
	},
	// By the high half of a first byte: characters of three or more bytes.
	{0xe: utf8TwoContinuations, 0xf: utf8TwoContinuations},
	// By the high half of a first byte: characters of four bytes.
	{0xf: utf8TwoContinuations},
	{ // bytes that may follow a backslash, except u: by the low half
		0x2: escapeColumn2 | escapeColumn6 | escapeColumn7, 0x4: escapeColumn7, 0x6: escapeColumn6,
		0xc: escapeColumn5, 0xe: escapeColumn6, 0xf: escapeColumn2,
	},
	// Bytes that may follow a backslash: by the high half.
	{0x2: escapeColumn2, 0x5: escapeColumn5, 0x6: escapeColumn6, 0x7: escapeColumn7},
	{1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128}, // converts bytes to the bits of a mask
}

var _ = vectorTables // read by the assembly code
