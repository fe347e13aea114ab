package http1

import (
	"strings"
	"testing"
)

// TestLookUpField checks that a header is recognised by its full name, ignoring case, and that a prefix
// of the name is not enough.
func TestLookUpField(t *testing.T) {
	for name, want := range map[string]headerField{
		"Content-Type": fieldContentType, "Content-Length": fieldContentLength, "Transfer-Encoding": fieldTransferEncoding,
		"Connection": fieldConnection, "Keep-Alive": fieldKeepAlive, "Retry-After": fieldRetryAfter,
		"Content-Encoding": fieldContentEncoding, "X-Request-Id": fieldRequestID, "Content-Disposition": fieldDisposition,
	} {
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := lookUpField(spelled); got != want {
				t.Errorf("%s is field %d, want %d", spelled, got, want)
			}
		}
		for i := range name {
			for _, other := range []string{name[:i] + "!" + name[i+1:], name[:i] + string(name[i]^0x80) + name[i+1:], name[:i] + name[i+1:]} {
				if got := lookUpField(other); got != fieldOther {
					t.Errorf("%q is taken for field %d", other, got)
				}
			}
		}
	}
}
