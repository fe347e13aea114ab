package jsonx

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorText can be used. Tests switch it off.
var hasVector = cpu.X86.HasAVX2

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
//go:noescape
func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)
