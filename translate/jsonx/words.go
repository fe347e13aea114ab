package jsonx

import (
	"encoding/binary"
	"math/bits"
)

// The masks are added to bytes below 0x80. notZero makes every byte except 0 reach 0x80. notStop
// makes every byte except control characters and 0x20 reach 0x80. The caller first flips a bit that
// turns the quote into 0x20.
const (
	notZero = 0x7f * lowBits
	notStop = (0x7f - ' ') * lowBits
)

// skipBlocksByWord does the work of skipBlocks if there is no vector code for the processor. A
// character or an escape must start at i, and i must not be 0. Besides ASCII, the blocks that
// skipBlocksByWord skips may contain two-byte escapes or two-byte characters, but not both. The
// mask marks the special bytes in s[base:base+64]. If fewer bytes are left, the mask is 0.
func skipBlocksByWord(s []byte, i int) (base int, mask uint64, flags uint8) {
	for {
		i = skipPlainBlocks(s, i)
		// Start with the kinds of text in the previous block, because this block probably contains
		// the same kinds.
		for seen := uint8(flagEscaped | flagNonASCII); seen != 0; {
			if len(s)-i < 64 {
				return i, 0, flags
			}
			w := (*[64]byte)(s[i:])
			var next int
			if seen&flagEscaped != 0 && !hasNonASCII(w) {
				next, mask, seen = scanEscapeBlock(w)
			} else if next, seen = scanTwoByteBlock((*[65]byte)(s[i-1:])); next == 0 {
				mask = specialMask(w)
			}
			flags |= seen
			if mask != 0 {
				return i, mask, flags
			}
			i += next
		}
	}
}

// skipPlainBlocks skips blocks of 64 plain bytes.
func skipPlainBlocks(s []byte, i int) int {
	for ; len(s)-i >= 64; i += 64 {
		w := s[i : i+64 : i+64]
		if markSpecial(binary.LittleEndian.Uint64(w))|markSpecial(binary.LittleEndian.Uint64(w[8:]))|
			markSpecial(binary.LittleEndian.Uint64(w[16:]))|markSpecial(binary.LittleEndian.Uint64(w[24:]))|
			markSpecial(binary.LittleEndian.Uint64(w[32:]))|markSpecial(binary.LittleEndian.Uint64(w[40:]))|
			markSpecial(binary.LittleEndian.Uint64(w[48:]))|markSpecial(binary.LittleEndian.Uint64(w[56:])) != 0 {
			break
		}
	}
	return i
}

func hasNonASCII(w *[64]byte) bool {
	return (loadWord(w, 0)|loadWord(w, 8)|loadWord(w, 16)|loadWord(w, 24)|
		loadWord(w, 32)|loadWord(w, 40)|loadWord(w, 48)|loadWord(w, 56))&highBits != 0
}

// scanEscapeBlock examines a block without bytes above 0x7f. It returns the start of the next block,
// or 0 if the block contains an escape that is not a two-byte escape. The mask marks the bytes of
// this block that a scan must examine.
func scanEscapeBlock(w *[64]byte) (next int, mask uint64, flags uint8) {
	var back, stop uint64 // inverted until after the loop
	for at := 0; at < 64; at += 8 {
		x := loadWord(w, at)
		back = back>>1 | ((x^backslashBytes)+notZero)&highBits
		stop = stop>>1 | ((x^2*lowBits)+notStop)&highBits
	}
	back, stop = transposeBits(^back), transposeBits(^stop)
	// In a run of backslashes, every second backslash is escaped. If a run starts at an odd bit,
	// the addition carries out of the run. The carry into the bit after the run shows whether the
	// run's length is odd.
	const even = 0x5555555555555555
	follows := back << 1
	sum, open := bits.Add64(back, back&^follows&^even, 0)
	escaped := (sum<<1 ^ even) & follows
	for m := escaped; m != 0; m &= m - 1 {
		if !simpleEscapes[w[bits.TrailingZeros64(m)&63]] {
			return 0, specialMask(w), 0
		}
	}
	stop &^= escaped
	if escaped&(stop-1)&^stop != 0 { // an escape before the closing quote
		flags = flagEscaped
	}
	return 64 - int(open), stop, flags // an escape that starts in the last byte extends into the next block
}

// scanTwoByteBlock examines the block that starts at s[1]; s[0] is the byte before it. It returns
// the start of the next block, or 0 if the block contains anything other than ASCII and two-byte
// characters.
func scanTwoByteBlock(s *[65]byte) (next int, flags uint8) {
	var bad, wide uint64
	for at := 0; at < 64; at += 8 {
		before, x := binary.LittleEndian.Uint64(s[at:at+8]), binary.LittleEndian.Uint64(s[at+1:at+9])
		y := x &^ highBits
		lead := x & (x << 1)
		// Characters of three bytes or more; overlong characters.
		bad |= lead&(x<<2) | lead&^(x&(0x1e*lowBits)+0x7e*lowBits)
		// A first byte without a second, or a second without a first.
		bad |= x ^ lead ^ before&(before<<1)
		bad |= ^(((y^2*lowBits)+notStop)&((y^backslashBytes)+notZero) | x)
		if bad&highBits != 0 {
			return 0, 0
		}
		wide |= x
	}
	if wide&highBits != 0 {
		flags = flagNonASCII
	}
	return 64 - int(s[64]>>7&(s[64]>>6)), flags // an incomplete character belongs to the next block
}

func loadWord(w *[64]byte, at int) uint64 { return binary.LittleEndian.Uint64(w[at : at+8]) }

// transposeBits moves bit 8i+j of x to bit 8j+i.
func transposeBits(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}

// specialMask returns a mask of the special bytes of a block. The lowest bit is the first byte. All
// bits are correct, unlike those from markSpecial.
func specialMask(w *[64]byte) uint64 {
	var plain uint64
	for at := 0; at < 64; at += 8 {
		x := loadWord(w, at)
		y := x &^ highBits // prevents a carry into the next byte
		plain = plain>>1 | ((y^2*lowBits)+notStop)&((y^backslashBytes)+notZero)&^x&highBits
	}
	return transposeBits(^plain)
}
