package call_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/call"
	"penstock/proxy/request/internal/calltest"
)

func singleEngine(answer http.HandlerFunc) *calltest.Engine {
	return &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: answer}
}

// TestQueue checks three calls to an engine with one slot. The second and the third call get the
// slot, time out, or find the queue full.
func TestQueue(t *testing.T) {
	const queued = "    queue: {depth: 1, wait: 30s}\n"
	slow := calltest.DelayHandler(20*time.Second, calltest.TextHandler("done"))
	tests := []struct {
		name, more string
		answer     http.HandlerFunc
		body       string
		status     []int // statuses of three calls that start one second apart
		took       []time.Duration
	}{
		{"no queue", "", slow, chat(""), []int{200, 429, 429}, []time.Duration{20 * time.Second, 0, 0}},
		{"one waits", queued, slow, chat(""), []int{200, 200, 429}, []time.Duration{20 * time.Second, 39 * time.Second, 0}},
		{"a stream waits", queued, slow, chat(stream), []int{200, 200, 429}, []time.Duration{20 * time.Second, 39 * time.Second, 0}},
		{"too long", queued, calltest.DelayHandler(50*time.Second, calltest.TextHandler("done")), chat(""), []int{200, 429, 429}, []time.Duration{50 * time.Second, 30 * time.Second, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := calltest.New(t, oneEngine("", tt.more), singleEngine(tt.answer))
				got := make([]chan *calltest.Answer, len(tt.status))
				for i := range got {
					got[i] = make(chan *calltest.Answer, 1)
					go func() { got[i] <- e.Post(chatPath, tt.body) }()
					time.Sleep(time.Second)
				}
				for i, c := range got {
					if a := <-c; a.Status != tt.status[i] || a.Took != tt.took[i] {
						t.Errorf("call %d: got %d after %v, want %d after %v: %s", i, a.Status, a.Took, tt.status[i], tt.took[i], a.Body)
					}
				}
			})
		})
	}
}

// TestQueueAndTotal checks that a call leaves the queue when timeouts.total has passed, and that no
// engine receives the call. A stream that has started ends with an error event.
func TestQueueAndTotal(t *testing.T) {
	const short = "  - {id: short, deployments: [{upstream: a, served: m}], queue: {depth: 1, wait: 30s}, timeouts: {total: 15s}}\n"
	for name, tt := range map[string]struct {
		body   string
		status int
	}{
		"whole":  {chat(""), 504},
		"stream": {chat(stream), 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := singleEngine(calltest.DelayHandler(20*time.Second, calltest.TextHandler("done")))
				e := calltest.New(t, oneEngine("", short), a)
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Post(chatPath, chat(""))
				}()
				time.Sleep(time.Second)
				got := e.Post(chatPath, strings.Replace(tt.body, `"m"`, `"short"`, 1))
				if got.Status != tt.status || got.Took != 15*time.Second || !strings.Contains(got.Body, `"code":"generation_timeout"`) {
					t.Errorf("got %d after %v, want %d after 15s: %s", got.Status, got.Took, tt.status, got.Body)
				}
				<-done
				if n := len(a.RequestBodies()); n != 1 {
					t.Errorf("the engine was sent %d requests, want only that of the first call", n)
				}
			})
		})
	}
}

// TestFallback checks that a fallback model answers if the engine of the requested model does not.
func TestFallback(t *testing.T) {
	const yaml = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 1}
  - {name: b, engine: vllm, url: "http://b", concurrency: 1}
models:
  - id: m
    deployments: [{upstream: a}]
    fallback: [small]
  - id: small
    deployments: [{upstream: b}]
`
	for _, first := range []http.HandlerFunc{calltest.AbortConnection, calltest.ErrorHandler(503, "full"), calltest.ErrorHandler(500, "bad")} {
		for _, body := range []string{chat(""), chat(stream)} {
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: first}
				b := &calltest.Engine{Name: "b", Models: []string{"small"}, Answer: calltest.TextHandler("instead")}
				got := calltest.New(t, yaml, a, b).Post(chatPath, body)
				if got.Status != 200 || !strings.Contains(got.Body, "instead") {
					t.Errorf("got %d, want 200 from the fallback: %s", got.Status, got.Body)
				}
				if sent := b.RequestBodies(); len(sent) != 1 || !strings.Contains(sent[0], `"small"`) {
					t.Errorf("the fallback's engine was sent %q", sent)
				}
			})
		}
	}
}

// TestUnusableFallback checks that a fallback that does not serve the endpoint changes nothing: the
// client gets the failure of the last engine.
func TestUnusableFallback(t *testing.T) {
	for _, more := range []string{"", "    fallback: [other]\n  - {id: other, supported_endpoints: [/v1/responses], deployments: [{upstream: a}]}\n"} {
		synctest.Test(t, func(t *testing.T) {
			turn := calltest.SequenceHandler(calltest.AbortConnection, calltest.ErrorHandler(429, "full"))
			a, b := enginePair(turn, turn)
			if got := calltest.New(t, twoEngines("retry: {attempts: 2, budget: 100%}", more), a, b).Post(chatPath, chat("")); got.Status != 429 {
				t.Errorf("%q: got %d, want the 429 of the second engine: %s", more, got.Status, got.Body)
			}
		})
	}
}

// TestQueueAfterSilentEvent checks a stream that waits in the queue after its engine was lost. The
// engine had sent an event, but none that the client sees. The stream must be committed with
// keep-alives, and must then get the other engine's answer.
func TestQueueAfterSilentEvent(t *testing.T) {
	const busy = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		silent := events(true, `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}`)
		late := calltest.PiecesHandler(200, "text/event-stream", "data: "+delta("late")+"\n\n", `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n", "data: [DONE]\n\n")
		turn := calltest.SequenceHandler(calltest.DelayHandler(busy, calltest.TextHandler("done")), silent, late)
		a, b := enginePair(turn, turn)
		yaml := strings.ReplaceAll(twoEngines("", "    queue: {depth: 1, wait: 1m}\n"), "concurrency: 4", "concurrency: 1")
		e := calltest.New(t, yaml, a, b)
		done := make(chan *calltest.Answer, 1)
		go func() { done <- e.Post(chatPath, chat("")) }()
		time.Sleep(time.Second)
		got := e.Post(chatPath, chat(stream))
		if got.Status != 200 || !strings.Contains(got.Body, ": keep-alive") || !strings.Contains(got.Body, "late") || !strings.Contains(got.Body, "data: [DONE]") {
			t.Errorf("got %d, want 200 with keep-alives and the second engine's answer: %s", got.Status, got.Body)
		}
		if line := e.LastCall(); line["ttft_ms"] != (busy-time.Second).Seconds()*1000 {
			t.Errorf("the log has the first token after %v ms, want the second engine's: %v", line["ttft_ms"], line)
		}
		var metrics bytes.Buffer
		e.Metrics.WritePrometheus(&metrics)
		_, gaps, _ := strings.Cut(metrics.String(), `penstock_itl_seconds_count{dialect="chat",model="m"} `)
		if gaps, _, _ = strings.Cut(gaps, "\n"); gaps == "" || gaps == "0" {
			t.Errorf("%q gaps between events are measured, want those of the second engine", gaps)
		}
		<-done
	})
}

// TestQueuedStreamIDs checks that the chunks of a stream that was committed in the queue get the
// edge's id if the engine sends none.
func TestQueuedStreamIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk = `{"object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]}`
		a := singleEngine(calltest.SequenceHandler(calltest.DelayHandler(20*time.Second, calltest.TextHandler("done")), events(false, chunk, "[DONE]")))
		e := calltest.New(t, oneEngine("", "    queue: {depth: 1, wait: 30s}\n"), a)
		done := make(chan *calltest.Answer, 1)
		go func() { done <- e.Post(chatPath, chat("")) }()
		time.Sleep(time.Second)
		if got := e.Post(chatPath, chat(stream)); !strings.Contains(got.Body, ": keep-alive") || !strings.Contains(got.Body, `"id":"chatcmpl-`) {
			t.Errorf("want keep-alives, and chunks with an id: %s", got.Body)
		}
		<-done
	})
}

// TestChargeWhenClientLeaves checks that a client that leaves is charged only if an engine is working
// for it, and not if its call waits in the queue because engine a failed.
func TestChargeWhenClientLeaves(t *testing.T) {
	const soon, afterCommit = time.Second, 12 * time.Second
	works, lost := calltest.DelayHandler(20*time.Second, calltest.TextHandler("done")), calltest.AbortConnection
	for _, tt := range []struct {
		name    string
		first   http.HandlerFunc // nil if engine a refuses connections
		ask     string
		leaves  time.Duration
		charged bool
	}{
		{"connection refused", nil, chat(""), soon, false},
		{"connection refused, stream", nil, chat(stream), afterCommit, false},
		{"connection lost", lost, chat(""), soon, false},
		{"connection lost, stream", lost, chat(stream), afterCommit, false},
		{"engine works", works, chat(""), soon, true},
		{"engine works, stream", works, chat(stream), soon, true},
		{"engine works, committed stream", works, chat(stream), afterCommit, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(tt.first, works)
				config := strings.Replace(twoEngines("", "    queue: {depth: 1, wait: 30s}\n  - {id: other, deployments: [{upstream: b, served: m}]}\n"), `"http://b", concurrency: 4`, `"http://b", concurrency: 1`, 1)
				e, client, done := calltest.New(t, config, a, b), &calltest.Client{}, make(chan *calltest.Answer, 2)
				if tt.first == nil {
					a.SetRefusing(true)
					a.Stop()
				}
				go func() { done <- e.Post(chatPath, strings.Replace(chat(""), `"m"`, `"other"`, 1)) }()
				time.Sleep(time.Second)
				go func() { done <- e.Send(client, chatPath, tt.ask) }()
				time.Sleep(tt.leaves)
				client.InspectCall((*call.Call).OnDisconnect)
				<-done
				line := e.LastCall()
				if charged := line["prompt_tokens"] != int64(0); line["outcome"] != "client_gone" || line["attempts"] != int64(1) || charged != tt.charged || line["tokens_estimated"] != tt.charged {
					t.Errorf("the log has %v, want a client that left after one attempt and was charged: %v", line, tt.charged)
				}
				<-done
			})
		})
	}
}

// TestPingIsNoToken checks that the pings of a gateway in front of an engine do not count as the
// beginning of the answer. The edge would learn a wrong time to the first token.
func TestPingIsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := calltest.DelayHandler(15*time.Second, calltest.TextHandler("late")) // longer than stream.commit_after
		e := calltest.New(t, oneEngine("", ""), singleEngine(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
			w.(http.Flusher).Flush()
			answer(w, r)
		}))
		got := e.Post(chatPath, chat(stream))
		if line := e.LastCall(); !strings.Contains(got.Body, "late") || line["ttft_ms"] != 15000.0 {
			t.Errorf("the first token came after %v ms, want 15000: %s", line["ttft_ms"], got.Body)
		}
	})
}

// TestTiers checks that a later tier answers a call if the first tier has no free slot.
func TestTiers(t *testing.T) {
	const tiers = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 1}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    deployments: [{upstream: a}, {upstream: b, tier: 1}]
`
	synctest.Test(t, func(t *testing.T) {
		a, b := enginePair(calltest.DelayHandler(10*time.Second, calltest.TextHandler("first")), calltest.TextHandler("later"))
		e := calltest.New(t, tiers, a, b)
		done := make(chan *calltest.Answer, 1)
		go func() { done <- e.Post(chatPath, chat("")) }()
		time.Sleep(time.Second)
		if got := e.Post(chatPath, chat("")); !strings.Contains(got.Body, "later") {
			t.Errorf("beside a full first tier: %d %s", got.Status, got.Body)
		}
		if got := <-done; !strings.Contains(got.Body, "first") {
			t.Errorf("the first call: %d %s", got.Status, got.Body)
		}
		a.SetRefusing(true)
		a.Stop()
		if got := e.Post(chatPath, chat("")); !strings.Contains(got.Body, "later") {
			t.Errorf("with a first tier that is gone: %d %s", got.Status, got.Body)
		}
	})
}

// TestResume checks that another engine continues a stream after its engine is lost.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := calltest.SequenceHandler(events(true, delta("one "), delta("two ")), calltest.TextHandler("three"))
		a, b := enginePair(turn, turn)
		e := calltest.New(t, twoEngines("", "    retry: {resume: 2}\n"), a, b)
		got := e.Post(chatPath, chat(stream))
		if n := strings.Count(got.Body, "three"); got.Err != nil || n != 1 || !strings.Contains(got.Body, "data: [DONE]") {
			t.Errorf("error %v, got %d times three, want once in a complete stream: %s", got.Err, n, got.Body)
		}
		sent := append(a.RequestBodies(), b.RequestBodies()...)
		if len(sent) != 2 || !strings.Contains(sent[0]+sent[1], "one two ") {
			t.Errorf("sent %q, want the second one to hold what was said", sent)
		}
		if n := e.CounterValue("penstock_streams_resumed_total"); n != 1 {
			t.Errorf("%d streams are counted as resumed, want 1", n)
		}
	})
}

// TestResumeAfterWait checks that a stream that waits for another engine's slot gets keep-alives,
// and is then resumed once.
func TestResumeAfterWait(t *testing.T) {
	for path, ask := range map[string]string{
		chatPath: chat(stream), messagesPath: chat(`,"max_tokens":9,"stream":true`), responsesPath: `{"model":"m","input":"hi","stream":true}`,
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := func(w http.ResponseWriter, r *http.Request) {
					switch body, _ := io.ReadAll(r.Body); {
					case strings.Contains(string(body), "occupy"):
						calltest.DelayHandler(time.Minute, calltest.TextHandler("done"))(w, r)
					case strings.Contains(string(body), "one "):
						calltest.TextHandler("three")(w, r)
					default:
						events(true, delta("one "))(w, r)
					}
				}
				a, b := enginePair(answer, answer)
				yaml := strings.ReplaceAll(twoEngines("", "    retry: {resume: 1}\n    queue: {depth: 1, wait: 2m}\n"), "concurrency: 4", "concurrency: 1")
				e := calltest.New(t, yaml, a, b)
				done := make(chan *calltest.Answer, 1)
				go func() { done <- e.Post(chatPath, strings.Replace(chat(""), "hi", "occupy", 1)) }()
				time.Sleep(time.Second)
				var longest, last time.Duration
				to := &calltest.Client{Lines: func(when time.Duration, _ string) {
					longest, last = max(longest, when-last), when
				}}
				got := e.Send(to, path, ask)
				if n := e.CounterValue("penstock_streams_resumed_total"); n != 1 || !strings.Contains(got.Body, "three") || strings.Contains(got.Body, `"error":{`) {
					t.Errorf("resumed %d times, want one whole answer: %s", n, got.Body)
				}
				if got.Took < 50*time.Second || longest > 15*time.Second {
					t.Errorf("took %v, and the client saw nothing for %v, want stream.keepalive at most", got.Took, longest)
				}
				<-done
			})
		})
	}
}

// TestResumeWithoutSlot checks that a stream that waits for another engine's slot and does not get
// one ends with the failure of its first engine.
func TestResumeWithoutSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "occupy") {
				calltest.DelayHandler(time.Minute, calltest.TextHandler("done"))(w, r)
				return
			}
			events(true, delta("one "))(w, r)
		}
		a, b := enginePair(answer, answer)
		yaml := strings.ReplaceAll(twoEngines("", "    retry: {resume: 1}\n    queue: {depth: 1, wait: 40s}\n"), "concurrency: 4", "concurrency: 1")
		e := calltest.New(t, yaml, a, b)
		done := make(chan *calltest.Answer, 1)
		go func() { done <- e.Post(chatPath, strings.Replace(chat(""), "hi", "occupy", 1)) }()
		time.Sleep(time.Second)
		got := e.Post(chatPath, chat(stream))
		if !strings.Contains(got.Body, "one ") || !strings.Contains(got.Body, `"error"`) || strings.Contains(got.Body, "capacity_full") {
			t.Errorf("want a part and the first engine's failure: %s", got.Body)
		}
		if n := e.CounterValue("penstock_streams_resumed_total"); n != 0 {
			t.Errorf("%d streams are counted as resumed, want none", n)
		}
		<-done
	})
}

// TestResumeAtLaterTier checks that a stream whose engine reports that it is overloaded is
// immediately resumed by a later tier. The lost engine must not count as full. Otherwise, the
// client would wait for a slot of the lost engine, or for a tier that only accepts calls while that
// engine is down.
func TestResumeAtLaterTier(t *testing.T) {
	for _, when := range []string{"full", "down"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(events(false, delta("one "), `{"error":{"message":"overloaded","type":"server_error","code":503}}`), calltest.TextHandler("two"))
				yaml := strings.Replace(twoEngines("", "    retry: {resume: 1}\n    queue: {depth: 1, wait: 10s}\n"), "{upstream: b}", "{upstream: b, tier: 1, when: "+when+"}", 1)
				got := calltest.New(t, yaml, a, b).Post(chatPath, chat(stream))
				if !strings.Contains(got.Body, "two") || !strings.Contains(got.Body, "data: [DONE]") || got.Took > time.Second {
					t.Errorf("took %v, want the rest at once: %s", got.Took, got.Body)
				}
			})
		})
	}
}

// TestResumedAtFullEngine checks that a stream whose second engine refuses it ends with this
// refusal rather than with the loss of the first engine.
func TestResumedAtFullEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := calltest.SequenceHandler(events(true, delta("one ")), calltest.ErrorHandler(http.StatusTooManyRequests, "no room"))
		a, b := enginePair(turn, turn)
		yaml := twoEngines("retry: {budget: 100%}", "    retry: {resume: 2}\n")
		got := calltest.New(t, yaml, a, b).Post(chatPath, chat(stream))
		if !strings.Contains(got.Body, "capacity_full") {
			t.Errorf("want the second engine's refusal: %s", got.Body)
		}
	})
}

// TestChangedRequest checks that a rejected request is changed and sent again, and that the engine
// then accepts it.
func TestChangedRequest(t *testing.T) {
	const overflow = "This model's maximum context length is 1000 tokens. However, you requested 1050 tokens (50 in the messages, 1000 in the completion). Please reduce the length of the messages or completion."
	tests := []struct {
		name, body string
		refusal    http.HandlerFunc
		second     []string // expected parts of the second request
		without    string   // text that must not occur in the second request
	}{
		{"limit", chat(`,"max_tokens":1000`), calltest.ErrorHandler(400, overflow), []string{`"max_tokens":`}, `"max_tokens":1000`},
		{"roles", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, calltest.ErrorHandler(400, "Conversation roles must alternate user/assistant/user/assistant/..."), []string{`{"type":"text","text":"b"}`}, `{"role":"user","content":"b"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := singleEngine(calltest.SequenceHandler(tt.refusal, calltest.TextHandler("taken")))
				got := calltest.New(t, oneEngine("", ""), a).Post(chatPath, tt.body)
				if got.Status != 200 || !strings.Contains(got.Body, "taken") {
					t.Fatalf("got %d, want 200 after the second request: %s", got.Status, got.Body)
				}
				sent := a.RequestBodies()
				if len(sent) != 2 || strings.Contains(sent[1], tt.without) {
					t.Fatalf("sent %q, want two requests and no %s in the second one", sent, tt.without)
				}
				for _, part := range tt.second {
					if !strings.Contains(sent[1], part) {
						t.Errorf("sent %q, want %q in it", sent[1], part)
					}
				}
			})
		})
	}
}

// TestTooLong checks the error for a prompt that is too long for every engine. The error must make
// agents shorten the prompt.
func TestTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := singleEngine(calltest.ErrorHandler(400, "This model's maximum context length is 100 tokens. However, your request has 120 input tokens. Please reduce the length of the input messages."))
		e := calltest.New(t, oneEngine("", ""), a)
		for path, body := range map[string]string{chatPath: chat(""), messagesPath: chat(`,"max_tokens":9`), responsesPath: `{"model":"m","input":"hi"}`} {
			if got := e.Post(path, body); got.Status != 400 || !strings.Contains(got.Body, "context") && !strings.Contains(got.Body, "prompt is too long") {
				t.Errorf("%s: got %d, want a 400 about the context: %s", path, got.Status, got.Body)
			}
		}
	})
}

// twoKeysConfig is a configuration with two keys that have limits. Tests replace HASHA and HASHB
// with the hashes of the keys.
const twoKeysConfig = `
keys:
  - {id: a, hash: "sha256:HASHA", limits: {requests_per_minute: 2}}
  - {id: b, hash: "sha256:HASHB", models: [other], limits: {concurrency: 1}}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
models:
  - {id: m, deployments: [{upstream: a}]}
  - {id: other, deployments: [{upstream: a}]}
`

// TestKeys checks which models and limits apply to each key, and the error text in each dialect.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &calltest.Engine{Name: "a", Models: []string{"m", "other"}}
		yaml := strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b")).Replace(twoKeysConfig)
		e := calltest.New(t, yaml, a)
		steps := []struct {
			path, body, key string
			status          int
			has             string
		}{
			{chatPath, chat(""), "", 401, "invalid_api_key"},
			{messagesPath, chat(`,"max_tokens":9`), "sk-wrong", 401, "authentication_error"},
			{chatPath, chat(""), "sk-secret-a", 200, "ok"},
			{chatPath, chat(""), "sk-secret-a", 200, "ok"},
			{chatPath, chat(""), "sk-secret-a", 429, "rate_limit"},
			{chatPath, chat(""), "sk-secret-b", 403, "model_not_allowed"},
			{chatPath, `{"model":"other","messages":[{"role":"user","content":"hi"}]}`, "sk-secret-b", 200, "ok"},
			{chatPath, `{"model":"none","messages":[{"role":"user","content":"hi"}]}`, "sk-secret-b", 404, "model_not_found"},
			{chatPath, `{"model":"other"}`, "sk-secret-b", 400, "messages"},
			{chatPath, `{`, "sk-secret-b", 400, "invalid_request_error"},
			{messagesPath, `{"model":"other","messages":[{"role":"user","content":"hi"}]}`, "sk-secret-b", 400, "max_tokens"},
		}
		for i, s := range steps {
			got := e.Post(s.path, s.body, "Authorization: Bearer "+s.key)
			if got.Status != s.status || !strings.Contains(got.Body, s.has) {
				t.Errorf("step %d: got %d %s, want %d with %q", i, got.Status, got.Body, s.status, s.has)
			}
		}
		time.Sleep(time.Minute)
		if got := e.Post(chatPath, chat(""), "Authorization: Bearer sk-secret-a"); got.Status != 200 {
			t.Errorf("a minute later: %d %s", got.Status, got.Body)
		}
	})
}

// TestOtherKinds checks embeddings, rerank, speech and transcription calls, including large answers
// that are relayed.
func TestOtherKinds(t *testing.T) {
	const yaml = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: {text: 4, audio: 4}}
  - {name: s, engine: speaches, url: "http://s", concurrency: {audio: 4}}
models:
  - {id: e, kind: embedding, deployments: [{upstream: a}]}
  - {id: r, kind: rerank, deployments: [{upstream: a}]}
  - {id: say, kind: audio-speech, deployments: [{upstream: s}]}
  - {id: hear, kind: audio-transcription, deployments: [{upstream: s}]}
`
	vector := `{"object":"list","model":"e","data":[{"object":"embedding","index":0,"embedding":[` + strings.Repeat("0.25,", 60_000) + `0.5]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`
	answers := map[string]http.HandlerFunc{
		"/v1/embeddings":           calltest.PiecesHandler(200, "application/json", vector),
		"/v1/rerank":               calltest.PiecesHandler(200, "application/json", `{"id":"r1","results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":3}}`),
		"/v1/audio/speech":         calltest.PiecesHandler(200, "audio/wav", "RIFF"+strings.Repeat("w", 200_000)),
		"/v1/audio/transcriptions": calltest.PiecesHandler(200, "application/json", `{"text":"good day"}`),
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		if f := answers[r.URL.Path]; f != nil {
			f(w, r)
			return
		}
		http.NotFound(w, r)
	}
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.WriteField("model", "hear")
	file, _ := parts.CreateFormFile("file", "a.wav")
	_, _ = file.Write([]byte("RIFF" + strings.Repeat("x", 3000)))
	_ = parts.Close()
	tests := []struct {
		path, body, mediaType string
		has                   string
		length                int
	}{
		{"/v1/embeddings", `{"model":"e","input":"hi"}`, "", `"embedding"`, 100_000},
		{"/v1/rerank", `{"model":"r","query":"q","documents":["d"]}`, "", `0.5`, 0},
		{"/v1/audio/speech", `{"model":"say","input":"hi","voice":"v"}`, "", "RIFF", 200_004},
		{"/v1/audio/transcriptions", form.String(), parts.FormDataContentType(), "good day", 0},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"e", "r"}, Answer: answer}
				s := &calltest.Engine{Name: "s", Models: []string{"say", "hear"}, Answer: answer}
				var headers []string
				if tt.mediaType != "" {
					headers = append(headers, "Content-Type: "+tt.mediaType)
				}
				got := calltest.New(t, yaml, a, s).Post(tt.path, tt.body, headers...)
				if got.Status != 200 || got.Err != nil || !strings.Contains(got.Body, tt.has) || len(got.Body) < tt.length {
					t.Errorf("got %d, %v, %d bytes: %.300s", got.Status, got.Err, len(got.Body), got.Body)
				}
			})
		})
	}
}

// TestShadow checks that a copy of a call goes to another model, and that the answer to the copy is
// discarded.
func TestShadow(t *testing.T) {
	const yaml = `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    deployments: [{upstream: a}]
    shadow: {model: other, share: 100%}
  - id: other
    deployments: [{upstream: b}]
`
	synctest.Test(t, func(t *testing.T) {
		a := &calltest.Engine{Name: "a", Models: []string{"m"}}
		b := &calltest.Engine{Name: "b", Models: []string{"other"}, Answer: calltest.DelayHandler(time.Second, calltest.TextHandler("aside"))}
		e := calltest.New(t, yaml, a, b)
		got := e.Post(chatPath, chat(stream))
		time.Sleep(10 * time.Second)
		if got.Status != 200 || strings.Contains(got.Body, "aside") {
			t.Errorf("got %d, want a 200 without the copy's text: %s", got.Status, got.Body)
		}
		if sent := b.RequestBodies(); len(sent) != 1 || !strings.Contains(sent[0], `"other"`) {
			t.Errorf("the copy's engine was sent %q, want one request", sent)
		}
	})
}

// TestReload checks that a call waiting for a slot moves to the engines of a newer configuration.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queued = "    queue: {depth: 4, wait: 60s}\n"
		a, b := enginePair(calltest.SequenceHandler(calltest.DelayHandler(40*time.Second, calltest.TextHandler("first")), calltest.TextHandler("new")), calltest.TextHandler("new"))
		e := calltest.New(t, oneEngine("", queued), a, b)
		first, second := make(chan *calltest.Answer, 1), make(chan *calltest.Answer, 1)
		go func() { first <- e.Post(chatPath, chat("")) }()
		time.Sleep(time.Second)
		go func() { second <- e.Post(chatPath, chat("")) }()
		time.Sleep(time.Second)
		e.ReloadConfig(twoEngines("", queued))
		if got := <-second; got.Status != 200 || got.Took > 20*time.Second {
			t.Errorf("got %d after %v: %s", got.Status, got.Took, got.Body)
		}
		if got := <-first; got.Status != 200 {
			t.Errorf("the first call: %d %s", got.Status, got.Body)
		}
	})
}

// TestPoison checks that a request whose body has killed two engines is rejected before it reaches
// a third engine.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := enginePair(calltest.AbortConnection, calltest.AbortConnection)
		e := calltest.New(t, twoEngines("", ""), a, b)
		var last *calltest.Answer
		for range 6 {
			last = e.Post(chatPath, chat(""))
		}
		if n := len(a.RequestBodies()) + len(b.RequestBodies()); last.Status == 200 || n > 10 {
			t.Errorf("%d requests in six calls; the last: %d %s", n, last.Status, last.Body)
		}
	})
}

// TestDebugHeaders checks that the response headers name the engine if log.debug_headers is set.
func TestDebugHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := calltest.SequenceHandler(calltest.AbortConnection, calltest.TextHandler("ok"))
		a, b := enginePair(turn, turn)
		got := calltest.New(t, twoEngines("log: {debug_headers: true}", ""), a, b).Post(chatPath, chat(""))
		if n, _ := strconv.Atoi(string(got.Header.Peek("X-Penstock-Attempts"))); n != 2 {
			t.Errorf("attempts: got %d, want 2", n)
		}
		if m := string(got.Header.Peek("X-Penstock-Model")); m != "m" {
			t.Errorf("model: got %q", m)
		}
	})
}

// TestCutShort checks calls that end early because of a shutdown or because the client disconnects.
func TestCutShort(t *testing.T) {
	endings := []struct {
		name string
		end  func(c *call.Call)
		has  string
	}{
		{"drained", (*call.Call).CancelForShutdown, "shutting_down"},
		{"left", (*call.Call).OnDisconnect, ""},
	}
	for _, tt := range endings {
		for _, body := range []string{chat(""), chat(stream)} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := calltest.New(t, oneEngine("", ""), singleEngine(calltest.DelayHandler(time.Hour, calltest.TextHandler("late"))))
					done := make(chan *calltest.Answer, 1)
					client := &calltest.Client{}
					go func() { done <- e.Send(client, chatPath, body) }()
					time.Sleep(5 * time.Second)
					if !client.InspectCall(tt.end) {
						t.Error("no call runs")
					}
					if got := <-done; got.Took != 5*time.Second || !strings.Contains(got.Body, tt.has) {
						t.Errorf("got %d after %v: %s", got.Status, got.Took, got.Body)
					}
				})
			})
		}
	}
}
