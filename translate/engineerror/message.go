package engineerror

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxMessageBytes = 1 << 10

// cleanMessage returns the part of an engine's message that clients may see.
func cleanMessage(s string) string {
	if strings.Contains(s, "Traceback (most recent call last)") {
		return ""
	}
	if len(s) > 4*maxMessageBytes {
		s = s[:4*maxMessageBytes]
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.Is(unicode.Cf, r) { // an invisible character could hide a key from redactMessage
			continue
		}
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return truncateMessage(redactMessage(b.String()))
}

func truncateMessage(s string) string {
	if len(s) > maxMessageBytes {
		s = s[:maxMessageBytes]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
