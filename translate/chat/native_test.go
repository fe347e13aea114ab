package chat

import (
	"bytes"
	"testing"

	"penstock/translate/jsonx"
)

// An engine that speaks the dialect itself is told no effort that the model does not offer,
// whatever word the client has for it.
func TestNativeLower(t *testing.T) {
	for _, tt := range []struct{ told, checked, want string }{
		{`"high"`, "high", `"high"`},
		{`"high"`, "low", `"low"`},
		{`"max"`, "xhigh", `"max"`},
		{`"max"`, "medium", `"medium"`},
		{`"minimal"`, "low", `"minimal"`},
		{`"minimal"`, "high", `"high"`},
		{`"minimal"`, "none", `"none"`},
		{`"medium"`, "none", `"none"`},
		{`"medium"`, "", `"medium"`},
		{`null`, "low", `null`},
	} {
		body := []byte(`{"effort":` + tt.told + `}`)
		var d jsonx.Doc
		if err := d.Parse(body, jsonx.Options{Record: 2}); err != nil {
			t.Fatal(err)
		}
		var edits jsonx.Edits
		n := NativeRequest{Effort: tt.checked}
		n.Lower(&edits, d.Root().Get("effort"))
		if got, want := bytes.Join(edits.Segments(nil, body), nil), `{"effort":`+tt.want+`}`; string(got) != want {
			t.Errorf("%s where %q was checked: %s, want %s", tt.told, tt.checked, got, want)
		}
	}
}
