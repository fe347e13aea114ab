//go:build !amd64

package jsonx

// Elsewhere strings are scanned eight bytes at a time.
var hasVector = false

func vectorSpecial(*byte, int) (block int, mask uint64) { panic("jsonx: no vectors here") }

func vectorClasses(*byte, *classes) { panic("jsonx: no vectors here") }
