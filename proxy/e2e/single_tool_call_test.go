package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestSingleToolCall checks an engine that makes two tool calls even though the request forbids
// this. Clients must receive only the first tool call. A header of the unstreamed answer and a
// metric must report this.
func TestSingleToolCall(t *testing.T) {
	t.Parallel()
	const calls = `{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"call_b","type":"function","function":{"name":"f","arguments":"{}"}}`
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path != "/v1/chat/completions":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[`+calls+`]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[`+calls+`]},"finish_reason":"tool_calls"}]}`)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: fake, url: "` + engine.URL + `", engine: openai, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: fake, served: sim }] }]
`})
	const schema = `{"type":"object","properties":{}}`
	cut := 0.0
	for path, request := range map[string]string{
		"/v1/chat/completions": `{"model":"sim","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}],"parallel_tool_calls":PARALLEL`,
		"/v1/responses":        `{"model":"sim","input":"x","tools":[{"type":"function","name":"f","parameters":` + schema + `}],"parallel_tool_calls":PARALLEL`,
		"/v1/messages":         `{"model":"sim","max_tokens":99,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":` + schema + `}],"tool_choice":{"type":"auto","disable_parallel_tool_use":SINGLE}`,
	} {
		for _, single := range []bool{true, false} {
			words := map[bool][2]string{true: {"false", "true"}, false: {"true", "false"}}[single]
			body := strings.NewReplacer("PARALLEL", words[0], "SINGLE", words[1]).Replace(request)
			for _, stream := range []string{`}`, `,"stream":true}`} {
				r := p.Post(path, body+stream).WantStatus(200)
				if !strings.Contains(r.Body, "call_a") || strings.Contains(r.Body, "call_b") == single {
					t.Errorf("%s, single %t: answer = %s, want call_a, and call_b only if not single", path, single, r.Body)
				}
				named := r.Header.Get("X-Penstock-Dropped") == "answer:tool_calls"
				if named != (single && stream == "}") {
					t.Errorf("%s, single %t%s: dropped %q", path, single, stream, r.Header.Get("X-Penstock-Dropped"))
				}
			}
			if single {
				cut += 2
			}
		}
	}
	rig.WaitFor(t, rig.WaitTimeout, "each is counted", func() bool {
		return p.Metric("penstock_dropped_total", `what="answer:tool_calls"`) == cut
	})
}
