package textgen

import (
	"encoding/binary"
	"math/bits"
)

// MixHash folds the 128-bit product of its arguments, so every bit of both arguments affects every
// bit of the result.
func MixHash(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x2d358dccaa6c78a5, b^0x8bb84b93962eacc9)
	return hi ^ lo
}

// Hash is a fast hash that is the same in every process. It is not secure.
func Hash(seed uint64, p []byte) uint64 {
	h := MixHash(seed, uint64(len(p)))
	for len(p) >= 16 {
		h = MixHash(h^binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]))
		p = p[16:]
	}
	if len(p) > 0 {
		var b [16]byte
		copy(b[:], p)
		h = MixHash(h^binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]))
	}
	return MixHash(h, 0x1d8e4e27c47d124f)
}
