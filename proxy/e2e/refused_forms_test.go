package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check engines and templates that reject values and message orders that other engines
// accept.

// effortEndpoints are the endpoints that accept a reasoning effort, with a body for each.
var effortEndpoints = []struct{ path, body string }{
	{"/v1/chat/completions", `"messages":[{"role":"user","content":"Hi."}],"reasoning_effort":%q`},
	{"/v1/messages", `"max_tokens":64,"messages":[{"role":"user","content":"Hi."}],"output_config":{"effort":%q}`},
	{"/v1/responses", `"input":"Hi.","reasoning":{"effort":%q}`},
}

// sentToEngine returns the request bodies that an engine has received since it was reset.
func sentToEngine(t *testing.T, e *sim.Engine) (bodies []map[string]json.RawMessage) {
	t.Helper()
	for _, r := range e.Recorded() {
		if r.Method != "POST" {
			continue
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// TestEffort_RefusedByTemplate sends a request for the effort high, as Claude Code does, to the
// template of Qwen 3.8, which accepts only low, medium and xhigh. The edge must repeat the request
// without the effort, must not count the rejection as an engine failure, and must not send this
// effort again.
func TestEffort_RefusedByTemplate(t *testing.T) {
	t.Parallel()
	qwen := []string{"low", "medium", "xhigh"}
	for name, engine := range map[string]sim.Options{
		"vllm":   {Profile: "vllm", Efforts: qwen},
		"sglang": {Profile: "sglang", Efforts: qwen}, "llamacpp": {Profile: "llamacpp", Efforts: qwen},
		"an older sglang": {Profile: "sglang", Efforts: []string{"low", "medium"}},
	} {
		for _, way := range effortEndpoints {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s%s stream=%t", name, strings.ReplaceAll(way.path, "/", "."), stream), func(t *testing.T) {
					t.Parallel()
					engine := engine
					engine.Record = true
					p := start(t, rig.Setup{Engines: []sim.Options{engine}, Config: detectConfig})
					body := func(effort string) string {
						return fmt.Sprintf(`{"model":"sim","stream":%t,`+way.body+`}`, stream, effort)
					}
					ask := func(effort string, requests int, last string) {
						t.Helper()
						p.Engines[0].Reset()
						p.Post(way.path, body(effort)).WantStatus(200)
						sent := sentToEngine(t, p.Engines[0])
						if len(sent) != requests {
							t.Fatalf("%s: the engine was sent %d requests", effort, len(sent))
						}
						got := string(sent[requests-1]["reasoning_effort"])
						if got != last {
							t.Errorf("%s: the engine was sent %q at last, not %q", effort, got, last)
						}
					}
					ask("high", 2, ``)
					ask("high", 1, ``)
					ask("medium", 1, `"medium"`)
					if n := p.Metric("penstock_requests_changed_total", `refused="effort"`); n != 1 {
						t.Errorf("%v requests were changed", n)
					}
				})
			}
		}
	}
}

// TestEffort_Words checks that each engine receives the nearest effort that it supports.
func TestEffort_Words(t *testing.T) {
	t.Parallel()
	for profile, words := range map[string]map[string]string{
		"vllm":   {"high": `"high"`, "xhigh": `"xhigh"`, "max": `"max"`, "none": `"none"`},
		"sglang": {"high": `"high"`, "xhigh": `"xhigh"`, "max": `"max"`, "none": ``},
		"ollama": {"high": `"high"`, "xhigh": `"max"`, "max": `"max"`, "none": `"none"`},
		"trtllm": {"high": `"high"`, "xhigh": `"max"`, "max": `"max"`, "none": ``},
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: profile, Record: true}}, Config: detectConfig})
			for _, way := range effortEndpoints {
				for word, want := range words {
					if way.path == "/v1/messages" && word == "none" {
						continue // in this dialect, the effort "none" disables thinking
					}
					p.Engines[0].Reset()
					p.Post(way.path, fmt.Sprintf(`{"model":"sim",`+way.body+`}`, word)).WantStatus(200)
					sent := sentToEngine(t, p.Engines[0])
					if got := string(sent[0]["reasoning_effort"]); len(sent) != 1 || got != want {
						t.Errorf("%s %s: %d requests, the first with %s, not %s", way.path, word, len(sent), got, want)
					}
				}
			}
			p.Engines[0].Reset()
			p.Post("/v1/messages", `{"model":"sim","max_tokens":64,"messages":[{"role":"user","content":"Hi."}],"thinking":{"type":"disabled"}}`).WantStatus(200)
			if sent := sentToEngine(t, p.Engines[0]); len(sent) != 1 || string(sent[0]["reasoning_effort"]) != words["none"] {
				t.Errorf("thinking disabled: %s", sent[0]["reasoning_effort"])
			}
		})
	}
}

const (
	twoUsers  = `{"role":"user","content":"a"},{"role":"user","content":"b"}`
	oneUser   = `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	ofCodex   = `{"type":"message","role":"developer","content":"x"},{"type":"message","role":"developer","content":"y"},` + twoUsers
	aSystem   = `{"role":"system","content":"x\n\ny"}`
	templates = "Conversation roles must alternate user/assistant/user/assistant/..."
)

// TestAdjacentTurns checks that adjacent turns with the same role are joined for templates that
// require alternating roles. In Messages, they must always be joined. In other dialects, they must
// be joined only after the engine has rejected such turns. If joining does not help, the client
// must receive the template's error.
func TestAdjacentTurns(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vllm", "sglang", "llamacpp"} {
		for _, c := range []struct {
			name, path, body string
			requests         int // number of engine requests for the first call
			want             string
		}{
			{"messages", "/v1/messages", `"max_tokens":64,"messages":[` + twoUsers + `]`, 1, "[" + oneUser + "]"},
			{"chat", "/v1/chat/completions", `"messages":[` + twoUsers + `]`, 2, "[" + oneUser + "]"},
			{"responses", "/v1/responses", `"input":[` + ofCodex + `]`, 2, "[" + aSystem + "," + oneUser + "]"},
		} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s stream=%t", profile, c.name, stream), func(t *testing.T) {
					t.Parallel()
					p := start(t, rig.Setup{
						Engines: []sim.Options{{Profile: profile, AlternateRoles: true, Record: true}}, Config: detectConfig,
					})
					for _, requests := range []int{c.requests, 1} {
						p.Engines[0].Reset()
						p.Post(c.path, fmt.Sprintf(`{"model":"sim","stream":%t,%s}`, stream, c.body)).WantStatus(200)
						sent := sentToEngine(t, p.Engines[0])
						if len(sent) != requests || string(sent[len(sent)-1]["messages"]) != c.want {
							t.Errorf("%d requests, the last with %s", len(sent), sent[len(sent)-1]["messages"])
						}
					}
					p.Engines[0].Reset()
					r := p.Post("/v1/chat/completions", `{"model":"sim","messages":[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`)
					if r.WantError(400, "invalid_request_error", "rejected_by_engine"); !strings.Contains(r.Body, `"message":"`+templates) {
						t.Errorf("answer = %s, want the message %s", r.Body, templates)
					}
					if n := len(sentToEngine(t, p.Engines[0])); n != 1 {
						t.Errorf("a request that nothing helps was sent %d times", n)
					}
				})
			}
		}
	}
}

// TestAdjacentTurns_Settings checks that a profile can make the edge always join adjacent turns,
// and that a strict edge does not change turns.
func TestAdjacentTurns_Settings(t *testing.T) {
	t.Parallel()
	engines := []sim.Options{{AlternateRoles: true, Record: true}}
	const body = `{"model":"sim","messages":[` + twoUsers + `]}`
	p := start(t, rig.Setup{Engines: engines, Config: "engines: [{ name: own, like: openai, adjacent_turns: joined }]\n" +
		strings.Replace(detectConfig, `url: "{{up-0}}"`, `url: "{{up-0}}", engine: own`, 1)})
	p.Post("/v1/chat/completions", body).WantStatus(200)
	if sent := sentToEngine(t, p.Engines[0]); len(sent) != 1 || string(sent[0]["messages"]) != "["+oneUser+"]" {
		t.Errorf("%d requests, the first with %s", len(sent), sent[0]["messages"])
	}
	p = start(t, rig.Setup{Engines: engines, Config: "strict: true\n" + detectConfig})
	p.Post("/v1/chat/completions", body).WantError(400, "invalid_request_error", "rejected_by_engine")
	if n := len(sentToEngine(t, p.Engines[0])); n != 1 {
		t.Errorf("a strict edge sent %d requests", n)
	}
}

// TestForms checks that naming a tool, forbidding tools, JSON mode and a message without content
// have the same effect at every engine.
func TestForms(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","function":{"name":"first","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"second","parameters":{"type":"object"}}}]`
	for _, profile := range []string{"openai", "vllm", "sglang", "llamacpp", "ollama", "tgi", "trtllm", "lmstudio"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{{Profile: profile}}, Config: detectConfig})
			message := func(more string) (content string, calls []string) {
				t.Helper()
				r := p.Post("/v1/chat/completions", `{"model":"sim",`+more+`}`).WantStatus(200)
				var answer struct {
					Choices []struct {
						Message struct {
							Content   string
							ToolCalls []struct{ Function struct{ Name string } } `json:"tool_calls"`
						}
					}
				}
				if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || len(answer.Choices) != 1 {
					t.Fatalf("answer = %s, %v; want one choice", r.Body, err)
				}
				for _, c := range answer.Choices[0].Message.ToolCalls {
					calls = append(calls, c.Function.Name)
				}
				return answer.Choices[0].Message.Content, calls
			}
			const hi = `"messages":[{"role":"user","content":"Hi."}],`
			if _, calls := message(hi + tools + `,"tool_choice":{"type":"function","function":{"name":"second"}}`); len(calls) != 1 || calls[0] != "second" {
				t.Errorf("the named tool: %v", calls)
			}
			if text, calls := message(hi + tools + `,"tool_choice":"none"`); len(calls) != 0 || text == "" {
				t.Errorf("no tools: %v %q", calls, text)
			}
			if text, _ := message(hi + `"response_format":{"type":"json_object"}`); !json.Valid([]byte(text)) {
				t.Errorf("text = %s, want JSON", text)
			}
			if text, _ := message(hi + `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`); !json.Valid([]byte(text)) {
				t.Errorf("a schema: %s", text)
			}
			message(hi + `"response_format":{"type":"text"}`)
			message(`"messages":[{"role":"user","content":"Hi."},{"role":"assistant","content":null},{"role":"user","content":"Go on."}]`)
			message(`"messages":[{"role":"user","content":"Hi."},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"first","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}],` + tools)
		})
	}
}
