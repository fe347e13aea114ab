package call_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
)

// hooksConfig is a configuration with the hook "guard" and the models m and other at separate
// engines. Tests replace MORE with more settings of the hook.
const hooksConfig = `
limits: {request_body: 2KiB}
keys:
  - {id: a, hash: "sha256:HASHA", models: [m, other]}
hooks:
  - {name: guard, before: "http://guard/decide", MORE models: ["*"], keys: ["*"]}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - {id: m, deployments: [{upstream: a}]}
  - {id: other, deployments: [{upstream: b}]}
  - {id: closed, deployments: [{upstream: b, served: other}]}
`

// decide returns the handler of a hook that sends answer after one second.
func decide(answer string) http.HandlerFunc {
	return calltest.DelayHandler(time.Second, calltest.PiecesHandler(200, "application/json", answer))
}

// TestHooks checks what each decision of a hook, and each failure of one, does to a call.
func TestHooks(t *testing.T) {
	const changed = `{"model":"m","messages":[{"role":"user","content":"changed"}]}`
	tests := []struct {
		name, more string
		hook       http.HandlerFunc
		ask        string // a chat request if empty
		status     int
		has        string // expected part of the client's answer
		engine     string // engine that receives the call; empty if none does
		sent       string // expected part of the request that this engine receives
		log        string // the code in the log
	}{
		{name: "allow", hook: decide(`{"action":"allow"}`), status: 200, has: "from a", engine: "a", sent: `"hi"`},
		{name: "refuse", hook: decide(`{"action":"refuse","status":451,"message":"not here"}`), status: 451, has: "not here", log: "refused_by_hook"},
		{name: "rewrite", hook: decide(`{"action":"rewrite","body":` + changed + `}`), status: 200, has: "from a", engine: "a", sent: "changed"},
		{name: "rewrite to another model", hook: decide(`{"action":"rewrite","body":` + strings.Replace(changed, `"m"`, `"other"`, 1) + `}`), status: 200, has: "from b", engine: "b", sent: "changed"},
		{name: "rewrite to a model of others", hook: decide(`{"action":"rewrite","body":` + strings.Replace(changed, `"m"`, `"closed"`, 1) + `}`), status: 403, has: "model_not_allowed", log: "model_not_allowed"},
		{name: "rewrite to an invalid request", hook: decide(`{"action":"rewrite","body":{"model":"m"}}`), status: 400, has: "messages", log: "missing_parameter"},
		{name: "rewrite to a stream", hook: decide(`{"action":"rewrite","body":` + strings.Replace(changed, `{`, `{"stream":true,`, 1) + `}`), status: 503, has: "hook_unavailable", log: "hook_unavailable"},
		{name: "rewrite to a large request", hook: decide(`{"action":"rewrite","body":` + strings.Replace(changed, "changed", strings.Repeat("x", 3000), 1) + `}`), status: 413, has: "2", log: "request_too_large"},
		{name: "route", hook: decide(`{"action":"route","model":"other"}`), status: 200, has: "from b", engine: "b", sent: `"other"`},
		{name: "route a stream", hook: decide(`{"action":"route","model":"other"}`), ask: chat(stream), status: 200, has: "[DONE]", engine: "b", sent: `"other"`},
		{name: "route to no model", hook: decide(`{"action":"route","model":"none"}`), status: 404, has: "model_not_found", log: "model_not_found"},
		{name: "no answer in time", more: "timeout: 2s,", hook: neverAnswer, status: 503, has: "hook_unavailable", log: "hook_unavailable"},
		{name: "no answer, open", more: "timeout: 2s, on_error: open,", hook: neverAnswer, status: 200, has: "from a", engine: "a", sent: `"hi"`},
		{name: "an error", hook: calltest.ErrorHandler(500, "secret words"), status: 503, has: "hook_unavailable", log: "hook_unavailable"},
		{name: "another language", hook: decide(`yes`), status: 503, has: "hook_unavailable", log: "hook_unavailable"},
		{name: "another language, open", more: "on_error: open,", hook: decide(`yes`), status: 200, has: "from a", engine: "a", sent: `"hi"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: calltest.TextHandler("from a")}
				b := &calltest.Engine{Name: "b", Models: []string{"other"}, Answer: calltest.TextHandler("from b")}
				yaml := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "MORE", tt.more).Replace(hooksConfig)
				e := calltest.New(t, yaml, a, b, &calltest.Engine{Name: "guard", Answer: tt.hook})
				ask := tt.ask
				if ask == "" {
					ask = chat("")
				}
				got := e.Post(chatPath, ask, "Authorization: Bearer sk-secret-a")
				if got.Status != tt.status || !strings.Contains(got.Body, tt.has) || strings.Contains(got.Body, "secret words") {
					t.Errorf("got %d %s, want %d with %q", got.Status, got.Body, tt.status, tt.has)
				}
				for _, at := range []*calltest.Engine{a, b} {
					sent := at.RequestBodies()
					if asked := len(sent) > 0; asked != (at.Name == tt.engine) || asked && !strings.Contains(sent[0], tt.sent) {
						t.Errorf("the engine %s was sent %q, want %q at %q", at.Name, sent, tt.sent, tt.engine)
					}
				}
				line := e.LastCall()
				if code := line["code"]; code != tt.log && (tt.log != "" || code != "-") {
					t.Errorf("the log has the code %v, want %q", code, tt.log)
				}
				failed := strings.Contains(tt.more, "open") || tt.log == "hook_unavailable"
				if warned := e.Log.FilterMessage("hook failed").Len() == 1; warned != failed {
					t.Errorf("the log warns of the hook: %t, want %t", warned, failed)
				}
				if n := e.Services.Bodies.UsedBytes(); n != 0 {
					t.Errorf("%d bytes of bodies are still held", n)
				}
			})
		})
	}
}

// TestHookQuestion checks the question that a hook receives, with and without the body. A hook
// whose filters do not match must receive no question.
func TestHookQuestion(t *testing.T) {
	for _, tt := range []struct {
		name, more, replaced, with string
		asked, body                bool
	}{
		{"meta", "send: meta,", "", "", true, false},
		{"body", "send: body,", "", "", true, true},
		{"another model", "send: meta,", `models: ["*"]`, `models: [other]`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var question struct {
					Hook, Endpoint, Model, Key string
					Body                       json.RawMessage
				}
				asked := false
				guard := func(w http.ResponseWriter, r *http.Request) {
					asked = true
					text, _ := io.ReadAll(r.Body)
					if err := json.Unmarshal(text, &question); err != nil {
						t.Error(err)
					}
					decide(`{"action":"allow"}`)(w, r)
				}
				yaml := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "MORE", tt.more).Replace(hooksConfig)
				if tt.replaced != "" {
					yaml = strings.Replace(yaml, tt.replaced, tt.with, 1)
				}
				a := &calltest.Engine{Name: "a", Models: []string{"m"}}
				b := &calltest.Engine{Name: "b", Models: []string{"other"}}
				e := calltest.New(t, yaml, a, b, &calltest.Engine{Name: "guard", Answer: guard})
				if got := e.Post(chatPath, chat(""), "Authorization: Bearer sk-secret-a"); got.Status != 200 || asked != tt.asked {
					t.Fatalf("got %d, asked: %t, want 200 and %t: %s", got.Status, asked, tt.asked, got.Body)
				}
				if !asked {
					return
				}
				if question.Hook != "guard" || question.Endpoint != chatPath || question.Model != "m" || question.Key != "a" || (string(question.Body) == chat("")) != tt.body {
					t.Errorf("the hook was asked %+v", question)
				}
			})
		})
	}
}
