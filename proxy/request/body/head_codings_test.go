package body

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// TestCheckBodyHeaders_Codings checks that the error for a coding names the accepted codings, and
// that the error for a media type names no codings.
func TestCheckBodyHeaders_Codings(t *testing.T) {
	for _, c := range []struct {
		form                  bool
		media, coding, accept string
	}{
		{false, "application/json", "br", "gzip, zstd"},
		{true, "multipart/form-data; boundary=b", "gzip", "identity"},
		{false, "text/plain", "", ""},
	} {
		var h fasthttp.RequestHeader
		h.SetContentType(c.media)
		if c.coding != "" {
			h.Set("Content-Encoding", c.coding)
		}
		if e := CheckBodyHeaders(&h, c.form); e == nil || e.Status != 415 || e.Codings != c.accept {
			t.Errorf("CheckBodyHeaders for %s in %s = %+v, want a 415 that accepts %q", c.media, c.coding, e, c.accept)
		}
	}
}
