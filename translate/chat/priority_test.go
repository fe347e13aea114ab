package chat

import (
	"bytes"
	"encoding/json"
	"testing"

	"penstock/translate/jsonx"
)

// TestPriority checks that the engine receives the edge's number instead of the client's. The
// client's number is sent only if the model allows clients to set it, or if the edge sends no
// number.
func TestPriority(t *testing.T) {
	for _, own := range []string{``, `"priority":-9,`, `"priority":-9,"priority":-8,`, `"\u0070riority":-9,`, `"PRIORITY":-9,`, `"priority":null,`} {
		body := []byte(`{` + own + `"model":"m","messages":[{"role":"user","content":"Hi"}]}`)
		var r Request
		if err := r.Decode(body); err != nil {
			t.Fatal(err)
		}
		sent := func(p Priority) string {
			out := r.AppendEngineRequest(nil, &EngineFormat{Served: "m", Priority: p})
			if !json.Valid(out) {
				t.Fatalf("own priority %s: got %s, want JSON", own, out)
			}
			return string(out)
		}
		if got := sent(Priority{}); got != string(body) {
			t.Errorf("not told: %s", got)
		}
		got := sent(Priority{Number: 2, SendToEngine: true})
		if n := bytes.Count(bytes.ToLower([]byte(got)), []byte("riority")); n != 1 || !bytes.Contains([]byte(got), []byte(`"priority":2`)) {
			t.Errorf("%s: the engine is sent %s", own, got)
		}
		var d jsonx.Doc
		var edits jsonx.Edits
		if err := d.Parse(body, jsonx.Options{}); err != nil {
			t.Fatal(err)
		}
		Priority{Number: 2, SendToEngine: true}.ReplacePriority(&edits, d.Root())
		out := edits.Append(nil, body)
		if !json.Valid(out) || bytes.Count(bytes.ToLower(out), []byte("riority")) != 1 || !bytes.Contains(out, []byte(`"priority":2`)) {
			t.Errorf("%s: forwarded, the engine is sent %s", own, out)
		}
		if got := sent(Priority{Number: 2, SendToEngine: true, KeepClientNumber: true}); own != "" && got != string(body) {
			t.Errorf("%s, which is allowed: the engine is sent %s", own, got)
		}
	}
}
