package call_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"penstock/proxy/request/internal/calltest"
)

// TestCopies checks that a copy contains the bytes that the client sent and received. It covers
// complete answers, streams, errors and clients that disconnect. A call must not be copied if the
// hook does not name its model.
func TestCopies(t *testing.T) {
	stream := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		name, path, body string
		stays            int    // value of calltest.Client.Stays
		outcome          string // empty if the call is not copied
	}{
		{"whole", chatPath, chat(""), 0, "ok"},
		{"stream", chatPath, stream, 0, "ok"},
		{"messages", messagesPath, `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, 0, "ok"},
		{"count", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 0, "ok"},
		{"the client leaves", chatPath, stream, 1, "client_gone"},
		{"another model", chatPath, strings.Replace(stream, `"m"`, `"other"`, 1), 0, ""},
		{"no model", chatPath, strings.Replace(stream, `"m"`, `"none"`, 1), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copies")
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"m"}}
				if strings.Contains(c.body, `"stream":true`) {
					a.Answer = events(false, delta("one"), delta("two"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
				}
				e := calltest.New(t, oneEngine(fmt.Sprintf("hooks: [{ name: archive, after: %q, models: [m], keys: [\"*\"] }]", path),
					"  - {id: other, deployments: [{upstream: a, served: m}]}\n"), a)
				answer := e.Send(&calltest.Client{Stays: c.stays}, c.path, c.body)
				e.Copies.Close()
				text, _ := os.ReadFile(path)
				if told := string(answer.Header.Peek("X-Penstock-Retained")); (told == "true") != (c.outcome != "") {
					t.Errorf("the header is %q", told)
				}
				if c.outcome == "" {
					if len(text) > 0 {
						t.Errorf("a copy: %s", text)
					}
					return
				}
				var got struct {
					Outcome, Endpoint string
					Request, Answer   struct{ Body string }
				}
				if err := json.Unmarshal(text, &got); err != nil {
					t.Fatalf("%v: %q", err, text)
				}
				if got.Outcome != c.outcome || got.Endpoint != c.path || got.Request.Body != c.body || got.Answer.Body != answer.Body || answer.Body == "" {
					t.Errorf("%s; the client got %q", text, answer.Body)
				}
			})
		})
	}
}
