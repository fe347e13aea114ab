package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// Coding agents request 32,000 tokens regardless of the context length, and give up at the first
// refusal.

const (
	smallContext = 24_576
	agentLimit   = 32_000
)

// tokenLimitEndpoints are the endpoints with a token limit, each with the name of the limit.
var tokenLimitEndpoints = []struct{ path, member, body string }{
	{"/v1/chat/completions", "max_tokens", `"messages":[{"role":"user","content":%q}]`},
	{"/v1/chat/completions", "max_completion_tokens", `"messages":[{"role":"user","content":%q}]`},
	{"/v1/messages", "max_tokens", `"messages":[{"role":"user","content":%q}]`},
	{"/v1/responses", "max_output_tokens", `"input":%q`},
	{"/v1/completions", "max_tokens", `"prompt":%q`},
}

// promptOf returns a prompt that asks for a short answer and has about the given number of
// simulator tokens.
func promptOf(tokens int) string {
	return strings.Repeat("a tiny ", tokens*4/7) + `[[sim {"tokens":4}]]`
}

// sentLimits returns the token limits in the requests that an engine has received since it was
// reset. 0 means that a request had no limit.
func sentLimits(t *testing.T, e *sim.Engine) (limits []int) {
	t.Helper()
	for _, r := range e.Recorded() {
		if r.Method != "POST" || strings.Contains(r.Target, "count") || strings.Contains(r.Target, "tokenize") {
			continue
		}
		var body struct {
			MaxTokens, MaxCompletionTokens, MaxOutputTokens int
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(r.Body, &members); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(members["max_tokens"], &body.MaxTokens)
		_ = json.Unmarshal(members["max_completion_tokens"], &body.MaxCompletionTokens)
		_ = json.Unmarshal(members["max_output_tokens"], &body.MaxOutputTokens)
		limits = append(limits, max(body.MaxTokens, body.MaxCompletionTokens, body.MaxOutputTokens))
	}
	return limits
}

// eachLimitWay runs f for every endpoint with a token limit, unstreamed and streamed. body returns
// a request with the given limit.
func eachLimitWay(t *testing.T, f func(t *testing.T, path string, body func(prompt string, asked int) string)) {
	t.Helper()
	for _, w := range tokenLimitEndpoints {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s stream=%t", strings.ReplaceAll(w.path[1:], "/", "."), w.member, stream), func(t *testing.T) {
				f(t, w.path, func(prompt string, asked int) string {
					return fmt.Sprintf(`{"model":"sim","stream":%t,"%s":%d,`+w.body+`}`, stream, w.member, asked, prompt)
				})
			})
		}
	}
}

// wantOverflow checks that a refusal makes agents compact their conversation.
func wantOverflow(t *testing.T, path string, r *rig.Reply) {
	t.Helper()
	r.WantError(400, "invalid_request_error", "context_length_exceeded")
	if path != "/v1/messages" {
		if !strings.Contains(r.Body, fmt.Sprintf("maximum context length is %d tokens", smallContext)) {
			t.Errorf("answer = %s, want the context length %d", r.Body, smallContext)
		}
		return
	}
	_, told, _ := strings.Cut(r.Body, `"message":"prompt is too long: `)
	var prompt, most int
	if _, err := fmt.Sscanf(told, "%d tokens > %d maximum", &prompt, &most); err != nil || prompt <= most || most != smallContext {
		t.Errorf("answer = %s, %v; want more tokens than the maximum %d", r.Body, err, smallContext)
	}
	if strings.Contains(r.Body, "max_tokens") {
		t.Errorf("lowering max_tokens is advised, and would not help: %s", r.Body)
	}
}

func TestMaxTokens_AboveTheContext(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]sim.Options{
		"vllm": {Profile: "vllm"}, "sglang": {Profile: "sglang"}, "tgi": {Profile: "tgi"},
		"llamacpp": {Profile: "llamacpp"}, "llamacpp streams": {Profile: "llamacpp", CancelOnlyStreams: true},
	} {
		engine.MaxModelLen, engine.Record = smallContext, true
		overruns := engine.Profile == "llamacpp"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{engine}, Config: detectConfig})
			eachLimitWay(t, func(t *testing.T, path string, body func(string, int) string) {
				p.Engines[0].Reset()
				p.Post(path, body(promptOf(20_000), agentLimit)).WantStatus(200)
				limits := sentLimits(t, p.Engines[0])
				if len(limits) != 1 || limits[0] < 256 || limits[0] > smallContext-20_000 {
					t.Errorf("the engine was sent the limits %d", limits)
				}
				p.Engines[0].Reset()
				r := p.Post(path, body(promptOf(24_400), agentLimit))
				if overruns { // the engine accepts the limit and ends the answer at its context length
					r.WantStatus(200)
				} else {
					wantOverflow(t, path, r)
				}
				p.Post(path, body("Hello.", 77)).WantStatus(200)
				if limits = sentLimits(t, p.Engines[0]); limits[len(limits)-1] != 77 {
					t.Errorf("a limit that fits was sent as %d", limits[len(limits)-1])
				}
			})
		})
	}
}

// TestMaxTokens_Misjudged checks that the engine's count takes precedence if the edge
// underestimates a prompt. The edge must send a second request, which the client does not notice
// and which does not use the retry budget.
func TestMaxTokens_Misjudged(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vllm", "sglang", "tgi"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{
				Engines: []sim.Options{{Profile: profile, MaxModelLen: smallContext, Record: true}},
				Config:  strings.Replace(detectConfig, "timeouts:", "retry: { attempts: 1, budget: 0% }\ntimeouts:", 1),
			})
			eachLimitWay(t, func(t *testing.T, path string, body func(string, int) string) {
				teachSparse(p)
				p.Engines[0].Reset()
				before := p.Metric("penstock_max_tokens_refits_total")
				p.Post(path, body(promptOf(20_000), agentLimit)).WantStatus(200)
				limits := sentLimits(t, p.Engines[0])
				if len(limits) != 2 || limits[0] <= smallContext-20_000 || limits[1] < 4_000 || limits[1] > smallContext-20_000 {
					t.Errorf("the engine was sent the limits %d", limits)
				}
				if got := p.Metric("penstock_max_tokens_refits_total") - before; got != 1 {
					t.Errorf("%v second requests are counted", got)
				}
				teachSparse(p)
				p.Engines[0].Reset()
				wantOverflow(t, path, p.Post(path, body(promptOf(24_400), agentLimit)))
				if limits = sentLimits(t, p.Engines[0]); len(limits) != 1 {
					t.Errorf("the engine was asked again although nothing fits: %d", limits)
				}
			})
			if s := p.Metric("penstock_retries_total"); s != 0 {
				t.Errorf("%v retries, want 0", s)
			}
		})
	}
}

// teachSparse makes the edge learn that a token has a dozen bytes or more, as in escaped text.
func teachSparse(p *penstock) {
	for range 8 {
		p.Post(chatPath, `{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"`+strings.Repeat(`\u0061`, 4000)+`"}]}`).WantStatus(200)
	}
}

// TestMaxTokens_RoomElsewhere checks that a prompt that is too long for one engine goes to an
// engine with a longer context.
func TestMaxTokens_RoomElsewhere(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: "vllm", MaxModelLen: 8_192, Record: true}, {Profile: "vllm", MaxModelLen: smallContext, Record: true}},
		Config: `
timeouts: { linger: 0s }
retry: { attempts: 1, budget: 0% }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}" }, { name: up-1, url: "{{up-1}}" }]
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: up-0 }, { upstream: up-1 }] }]
`,
	})
	eachLimitWay(t, func(_ *testing.T, path string, body func(string, int) string) {
		for range 2 {
			p.Post(path, body(promptOf(10_000), agentLimit)).WantStatus(200)
		}
		wantOverflow(t, path, p.Post(path, body(promptOf(24_500), agentLimit)))
	})
	if n := len(sentLimits(t, p.Engines[0])); n == 0 {
		t.Error("the smaller engine was never asked")
	}
}

// TestMaxTokens_Strict checks that a strict edge does not change limits.
func TestMaxTokens_Strict(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: "vllm", MaxModelLen: smallContext, Record: true}},
		Config:  "strict: true\n" + detectConfig,
	})
	eachLimitWay(t, func(t *testing.T, path string, body func(string, int) string) {
		p.Engines[0].Reset()
		p.Post(path, body("Hello.", agentLimit)).WantError(400, "invalid_request_error", "context_length_exceeded")
		if limits := sentLimits(t, p.Engines[0]); len(limits) != 0 {
			t.Errorf("the engine was sent the limits %d", limits)
		}
		p.Post(path, body(promptOf(20_000), 8_000)).WantError(400, "invalid_request_error", "context_length_exceeded")
		if limits := sentLimits(t, p.Engines[0]); len(limits) != 1 || limits[0] != 8_000 {
			t.Errorf("the engine was sent the limits %d", limits)
		}
	})
}

// TestMaxTokens_NoLimit checks that a limit of -1, which requests as many tokens as fit, does not
// reach engines, because engines interpret -1 differently.
func TestMaxTokens_NoLimit(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "vllm", MaxModelLen: smallContext, Record: true}}, Config: detectConfig})
	p.Post("/v1/completions", fmt.Sprintf(`{"model":"sim","max_tokens":-1,"prompt":%q}`, promptOf(20_000))).WantStatus(200)
	if limits := sentLimits(t, p.Engines[0]); len(limits) != 1 || limits[0] < 4_000 || limits[0] > smallContext-20_000 {
		t.Errorf("the engine was sent the limits %d", limits)
	}
}

// TestMaxTokens_CountedInPart checks that engines that stop counting a prompt early, or report no
// count, receive a second request with a lower limit.
func TestMaxTokens_CountedInPart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said string
		want func(first int) int
	}{
		"in part":    {"This model's maximum context length is 24576 tokens. However, you requested 12000 output tokens and your prompt contains at least 12577 input tokens, for a total of at least 24577 tokens.", func(first int) int { return first / 2 }},
		"not at all": {"The prompt is longer than the model's context.", func(int) int { return 256 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "vllm", MaxModelLen: smallContext, Record: true}}, Config: detectConfig})
			eachLimitWay(t, func(t *testing.T, path string, body func(string, int) string) {
				p.Engines[0].Reset()
				p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=" + c.said, Count: 1})
				p.Post(path, body(promptOf(10_000), agentLimit)).WantStatus(200)
				limits := sentLimits(t, p.Engines[0])
				if len(limits) != 2 || limits[1] != c.want(limits[0]) {
					t.Errorf("the engine was sent the limits %d", limits)
				}
				p.Engines[0].Reset()
				p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=" + c.said})
				p.Post(path, body(promptOf(10_000), agentLimit)).WantError(400, "invalid_request_error", "context_length_exceeded")
				if limits = sentLimits(t, p.Engines[0]); len(limits) != 2 {
					t.Errorf("the engine was sent the limits %d", limits)
				}
				p.Engines[0].SetFault()
			})
		})
	}
}
