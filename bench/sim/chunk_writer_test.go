package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"penstock/bench/sim/profile"
)

// eachTextProfile runs a test for every profile that generates text.
func eachTextProfile(t *testing.T, f func(t *testing.T, e *Engine, profile string)) {
	for _, p := range Profiles() {
		if !profile.ByName[p].SupportsKind("chat") {
			continue
		}
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			f(t, start(t, Options{Profile: p, Record: true}), p)
		})
	}
}

// adaptMembers converts request members to the form that the engine accepts.
func adaptMembers(name, more string) string {
	const object, schema = `{"type":"json_object"}`, `"json_schema":{"name"`
	switch profile.ByName[name].Formats {
	case "schemas":
		return strings.Replace(more, object, `{"type":"json_schema","json_schema":{"name":"o","schema":{"type":"object"}}}`, 1)
	case "value":
		return strings.Replace(strings.Replace(more, object, `{"type":"json_object","value":{"type":"object"}}`, 1), schema, `"value":{"name"`, 1)
	}
	return more
}

// TestRefusedForms checks forms of members that some engines refuse or interpret differently.
func TestRefusedForms(t *testing.T) {
	const (
		named  = weather + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`
		object = `,"response_format":{"type":"json_object"}`
		effort = `,"reasoning_effort":"xhigh"`
	)
	for name, want := range map[string]map[string]int{
		"vllm":     {named: 200, object: 200, effort: 200},
		"ollama":   {named: 200, object: 200, effort: 400},
		"lmstudio": {named: 400, object: 400, effort: 200},
		"tgi":      {named: 200, object: 422, `,"response_format":{"type":"text"}`: 422, effort: 200},
		"trtllm":   {named: 200, object: 200, effort: 400},
		"llamacpp": {named: 200, object: 200, effort: 200},
	} {
		e := start(t, Options{Profile: name})
		for more, status := range want {
			if resp, body := sendChat(t, e, chatBody("hi", more)); resp.StatusCode != status {
				t.Errorf("%s with %s: %s %s, want %d", name, more, resp.Status, body, status)
			}
		}
	}
	resp, body := sendChat(t, start(t, Options{Profile: "llamacpp"}), chatBody("hi", named))
	if plain := plainOf(t, body); len(plain.Calls) != 1 || plain.Calls[0].Name != "get_time" {
		t.Errorf("llamacpp reads a named tool: %s %s", resp.Status, body)
	}
	for name, status := range map[string]int{"vllm": 200, "ollama": 400, "lmstudio": 400, "tgi": 422} {
		null := `{"model":"sim","messages":[{"role":"assistant","content":null}],"max_tokens":4}`
		if resp, body := sendChat(t, start(t, Options{Profile: name}), null); resp.StatusCode != status {
			t.Errorf("%s, null content: %s %s", name, resp.Status, body)
		}
	}
	template := Options{AlternateRoles: true, Efforts: []string{"low", "medium", "xhigh"}}
	for name, status := range map[string][2]int{"vllm": {400, 500}, "sglang": {400, 400}, "llamacpp": {500, 500}} {
		o := template
		o.Profile = name
		e := start(t, o)
		for i, b := range []string{
			`{"model":"sim","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, chatBody("hi", `,"reasoning_effort":"high"`),
		} {
			if resp, body := sendChat(t, e, b); resp.StatusCode != status[i] {
				t.Errorf("%s: %s %s, want %d", name, resp.Status, body, status[i])
			}
		}
		if resp, body := sendChat(t, e, chatBody("hi", `,"reasoning_effort":"medium"`)); resp.StatusCode != 200 {
			t.Errorf("%s: %s %s, want 200", name, resp.Status, body)
		}
	}
}

func TestStreamEqualsPlain(t *testing.T) {
	eachTextProfile(t, func(t *testing.T, e *Engine, profile string) {
		for _, more := range []string{
			``, `,"max_tokens":7`, `,"max_completion_tokens":7`, `,"stop":["gate","river","."]`, `,"stop":"e"`, `,"n":3`, `,"seed":4`,
			`,"reasoning_effort":"low"`, `,"chat_template_kwargs":{"enable_thinking":true}`, `,"reasoning_effort":"high","max_tokens":20`,
			`,"max_tokens":0`, `,"min_tokens":120`, `,"max_tokens":40,"ignore_eos":true`, `,"logprobs":true,"top_logprobs":1,"max_tokens":5`,
			`,"response_format":{"type":"json_object"}`,
			`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`,
			`,"sim":{"text":"Grüße, \"Welt\" 🚲\n\\ end"}`, `,"sim":{"echo":true}`, `,"include_reasoning":false,"reasoning_effort":"low"`,
			`,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"sim":{"tool_calls":2}`,
		} {
			more = adaptMembers(profile, more)
			resp, body := sendChat(t, e, chatBody("hello", more))
			if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
				t.Fatalf("%s: %s %s, want 200 with JSON", more, resp.Status, body)
			}
			plain := plainOf(t, body)
			resp, body = sendChat(t, e, chatBody("hello", more+`,"stream":true,"stream_options":{"include_usage":true}`))
			if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
				t.Fatalf("%s: %s %s, want an event stream", more, resp.Status, body)
			}
			stream := streamOf(t, body)
			if !stream.Done || stream.Usage == nil || plain.Usage == nil {
				t.Fatalf("%s: answer %s, want [DONE], and a usage with and without a stream", more, body)
			}
			if fmt.Sprint(plain.Text, plain.Reasoning, plain.Finish) != fmt.Sprint(stream.Text, stream.Reasoning, stream.Finish) &&
				len(plain.Reasoning[0])+len(stream.Reasoning[0])+len(plain.Text[0])+len(stream.Text[0]) > 0 {
				t.Errorf("%s: plain %v %v %v\nstream %v %v %v", more, plain.Text, plain.Reasoning, plain.Finish, stream.Text, stream.Reasoning, stream.Finish)
			}
			if plain.Usage.Completion != stream.Usage.Completion || stream.Usage.Total != stream.Usage.Completion+stream.Usage.Prompt {
				t.Errorf("%s: usage %+v, streamed %+v; want the same", more, plain.Usage, stream.Usage)
			}
			for i, call := range plain.Calls {
				if s := stream.Calls[i]; s == nil || s.Name != call.Name || s.Args != call.Args || !json.Valid([]byte(s.Args)) {
					t.Errorf("%s: call %+v, streamed %+v; want the same", more, call, s)
				}
			}
			if len(plain.Calls) != len(stream.Calls) {
				t.Errorf("%s: calls %v, streamed %v; want as many", more, plain.Calls, stream.Calls)
			}
			if plain.Model != "sim" || plain.Object != "chat.completion" || stream.Object != "chat.completion.chunk" {
				t.Errorf("%s: answer %+v, want model sim and the two object names", more, plain)
			}
		}
		if s := e.Stats(); s.Running != 0 || s.Completed != s.Requests {
			t.Errorf("stats = %+v, want none running and all completed", s)
		}
	})
}

func TestStreamBytes(t *testing.T) {
	want := map[string][]string{
		"vllm": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`,
			`[DONE]`,
		},
		"openai": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","service_tier":"default","system_fingerprint":"fp_sim0000000","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","service_tier":"default","system_fingerprint":"fp_sim0000000","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","service_tier":"default","system_fingerprint":"fp_sim0000000","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","service_tier":"default","system_fingerprint":"fp_sim0000000","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`,
			`[DONE]`,
		},
		"llamacpp": {
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"ID","model":"sim","system_fingerprint":"b11669-sim","object":"chat.completion.chunk"}`,
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],"created":1,"id":"ID","model":"sim","system_fingerprint":"b11669-sim","object":"chat.completion.chunk"}`,
			`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"ID","model":"sim","system_fingerprint":"b11669-sim","object":"chat.completion.chunk"}`,
			`{"choices":[],"created":1,"id":"ID","model":"sim","system_fingerprint":"b11669-sim","object":"chat.completion.chunk","usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}},"timings":T}`,
			`[DONE]`,
		},
		"sglang": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"role":null,"content":"Hi","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":"stop","matched_stop":null}],"usage":null}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":null,"reasoning_tokens":0}}`,
			`[DONE]`,
		},
		"ollama": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}`,
			`[DONE]`,
		},
		"tgi": {
			`{"id":"","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"0.0.0-sim","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"0.0.0-sim","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
			`{"id":"","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"0.0.0-sim","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}`,
			`[DONE]`,
		},
		"trtllm": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"role":"assistant"}}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"content":"Hi","reasoning_content":""}}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[{"index":0,"delta":{"content":"","reasoning_content":""},"finish_reason":"stop"}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"other","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`,
			`[DONE]`,
		},
		"lmstudio": {
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"sim","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"sim","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			`{"id":"ID","object":"chat.completion.chunk","created":1,"model":"sim","system_fingerprint":"sim","choices":[],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}`,
			`[DONE]`,
		},
	}
	want["vllm-omni"], want["llamacpp-router"] = want["vllm"], want["llamacpp"]
	eachTextProfile(t, func(t *testing.T, e *Engine, profile string) {
		body := chatBody("hi", `,"stream":true,"stream_options":{"include_usage":true},"sim":{"text":"Hi"}`)
		// These engines repeat the requested model name in the response.
		if profile == "sglang" || profile == "trtllm" || profile == "llamacpp" || profile == "tgi" {
			body = strings.Replace(body, `"model":"sim"`, `"model":"other"`, 1)
		}
		_, got := sendChat(t, e, body)
		evs := events(got)
		for i, ev := range evs {
			var w wireChunk
			if json.Unmarshal([]byte(ev), &w) == nil {
				ev = strings.Replace(ev, `"id":"`+w.ID+`"`, map[bool]string{true: `"id":"ID"`, false: `"id":""`}[w.ID != ""], 1)
			}
			ev = strings.Replace(ev, fmt.Sprintf(`"created":%d`, w.Created), `"created":1`, 1)
			if at := strings.Index(ev, `"timings":{`); at >= 0 {
				ev = ev[:at] + `"timings":T}`
			}
			evs[i] = ev
		}
		if a, b := strings.Join(evs, "\n"), strings.Join(want[profile], "\n"); a != b {
			t.Errorf("got\n%s\nwant\n%s", a, b)
		}
	})
}

// TestSharedChunks checks that llama.cpp sends the role and the first token in one HTTP chunk, and
// the finish reason and the usage in another HTTP chunk.
func TestSharedChunks(t *testing.T) {
	for profile, want := range map[string]int{"llamacpp": 5, "vllm": 7, "ollama": 4} {
		e := start(t, Options{Profile: profile})
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"stream_options":{"include_usage":true},"max_tokens":3`), "Connection: close")
		raw, _ := c.readRaw()
		_, raw, _ = strings.Cut(raw, "\r\n\r\n")
		chunks := 0
		for raw != "0\r\n\r\n" {
			var n int
			size, rest, _ := strings.Cut(raw, "\r\n")
			if _, err := fmt.Sscanf(size, "%x", &n); err != nil || len(rest) < n+2 {
				t.Fatalf("%s: bad chunk %q", profile, shorten(raw))
			}
			raw = rest[n+2:]
			chunks++
		}
		if chunks != want {
			t.Errorf("%s: %d chunks, want %d", profile, chunks, want)
		}
	}
}

func TestTexts(t *testing.T) {
	e := start(t, Options{})
	text := func(prompt, more string) string {
		_, body := sendChat(t, e, chatBody(prompt, more))
		return plainOf(t, body).Text[0]
	}
	canary := "canary-7f3a9c"
	if got := text(canary, ""); strings.Contains(got, canary) || got == "" {
		t.Errorf("answer without echo = %q, want a text without the prompt", got)
	}
	one, again := text("a", ""), text("a", "")
	if one != again || one == text("b", "") || one == text("a", `,"seed":1`) {
		t.Error("answers do not follow prompt and seed")
	}
	if got := text(canary+" 🚲", `,"sim":{"echo":true}`); got != canary+" 🚲" {
		t.Errorf("answer with echo = %q, want %q", got, canary+" 🚲")
	}
	long := text("long", `,"sim":{"tokens":2000}`)
	if !utf8.ValidString(long) || strings.Count(long, " ") < 1500 || !strings.Contains(long, "🚲") || !strings.Contains(long, `"lock"`) {
		t.Errorf("long text: %q", shorten(long))
	}
	other := start(t, Options{Seed: 9})
	_, body := sendChat(t, other, chatBody("a", ""))
	if plainOf(t, body).Text[0] == text("a", "") {
		t.Error("the engine's seed changes nothing")
	}
	stopped := text("a", `,"max_tokens":1000,"ignore_eos":true,"stop":["turbine"],"sim":{"tokens":900}`)
	if strings.Contains(stopped, "turbine") || stopped == "" {
		t.Errorf("stopped answer = %q, want a text that ends before turbine", stopped)
	}
}

const weather = `,"tools":[{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{}}}},` +
	`{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":3,"maximum":5},` +
	`"unit":{"enum":["C","F"]},"tags":{"type":"array","items":{"$ref":"#/$defs/tag"}},"deep":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}},` +
	`"required":["city","days","unit","tags","deep"],"$defs":{"tag":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}}]`

func TestTools(t *testing.T) {
	eachTextProfile(t, func(t *testing.T, e *Engine, profile string) {
		_, body := sendChat(t, e, chatBody("hi", weather))
		first := plainOf(t, body)
		if c := first.Calls[0]; len(first.Calls) != 1 || c.Name != "get_time" || c.Args != "{}" || c.ID == "" || first.Finish[0] != toolCallFinish(profile) || first.Text[0] != "" {
			t.Errorf("first tool: %s", body)
		}
		named := weather + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`
		byWord := strings.HasPrefix(profile, "llamacpp") || profile == "lmstudio"
		if byWord { // the engine ignores the tool name in tool_choice
			_, second, _ := strings.Cut(weather, `{"type":"object","properties":{}}}},`)
			named = `,"tools":[` + second + `,"tool_choice":"required"`
		}
		_, body = sendChat(t, e, chatBody("hi", named+`,"stream":true`))
		got := streamOf(t, body)
		if profile == "ollama" { // ollama ignores tool_choice
			if got.Calls[0].Name != "get_time" {
				t.Errorf("answer = %s, want a call of get_time", body)
			}
		} else {
			var args struct {
				City string
				Days int
				Unit string
				Tags []string
				Deep struct{ On *bool }
			}
			d := json.NewDecoder(strings.NewReader(got.Calls[0].Args))
			d.DisallowUnknownFields()
			if err := d.Decode(&args); err != nil || args.City == "" || args.Days < 3 || args.Days > 5 || len(args.Tags) != 1 || args.Deep.On == nil || (args.Unit != "C" && args.Unit != "F") {
				t.Errorf("arguments = %q, %v; want those of the schema", got.Calls[0].Args, err)
			}
			want := toolCallFinish(profile)
			if strings.HasPrefix(profile, "vllm") { // these engines read the tool name in tool_choice
				want = "stop"
			}
			if got.Finish[0] != want {
				t.Errorf("finish = %q, want %q", got.Finish[0], want)
			}
		}
		if n := strings.Count(body, `"arguments"`); (n == 1) != (profile == "ollama") {
			t.Errorf("%d deltas with arguments", n)
		}
		for _, more := range []string{weather + `,"tool_choice":"none"`, weather + `,"sim":{"speak":true}`, `,"tools":[]`} {
			if profile == "ollama" && strings.Contains(more, "none") {
				continue
			}
			if _, body = sendChat(t, e, chatBody("hi", more)); len(plainOf(t, body).Calls) != 0 || plainOf(t, body).Text[0] == "" {
				t.Errorf("%s: answer = %s, want a text without calls", more, body)
			}
		}
		null := "null"
		if profile == "lmstudio" { // lmstudio refuses it
			null = `""`
		}
		done := `{"model":"sim","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":` + null + `,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_time","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"noon"}]` + weather + `}`
		if _, body = sendChat(t, e, done); len(plainOf(t, body).Calls) != 0 || plainOf(t, body).Text[0] == "" {
			t.Errorf("after a result: %s", body)
		}
		_, body = sendChat(t, e, chatBody("hi", weather+`,"tool_choice":"required","max_tokens":2,"sim":{"tool_calls":3}`))
		if profile != "ollama" && profile != "tgi" && plainOf(t, body).Finish[0] != "length" {
			t.Errorf("cut answer = %s, want the finish length", body)
		}
	})
}

// toolCallFinish returns the finish_reason of a response that contains tool calls.
func toolCallFinish(profile string) string {
	if profile == "tgi" {
		return "stop"
	}
	return "tool_calls"
}

func TestReasoningMember(t *testing.T) {
	for _, o := range []struct {
		options Options
		member  string
	}{
		{Options{}, `"reasoning":"`},
		{Options{Reasoning: "reasoning_content"}, `"reasoning_content":"`},
		{Options{Profile: "llamacpp"}, `"reasoning_content":"`},
		{Options{Profile: "ollama"}, `"reasoning":"`},
	} {
		e := start(t, o.options)
		for _, more := range []string{"", `,"stream":true`} {
			_, body := sendChat(t, e, chatBody("hi", `,"reasoning_effort":"medium"`+more))
			if !strings.Contains(body, o.member) {
				t.Errorf("%+v: no %s in %s", o.options, o.member, shorten(body))
			}
			_, body = sendChat(t, e, chatBody("hi", `,"reasoning_effort":"none"`+more))
			if strings.Contains(body, o.member) {
				t.Errorf("%+v: %s in %s, want none", o.options, o.member, shorten(body))
			}
		}
	}
	e := start(t, Options{})
	_, body := sendChat(t, e, chatBody("hi", `,"sim":{"reasoning":5,"tokens":3}`))
	if u := plainOf(t, body).Usage; u.Completion != 8 || u.CompletionD.Reasoning != 5 {
		t.Errorf("usage = %+v, want 8 tokens, 5 of reasoning", u)
	}
}

func TestErrors(t *testing.T) {
	long := chatBody(strings.Repeat("a", 4000), "")
	cases := []struct{ profile, body, status, want string }{
		{"vllm", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "404", `{"error":{"message":"The model ` + "`none`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`},
		{"vllm", long, "400", `{"error":{"message":"This model's maximum context length is 500 tokens. However, your request has 1005 input tokens. Please reduce the length of the input messages.","type":"BadRequestError","param":"input_tokens","code":400}}`},
		{"vllm", chatBody("hi", `,"max_tokens":600`), "400", `'max_tokens' or 'max_completion_tokens' is too large: 600.`},
		{"vllm", chatBody("hi", `,"stream_options":{"include_usage":true}`), "400", `Stream options can only be defined`},
		{"vllm", chatBody("hi", `,"temperature":-1`), "400", `temperature must be in`},
		{"vllm", chatBody("hi", `,"sim":{"nonsense":1}`), "400", `no such control`},
		{"vllm", chatBody("hi", `,"sim":{"fault":"nonsense"}`), "400", `unknown fault`},
		{"vllm", `{"model":"sim"}`, "400", `'messages' is required`},
		{"vllm", `{"model":"sim","messages":[]}`, "400", `'messages' must not be empty`},
		{"vllm", `{"model":"sim","messages":[{"role":"tool","content":"x"}]}`, "400", `tool_call_id`},
		{"vllm", `{"model":"sim","messages":[{"role":"boss","content":"x"}]}`, "400", `Unexpected message role`},
		{"vllm", `{"model":"sim",`, "400", `JSON decode error`},
		{"vllm", `[]`, "400", `valid object`},
		{"vllm", "{\"model\":\"sim\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "400", `not UTF-8`},
		{"vllm", chatBody("hi", `,"tools":[{"type":"function"}]`), "400", `tools[0]`},
		{"vllm", chatBody("hi", `,"tool_choice":"required"`), "400", "`tools` must be set"},
		{"vllm", chatBody("hi", weather+`,"tool_choice":{"type":"function","function":{"name":"x"}}`), "400", "does not match any"},
		{"llamacpp", long, "400", `{"error":{"code":400,"message":"request (1005 tokens) exceeds the available context size (500 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1005,"n_ctx":500}}`},
		{"llamacpp", chatBody("hi", `,"max_tokens":600`), "200", `finish_reason`},
		{"llamacpp", `{"messages":[{"content":"hi"}]}`, "500", `"type":"server_error"`},
		{"llamacpp", `{"messages":[{"role":"user","content":"hi"}]}`, "200", `"model":"sim"`},
		{"ollama", long, "400", `{"error":{"message":"{\"error\":{\"code\":400,\"message\":\"request (1005 tokens) exceeds the available context size (500 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":1005,\"n_ctx\":500}}","type":"invalid_request_error","param":null,"code":null}}`},
		{"ollama", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "404", `model 'none' not found`},
		{"sglang", long, "400", `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 500 tokens.`},
		{"openai", long, "400", `"code":"context_length_exceeded"`},
		{"tgi", long, "422", `{"error":"Input validation error: ` + "`inputs`" + ` must have less than 500 tokens. Given: 1005","error_type":"validation"}`},
		{"tgi", chatBody(strings.Repeat("a", 4000), `,"stream":true`), "200", `data:{"error":{"message":"Input validation error: ` + "`inputs`" + ` must have less than 500 tokens. Given: 1005","http_status_code":422}}` + "\n\ndata:[DONE]\n\n"},
		{"tgi", `{"model":"sim",`, "400", `Failed to parse the request body as JSON`},
		{"tgi", `{"messages":[{"role":"boss","content":"x"}]}`, "422", `"error_type":"validation"`},
		{"tgi", `{"model":"whatever","messages":[{"role":"user","content":"x"}]}`, "200", `"model":"sim"`},
		{"trtllm", long, "400", `{"object":"error","message":"` + "`default_max_tokens` (-505) must be greater than 0, `default_max_tokens` (-505) = max_seq_len (500) - `splited_prompt_len` (1005) - `query_token_len` (0)" + `","type":"BadRequestError","param":null,"code":400}`},
		{"lmstudio", long, "400", `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 1005>= n_ctx: 500).`},
		{"lmstudio", chatBody(strings.Repeat("a", 4000), `,"stream":true`), "200", "event: error\ndata: {\"error\":{\"message\":\"The number of tokens"},
		{"lmstudio", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "404", `"code":"model_not_found"`},
		{"llamacpp-router", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, "400", `{"error":{"code":400,"message":"model 'none' not found","type":"invalid_request_error"}}`},
		{"llamacpp-router", `{"messages":[{"role":"user","content":"x"}]}`, "400", `model name is missing from the request`},
	}
	engines := map[string]*Engine{}
	for _, c := range cases {
		e := engines[c.profile]
		if e == nil {
			e = start(t, Options{Profile: c.profile, MaxModelLen: 500})
			engines[c.profile] = e
		}
		resp, body := sendChat(t, e, c.body)
		if !strings.HasPrefix(resp.Status, c.status) || !strings.Contains(body, c.want) {
			t.Errorf("%s %s:\n got %s %s\nwant %s %s", c.profile, shorten(c.body), resp.Status, shorten(body), c.status, c.want)
		}
	}
	e := start(t, Options{StrictSystem: true})
	if resp, _ := sendChat(t, e, `{"model":"sim","messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`); resp.StatusCode != 400 {
		t.Error(resp.Status)
	}
	if resp, body := sendRequest(t, e, "POST", "/v1/chat/completions", chatBody("hi", ""), "Content-Type: text/plain"); resp.StatusCode != 400 {
		t.Error(resp.Status, body)
	}
	if resp, body := sendChat(t, e, chatBody("hi", ""), "Content-Encoding: gzip"); resp.StatusCode != 415 {
		t.Error(resp.Status, body)
	}
}

func TestQueueFull(t *testing.T) {
	for profile, want := range map[string]string{
		"vllm": `"ServiceUnavailableError"`, "sglang": `"The request queue is full."`, "llamacpp": `"no slot available"`,
		"ollama": `server busy, please try again.  maximum pending requests exceeded`, "openai": `overloaded`,
		"tgi": `Model is overloaded`, "trtllm": `maximum number of queued requests`, "lmstudio": `maximum number of queued requests`,
	} {
		status := 503
		if profile == "tgi" {
			status = 429
		}
		e := start(t, Options{Profile: profile, Slots: 1, NoQueue: true})
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"ttft_ms":60000}`))
		eventually(t, "busy", func() bool { return e.Stats().Running == 1 })
		for _, stream := range []string{"", `,"stream":true`} {
			resp, body := sendChat(t, e, chatBody("hi", stream))
			inBand := (profile == "sglang" || profile == "tgi") && stream != ""
			if (resp.StatusCode != status) != inBand || !strings.Contains(body, want) {
				t.Errorf("%s: %s %s, want %d with %s", profile, resp.Status, body, status, want)
			}
			if inBand && !strings.HasPrefix(strings.Replace(body, "data:{", "data: {", 1), `data: {"error":{`) {
				t.Errorf("error in the stream = %s, want it as the first event", body)
			}
		}
	}
}

func TestAuth(t *testing.T) {
	open := map[string]string{"vllm": "/metrics", "llamacpp": "/health", "sglang": "/health", "openai": "/health", "tgi": "/info"}
	eachTextProfile(t, func(t *testing.T, _ *Engine, profile string) {
		e := start(t, Options{Profile: profile, APIKey: "k"})
		e.p.Health = 0
		resp, _ := sendChat(t, e, chatBody("hi", ""))
		want := 401
		if profile == "ollama" || profile == "trtllm" {
			want = 200
		}
		if resp.StatusCode != want {
			t.Error(resp.Status)
		}
		if resp, body := sendChat(t, e, chatBody("hi", ""), "Authorization: Bearer k"); resp.StatusCode != 200 {
			t.Error(resp.Status, body)
		}
		if resp, _ := sendChat(t, e, chatBody("hi", ""), "Authorization: Bearer nope"); resp.StatusCode != want {
			t.Error(resp.Status)
		}
		if p := open[profile]; p != "" {
			if resp, _ := sendRequest(t, e, "GET", p, ""); resp.StatusCode != 200 {
				t.Error(p, resp.Status)
			}
		}
	})
}

func TestInstanceEnds(t *testing.T) {
	e := start(t, Options{})
	schema := `{"$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"},"c":{"$ref":"#/$defs/n"}},"required":["a","b","c"]}},"$ref":"#/$defs/n"}`
	resp, body := sendChat(t, e, chatBody("hi", `,"max_tokens":100,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+schema+`}}`))
	if resp.StatusCode != 200 {
		t.Error(body)
	}
}

// TestTokenAllocations checks that a token in a chat stream does not allocate. Otherwise, a load
// test would measure the simulator.
func TestTokenAllocations(t *testing.T) {
	e := start(t, Options{})
	per := func(tokens int) float64 {
		return testing.AllocsPerRun(5, func() {
			exchangeRaw(t, e, chatBody("hi", fmt.Sprintf(`,"stream":true,"sim":{"tokens":%d}`, tokens)))
		})
	}
	// the test client's buffers grow, which also allocates
	if few, many := per(500), per(4500); many-few > 1000 {
		t.Errorf("%.0f allocations for 500 tokens, %.0f for 4500", few, many)
	}
}
