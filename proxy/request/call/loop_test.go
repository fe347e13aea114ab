package call_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
)

// chat returns a short chat request. more contains additional members, such as stream.
func chat(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

const (
	chatPath      = "/v1/chat/completions"
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
	stream        = `,"stream":true`
)

// twoEngines returns a configuration with the model m at the engines a and b. The edge tries engine
// a first. top is the beginning of the configuration, and more extends the entry for the model.
func twoEngines(top, more string) string {
	return top + `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
  - {name: b, engine: vllm, url: "http://b", concurrency: 4}
models:
  - id: m
    policy: round_robin
    deployments: [{upstream: a}, {upstream: b}]
` + more
}

// oneEngine returns a configuration with the model m at the engine a, which has one slot.
func oneEngine(top, more string) string {
	return top + `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 1}
models:
  - id: m
    deployments: [{upstream: a}]
` + more
}

func enginePair(a, b http.HandlerFunc) (first, second *calltest.Engine) {
	return &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: a}, &calltest.Engine{Name: "b", Models: []string{"m"}, Answer: b}
}

func neverAnswer(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// events returns a handler that streams the given events. After the last event, the handler ends
// the stream or breaks the connection.
func events(broken bool, all ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := calltest.StartStream(w)
		for _, data := range all {
			s.Send(data)
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}
}

func delta(text string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
}

// TestAfterFailure checks the client's answer and the number of requests to each engine after the
// first engine fails. It covers each kind of failure, for streams and for answers that are not
// streamed. It tests the loop. The tests in package retry cover the retry rules.
func TestAfterFailure(t *testing.T) {
	const json, sse = "application/json", "text/event-stream"
	tests := []struct {
		name  string
		first http.HandlerFunc // first answer that an engine gives
		// Request body; if empty, a chat request is sent, both with and without stream.
		body   string
		status int
		has    string // expected part of the answer body
		sends  [2]int // expected number of requests to each engine
	}{
		{name: "good", first: calltest.TextHandler("fine"), status: 200, has: "fine", sends: [2]int{1, 0}},
		{name: "cut off", first: calltest.AbortConnection, status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "500", first: calltest.ErrorHandler(500, "cuda"), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "502", first: calltest.ErrorHandler(502, "bad"), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "503", first: calltest.ErrorHandler(503, "busy"), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "429", first: calltest.ErrorHandler(429, "slow down"), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "no model", first: calltest.ErrorHandler(404, "The model `m` does not exist."), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "400", first: calltest.ErrorHandler(400, "'messages' is odd"), status: 400, has: "invalid_request_error", sends: [2]int{1, 0}},
		{name: "no json", first: calltest.PiecesHandler(200, json, "{"), body: chat(""), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "html", first: calltest.PiecesHandler(200, "text/html", "<p>"), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "empty stream", first: events(false), body: chat(stream), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "error at once", first: events(false, `{"error":{"message":"oom","code":500}}`), body: chat(stream), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "no event", first: calltest.PiecesHandler(200, sse, "data: {\n\n"), body: chat(stream), status: 200, has: "other", sends: [2]int{1, 1}},
		{name: "in the middle", first: events(true, delta("half")), body: chat(stream), status: 200, has: `"error"`, sends: [2]int{1, 0}},
		{name: "error later", first: events(false, delta("half"), `{"error":{"message":"oom","code":500}}`), body: chat(stream), status: 200, has: `"error"`, sends: [2]int{1, 0}},
	}
	for _, tt := range tests {
		bodies := []string{chat(""), chat(stream)}
		if tt.body != "" {
			bodies = []string{tt.body}
		}
		for i, body := range bodies {
			t.Run(fmt.Sprint(tt.name, i), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// Round-robin may start at either engine. Both engines therefore send the
					// answers of one shared sequence, which begins with the failure.
					turn := calltest.SequenceHandler(tt.first, calltest.TextHandler("other"))
					a, b := enginePair(turn, turn)
					e := calltest.New(t, twoEngines("", ""), a, b)
					got := e.Post(chatPath, body)
					if got.Status != tt.status || !strings.Contains(got.Body, tt.has) {
						t.Errorf("got %d %s, want %d with %q", got.Status, got.Body, tt.status, tt.has)
					}
					if n := len(a.RequestBodies()) + len(b.RequestBodies()); n != tt.sends[0]+tt.sends[1] {
						t.Errorf("%d requests were sent, want %d", n, tt.sends[0]+tt.sends[1])
					}
				})
			})
		}
	}
}

// TestBothFail checks a call that fails at both engines. The client must get the first engine's
// failure in the client's dialect.
func TestBothFail(t *testing.T) {
	tests := []struct {
		name, path, body string
		answer           http.HandlerFunc
		status           int
		has              []string
	}{
		{"chat", chatPath, chat(""), calltest.AbortConnection, 502, []string{`"upstream_unreachable"`, `"api_error"`}},
		{"chat 503", chatPath, chat(stream), calltest.ErrorHandler(503, "full"), 503, []string{`"code"`}},
		{"messages", messagesPath, chat(`,"max_tokens":9`), calltest.AbortConnection, 529, []string{`"type":"error"`, `"overloaded_error"`}},
		{"messages 429", messagesPath, chat(`,"max_tokens":9,"stream":true`), calltest.ErrorHandler(429, "full"), 429, []string{"rate_limit_error"}},
		{"responses", responsesPath, `{"model":"m","input":"hi"}`, calltest.AbortConnection, 502, []string{`"error"`, `"code"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(tt.answer, tt.answer)
				got := calltest.New(t, twoEngines("", ""), a, b).Post(tt.path, tt.body)
				if got.Status != tt.status {
					t.Errorf("got %d %s, want %d", got.Status, got.Body, tt.status)
				}
				for _, part := range tt.has {
					if !strings.Contains(got.Body, part) {
						t.Errorf("got %s, want %q in it", got.Body, part)
					}
				}
				if len(a.RequestBodies()) != 1 || len(b.RequestBodies()) != 1 {
					t.Errorf("sent %d and %d times, want once each", len(a.RequestBodies()), len(b.RequestBodies()))
				}
			})
		})
	}
}

// TestDialects checks that a client gets the same answer from an engine in every dialect, with and
// without streaming.
func TestDialects(t *testing.T) {
	tests := []struct {
		path, body string
		has        []string
	}{
		{chatPath, chat(""), []string{`"content":"good day"`, `"total_tokens":7`}},
		{chatPath, chat(stream), []string{`"content":"good "`, `"content":"day"`, "data: [DONE]"}},
		{chatPath, chat(`,"stream":true,"stream_options":{"include_usage":true}`), []string{`"total_tokens":7`, "data: [DONE]"}},
		{messagesPath, chat(`,"max_tokens":9`), []string{`"text":"good day"`, `"stop_reason":"end_turn"`, `"output_tokens":2`}},
		{messagesPath, chat(`,"max_tokens":9,"stream":true`), []string{"event: message_start", `"text_delta","text":"good "`, "event: message_stop"}},
		{responsesPath, `{"model":"m","input":"hi"}`, []string{`"status":"completed"`, `"text":"good day"`}},
		{responsesPath, `{"model":"m","input":"hi","stream":true}`, []string{"event: response.created", `"delta":"good "`, "event: response.completed"}},
		{"/v1/completions", `{"model":"m","prompt":"hi"}`, nil},
		{"/v1/messages/count_tokens", chat(""), []string{`"input_tokens":`}},
		{"/v1/responses/input_tokens", `{"model":"m","input":"hi"}`, []string{`"input_tokens":`}},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, tt.path), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(calltest.TextHandler("good day"), calltest.TextHandler("good day"))
				got := calltest.New(t, twoEngines("", ""), a, b).Post(tt.path, tt.body)
				if got.Status != 200 {
					t.Fatalf("got %d, want 200: %s", got.Status, got.Body)
				}
				for _, part := range tt.has {
					if !strings.Contains(got.Body, part) {
						t.Errorf("got %s, want %q in it", got.Body, part)
					}
				}
			})
		})
	}
}

// TestClocks checks each configured time limit with an engine that delays its answer.
func TestClocks(t *testing.T) {
	halfway := func(w http.ResponseWriter, r *http.Request) {
		calltest.StartStream(w).SendText("half")
		<-r.Context().Done()
	}
	tests := []struct {
		name, top, body string
		answer          http.HandlerFunc
		status          int
		has             string
		took            time.Duration
	}{
		{"first event", "timeouts: {first_event: 20s}\nstream: {commit_after: 0s}", chat(stream), neverAnswer, 504, "timeout", 20 * time.Second},
		{"first event, announced", "timeouts: {first_event: 20s}", chat(stream), neverAnswer, 200, "timeout", 20 * time.Second},
		{"whole", "timeouts: {answer: 40s}", chat(""), neverAnswer, 504, "timeout", 40 * time.Second},
		{"idle", "timeouts: {idle: 30s}", chat(stream), halfway, 200, "timeout", 30 * time.Second},
		{"total", "timeouts: {total: 50s}", chat(stream), halfway, 200, "timeout", 50 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := enginePair(tt.answer, tt.answer)
				got := calltest.New(t, twoEngines(tt.top, ""), a, b).Post(chatPath, tt.body)
				if got.Status != tt.status || !strings.Contains(got.Body, tt.has) || got.Took != tt.took {
					t.Errorf("got %d after %v: %s; want %d after %v with %q", got.Status, got.Took, got.Body, tt.status, tt.took, tt.has)
				}
			})
		})
	}
}

// TestKeepalives checks the keep-alives during a silent stream and before a slow answer that is not
// streamed.
func TestKeepalives(t *testing.T) {
	tests := []struct {
		name, top, path, body string
		at                    []time.Duration // when the first pieces of the answer must arrive
		has                   string
	}{
		{"chat", "", chatPath, chat(stream), []time.Duration{10 * time.Second, 25 * time.Second, 40 * time.Second}, ":"},
		{"messages", "", messagesPath, chat(`,"max_tokens":9,"stream":true`), []time.Duration{10 * time.Second, 25 * time.Second}, "event: ping"},
		{"responses", "", responsesPath, `{"model":"m","input":"hi","stream":true}`, []time.Duration{10 * time.Second, 25 * time.Second}, "response.created"},
		{"whole", "stream: {whole_keepalive: 8s}", chatPath, chat(""), []time.Duration{8 * time.Second, 16 * time.Second, 24 * time.Second}, " "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				only := &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: calltest.DelayHandler(50*time.Second, calltest.TextHandler("late"))}
				var at []time.Duration
				early := ""
				to := &calltest.Client{Lines: func(when time.Duration, piece string) {
					if at = append(at, when); when < 50*time.Second {
						early += piece
					}
				}}
				got := calltest.New(t, oneEngine(tt.top, ""), only).Send(to, tt.path, tt.body)
				if got.Status != 200 || !strings.Contains(got.Body, "late") || !strings.Contains(early, tt.has) {
					t.Errorf("got %d %s, before it %q, want %q there", got.Status, got.Body, early, tt.has)
				}
				if len(at) < len(tt.at) || fmt.Sprint(at[:len(tt.at)]) != fmt.Sprint(tt.at) {
					t.Errorf("written at %v, want %v first", at, tt.at)
				}
			})
		})
	}
}

// TestKeepalivesOfMovedCall checks that the client's next keep-alive is not delayed if the call
// moves away from a silent engine.
func TestKeepalivesOfMovedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := calltest.DelayHandler(50*time.Second, calltest.TextHandler("late"))
		a, b := enginePair(slow, slow)
		var longest, last time.Duration
		to := &calltest.Client{Lines: func(when time.Duration, _ string) {
			longest, last = max(longest, when-last), when
		}}
		e := calltest.New(t, twoEngines("", ""), a, b)
		got := e.Send(to, chatPath, chat(stream))
		if n := e.CounterValue(`penstock_calls_moved_total{reason="stalled"}`); got.Status != 200 || n != 1 {
			t.Fatalf("got %d after %d moves, want one: %s", got.Status, n, got.Body)
		}
		if longest > 15*time.Second {
			t.Errorf("the client saw nothing for %v, want stream.keepalive at most", longest)
		}
	})
}

// TestStreamStaysAtSilentEngine checks a stream whose engine falls silent after the client has
// received part of the answer. The stream must stay at the engine, and continue when the engine
// sends more events.
func TestStreamStaysAtSilentEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		halting := func(w http.ResponseWriter, _ *http.Request) {
			s := calltest.StartStream(w)
			s.SendText("one ")
			time.Sleep(50 * time.Second)
			s.SendText("two")
			s.Finish()
		}
		a, b := enginePair(halting, halting)
		e := calltest.New(t, strings.Replace(twoEngines("", ""), "round_robin", "least_loaded", 1), a, b)
		got := e.Post(chatPath, chat(stream))
		if got.Status != 200 || got.Err != nil || !strings.Contains(got.Body, "two") || !strings.HasSuffix(got.Body, "data: [DONE]\n\n") {
			t.Errorf("got %d, %v, want a 200 that ends with the second engine's text: %s", got.Status, got.Err, got.Body)
		}
		if n := e.CounterValue("penstock_panics_total"); n != 0 {
			t.Errorf("got %d panics, want 0", n)
		}
	})
}

// TestClientLeaves checks that the call and the engine's work end when the client disconnects.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 2)
		endless := func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			for s := calltest.StartStream(w); r.Context().Err() == nil; time.Sleep(time.Second) {
				s.SendText("on ")
			}
			ended <- time.Since(begun)
		}
		a, b := enginePair(endless, endless)
		e := calltest.New(t, twoEngines("", ""), a, b)
		if got := e.Send(&calltest.Client{Stays: 3}, chatPath, chat(stream)); got.Err == nil {
			t.Error("the stream has ended well")
		}
		if d := <-ended; d > 5*time.Second {
			t.Errorf("the engine went on for %v", d)
		}
	})
}
