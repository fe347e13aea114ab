package status

import (
	"strings"

	"penstock/upstreams"
)

// words returns a cause, or the code of an error that no engine caused, in an operator's words.
// Text after the cause and a colon stays as it is.
func words(cause string) string {
	word, detail, more := strings.Cut(cause, ": ")
	said := upstreams.Cause(word).Words()
	if said == "" {
		said = strings.ReplaceAll(strings.TrimPrefix(word, "upstream_"), "_", " ")
	}
	if more {
		said += ": " + detail
	}
	return said
}
