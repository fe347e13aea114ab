//go:build amd64 || arm64

package chat

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorBase64 can be used. Tests switch it off.
var hasVector = cpu.X86.HasAVX2 || cpu.ARM64.HasASIMD

// vectorBase64 reports whether the blocks of 32 bytes at p hold only bytes of the alphabet. It is
// written in assembler like vectorText of package jsonx, for the same reasons.
//
//go:noescape
func vectorBase64(p *byte, blocks int) bool

// The columns of the alphabet, by the high half of the byte. Upper and lower case letters share
// columns.
const (
	columnSigns   = 1 << iota // 2x: plus and slash
	columnDigits              // 3x
	columnLetters             // 4x and 6x: A to O
	columnRest                // 5x and 7x: P to Z

	inThree = columnDigits | columnLetters | columnRest
)

// base64Tables holds the columns by the low half of the byte and by its high half. A byte belongs
// to the alphabet if its two halves have a column in common.
var base64Tables = [2][16]byte{
	{
		columnDigits | columnRest, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree, inThree,
		0xa: columnLetters | columnRest, 0xb: columnSigns | columnLetters,
		0xc: columnLetters, 0xd: columnLetters, 0xe: columnLetters, 0xf: columnSigns | columnLetters,
	},
	{0x2: columnSigns, 0x3: columnDigits, 0x4: columnLetters, 0x5: columnRest, 0x6: columnLetters, 0x7: columnRest},
}

var _ = base64Tables // read by the assembler
