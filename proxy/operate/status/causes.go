package status

import (
	"strings"

	"penstock/upstreams"
)

// describeCause describes a cause or an error code for an operator. It does not change text after a
// colon.
func describeCause(cause string) string {
	word, detail, more := strings.Cut(cause, ": ")
	said := upstreams.Cause(word).ShortMeaning()
	if said == "" {
		said = strings.ReplaceAll(strings.TrimPrefix(word, "upstream_"), "_", " ")
	}
	if more {
		said += ": " + detail
	}
	return said
}
