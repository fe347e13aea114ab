package chat

import "golang.org/x/sys/cpu"

// hasVector reports whether vectorBase64 can be used. Tests switch it off.
var hasVector = cpu.X86.HasAVX2

// vectorBase64 reports whether the blocks of 32 bytes at p are all of the alphabet.
//
//go:noescape
func vectorBase64(p *byte, blocks int) bool
