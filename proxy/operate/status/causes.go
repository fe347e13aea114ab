package status

import (
	"strings"

	"penstock/upstreams"
)

// words returns words that an operator understands for a cause, or for the code of an error that no
// engine caused. Text after the cause and a colon stays unchanged.
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
