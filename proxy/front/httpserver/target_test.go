package httpserver

import (
	"bufio"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestOriginForm checks that a target in absolute form is rewritten to origin form, and that its
// authority becomes the host. All other targets must stay unchanged, so that CheckHead can reject
// them.
func TestOriginForm(t *testing.T) {
	for _, c := range []struct{ target, header, host, uri string }{
		{"http://api.test/v1/models?limit=1", "Host: front\r\n", "api.test", "/v1/models?limit=1"},
		{"HTTPS://api.test:8443/v1", "Host: front\r\n", "api.test:8443", "/v1"},
		{"http://[::1]:80", "Host: front\r\n", "[::1]:80", "/"},
		{"http://api.test?a=b", "Host: front\r\n", "api.test", "/?a=b"},
		{"/v1/models", "Host: front\r\n", "front", "/v1/models"},
		{"http://api.test/v1", "", "", ""},                               // no Host header
		{"http://api.test/v1", "Host: a\r\nHost: b\r\n", "", ""},         // two Host headers
		{"http://api.test/v1", "Host: a/b\r\n", "", ""},                  // malformed Host header
		{"http://me@api.test/v1", "Host: api.test\r\n", "", ""},          // user information
		{"http://me:secret@api.test/v1", "Host: api.test\r\n", "", ""},   //
		{"http://api.test\\@evil.test/v1", "Host: api.test\r\n", "", ""}, //
		{"http:///v1", "Host: api.test\r\n", "", ""},                     // no authority
		{"ws://api.test/v1", "Host: api.test\r\n", "", ""},               // unsupported scheme
		{"http://api.test/v1#part", "Host: api.test\r\n", "", ""},        // fragment
		{"x?http://api.test/v1", "Host: api.test\r\n", "", ""},           // no scheme
		{"*", "Host: api.test\r\n", "", ""},                              // valid only with OPTIONS
	} {
		var h fasthttp.RequestHeader
		if err := h.Read(bufio.NewReader(strings.NewReader("GET " + c.target + " HTTP/1.1\r\n" + c.header + "\r\n"))); err != nil {
			if c.uri != "" {
				t.Errorf("target %s: %v, want %q", c.target, err, c.uri)
			}
			continue
		}
		ToOriginForm(&h)
		refused := CheckHead(&h)
		if (refused != nil) != (c.uri == "") {
			t.Errorf("%s with %q: refused %v", c.target, c.header, refused)
		}
		if c.uri != "" && (string(h.Host()) != c.host || string(h.RequestURI()) != c.uri) {
			t.Errorf("%s: %q at %q, want %q at %q", c.target, h.RequestURI(), h.Host(), c.uri, c.host)
		}
	}
}
