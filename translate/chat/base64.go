package chat

import "encoding/binary"

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// IsBase64 reports whether s is base64 of the standard alphabet, padded, not empty and without line
// breaks. It looks at 32 bytes at a time where the processor can, otherwise 16: an image of a
// megabyte is checked in less time than it takes to copy it.
func IsBase64(s []byte) bool {
	if len(s) == 0 || len(s)%4 != 0 {
		return false
	}
	for range 2 {
		if s[len(s)-1] == '=' {
			s = s[:len(s)-1]
		}
	}
	good := uint64(highs)
	i := 0
	if blocks := len(s) / 32; hasVector && blocks > 0 {
		if !vectorBase64(&s[0], blocks) {
			return false
		}
		i = 32 * blocks
	}
	for ; i+16 <= len(s); i += 16 {
		b := s[i : i+16]
		good &= base64Bytes(binary.LittleEndian.Uint64(b)) & base64Bytes(binary.LittleEndian.Uint64(b[8:]))
	}
	var tail [16]byte
	for i := range tail {
		tail[i] = 'A'
	}
	copy(tail[:], s[i:])
	good &= base64Bytes(binary.LittleEndian.Uint64(tail[:])) & base64Bytes(binary.LittleEndian.Uint64(tail[8:]))
	return good == highs
}

// base64Bytes marks with its high bit each byte of x that is in the alphabet. With all bytes below
// 0x80, adding to a byte so that it reaches 0x80 is the test "at least", and nothing is carried
// into the next byte.
func base64Bytes(x uint64) uint64 {
	y := x &^ highs
	letter := y | 0x20*ones // upper case becomes lower case
	letter = (letter + (0x80-'a')*ones) &^ (letter + (0x7f-'z')*ones)
	digit := (y + (0x80-'/')*ones) &^ (y + (0x7f-'9')*ones) // the slash stands before the digits
	notPlus := y ^ '+'*ones + 0x7f*ones
	return (letter | digit | ^notPlus) &^ x & highs
}
