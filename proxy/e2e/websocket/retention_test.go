package websocket

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// TestRetained checks that a client learns which calls on a connection are copied, both for
// answered and for refused calls.
func TestRetained(t *testing.T) {
	t.Parallel()
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(sink.Close)
	p := start(t, rig.Setup{
		Top:    `hooks: [{ name: archive, after: "` + sink.URL + `", timeout: 60s, keys: [tester], models: [sim] }]`,
		Models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }",
	})
	c := dial(t, p)
	// told reports whether the response to the next call for a model says that the call is copied.
	told := func(model string) bool {
		t.Helper()
		c.send(`{"type":"response.create","model":%q,"input":"Hello"}`, model)
		created := c.readEvent()
		for e := created; e.Type != "response.completed" && e.Type != "error"; {
			e = c.readEvent()
		}
		return created.Headers["X-Penstock-Retained"] == "true"
	}
	if !told("sim") || told("other") {
		t.Error("a client is not told about its own calls alone")
	}
	p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=no", Count: 1})
	if !told("sim") {
		t.Error("a refusal does not say that it is copied")
	}
}

// TestRetention sends a word wherever a WebSocket client can put text, under every fault.
// Afterwards, the log, the metrics, the page, errors and files must not contain the word, and the
// connection's memory must be free.
func TestRetention(t *testing.T) {
	fastset.SkipIfShort(t, "every fault of a connection")
	const word = "ZQWEBSOCKETCANARYQZ"
	p := start(t, rig.Setup{Untidy: true, Top: "log: { level: debug, debug_headers: true }", Timeouts: "first_event: 500ms, idle: 500ms, answer: 500ms"})
	var told strings.Builder
	for _, fault := range []string{"", "status=400;message=no", "status=500", "reset-before", "error-in-stream", "reset-after", "blackhole"} {
		for _, message := range []string{
			`{"type":"response.create","model":"sim","stream_id":"{}","input":[{"role":"user","content":"{}"},{"type":"function_call","call_id":"{}","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"{}","output":"{}"}],"instructions":"{}","metadata":{"{}":"{}"}}`,
			`{"type":"response.create","model":"{}","input":"{}"}`,
			`{"type":"response.create","model":"sim","input":"{}","previous_response_id":"{}"}`,
			`{"type":"response.create","model":"sim","generate":false,"input":"{}"}`,
			`{"type":"{}","{}":"{}"}`,
			`{"type":"response.create","{}":{}`,
		} {
			if fault != "" {
				p.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
			}
			c := dial(t, p)
			c.send("%s", strings.ReplaceAll(message, "{}", word))
			for done := false; !done; {
				e := c.readEvent()
				if e.Type == "error" {
					told.WriteString(e.text)
				}
				done = e.Status != 0 || e.Type == "response.completed" || e.Type == "response.failed" || e.Type == "response.incomplete"
			}
			_ = c.ws.Close(websocket.StatusNormalClosure, word)
		}
	}
	bad := dialRaw(t, p)
	_ = bad.Send(frame(fin|0x3, word) + frame(fin|opClose, word))
	bad.wantClosed(1002)
	rig.WaitFor(t, rig.WaitTimeout, "nothing is held", func() bool {
		return p.Metric("penstock_websocket_connections") == 0 && p.Metric("penstock_body_memory_bytes") == 0
	})
	page := p.Fetch("GET", p.Admin+"/status").Body
	told.WriteString(page + p.MetricsText())
	p.End()
	// The client may receive back the lane name and the unknown model name that it sent.
	text := strings.NewReplacer(`"stream_id":"`+word+`"`, "", `The model \"`+word+`\" does not exist`, "").Replace(told.String())
	for where, text := range map[string]string{"an error, the page or the metrics": text, "the log": p.Log.String()} {
		if i := strings.Index(text, word); i >= 0 {
			t.Errorf("%s keeps %.200s, want no word of the conversation", where, text[max(0, i-100):])
		}
	}
	if !strings.Contains(p.Log.String(), `"dialect":"responses"`) {
		t.Error("the log has no calls")
	}
	files, _ := os.ReadDir(os.TempDir())
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) < time.Minute && info.Size() < 1<<20 {
			if b, err := os.ReadFile(os.TempDir() + "/" + f.Name()); err == nil && bytes.Contains(b, []byte(word)) {
				t.Errorf("the file %s has the word", f.Name())
			}
		}
	}
}
