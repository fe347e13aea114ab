package engineerror

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage is the maximum number of bytes of an engine's message that are kept.
const maxMessage = 1 << 10

// clean returns the part of an engine's message that may be shown.
func clean(s string) string {
	if strings.Contains(s, "Traceback (most recent call last)") {
		return ""
	}
	if len(s) > 4*maxMessage {
		s = s[:4*maxMessage]
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.Is(unicode.Cf, r) { // invisible, and could hide a key from redact
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
	return cutMessage(redact(b.String()))
}

// cutMessage shortens a message that is too long.
func cutMessage(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
