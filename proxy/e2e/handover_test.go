package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// In these tests, another engine continues a stream. The clients are the official SDKs, which must
// assemble a single answer.

// assembledAnswer is a streamed answer as assembled by the SDK.
type assembledAnswer struct{ text, stop, usage string }

// streamDialects contains, for each dialect, a function that requests a stream. controls are
// members for the simulator.
var streamDialects = map[string]func(t *testing.T, p *penstock, prompt, controls string) (assembledAnswer, error){
	"chat": func(t *testing.T, p *penstock, prompt, controls string) (assembledAnswer, error) {
		params := chatParams(prompt + " [[sim {" + controls + "}]]")
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		client := p.sdk()
		stream := client.Chat.Completions.NewStreaming(context.Background(), params)
		var acc openai.ChatCompletionAccumulator
		role := ""
		for stream.Next() {
			chunk := stream.Current()
			if !acc.AddChunk(chunk) {
				t.Errorf("the chunk does not fit: %s", chunk.RawJSON())
			}
			if len(chunk.Choices) > 0 {
				role += chunk.Choices[0].Delta.Role // concatenated, as the Python SDK does
			}
		}
		if len(acc.Choices) == 0 {
			return assembledAnswer{}, stream.Err()
		}
		if role != "assistant" {
			t.Errorf("the role is %q", role)
		}
		c := acc.Choices[0]
		return assembledAnswer{c.Message.Content, c.FinishReason, fmt.Sprint(acc.Usage.PromptTokens, acc.Usage.CompletionTokens)}, stream.Err()
	},
	"completions": func(t *testing.T, p *penstock, prompt, controls string) (got assembledAnswer, err error) {
		client := p.sdk()
		stream := client.Completions.NewStreaming(context.Background(), openai.CompletionNewParams{
			Model: "sim", MaxTokens: openai.Int(512), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
		}, option.WithJSONSet("sim", parsed(controls)))
		for stream.Next() {
			if c := stream.Current(); len(c.Choices) > 0 {
				got.text += c.Choices[0].Text
				got.stop += string(c.Choices[0].FinishReason)
			}
		}
		return got, stream.Err()
	},
	"messages": func(t *testing.T, p *penstock, prompt, controls string) (assembledAnswer, error) {
		params := messageParams(prompt, controls)
		params.MaxTokens = 512
		m, err := streamMessage(t, p.claude(), params)
		return assembledAnswer{messageText(m), string(m.StopReason), fmt.Sprint(m.Usage.InputTokens+m.Usage.CacheReadInputTokens, m.Usage.OutputTokens)}, err
	},
	"responses": func(t *testing.T, p *penstock, prompt, controls string) (got assembledAnswer, err error) {
		client := p.sdk()
		stream := client.Responses.NewStreaming(context.Background(), responses.ResponseNewParams{
			Model: "sim", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt + " [[sim {" + controls + "}]]")},
		})
		deltas, next := "", int64(0)
		for stream.Next() {
			ev := stream.Current()
			if ev.SequenceNumber != next || (next == 0) != (ev.Type == "response.created") {
				t.Errorf("event %d is %s, number %d", next, ev.Type, ev.SequenceNumber)
			}
			next++
			switch e := ev.AsAny().(type) {
			case responses.ResponseTextDeltaEvent:
				deltas += e.Delta
			case responses.ResponseCompletedEvent:
				got = assembledAnswer{e.Response.OutputText(), string(e.Response.Status), fmt.Sprint(e.Response.Usage.InputTokens, e.Response.Usage.OutputTokens)}
				if deltas != got.text || len(e.Response.Output) != 1 {
					t.Errorf("the deltas say %q, the end %q", deltas, got.text)
				}
			}
		}
		return got, stream.Err()
	},
}

func parsed(controls string) (m map[string]any) {
	if err := json.Unmarshal([]byte("{"+controls+"}"), &m); err != nil {
		panic(err)
	}
	return m
}

// TestKeepaliveDoesNotCommit checks that another engine answers if the first engine fails after the
// edge has sent keep-alives, or after it has announced an answer. The second engine's answer must
// be consistent with the announcement.
func TestKeepaliveDoesNotCommit(t *testing.T) {
	t.Parallel()
	const controls = `"tokens":20,"ttft_ms":400`
	setup := rig.Setup{
		Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin", Stream: "commit_after: 50ms, keepalive: 50ms",
	}
	for dialect, ask := range streamDialects {
		faults := []string{"reset-after=0", "cut-after=0", "error-first", "reset-after=1", "cut-after=1", "error-in-stream=1;code=503"}
		if dialect == "completions" { // all events of this dialect have text
			faults = faults[:3]
		}
		for _, fault := range faults {
			t.Run(dialect+"/"+fault, func(t *testing.T) {
				t.Parallel()
				p := start(t, setup)
				want, err := ask(t, p, rig.Prompt, controls)
				if err != nil || len(want.text) < 40 {
					t.Fatalf("undisturbed answer = %+v, %v; want 40 bytes or more", want, err)
				}
				p.Engines[0].SetFault(sim.Fault{Spec: fault})
				for range 2 { // round robin: one of the two calls reaches the failing engine
					if got, err := ask(t, p, rig.Prompt, controls); got != want || err != nil {
						t.Errorf("%+v, %v; want %+v", got, err, want)
					}
				}
				if n := p.Metric("penstock_retries_total"); n != 1 {
					t.Errorf("%v retries, want 1", n)
				}
			})
		}
		// The head has been sent, so the error must be in the stream.
		t.Run(dialect+"/both", func(t *testing.T) {
			t.Parallel()
			p := start(t, setup)
			for _, e := range p.Engines {
				e.SetFault(sim.Fault{Spec: "reset-after=0"})
			}
			if _, err := ask(t, p, rig.Prompt, controls); err == nil || !strings.Contains(err.Error(), "connection to the engine was lost") {
				t.Errorf("a stream that nobody can give: %v", err)
			}
			if l := p.LastAccessLine(); l.Status != 200 || l.Outcome != "stream_broken" || l.Attempts != 2 {
				t.Errorf("the log says %+v", l)
			}
		})
	}
}

// TestWhitespaceDoesNotCommit checks that another engine answers if the first engine fails after
// the edge has sent white space before an unstreamed answer.
func TestWhitespaceDoesNotCommit(t *testing.T) {
	t.Parallel()
	for _, w := range rig.UnstreamedRequestTypes {
		t.Run(w.Dialect, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{
				Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin", Stream: "whole_keepalive: 50ms",
			})
			p.Engines[0].SetFault(sim.Fault{Spec: "head-cut;delay=2s"})
			kept := 0
			for range 2 {
				r := p.Post(w.Path, w.RequestBody("sim", rig.Prompt, "")).WantStatus(200)
				if strings.Contains(r.Body, `"error":{`) {
					t.Errorf("answer = %s, want no error", r.Body)
				}
				kept += len(r.Body) - len(strings.TrimLeft(r.Body, " "))
			}
			if n := p.Metric("penstock_retries_total"); n != 1 || kept == 0 {
				t.Errorf("%v retries, %d blanks", n, kept)
			}
		})
	}
}

// TestResume checks that another engine continues a stream if the first engine is lost after k
// events. The answer and the charge must be the same as for an undisturbed stream.
func TestResume(t *testing.T) {
	t.Parallel()
	const controls = `"tokens":44`
	for dialect, ask := range streamDialects {
		if dialect == "completions" {
			continue
		}
		for _, k := range []int{1, 2, 3, 4, 7, 12, 20, 33, 40, 43} {
			for _, fault := range []string{"reset-after=%d", "cut-after=%d", "error-in-stream=%d;code=500"} {
				if k%2 == 1 && fault != "reset-after=%d" {
					continue
				}
				fault = fmt.Sprintf(fault, k+1)
				t.Run(dialect+"/"+fault, func(t *testing.T) {
					t.Parallel()
					p := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin, retry: { resume: 1 }"})
					want, err := ask(t, p, rig.Prompt, controls)
					if err != nil || len(want.text) < 100 {
						t.Fatalf("undisturbed answer = %+v, %v; want 100 bytes or more", want, err)
					}
					p.Engines[0].SetFault(sim.Fault{Spec: fault})
					for range 2 { // round robin: one of the two calls reaches the failing engine
						got, err := ask(t, p, rig.Prompt, controls)
						if got != want || err != nil {
							t.Errorf("%+v, %v; want %+v", got, err, want)
						}
					}
					resumed := 0
					for _, l := range p.AccessLinesWhenIdle() {
						if l.Outcome != "ok" || l.CompletionTokens != 44 || l.Attempts != 1+l.Resumed {
							t.Errorf("the log says %+v", l)
						}
						resumed += l.Resumed
					}
					if resumed != 1 {
						t.Errorf("%d lines of the log say that a stream was resumed", resumed)
					}
					if n := p.Metric("penstock_streams_resumed_total"); n != 1 {
						t.Errorf("%v streams were resumed", n)
					}
					if n := p.Metric("penstock_resumed_prompt_tokens_total"); n < 20 {
						t.Errorf("%v tokens were read again", n)
					}
					if n := p.Metric("penstock_retries_total"); n != 0 {
						t.Errorf("%v retries, want 0", n)
					}
				})
			}
		}
	}
}

// TestNotResumed checks that a stream ends with an error if another engine cannot continue its
// text, or if no engine is known to continue answers.
func TestNotResumed(t *testing.T) {
	t.Parallel()
	const proven = "openai, prefill: proven"
	for name, c := range map[string]struct {
		engine, model, members string
		resumed                float64
	}{
		"a call":        {"sim", "retry: { resume: 1 }", `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],"sim":{"tool_calls":1}`, 0},
		"two choices":   {"sim", "retry: { resume: 1 }", `"n":2`, 0},
		"a schema":      {"sim", "retry: { resume: 1 }", `"response_format":{"type":"json_object"}`, 0},
		"a grammar":     {"sim", "retry: { resume: 1 }", `"guided_regex":"[a-z ]+"`, 0},
		"logprobs":      {"sim", "retry: { resume: 1 }", `"logprobs":true`, 0},
		"reasoning":     {"sim", "retry: { resume: 1 }", `"reasoning_effort":"high","sim":{"reasoning":30}`, 0},
		"not known to":  {"openai", "retry: { resume: 1 }", `"temperature":0`, 0},
		"not asked for": {"sim", "retry: { resume: 0 }", `"temperature":0`, 0},
		// The second engine is also lost.
		"proven to": {proven, "retry: { resume: 1 }", `"temperature":0`, 1},
		// The limit is exhausted.
		"all of a limit": {"sim", "retry: { resume: 1 }", `"max_tokens":4,"sim":{"tokens":40}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: rig.TwoEngines(), Config: fmt.Sprintf(`
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: %[1]s, %[2]s }
  - { name: up-1, url: "{{up-1}}", engine: %[1]s, %[2]s }
models: [{ id: sim, deployments: [{ upstream: up-0 }, { upstream: up-1 }], %[3]s }]
`, c.engine, rig.QuietProbes, c.model)})
			for _, e := range p.Engines {
				e.SetFault(sim.Fault{Spec: "reset-after=5", Count: 1})
			}
			r := p.Post(chatPath, p.ChatRequest(`"stream":true,`+c.members)).WantStatus(200)
			broken := strings.Contains(r.Body, `"error":{`)
			if n := p.Metric("penstock_streams_resumed_total"); n != c.resumed || broken == strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
				t.Errorf("%v streams were resumed: %s", n, r.Body)
			}
			l := p.LastAccessLine()
			if whole := name == "all of a limit"; broken == whole || l.Resumed != int(c.resumed) || l.Attempts != 1+l.Resumed {
				t.Errorf("broken %v, the log says %+v", broken, l)
			}
		})
	}
}
