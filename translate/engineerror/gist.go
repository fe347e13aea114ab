package engineerror

import (
	"hash/maphash"
	"strings"
)

var gistSeed = maphash.MakeSeed()

// Gist returns a hash, good for this process, of a status and of what the engine says without what
// differs from request to request: case, numbers, and what stands in quotes. It is never 0.
func (e *Error) Gist(status int) uint64 {
	var h maphash.Hash
	h.SetSeed(gistSeed)
	_, _ = h.Write([]byte{byte(status >> 8), byte(status)})
	_, _ = h.WriteString(gist(e.Message))
	return h.Sum64() | 1
}

// gist leaves out of a message what differs from request to request.
func gist(message string) string {
	var b strings.Builder
	quote := rune(0)
	for i, r := range message {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case strings.ContainsRune("\"'`", r) && strings.ContainsRune(message[i+1:], r) && opens(message[:i]):
			quote = r
		case r >= '0' && r <= '9':
		default:
			b.WriteRune(r)
		}
	}
	return strings.ToLower(b.String())
}

// opens reports whether a quote behind a text opens, and is no apostrophe.
func opens(before string) bool {
	return before == "" || strings.ContainsAny(before[len(before)-1:], " \t([{=:,")
}
