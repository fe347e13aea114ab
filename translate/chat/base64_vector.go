//go:build amd64 || arm64

package chat

import "golang.org/x/sys/cpu"

// hasVectorBase64 is true if vectorBase64 can be used. Tests set it to false.
var hasVectorBase64 = cpu.X86.HasAVX2 || cpu.ARM64.HasASIMD

// vectorBase64 reports whether the 32-byte blocks at p contain only bytes of the alphabet. It is
// written in assembler for the same reasons as vectorText in package jsonx.
//
//go:noescape
func vectorBase64(p *byte, blocks int) bool

// Bytes are grouped into sets by their high half. Upper and lower case letters share sets.
const (
	base64SignColumn   = 1 << iota // 2x: plus and slash
	base64DigitColumn              // 3x
	base64LetterColumn             // 4x and 6x: A to O
	base64OtherColumn              // 5x and 7x: P to Z

	inThree = base64DigitColumn | base64LetterColumn | base64OtherColumn
)

// base64Tables maps each half of a byte to a group of sets. A byte belongs to the alphabet if the
// groups of its two halves have a set in common.
var base64Tables = [2][16]byte{
	{
		base64DigitColumn | base64OtherColumn, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree,
		0xa: base64LetterColumn | base64OtherColumn, 0xb: base64SignColumn | base64LetterColumn,
		0xc: base64LetterColumn, 0xd: base64LetterColumn, 0xe: base64LetterColumn, 0xf: base64SignColumn | base64LetterColumn,
	},
	{0x2: base64SignColumn, 0x3: base64DigitColumn, 0x4: base64LetterColumn, 0x5: base64OtherColumn, 0x6: base64LetterColumn, 0x7: base64OtherColumn},
}

var _ = base64Tables // read by the assembler
