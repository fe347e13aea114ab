package body

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// TestCheckBodyHeaders_Charset checks that JSON may not have a charset such as utf-16. Charsets
// that encode ASCII like UTF-8 are accepted, because old libraries name them.
func TestCheckBodyHeaders_Charset(t *testing.T) {
	for kind, refused := range map[string]bool{
		"application/json":                                false,
		"application/json; charset=utf-8":                 false,
		"application/json;charset=UTF-8":                  false,
		`application/json; x=y; Charset="utf-8"`:          false,
		"application/json; charset=iso-8859-1":            false,
		"application/json; charset=utf-16":                true,
		"application/json;charset=UTF-16LE":               true,
		`application/vnd.x+json; x=y; CHARSET = "Utf-32"`: true,
		"application/json; charset=utf-8; charset=utf-16": true,
		"application/json; charset":                       false,
	} {
		h := new(fasthttp.RequestHeader)
		h.SetMethod("POST")
		h.SetContentType(kind)
		if e := CheckBodyHeaders(h, false); (e != nil) != refused || e != nil && e.Status != 415 {
			t.Errorf("CheckBodyHeaders for %s = %v, want a 415: %v", kind, e, refused)
		}
	}
}
