//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// turnRecorder runs two turns with a tool against llama.cpp, directly or through the edge, and records the
// engine's last request.
type turnRecorder struct {
	t      *testing.T
	p      *penstock
	engine *realEngine
	mu     sync.Mutex
	sent   []byte
}

const (
	turnPrompt = "Think of a number, then ask for the weather."
	turnSchema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`
	turnOutput = "21 C"
)

// record records a request and passes it on.
func (c *turnRecorder) record(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && r.URL.Path == chatPath {
			c.mu.Lock()
			c.sent = body
			c.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}
}

// object is an untyped decoded JSON object.
type object = map[string]any

// at returns the value at a path of names and positions.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(object)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// direct sends a request to the engine.
func (c *turnRecorder) direct(path string, body any) object {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := http.Post(c.engine.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer object
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != 200 {
		c.t.Fatalf("%s: %d %v %v", path, res.StatusCode, err, answer)
	}
	return answer
}

// edge sends a request to the edge.
func (c *turnRecorder) edge(path string, body object) object {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	var answer object
	if err := json.Unmarshal([]byte(c.p.Post(path, string(b)).WantStatus(200).Body), &answer); err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// flush fills the engine's cache slot with a different prompt.
func (c *turnRecorder) flush() {
	c.direct(chatPath, object{"model": "markov", "max_tokens": 4, "messages": []any{object{"role": "user", "content": strings.Repeat("Something else altogether, to fill the slot. ", 20)}}})
}

// prompt returns the template's output for the engine's last request.
func (c *turnRecorder) prompt() string {
	c.mu.Lock()
	sent := json.RawMessage(c.sent)
	c.mu.Unlock()
	text, _ := c.direct("/apply-template", sent)["prompt"].(string)
	return text
}

// chat runs the two turns on the chat endpoint, sending requests with the function ask. Unless name
// is empty, it sends the first turn's reasoning back in the member with that name.
func (c *turnRecorder) chat(ask func(string, object) object, model, name string, more object) (answer object, reasoning string) {
	c.t.Helper()
	c.flush()
	body := object{
		"model": model, "temperature": 0, "max_tokens": 300, "reasoning_effort": "low", "messages": []any{object{"role": "user", "content": turnPrompt}},
		"tools": []any{object{"type": "function", "function": object{"name": "weather", "parameters": json.RawMessage(turnSchema)}}},
	}
	for k, v := range more {
		body[k] = v
	}
	first, _ := at(ask(chatPath, body), "choices", 0, "message").(object)
	reasoning, _ = first["reasoning_content"].(string)
	id := at(first, "tool_calls", 0, "id")
	if reasoning == "" || id == nil {
		c.t.Fatalf("the first turn is %v", first)
	}
	content, _ := first["content"].(string)
	back := object{"role": "assistant", "content": content, "tool_calls": first["tool_calls"]}
	if name != "" {
		back[name] = reasoning
	}
	messages, _ := body["messages"].([]any)
	body["messages"] = append(messages, back, object{"role": "tool", "tool_call_id": id, "content": turnOutput})
	c.mu.Lock()
	c.sent, _ = json.Marshal(body) // for a direct call; the record method stores requests from the edge
	c.mu.Unlock()
	return ask(chatPath, body), reasoning
}

// messages runs the two turns on Messages.
func (c *turnRecorder) messages(thinking object) object {
	c.t.Helper()
	c.flush()
	body := object{
		"model": "talk", "temperature": 0, "max_tokens": 300, "messages": []any{object{"role": "user", "content": turnPrompt}},
		"output_config": object{"effort": "low"}, "tools": []any{object{"name": "weather", "input_schema": json.RawMessage(turnSchema)}},
	}
	if thinking != nil {
		body["thinking"] = thinking
	}
	blocks, _ := c.edge("/v1/messages", body)["content"].([]any)
	use, _ := blocks[len(blocks)-1].(object)
	messages, _ := body["messages"].([]any)
	body["messages"] = append(messages, object{"role": "assistant", "content": blocks},
		object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": use["id"], "content": turnOutput}}})
	return c.edge("/v1/messages", body)
}

// responses runs the two turns on Responses, with or without sealed reasoning.
func (c *turnRecorder) responses(sealed bool) object {
	c.t.Helper()
	c.flush()
	body := object{
		"model": "talk", "temperature": 0, "max_output_tokens": 300, "reasoning": object{"effort": "low"}, "input": []any{object{"role": "user", "content": turnPrompt}},
		"tools": []any{object{"type": "function", "name": "weather", "parameters": json.RawMessage(turnSchema)}},
	}
	if sealed {
		body["include"] = []any{"reasoning.encrypted_content"}
	}
	output, _ := c.edge("/v1/responses", body)["output"].([]any)
	call, _ := output[len(output)-1].(object)
	input, _ := body["input"].([]any)
	body["input"] = append(append(input, output...), object{"type": "function_call_output", "call_id": call["call_id"], "output": turnOutput})
	return c.edge("/v1/responses", body)
}

// TestRealReasoningInPlace checks llama.cpp with the model's template in every dialect. The first
// turn's reasoning must be at the same position in the prompt as if the client called the engine
// directly. The number of cached tokens in the second prompt must also be the same as for such a
// client.
func TestRealReasoningInPlace(t *testing.T) {
	c := &turnRecorder{t: t}
	// The model's template shows only the last message's reasoning. Other templates show the
	// reasoning of the current tool loop.
	template, err := os.ReadFile(filepath.Join(filepath.Dir(realEngines(t)), "chat.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	loop := strings.Replace(string(template), "message.reasoning_content and loop.last", "message.reasoning_content", 1)
	engine, ok := tryRealEngine(t, realPort(t), "llama", "markov", "-np", "1", "-c", "8192", "--chat-template", loop)
	if !ok {
		t.Fatalf("llama.cpp did not start:\n%s", engine.out)
	}
	c.engine = engine
	to, err := url.Parse(engine.url)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(c.record(httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(front.Close)
	c.p = startReal(t, 1, fmt.Sprintf(`upstreams: [{ name: llama, url: %q, engine: llamacpp }]
models: [{ id: talk, deployments: [{ upstream: llama, served: markov }] }]`, front.URL))
	thinks := object{"chat_template_kwargs": object{"enable_thinking": true}}
	ask := func(path string, body object) object { return c.direct(path, body) }
	answer, reasoning := c.chat(ask, "markov", "", thinks)
	bare, without := c.prompt(), at(answer, "timings", "cache_n")
	answer, _ = c.chat(ask, "markov", "reasoning_content", thinks)
	want, cached := c.prompt(), at(answer, "timings", "cache_n")
	if !strings.Contains(want, reasoning) || strings.Contains(bare, reasoning) || cached == nil || cached == without {
		t.Fatalf("a direct client's reasoning %q makes no difference: %v of %q, %v of %q", reasoning, cached, want, without, bare)
	}
	t.Logf("cache_n %v directly, %v without reasoning", cached, without)
	for name, play := range map[string]func() any{
		"chat, reasoning_content": func() any {
			answer, _ := c.chat(c.edge, "talk", "reasoning_content", nil)
			return at(answer, "timings", "cache_n")
		},
		"chat, reasoning": func() any {
			answer, _ := c.chat(c.edge, "talk", "reasoning", nil)
			return at(answer, "timings", "cache_n")
		},
		"messages, shown": func() any {
			return at(c.messages(object{"type": "enabled", "budget_tokens": 1024}), "usage", "cache_read_input_tokens")
		},
		"messages, omitted": func() any {
			return at(c.messages(object{"type": "enabled", "budget_tokens": 1024, "display": "omitted"}), "usage", "cache_read_input_tokens")
		},
		"responses, sealed": func() any { return at(c.responses(true), "usage", "input_tokens_details", "cached_tokens") },
	} {
		got := play()
		if got != cached {
			t.Errorf("%s: cache_n %v, %v directly", name, got, cached)
		}
		if prompt := c.prompt(); prompt != want {
			t.Errorf("%s: the template makes\n%q, directly\n%q", name, prompt, want)
		}
	}
	if got := at(c.responses(false), "usage", "input_tokens_details", "cached_tokens"); got != without || strings.Contains(c.prompt(), reasoning) {
		t.Errorf("responses without sealed reasoning: cache_n %v, %v directly", got, without)
	}
}
