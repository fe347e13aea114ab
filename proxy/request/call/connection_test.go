package call_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/internal/calltest"
	"penstock/proxy/request/participant"
	"penstock/proxy/telemetry/guard"
)

// TestStreamsOfAConnection checks that a stream on a keep-alive connection leaves the HTTP server,
// and that the connection returns to the server when the stream ends.
func TestStreamsOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := calltest.New(t, oneEngine("", ""), singleEngine(calltest.TextHandler("one two three")))
		client := e.Connect()
		for i, ask := range []string{chat(stream), chat(stream), chat(""), chat(stream)} {
			answer, err := client.Post(chatPath, ask)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			text, err := io.ReadAll(answer.Body)
			synctest.Wait()
			if err != nil || answer.StatusCode != 200 || !strings.Contains(string(text), "three") {
				t.Fatalf("request %d: got %d, %v: %s", i, answer.StatusCode, err, text)
			}
			if streamed := strings.HasSuffix(string(text), "data: [DONE]\n\n"); streamed != (ask == chat(stream)) {
				t.Errorf("request %d: want a complete stream if the client asked for one: %s", i, text)
			}
			if got := e.LastCall(); got["outcome"] != "ok" || got["bytes_out"] != int64(len(text)) {
				t.Errorf("request %d: the log has %v, want ok and %d bytes", i, got, len(text))
			}
		}
		if n := e.Services.Calls.InFlight(); n != 0 {
			t.Errorf("%d calls are in flight, want none", n)
		}
	})
}

// TestRevokedWhileBodyArrives checks a call whose key is revoked before the body is complete. The call
// is not registered with its connection yet, so the reload cannot cancel it.
func TestRevokedWhileBodyArrives(t *testing.T) {
	ask := strings.Replace(chat(""), "hi", strings.Repeat("word ", 8<<10), 1) // fasthttp reads a small body itself
	for onRevoke, status := range map[string]int{"abort": 401, "end": 200} {
		t.Run(onRevoke, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				yaml := "on_revoke: " + onRevoke + strings.NewReplacer("HASHA", calltest.HashKey("sk-secret-a"), "HASHB", calltest.HashKey("sk-secret-b")).Replace(twoKeysConfig)
				engine := &calltest.Engine{Name: "a", Models: []string{"m", "other"}}
				e := calltest.New(t, yaml, engine)
				client := e.Connect()
				if _, err := fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer sk-secret-a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(ask), ask[:len(ask)/2]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				e.ReloadConfig(strings.Replace(yaml, calltest.HashKey("sk-secret-a"), calltest.HashKey("sk-secret-c"), 1))
				if _, err := io.WriteString(client, ask[len(ask)/2:]); err != nil {
					t.Fatal(err)
				}
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				if sent := len(engine.RequestBodies()) > 0; err != nil || answer.StatusCode != status || sent != (status == 200) {
					t.Errorf("got %d, %v, sent to the engine: %v, want %d: %s", answer.StatusCode, err, sent, status, text)
				}
			})
		})
	}
}

// panickingFeature takes part in every call, and panics when it is notified of the nth part of the
// answer, or that the call was sent if n is 0.
type panickingFeature struct {
	recordingFeature
	n, parts int
}

func (f *panickingFeature) Join(*participant.Call) participant.Participant { return f }

func (f *panickingFeature) OnSent(*participant.Call) {
	if f.n == 0 {
		panic("test")
	}
}

func (f *panickingFeature) OnAnswerWritten([]byte) {
	if f.parts++; f.parts == f.n {
		panic("test")
	}
}

// TestPanics checks that a panic in the handler is answered with an error, and that a panic in the
// middle of a stream ends the stream. In both cases, the call must release its slot.
func TestPanics(t *testing.T) {
	tests := []struct {
		name, proto, ask string
		n, status        int
		place            string
	}{
		{"handler", "HTTP/1.1", chat(""), 0, 500, guard.PlaceHandler},
		{"handler of a stream", "HTTP/1.1", chat(stream), 0, 500, guard.PlaceHandler},
		{"first part", "HTTP/1.1", chat(stream), 1, 200, guard.PlaceStream},
		{"later part", "HTTP/1.1", chat(stream), 2, 200, guard.PlaceStream},
		{"later part, HTTP/1.0", "HTTP/1.0", chat(stream), 2, 200, guard.PlaceStream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(w http.ResponseWriter, r *http.Request) {
					if !calltest.AsksStream(r) {
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, "{}")
						return
					}
					s := calltest.StartStream(w)
					for _, text := range []string{"one ", "two ", "three "} {
						s.SendText(text)
						time.Sleep(time.Second)
					}
					s.Finish()
				}
				e := calltest.New(t, oneEngine("", ""), singleEngine(slow))
				e.Services.Features = []participant.Feature{&panickingFeature{n: tt.n}}
				client := e.Connect()
				answer, err := client.PostProto(tt.proto, chatPath, tt.ask)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				if answer.StatusCode != tt.status || strings.Contains(string(text), "[DONE]") {
					t.Errorf("got %d, want %d and no end of the stream: %s", answer.StatusCode, tt.status, text)
				}
				if whole := err == nil; whole != (tt.status == 500 || tt.proto == "HTTP/1.0") {
					t.Errorf("the answer is whole: %t (%v)", whole, err)
				}
				if _, err := client.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the connection stays open: %v", err)
				}
				synctest.Wait()
				if got := e.LastCall(); got["code"] != "internal" || e.Services.Guard.PanicCount(tt.place) == 0 {
					t.Errorf("the log has %v, want an internal error and a counted panic", got)
				}
				e.Services.Features = nil
				// The edge reads Services.Features once for each configuration.
				e.ReloadConfig(oneEngine("", ""))
				if got := e.Post(chatPath, chat(stream)); got.Status != 200 || e.Services.Calls.InFlight() != 0 {
					t.Errorf("afterwards: got %d %s, %d calls in flight", got.Status, got.Body, e.Services.Calls.InFlight())
				}
			})
		})
	}
}

// TestBrokenStreams checks how a client's stream ends if the engine breaks off its answer. It must
// end with an error event if the format has one. Otherwise, the edge must close the connection.
func TestBrokenStreams(t *testing.T) {
	const audio = `
auth: none
retry: {attempts: 1}
upstreams:
  - {name: a, engine: speaches, url: "http://a", concurrency: {audio: 4}}
models:
  - {id: m, kind: audio-speech, deployments: [{upstream: a}]}
`
	sound := func(w http.ResponseWriter, r *http.Request) {
		calltest.PiecesHandler(200, "audio/wav", strings.Repeat("w", 100_000))(w, r)
		panic(http.ErrAbortHandler)
	}
	tests := []struct {
		name, proto, config, path, ask string
		answer                         http.HandlerFunc
		has                            string
		// Whether the body ends as announced, and whether the connection is kept.
		ends, kept bool
	}{
		{"events", "HTTP/1.1", oneEngine("", ""), chatPath, chat(stream), events(true, delta("half")), `"error"`, true, true},
		{"events, HTTP/1.0", "HTTP/1.0", oneEngine("", ""), chatPath, chat(stream), events(true, delta("half")), `"error"`, true, false},
		{"sound", "HTTP/1.1", audio, "/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`, sound, "www", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := calltest.New(t, tt.config, singleEngine(tt.answer))
				client := e.Connect()
				answer, err := client.PostProto(tt.proto, tt.path, tt.ask)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				if !strings.Contains(string(text), tt.has) || (err == nil) != tt.ends {
					t.Errorf("got %v and %.200q, want %s, and a body that ends: %t", err, text, tt.has, tt.ends)
				}
				synctest.Wait()
				if got := e.LastCall(); got["outcome"] != "stream_broken" {
					t.Errorf("the log has %v, want a broken stream", got)
				}
				if _, err = client.Post(tt.path, tt.ask); (err == nil) != tt.kept {
					t.Errorf("the connection serves another request: %v, want that it does: %t", err, tt.kept)
				}
			})
		})
	}
}

// TestClientGone checks clients that disconnect or stop reading, before a stream and in the middle
// of it. The engine must stop working, and the log must contain the phase in which the client was
// lost.
func TestClientGone(t *testing.T) {
	const path, ask = chatPath, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		name, proto string
		first       time.Duration // when the engine's first event arrives
		reads       bool          // whether the client reads the first event
		closes      bool
		after       time.Duration // how long the engine works
		phase       string
	}{
		{"before the answer", "HTTP/1.1", time.Hour, false, true, 5 * time.Second, "waiting"},
		{"in the stream", "HTTP/1.1", time.Second, true, true, 7 * time.Second, "streaming"},
		{"in the stream, HTTP/1.0", "HTTP/1.0", time.Second, true, true, 7 * time.Second, "streaming"},
		{"stops reading", "HTTP/1.1", time.Second, true, false, 40 * time.Second, "stalled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Duration, 1)
				endless := func(w http.ResponseWriter, r *http.Request) {
					begun := time.Now()
					defer func() { ended <- time.Since(begun) }()
					select {
					case <-time.After(tt.first):
					case <-r.Context().Done():
						return
					}
					for s := calltest.StartStream(w); r.Context().Err() == nil; time.Sleep(time.Second) {
						s.SendText("on ")
					}
				}
				e := calltest.New(t, oneEngine("timeouts: {write: 30s}\nlog: {client: true}", ""), singleEngine(endless))
				client := e.Connect()
				answered := make(chan *http.Response, 1)
				go func() {
					answer, err := client.PostProto(tt.proto, path, ask)
					if (err == nil) != tt.reads {
						t.Errorf("the client sees %v, want an answer: %t", err, tt.reads)
					}
					answered <- answer
				}()
				if tt.reads {
					if _, err := io.ReadFull((<-answered).Body, make([]byte, 100)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second)
				if tt.closes {
					_ = client.Close()
				}
				if d := <-ended; d > tt.after {
					t.Errorf("the engine worked for %v, want at most %v", d, tt.after)
				}
				synctest.Wait()
				if got := e.LastCall(); got["outcome"] != "client_gone" || got["client"] != "10.0.0.1" || got["left_in_phase"] != tt.phase {
					t.Errorf("the log has %v, want client_gone in phase %s", got, tt.phase)
				}
			})
		})
	}
}
