package sse

import "bytes"

// linePrefixes lists the possible starts of a line: a field that readers recognize, or a comment.
var linePrefixes = [...][]byte{[]byte("data:"), []byte("event:"), []byte("id:"), []byte("retry:"), {':'}}

var byteOrderMark = []byte("\ufeff")

// LooksLikeEvents reports whether the document that starts with b looks like server-sent events,
// and whether b is long enough to decide. A byte order mark and blank lines may come first.
func LooksLikeEvents(b []byte) (events, decided bool) {
	b = bytes.TrimLeft(bytes.TrimPrefix(b, byteOrderMark), "\r\n")
	for _, mark := range linePrefixes {
		if bytes.HasPrefix(b, mark) {
			return true, true
		}
	}
	for _, mark := range append(linePrefixes[:], byteOrderMark) {
		if bytes.HasPrefix(mark, b) {
			return false, false
		}
	}
	return false, true
}
