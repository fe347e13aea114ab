package attempt_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/call"
	"penstock/proxy/request/internal/calltest"
)

// edgeOf returns an edge with one engine. The engine has the given profile and serves the model m.
func edgeOf(t *testing.T, profile, top string, answer http.HandlerFunc) (*calltest.Edge, *calltest.Engine) {
	t.Helper()
	a := &calltest.Engine{Name: "a", Models: []string{"m"}, Answer: answer}
	return calltest.New(t, top+`
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: `+profile+`, url: "http://a", concurrency: 4}
models:
  - {id: m, deployments: [{upstream: a}]}
`, a), a
}

const (
	fullResponse = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	stream       = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

	completion  = `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"good day"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`
	firstEvent  = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"good "}}]}` + "\n\n"
	secondEvent = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"day"}}]}` + "\n\n"
	finishEvent = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done        = "data: [DONE]\n\n"
)

// thenSilent returns a handler that calls answer and then leaves the connection open without
// sending more.
func thenSilent(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		<-r.Context().Done()
	}
}

// thenAbort returns a handler that calls answer and then breaks the connection.
func thenAbort(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		panic(http.ErrAbortHandler)
	}
}

func splitBytes(text string, n int) (pieces []string) {
	for len(text) > n {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}

// TestReplies checks what the client receives when an engine sends a usual or a malformed response.
func TestReplies(t *testing.T) {
	const sse, json = "text/event-stream", "application/json"
	tests := []struct {
		name, profile, top, ask string
		answer                  http.HandlerFunc
		status                  int
		has, hasNot             string
		broken                  bool // whether the engine closes the connection too early
		took                    time.Duration
	}{
		{name: "events in bytes", ask: stream, answer: calltest.PiecesHandler(200, sse, splitBytes(firstEvent+secondEvent+finishEvent+done, 7)...), status: 200, has: `"day"`},
		{name: "lines end in CR LF", ask: stream, answer: calltest.PiecesHandler(200, sse, strings.ReplaceAll(firstEvent+secondEvent+finishEvent+done, "\n", "\r\n")), status: 200, has: `"day"`},
		{name: "comments", ask: stream, answer: calltest.PiecesHandler(200, sse, ": ping\n\n", firstEvent, ": ping\n\nevent: x\nid: 1\nretry: 5\n\n", secondEvent, finishEvent, done), status: 200, has: `"day"`, hasNot: "retry"},
		{name: "no DONE", ask: stream, answer: calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent), status: 200, has: done},
		{name: "no finish", ask: stream, answer: calltest.PiecesHandler(200, sse, firstEvent, secondEvent), status: 200, has: `"error"`},
		{name: "silent after its finish", ask: stream, answer: thenSilent(calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent)), status: 200, has: done, took: 3 * time.Second},
		{name: "cut after its finish", ask: stream, answer: thenAbort(calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent)), status: 200, has: done, hasNot: `"error"`},
		{name: "cut before its finish", ask: stream, answer: thenAbort(calltest.PiecesHandler(200, sse, firstEvent, secondEvent)), status: 200, has: `"error"`, hasNot: done},
		{name: "an error in the same bytes", ask: stream, answer: calltest.PiecesHandler(200, sse, firstEvent+`data: {"error":{"message":"slot lost","code":500}}`+"\n\n"), status: 200, has: `good `, hasNot: done},
		{name: "another event in the same bytes", ask: stream, answer: calltest.PiecesHandler(200, sse, firstEvent+"data: {\n\n"), status: 200, has: `good `, hasNot: done},
		{name: "events as text/plain", ask: stream, answer: calltest.PiecesHandler(200, "text/plain", firstEvent, secondEvent, finishEvent, done), status: 200, has: `"day"`},
		{name: "events without a type", ask: stream, answer: calltest.PiecesHandler(200, "", firstEvent, secondEvent, finishEvent, done), status: 200, has: `"day"`},
		{name: "whole answer instead of a stream", ask: stream, answer: calltest.PiecesHandler(200, json, splitBytes(completion, 50)...), status: 200, has: `good day`},
		{name: "a complaint with 200", ask: stream, answer: calltest.PiecesHandler(200, json, `{"error":{"message":"the model is ill"}}`), status: 502, has: `"error"`},
		{name: "a complaint in place of a whole answer", ask: fullResponse, answer: calltest.PiecesHandler(200, json, `{"error":{"message":"the model is ill"}}`), status: 502, has: `"error"`},
		{name: "neither", ask: stream, answer: calltest.PiecesHandler(200, "text/html", "<html>"), status: 502, has: `"error"`},
		{name: "stream instead of a whole answer", ask: fullResponse, answer: calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent, done), status: 502, has: `"error"`},
		{name: "put together", profile: "llamacpp", ask: fullResponse, answer: calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent, done), status: 200, has: `"content":"good day"`},
		{name: "assembled from bytes", profile: "llamacpp", ask: fullResponse, answer: calltest.PiecesHandler(200, sse, splitBytes(firstEvent+secondEvent+finishEvent+done, 11)...), status: 200, has: `"content":"good day"`},
		{name: "assembled, no DONE", profile: "llamacpp", ask: fullResponse, answer: thenSilent(calltest.PiecesHandler(200, sse, firstEvent, secondEvent, finishEvent)), status: 200, has: `"content":"good day"`, took: 3 * time.Second},
		{name: "assembled, cut", profile: "llamacpp", ask: fullResponse, answer: calltest.PiecesHandler(200, sse, firstEvent, secondEvent), status: 502, has: `"error"`},
		{name: "put together, an error", profile: "llamacpp", ask: fullResponse, answer: calltest.PiecesHandler(200, sse, firstEvent, `data: {"error":{"message":"slot lost","code":500}}`+"\n\n"), status: 502, has: `"error"`},
		{name: "whole in pieces", ask: fullResponse, answer: calltest.PiecesHandler(200, json, splitBytes(completion, 13)...), status: 200, has: `good day`},
		{name: "cut in the middle", ask: fullResponse, answer: calltest.PiecesHandler(200, json, completion[:80]), status: 502, has: `"error"`},
		{name: "nothing", ask: fullResponse, answer: calltest.PiecesHandler(200, json), status: 502, has: `"error"`},
		{name: "204", ask: fullResponse, answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, status: 502, has: `"error"`},
		{name: "a redirect", ask: fullResponse, answer: calltest.PiecesHandler(302, json), status: 502, has: `"error"`},
		{name: "an event too large", ask: stream, answer: calltest.PiecesHandler(200, sse, firstEvent, "data: "+strings.Repeat("x", 9<<20)), status: 200, has: `"error"`},
		{name: "a large refusal", ask: fullResponse, answer: calltest.PiecesHandler(400, json, `{"error":{"message":"`+strings.Repeat("why ", 100_000)+`"}}`), status: 400, has: "invalid_request_error"},
		{name: "a refusal as text", ask: fullResponse, answer: calltest.PiecesHandler(422, "text/plain", "no"), status: 400, has: "invalid_request_error"},
		{name: "a refusal that does not end", ask: fullResponse, answer: thenSilent(calltest.PiecesHandler(400, json, `{"error":`)), status: 400, has: "invalid_request_error", took: 6 * time.Second},
		{name: "401 of the engine", ask: fullResponse, answer: calltest.PiecesHandler(401, json, `{"error":{"message":"bad key"}}`), status: 502, has: `"error"`},
		{name: "no such model", ask: fullResponse, answer: calltest.ErrorHandler(404, "The model `m` does not exist."), status: 503, has: `"error"`},
		{name: "no such path", ask: fullResponse, answer: calltest.PiecesHandler(404, "text/plain", "404 page not found"), status: 502, has: `"error"`},
		{name: "too long", ask: fullResponse, answer: calltest.ErrorHandler(400, "This model's maximum context length is 1000 tokens. However, your request has 1200 input tokens. Please reduce the length of the input messages."), status: 400, has: "1200"},
		{name: "the memory for replies", top: "limits: {reply_memory: 1%}", ask: fullResponse, answer: calltest.PiecesHandler(200, json, `{"choices":[{"message":{"content":"`, strings.Repeat("y", 70<<20)), status: 502, has: `"error"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				profile := tt.profile
				if profile == "" {
					profile = "vllm"
				}
				e, _ := edgeOf(t, profile, tt.top, tt.answer)
				got := e.Post("/v1/chat/completions", tt.ask)
				if got.Status != tt.status || !strings.Contains(got.Body, tt.has) || tt.hasNot != "" && strings.Contains(got.Body, tt.hasNot) {
					t.Errorf("got %d %.500s, want %d with %q", got.Status, got.Body, tt.status, tt.has)
				}
				if (got.Err != nil) != tt.broken {
					t.Errorf("the connection: %v", got.Err)
				}
				if most := max(tt.took, time.Second); got.Took > most {
					t.Errorf("took %v, want at most %v", got.Took, most)
				}
				if n := e.Services.Replies.UsedBytes(); n != 0 {
					t.Errorf("%d bytes of replies are still held", n)
				}
			})
		})
	}
}

// TestAnnouncedLength checks that an answer of known length is complete once its last byte has arrived,
// no matter how it arrives and how large it is compared with the buffers. The engine then stays
// silent. An answer that ends early must be refused.
func TestAnnouncedLength(t *testing.T) {
	for _, size := range []int{len(completion), 2<<10 - 1, 2 << 10, 4 << 10, 5 << 10, 64 << 10, 64<<10 + 1, 300 << 10} {
		content := strings.Repeat("y", size-len(completion)+len("good day"))
		body := strings.Replace(completion, "good day", content, 1)
		for _, piece := range []int{1, 700, 2 << 10, 4 << 10, len(body)} {
			pieces := append([]string{body[:min(piece, len(body))]}, splitBytes(body[min(piece, len(body)):], 30_000)...)
			for _, whole := range []bool{true, false} {
				t.Run(fmt.Sprint(size, " ", piece, " ", whole), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						announced, wait, status := len(body), thenSilent, 200
						if !whole {
							announced, wait, status = len(body)+1, thenAbort, 502
						}
						answer := calltest.PiecesHandler(200, "application/json", pieces...)
						e, _ := edgeOf(t, "vllm", "", wait(func(w http.ResponseWriter, r *http.Request) {
							w.Header().Set("Content-Length", strconv.Itoa(announced))
							answer(w, r)
						}))
						got := e.Post("/v1/chat/completions", fullResponse)
						if got.Status != status || whole && !strings.Contains(got.Body, `"`+content+`"`) {
							t.Errorf("got %d with %d bytes, want %d", got.Status, len(got.Body), status)
						}
						if got.Took > time.Second {
							t.Errorf("took %v", got.Took)
						}
					})
				})
			}
		}
	}
}

// TestSound checks small, large, complete and truncated audio. The engine sends the audio as bytes
// and as events.
func TestSound(t *testing.T) {
	const yaml = `
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: speaches, url: "http://a", concurrency: {audio: 4}}
models:
  - {id: say, kind: audio-speech, deployments: [{upstream: a}]}
  - {id: hear, kind: audio-transcription, deployments: [{upstream: a}]}
`
	cut := func(w http.ResponseWriter, r *http.Request) {
		calltest.PiecesHandler(200, "audio/wav", strings.Repeat("w", 100_000))(w, r)
		panic(http.ErrAbortHandler)
	}
	const bytes, events = `{"model":"say","input":"hi","voice":"v"}`, `{"model":"say","input":"hi","voice":"v","stream_format":"sse"}`
	tests := []struct {
		name, ask string
		answer    http.HandlerFunc
		status    int
		has       string
		broken    bool
	}{
		{"small", bytes, calltest.PiecesHandler(200, "audio/wav", "RIFF"), 200, "RIFF", false},
		{"large", bytes, calltest.PiecesHandler(200, "audio/wav", splitBytes(strings.Repeat("w", 500_000), 60_000)...), 200, "www", false},
		{"cut", bytes, cut, 200, "www", true},
		{"none", bytes, calltest.PiecesHandler(200, "audio/wav"), 502, `"error"`, false},
		{"in events", events, calltest.PiecesHandler(200, "audio/wav", splitBytes(strings.Repeat("w", 500_000), 60_000)...), 200, "speech.audio.done", false},
		{"in events, cut", events, cut, 200, `"error"`, false},
		{"a complaint", events, calltest.PiecesHandler(200, "application/json", `{"error":{"message":"no voice"}}`), 502, `"error"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := calltest.New(t, yaml, &calltest.Engine{Name: "a", Models: []string{"say", "hear"}, Answer: tt.answer})
				got := e.Post("/v1/audio/speech", tt.ask)
				if got.Status != tt.status || !strings.Contains(got.Body, tt.has) || (got.Err != nil) != tt.broken {
					t.Errorf("got %d, %v, %.300s; want %d with %q, broken %t", got.Status, got.Err, got.Body, tt.status, tt.has, tt.broken)
				}
			})
		})
	}
}

// TestPassedOn checks that the client receives a large answer while the answer is still arriving
// from the engine. The client's answer must end where the engine's response ends.
func TestPassedOn(t *testing.T) {
	const yaml = `
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
models:
  - {id: e, kind: embedding, deployments: [{upstream: a}]}
`
	vector := `{"object":"list","model":"x","data":[{"object":"embedding","index":0,"embedding":[` + strings.Repeat("0.125,", 60_000)
	for _, tt := range []struct {
		name, end string
		broken    bool
	}{{"whole", `0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`, false}, {"no end", `0.5]`, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"e"}, Answer: calltest.PiecesHandler(200, "application/json", splitBytes(vector+tt.end, 50_000)...)}
				got := calltest.New(t, yaml, a).Post("/v1/embeddings", `{"model":"e","input":"hi"}`)
				if got.Status != 200 || (got.Err != nil) != tt.broken || len(got.Body) < 300_000 {
					t.Errorf("got %d, %v, %d bytes", got.Status, got.Err, len(got.Body))
				}
			})
		})
	}
}

// TestEnded checks that a call can be canceled before and after its first token. It covers whole,
// streamed and assembled responses.
func TestEnded(t *testing.T) {
	for _, profile := range []string{"vllm", "llamacpp"} {
		for _, ask := range []string{fullResponse, stream} {
			for _, said := range []bool{false, true} {
				t.Run(fmt.Sprint(profile, len(ask), said), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						answer := thenSilent(func(http.ResponseWriter, *http.Request) {})
						if said {
							answer = thenSilent(calltest.PiecesHandler(200, "text/event-stream", firstEvent))
						}
						e, _ := edgeOf(t, profile, "", answer)
						done, client := make(chan *calltest.Answer, 1), &calltest.Client{}
						go func() { done <- e.Send(client, "/v1/chat/completions", ask) }()
						time.Sleep(3 * time.Second)
						client.InspectCall((*call.Call).CancelForShutdown)
						if got := <-done; got.Took > 4*time.Second {
							t.Errorf("ended after %v: %d %s", got.Took, got.Status, got.Body)
						}
					})
				})
			}
		}
	}
}

// TestRetryAfter checks that an engine's Retry-After is forwarded to the client, capped at a
// maximum.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct{ given, want string }{{"", "1"}, {"7", "7"}, {"0", "1"}, {"soon", "1"}, {"-5", "1"}} {
		t.Run(fmt.Sprintf("%q", tt.given), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := edgeOf(t, "vllm", "", func(w http.ResponseWriter, _ *http.Request) {
					if tt.given != "" {
						w.Header().Set("Retry-After", tt.given)
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				got := e.Post("/v1/chat/completions", fullResponse)
				if after := string(got.Header.Peek("Retry-After")); got.Status != 503 || after != tt.want {
					t.Errorf("got %d, Retry-After %q, want %q", got.Status, after, tt.want)
				}
			})
		})
	}
}

// TestContext checks that the token limit is lowered to the part of the model's context that
// remains after the prompt.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &calltest.Engine{Name: "a", Models: []string{"m"}}
		e := calltest.New(t, `
auth: none
upstreams:
  - {name: a, engine: vllm, url: "http://a", concurrency: 4}
models:
  - {id: m, context_length: 1000, deployments: [{upstream: a}]}
`, a)
		if got := e.Post("/v1/chat/completions", strings.Replace(fullResponse, "{", `{"max_tokens":5000,`, 1)); got.Status != 200 {
			t.Fatalf("got %d %s, want 200", got.Status, got.Body)
		}
		if sent := a.RequestBodies()[0]; strings.Contains(sent, "5000") || !strings.Contains(sent, `"max_tokens":9`) {
			t.Errorf("sent %s, want a limit below 1000", sent)
		}
	})
}

// TestUnreachable checks calls to an engine that accepts no connections.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, a := edgeOf(t, "vllm", "", nil)
		a.SetRefusing(true)
		a.Stop()
		if got := e.Post("/v1/chat/completions", fullResponse); got.Status != 502 || !strings.Contains(got.Body, "upstream_unreachable") {
			t.Errorf("at once: got %d %s", got.Status, got.Body)
		}
		time.Sleep(time.Minute)
		if got := e.Post("/v1/chat/completions", fullResponse); got.Status != 503 && got.Status != 502 {
			t.Errorf("after its probes have failed: got %d %s", got.Status, got.Body)
		}
	})
}

// TestTranscripts checks a transcript that the client wants as a stream, in each form in which an
// engine may send it.
func TestTranscripts(t *testing.T) {
	const yaml = `
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: speaches, url: "http://a", concurrency: {audio: 4}}
models:
  - {id: hear, kind: audio-transcription, deployments: [{upstream: a}]}
`
	form := strings.NewReplacer("\n", "\r\n").Replace("--x\nContent-Disposition: form-data; name=\"model\"\n\nhear\n" +
		"--x\nContent-Disposition: form-data; name=\"stream\"\n\ntrue\n--x\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\n\nRIFF\n--x--\n")
	const json, sse = "application/json", "text/event-stream"
	for _, tt := range []struct {
		name        string
		answer      http.HandlerFunc
		status      int
		has, hasNot string
	}{
		{"events", calltest.PiecesHandler(200, sse, `data: {"type":"transcript.text.delta","delta":"good day"}`+"\n\n", `data: {"type":"transcript.text.done","text":"good day"}`+"\n\n"), 200, "transcript.text.done", `"error"`},
		{"events, cut", thenAbort(calltest.PiecesHandler(200, sse, `data: {"type":"transcript.text.delta","delta":"good day"}`+"\n\n")), 200, `"error"`, "transcript.text.done"},
		{"whole", calltest.PiecesHandler(200, json, `{"text":"`, `good day"}`), 200, "transcript.text.done", `"error"`},
		{"whole, cut", thenAbort(calltest.PiecesHandler(200, json, `{"text":"`)), 502, `"error"`, "transcript.text.done"},
		{"whole, in another form", calltest.PiecesHandler(200, json, `["good day"]`), 502, `"error"`, "transcript.text.done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &calltest.Engine{Name: "a", Models: []string{"hear"}, Answer: tt.answer}
				e := calltest.New(t, yaml, a)
				got := e.Post("/v1/audio/transcriptions", form, "Content-Type: multipart/form-data; boundary=x")
				if got.Status != tt.status || !strings.Contains(got.Body, tt.has) || strings.Contains(got.Body, tt.hasNot) {
					t.Errorf("got %d %s, want %d with %s", got.Status, got.Body, tt.status, tt.has)
				}
				if n := e.Services.Replies.UsedBytes(); n != 0 {
					t.Errorf("%d bytes of replies are still held", n)
				}
			})
		})
	}
}

// TestUpgrade checks the limits and the failures of an upgraded connection.
func TestUpgrade(t *testing.T) {
	const yaml = `
timeouts: {first_event: 20s, idle: 30s}
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: speaches, url: "http://a", concurrency: {audio: 4}, api_key: engine-secret}
models:
  - {id: m, kind: audio-transcription, deployments: [{upstream: a, served: inner}]}
`
	silent := calltest.UpgradeHandler(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		status int // 0 if the connection is upgraded
		has    string
	}{
		{"upgraded", silent, 0, ""},
		{"refused", calltest.ErrorHandler(400, "`inner` with engine-secret is no model for speech"), 400, "`m`"},
		{"no answer", neverAnswer, 504, "timeout"},
		{"another key", func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Sec-WebSocket-Key", "other")
			silent(w, r)
		}, 502, "upstream_bad_response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := calltest.New(t, yaml, &calltest.Engine{Name: "a", Models: []string{"inner"}, Answer: tt.answer})
				var met *call.DialogueEngine
				d, refused := e.OpenDialogue(&calltest.Client{}, "m", func(at *call.DialogueEngine) error {
					met = at
					return nil
				})
				if d == nil {
					if refused.Status != tt.status || !strings.Contains(refused.Body, tt.has) || strings.Contains(refused.Body, "secret") {
						t.Errorf("got %d %s, want %d with %s", refused.Status, refused.Body, tt.status, tt.has)
					}
					return
				}
				defer d.End()
				if tt.status != 0 || met.First != 20*time.Second || met.Idle != 30*time.Second || met.Served != "inner" {
					t.Errorf("met %+v, want the configured limits, or %d", met, tt.status)
				}
				begun := time.Now()
				_ = met.Conn.SetReadDeadline(begun.Add(met.First))
				_, err := met.Conn.Read(make([]byte, 1))
				if failed := d.Reconnect(err); failed == nil || failed.Status != 504 || time.Since(begun) != 20*time.Second {
					t.Errorf("after silence: got %v after %v, want a 504 after 20s", failed, time.Since(begun))
				}
			})
		})
	}
}

func neverAnswer(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
