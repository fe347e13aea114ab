package call_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/request/call"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/internal/calltest"
	"penstock/translate/engineerror"
)

// dialogueConfig is a configuration with the model m at two engines that accept dialogues. Each has
// one slot. The key a may spend 100 tokens a minute.
var dialogueConfig = strings.ReplaceAll(`
keys:
  - {id: a, hash: "sha256:HASHA", limits: {tokens_per_minute: 100}}
upstreams:
  - {name: a, engine: speaches, url: "http://a", concurrency: {audio: 1}, api_key: engine-secret}
  - {name: b, engine: speaches, url: "http://b", concurrency: {audio: 1}, api_key: engine-secret}
models:
  - {id: m, kind: audio-transcription, policy: round_robin, deployments: [{upstream: a, served: inner}, {upstream: b, served: inner}]}
`, "HASHA", calltest.HashKey("sk-secret-a"))

const ownKey = "Authorization: Bearer sk-secret-a"

// greet returns the handler of an engine that sends word immediately and then waits until the edge
// closes the connection.
func greet(word string) http.HandlerFunc {
	return calltest.UpgradeHandler(func(conn net.Conn) {
		_, _ = io.WriteString(conn, word)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// hangUp is an engine that accepts the handshake and closes the connection.
var hangUp = calltest.UpgradeHandler(func(net.Conn) {})

// dialogueEngines returns two engines that share one sequence of answers. Each request gets the
// next answer, no matter which engine receives it.
func dialogueEngines(answers ...http.HandlerFunc) (a, b *calltest.Engine) {
	turn := calltest.SequenceHandler(answers...)
	return &calltest.Engine{Name: "a", Models: []string{"inner"}, Answer: turn}, &calltest.Engine{Name: "b", Models: []string{"inner"}, Answer: turn}
}

// readFive returns a function that reads the first five bytes from an engine and appends them to
// all.
func readFive(all *[]string) func(*call.DialogueEngine) error {
	return func(e *call.DialogueEngine) error {
		b := make([]byte, 5)
		_, err := io.ReadFull(e.Conn, b)
		if err == nil {
			*all = append(*all, string(b))
		}
		return err
	}
}

// TestOpenDialogue checks which engine a dialogue gets if the first engine fails, and the response
// if no engine is left.
func TestOpenDialogue(t *testing.T) {
	busy, silent := calltest.ErrorHandler(503, "busy"), calltest.UpgradeHandler(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	tests := []struct {
		name, top, model, key string
		first, second         http.HandlerFunc
		status                int // status of the response; 0 if the dialogue opens
		has                   string
		took                  time.Duration
	}{
		{name: "first", first: greet("hello"), second: busy},
		{name: "second", first: busy, second: greet("hello")},
		{name: "second after a hang-up", first: hangUp, second: greet("hello")},
		{name: "no handshake", first: calltest.TextHandler("what?"), second: greet("hello"), status: 502, has: "upstream_bad_response"},
		{name: "none", first: busy, second: busy, status: 503, has: "no_healthy_route"},
		{name: "hang-ups", first: hangUp, second: hangUp, status: 502, has: "upstream"},
		{name: "silence", top: "timeouts: {first_event: 20s}", first: silent, second: greet("hello"), status: 504, has: "timeout", took: 20 * time.Second},
		{name: "no key", key: "none", first: greet("hello"), second: busy, status: 401, has: "invalid_api_key"},
		{name: "no model", model: "other", first: greet("hello"), second: busy, status: 404, has: "model_not_found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := dialogueEngines(tt.first, tt.second)
				e := calltest.New(t, tt.top+dialogueConfig, a, b)
				model, key := "m", ownKey
				if tt.model != "" {
					model = tt.model
				}
				if tt.key != "" {
					key = "X-None: none"
				}
				var met []string
				d, refused := e.OpenDialogue(&calltest.Client{}, model, readFive(&met), key)
				if d == nil {
					if refused.Status != tt.status || !strings.Contains(refused.Body, tt.has) || refused.Took != tt.took {
						t.Errorf("got %d %s after %v, want %d with %q after %v", refused.Status, refused.Body, refused.Took, tt.status, tt.has, tt.took)
					}
					return
				}
				defer d.End()
				if tt.status != 0 || len(met) != 1 || met[0] != "hello" {
					t.Errorf("met %q, want %d", met, tt.status)
				}
				d.Complete()
			})
		})
	}
}

// TestDialogue checks which slots a dialogue occupies, which tokens it charges, and what it logs.
func TestDialogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := dialogueEngines(greet("hello"))
		e := calltest.New(t, dialogueConfig, a, b)
		var met []string
		first, _ := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey)
		second, _ := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey)
		if first == nil || second == nil || len(met) != 2 {
			t.Fatalf("two dialogues met %q, want hello twice", met)
		}
		if d, refused := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey); d != nil || refused.Status != 429 {
			t.Errorf("a third dialogue got %v, want a 429, because both slots are taken", refused)
		}
		second.EndClientGone()
		second.End()
		if got := e.LastCall(); got["outcome"] != "client_gone" || got["status"] != int64(499) {
			t.Errorf("the log has %v, want client_gone", got)
		}
		first.MarkAudioSent()
		first.AddBytesIn(300)
		first.AddBytesOut(20)
		sent := time.Now()
		time.Sleep(2 * time.Second)
		first.RecordFirstText(sent)
		time.Sleep(time.Second)
		// This has no effect, because the first text has already been recorded.
		first.RecordFirstText(sent)
		if over := first.ChargeTokens(40, 20); over != nil {
			t.Errorf("60 of 100 tokens: %v", over)
		}
		if over := first.ChargeTokens(40, 20); over == nil || over.Status != 429 {
			t.Errorf("120 of 100 tokens: got %v, want a 429", over)
		}
		if cause := first.CancelCause(); cause != nil {
			t.Errorf("canceled because of %v", cause)
		}
		first.Complete()
		first.End()
		first.End()
		got := e.LastCall()
		for name, want := range map[string]any{
			"outcome": "ok", "status": int64(101), "prompt_tokens": int64(80), "completion_tokens": int64(40), "ttft_ms": 2000.0,
			"bytes_out": int64(20), "stream": true, "attempts": int64(1),
		} {
			if got[name] != want {
				t.Errorf("%s: the log has %v, want %v", name, got[name], want)
			}
		}
		if n := e.Services.Calls.InFlight(); n != 0 {
			t.Errorf("%d calls are in flight, want none", n)
		}
		if d, _ := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey); d != nil {
			d.End()
			t.Error("the key is over its limit, and gets another dialogue")
		}
	})
}

// TestReconnect checks that a dialogue moves to another engine only if no audio has been sent.
// After that, the client must get an error.
func TestReconnect(t *testing.T) {
	for _, audio := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := dialogueEngines(greet("first"), greet("other"))
			e := calltest.New(t, dialogueConfig, a, b)
			var met []string
			d, refused := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey)
			if d == nil {
				t.Fatalf("got %v, want a dialogue", refused)
			}
			if audio {
				d.MarkAudioSent()
			}
			failed := d.Reconnect(io.EOF)
			if moved := failed == nil; moved == audio || moved != (len(met) == 2) {
				t.Errorf("audio sent: %t; got %v after %q", audio, failed, met)
			}
			if failed == nil {
				d.Complete()
			}
			d.End()
			if got := e.LastCall(); (got["outcome"] == "ok") == audio || (got["outcome"] == "stream_broken") != audio {
				t.Errorf("audio sent: %t; the log has %v", audio, got)
			}
		})
	}
}

// TestDialogueFailures checks the failure that a dialogue reports for each kind of engine error. An
// engine's error must not reveal the served model name or the engine's API key to the client.
func TestDialogueFailures(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		status  int
		outcome string
	}{
		{"connection", io.EOF, 502, "stream_broken"},
		{"timeout", timeoutError{}, 504, "timeout"},
		{"a failure", failure.BadResponse(errors.New("odd")), 502, "stream_broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := dialogueEngines(greet("hello"))
				e := calltest.New(t, dialogueConfig, a, b)
				var met []string
				d, _ := e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey)
				if d == nil {
					t.Fatal("no dialogue")
				}
				d.MarkAudioSent()
				said := &engineerror.Error{Message: "the model `inner` refuses engine-secret"}
				d.RedactError(said)
				if strings.Contains(said.Message, "inner") || strings.Contains(said.Message, "secret") {
					t.Errorf("the client sees %q", said.Message)
				}
				if failed := d.Reconnect(tt.err); failed == nil || failed.Status != tt.status {
					t.Errorf("got %v, want a %d", failed, tt.status)
				}
				d.End()
				if got := e.LastCall(); got["outcome"] != tt.outcome {
					t.Errorf("the log has %v, want %s", got, tt.outcome)
				}
			})
		})
	}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "too late" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return false }

// TestDialogueCanceled checks a dialogue whose client disconnects, and a dialogue whose owner
// panics.
func TestDialogueCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := dialogueEngines(greet("hello"))
		e := calltest.New(t, dialogueConfig, a, b)
		var met []string
		client := &calltest.Client{}
		d, _ := e.OpenDialogue(client, "m", readFive(&met), ownKey)
		if !client.InspectCall((*call.Call).OnDisconnect) || d.CancelCause() == nil {
			t.Fatal("the dialogue does not notice that its client has left")
		}
		if failed := d.Reconnect(io.EOF); failed == nil {
			t.Error("the dialogue moves for a client that has left")
		}
		d.End()
		if got := e.LastCall(); got["outcome"] != "client_gone" {
			t.Errorf("the log has %v, want client_gone", got)
		}
		d, _ = e.OpenDialogue(&calltest.Client{}, "m", readFive(&met), ownKey)
		d.End() // as after a panic
		if got := e.LastCall(); got["outcome"] != "internal" {
			t.Errorf("the log has %v, want internal", got)
		}
		if d, refused := e.OpenDialogue(&calltest.Client{}, "m", func(*call.DialogueEngine) error { panic("test") }, ownKey); d != nil || refused.Status != 500 {
			t.Errorf("after a panic: got %v, want a 500", refused)
		}
	})
}
