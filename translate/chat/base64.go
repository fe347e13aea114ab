package chat

import "encoding/binary"

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// IsBase64 reports whether s is padded base64 of the standard alphabet, not empty and without line
// breaks. It checks 32 bytes at a time if the processor can, and otherwise eight. Checking a
// megabyte image takes less time than copying it.
func IsBase64(s []byte) bool {
	if len(s) == 0 || len(s)%4 != 0 {
		return false
	}
	for range 2 {
		if s[len(s)-1] == '=' {
			s = s[:len(s)-1]
		}
	}
	i := 0
	if blocks := len(s) / 32; hasVector && blocks > 0 {
		if !vectorBase64(&s[0], blocks) {
			return false
		}
		i = 32 * blocks
	}
	var tail [8]byte
	n := i + (len(s)-i)&^7
	for i := range tail {
		tail[i] = 'A'
	}
	copy(tail[:], s[n:])
	return wordsBase64(s[i:n]) && wordsBase64(tail[:])
}

// wordsBase64 reports whether s, read in words of eight bytes, holds only bytes of the alphabet.
// All eight bytes of a word are tested at once. Adding a constant raises a byte below 0x80 to 0x80
// or more if the byte is at least the lower bound. Subtracting such a byte from a constant of 0x80
// or more leaves at least 0x80 if the byte is at most the upper bound. Neither operation carries
// into the next byte or borrows from it. all collects the high bits of bytes that are 0x80 or more,
// which are not in the alphabet.
func wordsBase64(s []byte) bool {
	a, z, slash, nine := base64Bounds[0], base64Bounds[1], base64Bounds[2], base64Bounds[3]
	good, all := uint64(highs), uint64(0)
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		letter := x | 0x20*ones // upper case becomes lower case
		good &= (letter+a)&(z-letter) | (x+slash)&(nine-x) | (highs - (x ^ '+'*ones))
		all |= x
	}
	return (good&^all)&highs == highs
}

// base64Bounds is a variable because the compiler would load constants again in every step. The
// digits directly follow the slash in ASCII.
var base64Bounds = [...]uint64{(0x80 - 'a') * ones, (0x80 + 'z') * ones, (0x80 - '/') * ones, (0x80 + '9') * ones}
