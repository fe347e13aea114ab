package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestEngineKeyStaysHere checks that clients never receive the edge's credential for an engine,
// even if the engine quotes it in an error or in a stream.
func TestEngineKeyStaysHere(t *testing.T) {
	t.Parallel()
	const key = "correct-horse-battery-staple" // a key that does not look like a key
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		complaint := `{"error":{"message":"not for ` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + ` today","code":400}}`
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
		case r.URL.Path != "/v1/chat/completions":
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(string(body), "status"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, complaint)
		case strings.Contains(string(body), "instead"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, complaint)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`+"\n\ndata: "+complaint+"\n\n")
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Fakes: []string{engine.URL}, Upstream: rig.QuietProbes + ", api_key: " + key})
	for _, where := range []string{"status", "instead", "within"} {
		for _, stream := range []string{"true", "false"} {
			if where == "within" && stream == "false" {
				continue
			}
			r := p.Post(chatPath, `{"model":"sim","stream":`+stream+`,"messages":[{"role":"user","content":"`+where+`"}]}`)
			if text := r.Body; !strings.Contains(text, "not for [key] today") {
				t.Errorf("%s, stream %s: answer = %d %s, want the key replaced by [key]", where, stream, r.Status, text)
			}
		}
	}
}
