package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"penstock/proxy/e2e/rig"
)

// Some Responses clients end a turn if they receive no event for a while, for example Codex after
// stream_idle_timeout_ms. These clients do not count comments as events.

// slowEngine sends a stream piece by piece. Before each piece, it waits until the test lets it
// continue. While it is waiting, it is silent or repeats engine events that do not reach clients.
type slowEngine struct {
	*httptest.Server
	proceed chan struct{}
}

func startSlow(t *testing.T, repeated string, pieces ...string) *slowEngine {
	t.Helper()
	e := &slowEngine{proceed: make(chan struct{})}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"sim","object":"model"}]}`))
			return
		}
		if repeated != "" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for _, piece := range pieces {
			for waits := true; waits; {
				select {
				case <-e.proceed:
					waits = false
				case <-r.Context().Done():
					return
				case <-time.After(5 * time.Millisecond):
					if repeated != "" {
						_, _ = w.Write([]byte(repeated))
						w.(http.Flusher).Flush()
					}
				}
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(piece))
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(e.Close)
	return e
}

const (
	slowRole  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	slowThink = `data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm "}}]}` + "\n\n"
	slowWord  = `data: {"choices":[{"index":0,"delta":{"content":"word "}}]}` + "\n\n"
	slowName  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}` + "\n\n"
	slowArgs  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}` + "\n\n"
	slowEnd   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"%s"}]}` + "\n\ndata: [DONE]\n\n"
)

// TestResponses_Silence checks that the client receives events during any kind of silence, and that
// the official SDK accepts them.
func TestResponses_Silence(t *testing.T) {
	t.Parallel()
	stop, calls := fmt.Sprintf(slowEnd, "stop"), fmt.Sprintf(slowEnd, "tool_calls")
	const inProgress, textDelta, argsDelta = "response.in_progress", "response.output_text.delta", "response.function_call_arguments.delta"
	for name, c := range map[string]struct {
		include  bool
		repeated string
		pieces   []string
		want     []string // the event to be repeated before each piece
		answer   string
	}{
		"nothing at all":      {false, "", []string{slowRole + slowWord + stop}, []string{inProgress}, `"text":"word "`},
		"comments":            {false, ": working\n\n", []string{slowRole + slowWord + stop}, []string{inProgress}, `"text":"word "`},
		"behind its role":     {false, "", []string{slowRole, slowWord + stop}, []string{inProgress, inProgress}, `"text":"word "`},
		"thinks":              {false, slowThink, []string{slowWord + stop}, []string{inProgress}, `"text":"word "`},
		"thinks, included":    {true, slowThink, []string{slowWord + stop}, []string{inProgress}, `"text":"word "`},
		"pauses":              {false, "", []string{slowWord, slowWord, stop}, []string{inProgress, textDelta, textDelta}, `"text":"word word "`},
		"buffers a tool call": {false, "", []string{slowName, slowArgs + calls}, []string{inProgress, argsDelta}, `"arguments":"{}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := startSlow(t, c.repeated, c.pieces...)
			p := start(t, rig.Setup{Fakes: []string{engine.URL}, Upstream: rig.QuietProbes, Stream: soonAlive})
			params := responses.ResponseNewParams{Model: "sim", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(rig.Canary)}}
			if c.include {
				params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*rig.WaitTimeout)
			defer cancel()
			client := p.sdk()
			stream := client.Responses.NewStreaming(ctx, params)
			piece, alive, next := 0, 0, int64(0)
			var last responses.ResponseStreamEventUnion
			for stream.Next() {
				last = stream.Current()
				if last.SequenceNumber != next || (next == 0) != (last.Type == "response.created") {
					t.Errorf("event %d is %s, number %d", next, last.Type, last.SequenceNumber)
				}
				next++
				if piece < len(c.want) && last.Type == c.want[piece] && last.Delta == "" && next > 2 {
					if alive++; alive == 3 {
						piece, alive = piece+1, 0
						select {
						case engine.proceed <- struct{}{}:
						case <-ctx.Done(): // the engine's answer is complete
						}
					}
				}
			}
			if err := stream.Err(); err != nil || piece != len(c.want) || last.Type != "response.completed" || !strings.Contains(last.RawJSON(), c.answer) {
				t.Errorf("%v, %d silences, the end is %s", err, piece, last.RawJSON())
			}
			if l := p.LastAccessLine(); l.Outcome != "ok" || l.Attempts != 1 {
				t.Errorf("the log says %+v", l)
			}
		})
	}
}

// TestResponses_SilenceInQueue checks that a client whose call is waiting for a slot receives
// events before the call reaches an engine.
func TestResponses_SilenceInQueue(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: oneSlot, Model: "queue: { depth: 4, wait: 60s }", Stream: soonAlive})
	release := p.hold(1, p.ChatRequest(endlessStream))
	s := p.OpenStream("/v1/responses", `{"model":"sim","stream":true,"input":"`+rig.Canary+`"}`)
	defer s.Disconnect()
	for n, alive := 0, 0; ; n++ {
		e, ok := s.Next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		var data struct {
			Type   string
			Number int `json:"sequence_number"`
		}
		if e.Data == "[DONE]" {
			break
		}
		if err := json.Unmarshal([]byte(e.Data), &data); err != nil || data.Number != n || data.Type != e.Name || (n == 0) != (e.Name == "response.created") {
			t.Fatalf("event %d is %s: %s, %v", n, e.Name, e.Data, err)
		}
		if e.Name == "response.in_progress" {
			if alive++; alive == 4 {
				release()
			}
		}
		if e.Name == "response.failed" {
			t.Fatal(e.Data)
		}
	}
}
