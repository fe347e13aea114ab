// Package httptoken has the rules for the characters of HTTP that both sides of the edge share. It
// imports nothing, so that every package that reads heads can use it.
package httptoken

import "strings"

// tokenBytes are the bytes of a token (RFC 9110, 5.6.2).
var tokenBytes = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

// IsTokenByte reports whether a token may contain c.
func IsTokenByte(c byte) bool { return tokenBytes[c] }

// IsToken reports whether s is a token, such as a method or a field's name.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

// HasControl reports whether s has a control character other than a tab. A field's value must not
// (RFC 9110, 5.5).
func HasControl[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// IsBlank reports whether c is a space or a tab: optional white space (RFC 9110, 5.6.3).
func IsBlank(c byte) bool { return c == ' ' || c == '\t' }

// EqualFold reports whether s equals lower, which is in lower case, apart from the case of ASCII
// letters. Unlike bytes.EqualFold it folds no other letters, such as the Kelvin sign to k.
func EqualFold[T string | []byte](s T, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(lower) {
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
