// Package httptoken implements the character rules of HTTP. It imports no other package from this
// module, so every parser can use it.
package httptoken

import (
	"math/bits"
	"strings"
)

// tokenBytes is true for each byte that a token may contain (RFC 9110, 5.6.2).
var tokenBytes = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

// IsTokenByte reports whether a token may contain c.
func IsTokenByte(c byte) bool { return tokenBytes[c] }

// IsToken reports whether s is a token, such as a method or a header name.
func IsToken[T string | []byte](s T) bool { return len(s) > 0 && TokenLength(s) == len(s) }

// TokenLength returns the number of token bytes at the start of s.
func TokenLength[T string | []byte](s T) int {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return i
		}
	}
	return len(s)
}

// HasControl reports whether s contains a control character other than a tab. Header values must
// not contain any (RFC 9110, 5.5).
func HasControl[T string | []byte](s T) bool {
	last := len(s) - 8
	if last < 0 {
		return anyControl(s)
	}
	for i := 0; i < last; i += 8 {
		if w := s[i : i+8]; mayHaveControl(loadWord(w)) && anyControl(w) {
			return true
		}
	}
	w := s[last:] // this word may overlap the previous one
	return mayHaveControl(loadWord(w)) && anyControl(w)
}

func anyControl[T string | []byte](s T) bool {
	for i := range len(s) {
		if isControl(s[i]) {
			return true
		}
	}
	return false
}

// mayHaveControl reports whether w contains a control character, including a tab.
func mayHaveControl(w uint64) bool {
	del := w ^ 0x7f*lowBits
	return ((w-' '*lowBits)&^w|(del-lowBits)&^del)&highBits != 0
}

func isControl(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f }

// TrimBlanks returns s without leading and trailing spaces and tabs.
func TrimBlanks[T string | []byte](s T) T {
	for len(s) > 0 && IsBlank(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && IsBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// IsBlank reports whether c is a space or a tab (OWS in RFC 9110, 5.6.3).
func IsBlank(c byte) bool { return c == ' ' || c == '\t' }

// EqualFold reports whether s equals lower, ignoring ASCII case. lower must be lower-case. Unlike
// bytes.EqualFold, it does not fold non-ASCII letters, such as the Kelvin sign to k.
func EqualFold[T string | []byte](s T, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	last := len(s) - 8
	if last < 0 {
		return equalFoldShort(s, lower)
	}
	for i := 0; i < last; i += 8 {
		if !equalFoldWord(loadWord(s[i:i+8]), loadWord(lower[i:i+8])) {
			return false
		}
	}
	return equalFoldWord(loadWord(s[last:]), loadWord(lower[last:])) // this word may overlap the previous one
}

func equalFoldWord(is, lower uint64) bool {
	differ := is ^ lower
	if differ&^(0x20*lowBits) != 0 {
		return false
	}
	for ; differ != 0; differ &= differ - 1 {
		if c := byte(lower >> (bits.TrailingZeros64(differ) &^ 7)); c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// equalFoldShort compares byte by byte. s and lower must have the same length.
func equalFoldShort[T string | []byte](s T, lower string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// loadWord returns the first eight bytes of s. The compiler turns this into a single load.
func loadWord[T string | []byte](s T) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
