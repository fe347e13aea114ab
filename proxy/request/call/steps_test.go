package call_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/call"
	"penstock/proxy/request/internal/calltest"
)

// notNow is what a router answers while it starts the engine behind it.
var notNow = calltest.ErrorHandler(500, "proxy error: Could not establish connection")

// TestSameEngine checks that a request is sent once more, after a pause, to an engine that cannot
// answer yet. If the client disconnects during the pause, the request must not be sent again.
func TestSameEngine(t *testing.T) {
	router := strings.Replace(oneEngine("", ""), "engine: vllm", "engine: llamacpp-router", 1)
	const pause = 300 * time.Millisecond
	for _, tt := range []struct {
		name    string
		answers []http.HandlerFunc
		leaves  bool
		status  int
		sends   int
		took    time.Duration
	}{
		{"ready", []http.HandlerFunc{notNow, calltest.TextHandler("ready")}, false, 200, 2, pause},
		{"not ready", []http.HandlerFunc{notNow}, false, 503, 2, pause},
		{"the client leaves", []http.HandlerFunc{notNow}, true, 200, 1, pause / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := singleEngine(calltest.SequenceHandler(tt.answers...))
				e, client, done := calltest.New(t, router, a), &calltest.Client{}, make(chan *calltest.Answer, 1)
				go func() { done <- e.Send(client, chatPath, chat("")) }()
				if time.Sleep(pause / 2); tt.leaves {
					client.InspectCall((*call.Call).OnDisconnect)
				}
				got := <-done
				if n := len(a.RequestBodies()); got.Status != tt.status || n != tt.sends || got.Took != tt.took {
					t.Errorf("got %d after %v and %d requests, want %d after %v and %d: %s", got.Status, got.Took, n, tt.status, tt.took, tt.sends, got.Body)
				}
				if outcome := e.LastCall()["outcome"]; (outcome == "client_gone") != tt.leaves {
					t.Errorf("the log has the outcome %v", outcome)
				}
			})
		})
	}
}

// TestLaterTier checks that a call is sent to the next tier if the engines of its tier fail.
func TestLaterTier(t *testing.T) {
	const tiers = `
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    deployments: [{upstream: a}, {upstream: b, tier: 1}]
`
	for _, ask := range []string{chat(""), chat(stream)} {
		synctest.Test(t, func(t *testing.T) {
			a, b := enginePair(calltest.ErrorHandler(503, "busy"), calltest.TextHandler("later"))
			e := calltest.New(t, tiers, a, b)
			if got := e.Post(chatPath, ask); got.Status != 200 || !strings.Contains(got.Body, "later") {
				t.Errorf("got %d %s, want the later tier's answer", got.Status, got.Body)
			}
			if line := e.LastCall(); line["upstream"] != "b" || line["attempts"] != int64(2) || line["tier"] != int64(1) {
				t.Errorf("the log has %v, want two attempts, the second one at b", line)
			}
		})
	}
}

// TestLongerContext checks that a prompt that is too long for one engine is sent only to engines
// with a longer context.
func TestLongerContext(t *testing.T) {
	const refusal = "This model's maximum context length is 1000 tokens. However, your request has 1200 input tokens. Please reduce the length of the input messages."
	const config = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    deployments: [{upstream: a}, {upstream: b, tier: 1}]
`
	for _, tt := range []struct {
		name, context string // the context of b
		limit         string
		status        int
		sends         int
	}{
		{"longer", "8000", `,"max_tokens":50`, 200, 1},
		{"shorter", "500", `,"max_tokens":50`, 400, 0},
		{"longer, but too short", "1100", `,"max_tokens":50`, 400, 0},
		{"longer, without a limit", "8000", "", 200, 1},
		{"longer, but too short, without a limit", "1100", "", 400, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(calltest.ErrorHandler(400, refusal), calltest.TextHandler("fits"))
				a.Pages = map[string]string{"/v1/models": `{"object":"list","data":[{"id":"m","object":"model","max_model_len":1000}]}`}
				b.Pages = map[string]string{"/v1/models": `{"object":"list","data":[{"id":"m","object":"model","max_model_len":` + tt.context + `}]}`}
				e := calltest.New(t, config, a, b)
				got := e.Post(chatPath, chat(tt.limit))
				if n := len(b.RequestBodies()); got.Status != tt.status || n != tt.sends {
					t.Errorf("got %d after %d requests to b, want %d after %d: %s", got.Status, n, tt.status, tt.sends, got.Body)
				}
				if tt.status == 400 && !strings.Contains(got.Body, "1200") {
					t.Errorf("got %s, want the lengths, which agents read", got.Body)
				}
				if n := e.CounterValue("penstock_max_tokens_refits_total"); n != tt.sends {
					t.Errorf("%d steps to a longer context are counted, want %d", n, tt.sends)
				}
			})
		})
	}
}

// TestLongerContextFull checks that a client whose prompt fits only the engine with a longer context
// learns that this engine is full. An agent would otherwise shorten a prompt that is not too long.
func TestLongerContextFull(t *testing.T) {
	const config = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 1}
models:
  - {id: m, deployments: [{upstream: a}, {upstream: b, tier: 1}]}
  - {id: other, deployments: [{upstream: b, served: m}]}
`
	synctest.Test(t, func(t *testing.T) {
		a, b := enginePair(
			calltest.ErrorHandler(400, "This model's maximum context length is 1000 tokens. However, your request has 1200 input tokens. Please reduce the length of the input messages."),
			calltest.DelayHandler(20*time.Second, calltest.TextHandler("done")))
		a.Pages = map[string]string{"/v1/models": `{"object":"list","data":[{"id":"m","object":"model","max_model_len":1000}]}`}
		b.Pages = map[string]string{"/v1/models": `{"object":"list","data":[{"id":"m","object":"model","max_model_len":8000}]}`}
		e, done := calltest.New(t, config, a, b), make(chan *calltest.Answer, 1)
		go func() { done <- e.Post(chatPath, strings.Replace(chat(""), `"m"`, `"other"`, 1)) }()
		time.Sleep(time.Second)
		if got := e.Post(chatPath, chat("")); got.Status != 429 || !strings.Contains(got.Body, "capacity_full") {
			t.Errorf("got %d, want a 429 because the longer context is full: %s", got.Status, got.Body)
		}
		<-done
	})
}

// TestLearnedChange checks that the edge remembers which word an engine refuses, leaves it out from
// then on, and tells the operator once.
func TestLearnedChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(w http.ResponseWriter, r *http.Request) {
			var b strings.Builder
			_, _ = io.Copy(&b, r.Body)
			if strings.Contains(b.String(), "reasoning_effort") {
				calltest.ErrorHandler(400, "Invalid reasoning_effort: 'xhigh'. Supported values are: low, medium, high.")(w, r)
				return
			}
			calltest.DelayHandler(time.Second, calltest.TextHandler("fine"))(w, r)
		}
		a := singleEngine(answer)
		e := calltest.New(t, oneEngine("", ""), a)
		ask := chat(`,"reasoning_effort":"xhigh"`)
		for i, sends := range []int{2, 3, 4} {
			if got := e.Post(chatPath, ask); got.Status != 200 {
				t.Fatalf("call %d: got %d %s", i, got.Status, got.Body)
			}
			if n := len(a.RequestBodies()); n != sends {
				t.Errorf("after call %d: %d requests, want %d", i, n, sends)
			}
		}
		time.Sleep(2 * time.Hour)
		e.Post(chatPath, ask)
		if n := len(a.RequestBodies()); n != 6 {
			t.Errorf("two hours later: %d requests, want 6, because the engine may have been mended", n)
		}
	})
}

// TestDrainedEngine checks a stream at an engine that a reload has removed. After the drain time,
// the stream must move to another engine in the middle of its answer if it can be resumed.
// Otherwise, it must stay.
func TestDrainedEngine(t *testing.T) {
	for _, tt := range []struct {
		name, more string
		moves      bool
	}{
		{"resumed", "    retry: {resume: 1}\n", true},
		{"not resumed", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(w http.ResponseWriter, r *http.Request) {
					s := calltest.StartStream(w)
					for range 60 {
						s.SendText("on ")
						select {
						case <-time.After(time.Second):
						case <-r.Context().Done():
							return
						}
					}
					s.Finish()
				}
				a, b := enginePair(slow, calltest.TextHandler("the rest"))
				before := strings.Replace(twoEngines("timeouts: {drain: 20s}", tt.more), "{upstream: b}", "{upstream: b, tier: 1}", 1)
				e, done := calltest.New(t, before, a, b), make(chan *calltest.Answer, 1)
				go func() { done <- e.Post(chatPath, chat(stream)) }()
				time.Sleep(10 * time.Second)
				e.ReloadConfig("timeouts: {drain: 20s}\nauth: none\nupstreams:\n  - {name: b, engine: vllm, url: \"http://b\", concurrency: 4}\nmodels:\n  - id: m\n    deployments: [{upstream: b}]\n" + tt.more)
				got := <-done
				if moved := strings.Contains(got.Body, "rest"); moved != tt.moves || !strings.Contains(got.Body, "[DONE]") {
					t.Errorf("moved: %t, want %t, and a complete stream: %s", moved, tt.moves, got.Body)
				}
				if left := got.Took < 40*time.Second; left != tt.moves || got.Took < 30*time.Second {
					t.Errorf("took %v, want the drain time at least, and not much more if it moves: %t", got.Took, tt.moves)
				}
				if n := e.CounterValue("penstock_streams_resumed_total"); (n == 1) != tt.moves {
					t.Errorf("%d streams are counted as resumed", n)
				}
			})
		})
	}
}

// TestFallbackChoice checks which fallback answers: the first that the key may use and that has a
// free slot. The fallbacks of a fallback are not tried.
func TestFallbackChoice(t *testing.T) {
	const config = `
keys:
  - {id: a, hash: "sha256:HASHA", models: [m, gone, small, last]}
retry: {attempts: 1}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - {id: m, deployments: [{upstream: a}], fallback: [closed, gone, small, last]}
  - {id: closed, deployments: [{upstream: b}]}
  - {id: kind: embedding, deployments: [{upstream: b}]}
  - {id: gone, deployments: [{upstream: a}], fallback: [last]}
  - {id: small, deployments: [{upstream: b}]}
  - {id: last, deployments: [{upstream: b}]}
`
	for _, tt := range []struct{ name, left, model string }{
		{"the first that can", "", "small"},
		{"none is left", "closed, gone", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				yaml := strings.Replace(config, "HASHA", calltest.HashKey("sk-secret-a"), 1)
				if tt.left != "" {
					yaml = strings.Replace(yaml, "closed, gone, small, last", tt.left, 1)
				}
				a := &calltest.Engine{Name: "a", Models: []string{"m", "gone"}, Answer: calltest.ErrorHandler(503, "busy")}
				b := &calltest.Engine{Name: "b", Models: []string{"closed", "vectors", "small", "last"}}
				e := calltest.New(t, yaml, a, b)
				got := e.Post(chatPath, chat(""), "Authorization: Bearer sk-secret-a")
				if sent := strings.Join(b.RequestBodies(), "\n"); tt.model == "" && (got.Status != 503 || sent != "") || tt.model != "" && !strings.Contains(sent, tt.model) {
					t.Errorf("got %d, b was sent %q, want the model %q: %s", got.Status, sent, tt.model, got.Body)
				}
			})
		})
	}
}
