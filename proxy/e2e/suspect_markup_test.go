package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestSuspectMarkup checks that the edge counts answers that contain unparsed model markup, but
// only if the request offered the corresponding feature.
func TestSuspectMarkup(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim"}]}`)
		case r.URL.Path != "/v1/chat/completions":
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{"\\n<too", "l_call>{", "}"} {
				_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{"content":"`+piece+`"}}]}`+"\n\n")
			}
			_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","choices":[{"index":0,"message":{"content":"<tool_call>{}"},"finish_reason":"stop"}]}`)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "` + engine.URL + `", engine: openai, concurrency: 4 }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	want := 0.0
	for _, c := range []struct{ path, body, tools string }{
		{"/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"a"}]`, tools},
		{"/v1/messages", `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"a"}]`, `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`},
		{"/v1/responses", `{"model":"sim","input":"a"`, `,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			p.Post(c.path, c.body+stream+"}").WantStatus(200)
			p.Post(c.path, c.body+stream+c.tools+"}").WantStatus(200)
			want++
			rig.WaitFor(t, rig.WaitTimeout, "the call is over", func() bool { return p.Metric("penstock_calls_inflight") == 0 })
			if got := p.Metric("penstock_suspect_markup_total", `model="sim"`, `markup="<tool_call>"`); got != want {
				t.Errorf("%s%s: %v counted, want %v", c.path, stream, got, want)
			}
		}
	}
}
