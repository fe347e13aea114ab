package jsonx

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorSpecial can be used. Tests switch it off.
var hasVector = cpu.X86.HasAVX2

// vectorSpecial looks for special bytes in blocks of 64 bytes, of which there must be so many at p. It returns the first block
// that has one and a mask with a bit for each such byte, the lowest for the first; or blocks and 0.
//
//go:noescape
func vectorSpecial(p *byte, blocks int) (block int, mask uint64)

// vectorClasses tells for each of the 64 bytes at p of which classes it is.
//
//go:noescape
func vectorClasses(p *byte, c *classes)
