package status

import (
	"strings"

	"penstock/upstreams"
)

// words returns an operator's words for a cause, or for the code of an error that no engine caused.
// Text that follows the cause and a colon stays unchanged.
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
