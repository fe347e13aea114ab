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
	columnSigns   = 1 << iota // 2x: plus and slash
	columnDigits              // 3x
	columnLetters             // 4x and 6x: A to O
	columnRest                // 5x and 7x: P to Z

	inThree = columnDigits | columnLetters | columnRest
)

// base64Tables maps each half of a byte to a group of sets. A byte belongs to the alphabet if the
// groups of its two halves have a set in common.
var base64Tables = [2][16]byte{
	{
		columnDigits | columnRest, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree,
		0xa: columnLetters | columnRest, 0xb: columnSigns | columnLetters,
		0xc: columnLetters, 0xd: columnLetters, 0xe: columnLetters, 0xf: columnSigns | columnLetters,
	},
	{0x2: columnSigns, 0x3: columnDigits, 0x4: columnLetters, 0x5: columnRest, 0x6: columnLetters, 0x7: columnRest},
}

var _ = base64Tables // read by the assembler
