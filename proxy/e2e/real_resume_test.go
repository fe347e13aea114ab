//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// receivedPart is the part of a streamed answer that a client has read.
type receivedPart struct {
	text, reasoning, end string
	tokens               int // tokens of the answer according to its usage
	resumed              int
}

// resumeDialects contains a request for each dialect that supports streams. The answer is
// deterministic and has 48 tokens, with or without thinking.
var resumeDialects = []struct {
	name, path string
	body       func(prompt string, think bool) string
}{
	{"chat", chatPath, func(prompt string, think bool) string {
		return fmt.Sprintf(`{"model":"talk","stream":true,"stream_options":{"include_usage":true},"temperature":0,"max_tokens":48%s,"messages":[{"role":"user","content":%q}]}`,
			map[bool]string{false: `,"reasoning_effort":"none"`}[think], prompt)
	}},
	{"messages", "/v1/messages", func(prompt string, think bool) string {
		return fmt.Sprintf(`{"model":"talk","stream":true,"temperature":0,"max_tokens":48%s,"messages":[{"role":"user","content":%q}]}`,
			map[bool]string{true: `,"thinking":{"type":"enabled","budget_tokens":1024}`}[think], prompt)
	}},
	{"responses", "/v1/responses", func(prompt string, think bool) string {
		return fmt.Sprintf(`{"model":"talk","stream":true,"temperature":0,"max_output_tokens":48%s,"input":%q}`,
			map[bool]string{false: `,"reasoning":{"effort":"none"}`}[think], prompt)
	}},
}

// readEvent processes an event of any dialect. It reports whether the event contains text. If the
// event is an error, it fails the test.
func (a *receivedPart) readEvent(t *testing.T, data string) (brings bool) {
	t.Helper()
	type usage struct {
		Completion int `json:"completion_tokens"`
		Output     int `json:"output_tokens"`
		Resumed    int `json:"penstock_resumed"`
	}
	var e struct {
		Type    string
		Error   json.RawMessage
		Choices []struct {
			Delta  struct{ Content, ReasoningContent string }
			Finish string `json:"finish_reason"`
		}
		Delta    json.RawMessage
		Usage    *usage
		Response struct {
			Status string
			Usage  *usage
		}
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(data, `"reasoning_content"`, `"ReasoningContent"`)), &e); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if len(e.Error) > 0 || e.Type == "error" || e.Type == "response.failed" {
		t.Errorf("an error: %s", data)
	}
	text := ""
	for _, c := range e.Choices {
		text += c.Delta.Content
		a.reasoning += c.Delta.ReasoningContent
		a.end += c.Finish
	}
	switch e.Type {
	case "content_block_delta", "message_delta":
		var d struct {
			Text, Thinking string
			Stop           string `json:"stop_reason"`
		}
		_ = json.Unmarshal(e.Delta, &d)
		text, a.reasoning, a.end = d.Text, a.reasoning+d.Thinking, a.end+d.Stop
	case "response.output_text.delta":
		_ = json.Unmarshal(e.Delta, &text)
	case "response.completed", "response.incomplete":
		a.end, e.Usage = e.Response.Status, e.Response.Usage
	}
	if e.Usage != nil && e.Type != "message_start" {
		a.tokens, a.resumed = e.Usage.Completion+e.Usage.Output, e.Usage.Resumed
	}
	a.text += text
	return text != ""
}

// read reads an answer. After the k-th piece of text, it calls kill with the name of the upstream.
func (p *penstock) read(t *testing.T, path, body string, k int, kill func(upstream string)) (a receivedPart) {
	t.Helper()
	s := p.OpenStream(path, body)
	defer s.Disconnect()
	pieces := 0
	for e, ok := s.Next(); ok; e, ok = s.Next() {
		if e.Data == "[DONE]" || !a.readEvent(t, e.Data) {
			continue
		}
		if pieces++; pieces == k {
			kill(s.Response.Header.Get("X-Penstock-Upstream"))
		}
	}
	return a
}

// TestRealResume kills the answering engine after the k-th token, in every dialect, with and
// without thinking. Another engine continues, and the client must read the same text as without the
// kill. A full run tests every k from 1 to 40.
func TestRealResume(t *testing.T) {
	engines := map[string]*realEngine{"a": startLlama(t, realPort(t), "markov-slow"), "b": startLlama(t, realPort(t), "markov-slow")}
	p := startReal(t, 2, fmt.Sprintf(`log: { debug_headers: true }
upstreams:
  - { name: a, url: %q, engine: llamacpp, probe: { interval: 300ms, fall: 1, rise: 1 } }
  - { name: b, url: %q, engine: llamacpp, probe: { interval: 300ms, fall: 1, rise: 1 } }
models: [{ id: talk, retry: { resume: 1 }, deployments: [{ upstream: a, served: markov-slow }, { upstream: b, served: markov-slow }] }]`,
		engines["a"].url, engines["b"].url))
	after := []int{2, 17, 40}
	if os.Getenv("PENSTOCK_FULL") != "" {
		after = after[:0]
		for k := range 40 {
			after = append(after, k+1)
		}
	}
	equal := 0
	for _, k := range after {
		prompt, think := fmt.Sprintf("Tell me story %d of the harbour and the mill", k*7%13), k%2 == 1
		for _, d := range resumeDialects {
			body := d.body(prompt, think)
			want := p.read(t, d.path, body, 0, nil)
			var killed string
			var got receivedPart
			for range 3 { // on a busy machine, the client may receive the remaining text before the kill
				got = p.read(t, d.path, body, k, func(upstream string) {
					killed = upstream
					engines[upstream].kill()
				})
				if got != want || killed == "" {
					break
				}
				engines[killed] = startLlama(t, engines[killed].port, "markov-slow")
				rig.WaitFor(t, rig.WaitTimeout, "both are up", func() bool { return p.realUp() == 2 })
			}
			if killed == "" || got.resumed != 1 || want.resumed != 0 || want.tokens != 48 {
				t.Fatalf("%s, token %d: %q killed, %+v, undisturbed %+v", d.name, k, killed, got, want)
			}
			if got.resumed = 0; got != want {
				t.Errorf("%s, token %d:\n%+v, undisturbed\n%+v", d.name, k, got, want)
			} else {
				equal++
			}
			engines[killed] = startLlama(t, engines[killed].port, "markov-slow")
			rig.WaitFor(t, rig.WaitTimeout, "both are up", func() bool { return p.realUp() == 2 })
		}
		t.Logf("token %d: %d answers equal", k, equal)
	}
	p.WaitIdle()
	for name, e := range engines {
		e.waitProcessing(rig.WaitTimeout, 0)
		if n := p.Metric("penstock_upstream_inflight", `upstream="`+name+`"`); n != 0 {
			t.Errorf("%v slots of %s are held", n, name)
		}
	}
}
