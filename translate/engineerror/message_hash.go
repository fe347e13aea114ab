package engineerror

import (
	"hash/maphash"
	"strings"
)

var messageHashSeed = maphash.MakeSeed()

// MessageHash returns a hash of the status and the engine's message. The hash ignores case, numbers
// and quoted text, because they vary between requests. It is valid only in this process and is
// never 0.
func (e *Error) MessageHash(status int) uint64 {
	var h maphash.Hash
	h.SetSeed(messageHashSeed)
	_, _ = h.Write([]byte{byte(status >> 8), byte(status)})
	_, _ = h.WriteString(normalizeMessage(e.Message))
	return h.Sum64() | 1
}

func normalizeMessage(message string) string {
	var b strings.Builder
	quote := rune(0)
	for i, r := range message {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case strings.ContainsRune("\"'`", r) && strings.ContainsRune(message[i+1:], r) && opensQuote(message[:i]):
			quote = r
		case r >= '0' && r <= '9':
		default:
			b.WriteRune(r)
		}
	}
	return strings.ToLower(b.String())
}

// opensQuote reports whether a single quote that follows the given text opens a quotation.
// Otherwise the quote is an apostrophe.
func opensQuote(before string) bool {
	return before == "" || strings.ContainsAny(before[len(before)-1:], " \t([{=:,")
}
