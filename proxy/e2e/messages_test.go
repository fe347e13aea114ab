package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests check the Messages dialect end to end, with the official SDK as the client.

// claude returns a client that does not retry. Its base URL has no /v1, as the SDK requires.
func (p *penstock) claude(more ...option.RequestOption) *anthropic.Client {
	c := anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(p.URL), option.WithAPIKey(p.Key), option.WithHTTPClient(p.Client), option.WithMaxRetries(0),
	}, more...)...)
	return &c
}

// messageParams returns a Messages request with one user message. controls are members for the
// simulator.
func messageParams(text, controls string) anthropic.MessageNewParams {
	if controls != "" {
		text += " [[sim {" + controls + "}]]"
	}
	return anthropic.MessageNewParams{
		Model: "sim", MaxTokens: 256,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

func streamMessage(t testing.TB, c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	t.Helper()
	s := c.Messages.NewStreaming(context.Background(), params)
	defer s.Close()
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			t.Fatalf("the SDK does not understand the stream: %v", err)
		}
	}
	return &m, s.Err()
}

func messageText(m *anthropic.Message) (text string) {
	for _, b := range m.Content {
		text += b.Text
	}
	return text
}

// wholeAndStreamed runs f for an unstreamed answer and for a stream.
func wholeAndStreamed(t *testing.T, f func(t *testing.T, create func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error))) {
	t.Run("whole", func(t *testing.T) {
		f(t, func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
			return c.Messages.New(context.Background(), params)
		})
	})
	t.Run("streamed", func(t *testing.T) {
		f(t, func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
			return streamMessage(t, c, params)
		})
	})
}

// detectConfig is a configuration with one engine whose kind the edge must detect.
const detectConfig = `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}" }]
models: [{ id: public, aliases: ["claude-*", sim], deployments: [{ upstream: up-0, served: sim }] }]
`

func TestMessages_Text(t *testing.T) {
	t.Parallel()
	// llama.cpp receives a stream request even if the client does not request a stream.
	for _, o := range []sim.Options{{}, {Profile: "sglang"}, {Profile: "llamacpp", CancelOnlyStreams: true}, {Profile: "ollama"}} {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{o}, Config: detectConfig})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := messageParams(rig.Canary, `"text":"Guten Tag, \"Welt\" 世界!"`)
				params.Model = "claude-opus-4-5"
				params.System = []anthropic.TextBlockParam{{Text: "Be brief."}, {Text: "Be kind."}}
				m, err := create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if got := messageText(m); got != `Guten Tag, "Welt" 世界!` || len(m.Content) != 1 {
					t.Errorf("content %q in %d blocks", got, len(m.Content))
				}
				if m.Model != "public" || !strings.HasPrefix(m.ID, "msg_") || m.Role != "assistant" || m.StopReason != "end_turn" {
					t.Errorf("message = %+v, want the model public, an id and the stop end_turn", m)
				}
				if m.Usage.InputTokens+m.Usage.CacheReadInputTokens == 0 || m.Usage.OutputTokens == 0 {
					t.Errorf("usage = %+v, want input and output tokens", m.Usage)
				}
				if l := p.LastAccessLine(); l.Dialect != "messages" || l.Outcome != "ok" || l.PromptTokens == 0 || l.CompletionTokens == 0 {
					t.Errorf("the log says %+v", l)
				}
			})
		})
	}
}

// TestMessages_Same checks that the answer to a prompt is the same as in chat, unstreamed and
// streamed.
func TestMessages_Same(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := p.claude()
	whole, err := c.Messages.New(context.Background(), messageParams("tell me", ""))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := streamMessage(t, c, messageParams("tell me", ""))
	if err != nil {
		t.Fatal(err)
	}
	var chat struct {
		Choices []struct{ Message struct{ Content string } }
	}
	r := p.Post("/v1/chat/completions", `{"model":"sim","max_tokens":256,"messages":[{"role":"user","content":"tell me"}]}`).WantStatus(200)
	if err := json.Unmarshal([]byte(r.Body), &chat); err != nil {
		t.Fatal(err)
	}
	if a, b, c := messageText(whole), messageText(stream), chat.Choices[0].Message.Content; a == "" || a != b || a != c {
		t.Errorf("whole %q\nstreamed %q\nchat %q", a, b, c)
	}
	if whole.Usage.OutputTokens != stream.Usage.OutputTokens {
		t.Errorf("usage: whole %+v, streamed %+v", whole.Usage, stream.Usage)
	}
}

func TestMessages_Thinking(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"reasoning", "reasoning_content"} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Reasoning: member, Record: true}}})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := messageParams("Think!", `"reasoning":8,"text":"done"`)
				params.MaxTokens = 2048
				m, err := create(p.claude(), params)
				if err != nil || len(m.Content) != 1 || messageText(m) != "done" {
					t.Errorf("not asked for: %v: %s", err, m.RawJSON())
				}
				params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
				m, err = create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if len(m.Content) != 2 || m.Content[0].Type != "thinking" || m.Content[0].Thinking == "" || m.Content[0].Signature == "" || m.Content[1].Text != "done" {
					t.Fatalf("asked for: %s", m.RawJSON())
				}
				thought := m.Content[0].Thinking
				params.Messages = append(params.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("Go on.")))
				if _, err = create(p.claude(), params); err != nil {
					t.Fatalf("with thinking in the history: %v", err)
				}
				if b := string(p.Engines[0].Stats().LastRequest.Body); strings.Contains(b, strings.Fields(thought)[0]+" ") && strings.Contains(b, thought) {
					t.Error("thinking was sent back to the engine")
				}
			})
		})
	}
}

func TestMessages_StopSequences(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vllm", "sglang"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: profile}}, Config: detectConfig})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := messageParams("Count.", `"text":"one two END three"`)
				params.StopSequences = []string{"never", "END"}
				m, err := create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if m.StopReason != "stop_sequence" || m.StopSequence != "END" || messageText(m) != "one two " {
					t.Errorf("message = %s, want one two and the stop END", m.RawJSON())
				}
				params.StopSequences = nil
				params.MaxTokens = 2
				if m, err = create(p.claude(), params); err != nil || m.StopReason != "max_tokens" {
					t.Errorf("message = %s, %v; want the stop max_tokens", m.RawJSON(), err)
				}
			})
		})
	}
}

// TestMessages_Ping checks that a waiting client receives pings both before the first event and
// between events.
func TestMessages_Ping(t *testing.T) {
	fastset.SkipIfShort(t, "pings while an engine thinks")
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Latency: 2 * time.Second}}, Stream: "commit_after: 50ms, keepalive: 50ms"})
	p.Engines[0].SetFault(sim.Fault{Spec: "pause-after=3;for=2s"})
	r := p.Post("/v1/messages", `{"model":"sim","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`).WantStatus(200)
	events := r.Events()
	if events[0].Name != "ping" || events[0].Data != `{"type":"ping"}` {
		t.Errorf("the first event is %+v", events[0])
	}
	started, between := false, 0
	for _, e := range events {
		started = started || e.Name == "message_start"
		if started && e.Name == "ping" {
			between++
		}
	}
	if between < 2 {
		t.Errorf("%d pings while the engine was silent", between)
	}
	if m, err := streamMessage(t, p.claude(), messageParams("a", "")); err != nil || m.StopReason != "end_turn" {
		t.Errorf("message = %s, %v; want the stop end_turn", m.RawJSON(), err)
	}
}

// TestMessages_Shape checks that every error on these paths has the format of Messages.
func TestMessages_Shape(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 16KiB", Keys: "", Key: "operations: [messages, chat]"})
	body := `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`
	large := `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":"` + strings.Repeat("a", 20<<10) + `"}]}`
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/messages?beta=true"} {
		for _, c := range []struct {
			name string
			r    *rig.Reply
			want int
		}{
			{"no key", p.Post(path, body, "Authorization: "), 401},
			{"no key and a large body", p.Post(path, large, "Authorization: "), 401},
			{"large body", p.Post(path, large), 413},
			{"media type", p.Post(path, body, "Content-Type: text/plain"), 415},
			{"encoding", p.Post(path, body, "Content-Encoding: br"), 415},
			{"no body", p.Post(path, ""), 400},
			{"GET", p.Do("GET", path, ""), 405},
			{"PUT", p.Do("PUT", path, body), 405},
			{"DELETE", p.Do("DELETE", path, ""), 405},
		} {
			if c.r.Status != c.want || !strings.HasPrefix(c.r.Body, `{"type":"error","error":{"message":`) {
				t.Errorf("%s %s: status %d, want %d: %s", path, c.name, c.r.Status, c.want, c.r.Body)
			}
			if id := c.r.Header.Get("Request-Id"); id == "" || id != c.r.Header.Get("X-Request-Id") || !strings.Contains(c.r.Body, `"request_id":"`+id+`"`) {
				t.Errorf("%s %s: request ids %q", path, c.name, id)
			}
			if c.want == 405 && c.r.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: Allow = %q, want POST", path, c.name, c.r.Header.Get("Allow"))
			}
		}
	}
	if r := p.Post("/v1/messages/batches", body); r.Status != 404 || !strings.HasPrefix(r.Body, `{"type":"error",`) {
		t.Errorf("an unknown path below: %d %s", r.Status, r.Body)
	}
	if r := p.Post("/v1/messagesx", body); r.Status != 404 || strings.HasPrefix(r.Body, `{"type":"error",`) {
		t.Errorf("an unknown path beside: %d %s", r.Status, r.Body)
	}
	raw := p.Dial()
	_ = raw.Send(p.RequestHead("POST", "/v1/messages", "Content-Type: application/json", "Content-Length: 999999", "Expect: 100-continue"))
	if r := raw.ReadReply(http.MethodPost); r.Status != 413 || !strings.HasPrefix(r.Body, `{"type":"error",`) {
		t.Errorf("a body that is only announced: %d %s", r.Status, r.Body)
	}
	// The request imitates Claude Code, and contains the same key in both headers.
	r := p.Post("/v1/messages?beta=true", body, "x-api-key: "+p.Key, "anthropic-version: 2023-06-01", "anthropic-beta: a,b").WantStatus(200)
	if r.Header.Get("Request-Id") == "" {
		t.Error("no request-id")
	}
}

// TestMessages_SystemInPlace checks that the model's setting determines the position of later
// system messages.
func TestMessages_SystemInPlace(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"":                          `[{"role":"system","content":"a\nb"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]`,
		"system_messages: fold":     `[{"role":"system","content":"a\nb"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]`,
		"system_messages: in_place": `[{"role":"system","content":"a"},{"role":"user","content":"x"},{"role":"system","content":"b"},{"role":"user","content":"y"}]`,
	} {
		p := start(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Model: setting})
		p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"system":"a","messages":[{"role":"user","content":"x"},{"role":"system","content":"b"},{"role":"user","content":"y"}]}`).WantStatus(200)
		if b := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(b, `"messages":`+want) {
			t.Errorf("%q: the engine was sent %s", setting, b)
		}
	}
}

func (p *penstock) lastRequest(engine int) (path, body string) {
	r := p.Engines[engine].Stats().LastRequest
	return r.Target, string(r.Body)
}

// TestMessages_Prefill checks conversations that end with an assistant turn, which is the start of
// the answer. Engines that would otherwise start a new answer must receive members that make them
// continue. Other engines continue by default.
func TestMessages_Prefill(t *testing.T) {
	t.Parallel()
	for profile, told := range map[string]bool{"vllm": true, "sglang": true, "llamacpp": false, "ollama": false} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: profile, Record: true}}, Config: detectConfig})
			for _, w := range streamModes {
				body := `{"model":"public","max_tokens":9,"messages":[{"role":"user","content":"JSON?"},{"role":"assistant","content":"{"}]`
				if w.more != "" {
					body += "," + w.more
				}
				p.Post("/v1/messages", body+"}").WantStatus(200)
				if _, sent := p.lastRequest(0); strings.Contains(sent, `"continue_final_message":true`) != told || strings.Contains(sent, `"add_generation_prompt":false`) != told {
					t.Errorf("%s: the engine was sent %s", w.name, sent)
				}
				p.Post("/v1/messages", strings.Replace(body, `}]`, `},{"role":"user","content":"Go on."}]`, 1)+"}").WantStatus(200)
				if _, sent := p.lastRequest(0); strings.Contains(sent, "continue_final_message") {
					t.Errorf("%s: the engine was sent %s", w.name, sent)
				}
			}
		})
	}
}
