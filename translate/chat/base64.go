package chat

import "encoding/binary"

const (
	byteOnes     = 0x0101010101010101
	byteHighBits = 0x80 * byteOnes
)

// IsBase64 reports whether s is non-empty padded base64 in the standard alphabet, without line
// breaks. Checking a megabyte image takes less time than copying it.
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
	if blocks := len(s) / 32; hasVectorBase64 && blocks > 0 {
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
	return isBase64ByWord(s[i:n]) && isBase64ByWord(tail[:])
}

// isBase64ByWord reports whether s contains only bytes of the alphabet. It tests eight bytes at a
// time, as a word:
//
//   - Adding a constant to a byte sets its high bit if the byte is at least the lower bound.
//   - Subtracting the byte from another constant leaves the high bit set if the byte is at most the
//     upper bound.
//   - Both operations work only for bytes below 0x80, because these bytes cause no carry into the
//     next byte and no borrow from it. Bytes of 0x80 and above are not in the alphabet. The
//     variable all collects their high bits.
func isBase64ByWord(s []byte) bool {
	a, z, slash, nine := base64Bounds[0], base64Bounds[1], base64Bounds[2], base64Bounds[3]
	good, all := uint64(byteHighBits), uint64(0)
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		letter := x | 0x20*byteOnes // converts upper case to lower case
		good &= (letter+a)&(z-letter) | (x+slash)&(nine-x) | (byteHighBits - (x ^ '+'*byteOnes))
		all |= x
	}
	return (good&^all)&byteHighBits == byteHighBits
}

// base64Bounds is a variable, because the compiler would reload constants in every iteration. The
// digits directly follow the slash in ASCII.
var base64Bounds = [...]uint64{(0x80 - 'a') * byteOnes, (0x80 + 'z') * byteOnes, (0x80 - '/') * byteOnes, (0x80 + '9') * byteOnes}
