package jsonx

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	lowBits        = 0x0101010101010101
	highBits       = 0x8080808080808080
	quoteBytes     = lowBits * '"'
	backslashBytes = lowBits * '\\'
)

// markSpecial sets the high bit of each byte in x that a string scan must examine: a quote, a
// backslash, a control character, or a byte above 0x7f. Flipping one bit moves the quote next to
// the control characters, so one subtraction finds the quote and the control characters. A borrow
// can set a false mark only above a correct mark, so the lowest mark is always correct.
func markSpecial(x uint64) uint64 {
	return (x | ((x ^ 2*lowBits) - ('"'-1)*lowBits) | ((x ^ backslashBytes) - lowBits)) & highBits
}

// findSpecial returns the offset of the first special byte at or after i. If it finds none, it
// returns an offset less than eight bytes before the end.
func findSpecial(s []byte, i int) int {
	// In text with escapes, plain runs are short, so the wide loop would not pay off.
	for range 4 {
		if len(s)-i < 8 {
			return i
		}
		if m := markSpecial(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for len(s)-i >= 32 {
		w := s[i : i+32 : i+32]
		m := markSpecial(binary.LittleEndian.Uint64(w)) | markSpecial(binary.LittleEndian.Uint64(w[8:])) |
			markSpecial(binary.LittleEndian.Uint64(w[16:])) | markSpecial(binary.LittleEndian.Uint64(w[24:]))
		if m != 0 {
			break
		}
		i += 32
	}
	for len(s)-i >= 8 {
		if m := markSpecial(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	return i
}

// SkipText skips valid text in a string, for readers of JSON that arrives in pieces. i must be the
// offset of a character or an escape within the string. The caller continues its search at the
// returned offset, which may equal i and is never after the closing quote.
func SkipText(s []byte, i int) int {
	if hasVectorText && i >= 3 && len(s)-i >= 64 {
		i, _, _, _ = skipBlocks(s, i)
	}
	return findSpecial(s, i)
}

// findSpecial32 returns the offset of the first special byte in w, or 32.
func findSpecial32(w *[32]byte) int {
	m, n := markSpecial(binary.LittleEndian.Uint64(w[:8])), 0
	if m == 0 {
		m, n = markSpecial(binary.LittleEndian.Uint64(w[8:16])), 8
	}
	if m == 0 {
		m, n = markSpecial(binary.LittleEndian.Uint64(w[16:24])), 16
	}
	if m == 0 {
		m, n = markSpecial(binary.LittleEndian.Uint64(w[24:])), 24
	}
	return n + bits.TrailingZeros64(m)>>3
}

// ValidateString validates the string whose contents start at i, like Doc.Parse with
// Options.Paired. It returns the offset after the closing quote, or 0 if the string is invalid.
func ValidateString(s []byte, i int) (end int, escaped bool) {
	end, flags, reason := scanString(s, i)
	if reason != "" || flags&flagLoneSurrogate != 0 {
		return 0, false
	}
	return end, flags&flagEscaped != 0
}

// scanString validates the string whose contents start at i. It returns the offset after the
// closing quote and the flags. For an invalid string, it returns the error's offset and the reason.
func scanString(s []byte, i int) (end int, flags uint8, reason string) {
	// Most strings are short and plain.
	if len(s)-i > 32 {
		if i += findSpecial32((*[32]byte)(s[i:])); s[i] == '"' {
			return i + 1, 0, ""
		}
	}
	return scanLong(s, i)
}

// scanLong is like scanString, but i may be anywhere in the string's contents.
func scanLong(s []byte, i int) (end int, flags uint8, reason string) {
	var (
		base int    // the 64 bytes from this offset have been examined
		mask uint64 // the special bytes in these 64 bytes
		seen uint8
	)
	if hasVectorText && i >= 3 && len(s)-i >= 64 {
		i, base, mask, flags = skipBlocks(s, i)
	}
	for {
		switch {
		case mask != 0 && i-base < 64 && mask>>(i-base) != 0:
			i += bits.TrailingZeros64(mask >> (i - base))
		case len(s)-i >= 8:
			if mask != 0 { // the block has no more special bytes
				i, mask = max(i, base+64), 0
				if !hasVectorText {
					i, base, mask, seen = skipBlocks(s, i)
					flags |= seen
				}
				continue
			}
			if m := markSpecial(binary.LittleEndian.Uint64(s[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
			} else if i += 8; len(s)-i >= 64 {
				i, base, mask, seen = skipBlocks(s, i)
				flags |= seen
				continue
			} else if i = findSpecial(s, i); i >= len(s) {
				return len(s), 0, reasonEnd
			}
		case i >= len(s):
			return len(s), 0, reasonEnd
		}
		switch c := s[i]; {
		case c == '"':
			return i + 1, flags, ""
		case c == '\\':
			flags |= flagEscaped
			if i+1 >= len(s) {
				return len(s), 0, reasonEnd
			}
			if simpleEscapes[s[i+1]] {
				i += 2
				continue
			}
			var lone bool
			if i, lone, reason = scanUnicodeEscape(s, i); reason != "" {
				return i, 0, reason
			}
			if lone {
				flags |= flagLoneSurrogate
			}
		case c < ' ':
			return i, 0, reasonControl
		case c < 0x80:
			i++ // within the last bytes of s
		default:
			flags |= flagNonASCII
			if mask == 0 && len(s)-i >= 64 && (hasVectorText && i >= 3 || !hasVectorText && c < 0xe0) {
				i, base, mask, seen = skipBlocks(s, i) // skipBlocksByWord stops at three-byte characters
				flags |= seen
				continue
			}
			if c >= 0xc2 && c < 0xe0 && len(s)-i >= 2 && s[i+1]&0xc0 == 0x80 {
				i += 2 // usually no other multi-byte character follows
				continue
			}
			if i, reason = scanMultibyteRun(s, i); reason != "" {
				return i, 0, reason
			}
		}
	}
}

// scanUnicodeEscape validates the escape at i, which is not a two-byte escape. It returns the
// offset after the escape or surrogate pair. lone reports whether the escape is half a surrogate
// pair without the other half.
func scanUnicodeEscape(s []byte, i int) (end int, lone bool, reason string) {
	if s[i+1] != 'u' {
		return i + 1, false, reasonEscape
	}
	for j := i + 2; j < i+6; j++ {
		if j >= len(s) {
			return len(s), false, reasonEnd
		}
		if hexDigitValue(s[j]) < 0 {
			return j, false, reasonEscape
		}
	}
	if s[i+2]|0x20 == 'd' && s[i+3] >= '8' { // D800 to DFFF, in either case
		if !isPairedSurrogate(s, i) {
			return i + 6, true, ""
		}
		i += 6
	}
	return i + 6, false, ""
}

// skipBlocks skips as much text from i as vectorText or skipBlocksByWord can. A character or an
// escape must start at i. If mask is not 0, it marks the special bytes in s[base:base+64], and next
// equals base.
func skipBlocks(s []byte, i int) (next, base int, mask uint64, flags uint8) {
	if !hasVectorText {
		base, mask, flags = skipBlocksByWord(s, i)
		return base, base, mask, flags
	}
	block, mask, escapes, wide, open := vectorText(&s[i], (len(s)-i)/64)
	base = i + 64*block
	if escapes != 0 {
		flags |= flagEscaped
	}
	if wide != 0 {
		flags |= flagNonASCII
	}
	if block > 0 && (open != 0 || s[base-1] >= 0x80) {
		return characterStart(s, base), base, 0, flags
	}
	return base, base, mask, flags
}

// characterStart returns the start of the escape or multi-byte character that contains the byte
// before i.
func characterStart(s []byte, i int) int {
	for i--; s[i]&0xc0 == 0x80; {
		i--
	}
	return i
}

// isPairedSurrogate reports whether the surrogate escape at i is a first half that is followed by
// the second half.
func isPairedSurrogate(s []byte, i int) bool {
	c := s[i+3] | 0x20
	if c == 'c' || c == 'd' || c == 'e' || c == 'f' || len(s)-i < 12 || s[i+6] != '\\' || s[i+7] != 'u' {
		return false
	}
	for _, c := range s[i+8 : i+12] {
		if hexDigitValue(c) < 0 {
			return false // the scan will find the error
		}
	}
	c = s[i+9] | 0x20
	return s[i+8]|0x20 == 'd' && c >= 'c' && c <= 'f'
}

// simpleEscapes marks the bytes that may follow a backslash, except u.
var simpleEscapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// utf8Starts maps a first byte to the character's length and the range of the second byte.
var utf8Starts = func() (table [256]struct{ size, low, high uint8 }) {
	for c := 0xc2; c <= 0xf4; c++ {
		table[c].size, table[c].low, table[c].high = 2, 0x80, 0xbf
		if c >= 0xe0 {
			table[c].size = 3 + uint8(c>>4&1)
		}
	}
	table[0xe0].low, table[0xed].high, table[0xf0].low, table[0xf4].high = 0xa0, 0x9f, 0x90, 0x8f
	return table
}()

// UTF8SequenceInfo returns the length of the character that starts with c, and the range of its
// second byte (RFC 3629, section 4). size is 0 if c does not start a multi-byte character.
func UTF8SequenceInfo(c byte) (size int, low, high byte) {
	w := &utf8Starts[c]
	return int(w.size), w.low, w.high
}

// scanMultibyteRun validates the run of multi-byte characters at i. end is the offset after the
// run, or the offset of the first invalid byte.
func scanMultibyteRun(s []byte, i int) (end int, reason string) {
	for i < len(s) {
		c := s[i]
		if c > 0xe0 && len(s)-i >= 4 {
			// Fast path for three-byte characters, as in most Asian scripts.
			x := binary.LittleEndian.Uint32(s[i:])
			if x&0xc0c0f0 == 0x8080e0 && c != 0xed {
				i += 3
				continue
			}
		}
		if c < utf8.RuneSelf {
			return i, ""
		}
		size, low, high := UTF8SequenceInfo(c)
		if size == 0 || i+size > len(s) || s[i+1] < low || s[i+1] > high {
			return i, reasonUTF8
		}
		if size > 2 && s[i+2]&0xc0 != 0x80 || size > 3 && s[i+3]&0xc0 != 0x80 {
			return i, reasonUTF8
		}
		i += size
	}
	return i, ""
}

func hexDigitValue(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func parseHex4(s []byte) rune {
	return rune(hexDigitValue(s[0])<<12 | hexDigitValue(s[1])<<8 | hexDigitValue(s[2])<<4 | hexDigitValue(s[3]))
}

// decodeRune decodes the character or escape at i, and returns the offset after it.
func decodeRune(s []byte, i int) (rune, int) {
	c := s[i]
	if c >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(s[i:])
		return r, i + n
	}
	if c != '\\' {
		return rune(c), i + 1
	}
	switch c = s[i+1]; c {
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
	default:
		return rune(c), i + 2
	}
	r := parseHex4(s[i+2:])
	i += 6
	if r < 0xd800 || r > 0xdfff {
		return r, i
	}
	if r < 0xdc00 && i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
		if low := parseHex4(s[i+2:]); low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, i + 6
		}
	}
	return utf8.RuneError, i
}

// AppendDecoded appends the contents s of a valid string with its escapes decoded.
func AppendDecoded(dst, s []byte) []byte {
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		r, end := decodeRune(s, n)
		dst = utf8.AppendRune(dst, r)
		s = s[end:]
	}
}

func equalDecoded(s []byte, name string) bool {
	for i := 0; i < len(s); {
		r, next := decodeRune(s, i)
		want, n := utf8.DecodeRuneInString(name)
		if n == 0 || r != want || n == 1 && want == utf8.RuneError {
			return false
		}
		i, name = next, name[n:]
	}
	return name == ""
}

// equalFoldDecoded reports whether the decoded contents s of a valid string equal name, ignoring
// ASCII case. It treats U+017F as s and U+212A as k, as Go's decoder does, because some engines use
// this decoder.
func equalFoldDecoded(s []byte, name string) bool {
	i := 0
	for j := range len(name) {
		if i >= len(s) {
			return false
		}
		var r rune
		r, i = decodeRune(s, i)
		switch r {
		case 'ſ':
			r = 's'
		case '\u212a':
			r = 'k'
		}
		if r >= utf8.RuneSelf || toLowerASCII(byte(r)) != toLowerASCII(name[j]) {
			return false
		}
	}
	return i == len(s)
}

func toLowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// AppendString appends s as a JSON string in quotes. Invalid bytes become U+FFFD. Only characters
// that must be escaped are escaped, so '<', '>', '&' and U+2028 are not.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

// AppendStringS is AppendString for a string.
func AppendStringS(dst []byte, s string) []byte {
	return AppendString(dst, []byte(s)) // no copy: AppendString neither retains nor changes s
}

// AppendEscaped appends s as the contents of a JSON string, without the quotes. The caller must not
// split a character between pieces.
func AppendEscaped(dst, s []byte) []byte {
	start, i := 0, 0
	for {
		if len(s)-i >= 8 {
			i = findSpecial(s, i)
		}
		if i >= len(s) {
			return append(dst, s[start:]...)
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			var reason string
			if i, reason = scanMultibyteRun(s, i); reason != "" {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				i++
				start = i
			}
			continue
		}
		e := escapeChars[c]
		if e == 0 {
			i++
			continue
		}
		dst = append(append(dst, s[start:i]...), '\\', e)
		if e == 'u' {
			const digits = "0123456789abcdef"
			dst = append(dst, '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		start = i
	}
}

// escapeChars maps each byte that must be escaped to the character after the backslash.
var escapeChars = func() (t [utf8.RuneSelf]byte) {
	for c := range ' ' {
		t[c] = 'u'
	}
	t['\b'], t['\f'], t['\n'], t['\r'], t['\t'] = 'b', 'f', 'n', 'r', 't'
	t['"'], t['\\'] = '"', '\\'
	return t
}()
