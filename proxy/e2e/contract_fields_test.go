package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// This file contains the contract's tables of request fields.

func chatOf(messages string) string { return `{"model":"sim","messages":[` + messages + `]}` }

// oneMessage returns a chat request with one user message that has the given additional members.
func oneMessage(members string) string { return chatOf(`{"role":"user",` + members + `}`) }

func chatWithPart(p string) string { return oneMessage(`"content":[` + p + `]`) }

// chatWithAssistant returns a chat request whose second message is an assistant message with the given
// members.
func chatWithAssistant(members string) string {
	return chatOf(`{"role":"user","content":"a"},{"role":"assistant","content":null,` + members + `},{"role":"tool","tool_call_id":"c1","content":"ok"}`)
}

// toolMembers returns the members of one tool definition and tool_choice none.
func toolMembers(definition string) string {
	return `"tool_choice":"none","tools":[` + definition + `]`
}

func wantMember(t *testing.T, object any, member, want string) {
	t.Helper()
	got, err := json.Marshal(object.(map[string]any)[member])
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is %s, want %s", member, got, want)
	}
}

// numberRow returns the rule for a number between two bounds, inclusive.
func numberRow(name, low, high, below, above string) rule {
	r := rule{line: "Chat request, " + name}
	for _, v := range []string{low, high, "null"} {
		if v != "" {
			r.good = append(r.good, `"`+name+`":`+v)
		}
	}
	for _, v := range []string{below, above, `"1"`, "true", "[1]", "{}"} {
		if v != "" {
			r.bad = append(r.bad, refused{`"` + name + `":` + v, name, false})
		}
	}
	return r
}

const call = `{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}`

var chatRows = []rule{
	{
		line: "Chat request, model",
		good: []string{`{"model":"sim","messages":[{"role":"user","content":"a"}]}`, `{"model":"nick","messages":[{"role":"user","content":"a"}]}`},
		bad: []refused{
			{`{"messages":[{"role":"user","content":"a"}]}`, "model", false},
			{`{"model":null,"messages":[{"role":"user","content":"a"}]}`, "model", false},
			{`{"model":5,"messages":[{"role":"user","content":"a"}]}`, "model", false},
			{`{"model":"","messages":[{"role":"user","content":"a"}]}`, "model", false},
		},
		check: func(t *testing.T, p *penstock) {
			p.Post(chatPath, rig.ChatBody("nobody", "")).WantError(404, "not_found_error", "model_not_found")
			r := p.Post(chatPath, rig.ChatBody("Simm", ""))
			if r.WantError(404, "not_found_error", "model_not_found"); !strings.Contains(r.Body, `The model \"Simm\" does not exist: did you mean \"sim\"?`) {
				t.Error(r.Body)
			}
			rig.WaitFor(t, rig.WaitTimeout, "the log names the nearest model", func() bool { return strings.Contains(p.Log.String(), `"nearest_model":"sim"`) })
			if strings.Contains(p.Log.String(), "Simm") {
				t.Error("the log has a client's string")
			}
		},
	},
	{
		line: "Chat request, messages",
		good: []string{chatOf(`{"role":"user","content":"a"}`)},
		bad: []refused{
			{`{"model":"sim"}`, "messages", false},
			{chatOf(""), "messages", false},
			{`{"model":"sim","messages":"a"}`, "messages", false},
			{`{"model":"sim","messages":{"role":"user"}}`, "messages", false},
			{chatOf(`"a"`), "messages[0]", false},
		},
	},
	numberRow("temperature", "0", "2", "-0.01", "2.01"),
	numberRow("top_p", "0", "1", "-0.01", "1.01"),
	numberRow("top_k", "0", "1000000", "-1", "1.5"),
	numberRow("min_p", "0", "1", "-0.01", "1.01"),
	numberRow("frequency_penalty", "-2", "2", "-2.01", "2.01"),
	numberRow("presence_penalty", "-2", "2", "-2.01", "2.01"),
	numberRow("repetition_penalty", "0.1", "2", "0.09", "2.01"),
	numberRow("max_tokens", "0", "4096", "-1", "1.5"),
	numberRow("max_completion_tokens", "0", "4096", "-1", "1.5"),
	{
		line: "Chat request, stop", good: []string{`"stop":"END"`, `"stop":["a","b"]`, `"stop":[]`, `"stop":null`},
		bad: []refused{{`"stop":5`, "stop", false}, {`"stop":{}`, "stop", false}, {`"stop":["a",5]`, "stop[1]", false}},
	},
	numberRow("seed", "-9223372036854775808", "9223372036854775807", "1.5", ""),
	{line: "Chat request, logit_bias", good: []string{`"logit_bias":{}`, `"logit_bias":{"50256":-100}`}, bad: []refused{{`"logit_bias":[]`, "logit_bias", false}, {`"logit_bias":"a"`, "logit_bias", false}}},
	{line: "Chat request, logprobs", good: []string{`"logprobs":true`, `"logprobs":false`}, bad: []refused{{`"logprobs":"yes"`, "logprobs", false}, {`"logprobs":1`, "logprobs", false}}},
	{line: "Chat request, top_logprobs", good: []string{`"logprobs":true,"top_logprobs":2`}, bad: []refused{{`"top_logprobs":"2"`, "top_logprobs", false}, {`"top_logprobs":1.5`, "top_logprobs", false}}},
	{line: "Chat request, stream", good: []string{`"stream":true`, `"stream":false`, `"stream":null`}, bad: []refused{{`"stream":"true"`, "stream", false}, {`"stream":1`, "stream", false}}},
	{
		line: "Chat request, stream_options", good: []string{`"stream":true,"stream_options":{"include_usage":true}`, `"stream":true,"stream_options":{}`, `"stream_options":{"include_usage":true}`},
		bad: []refused{{`"stream":true,"stream_options":true`, "stream_options", false}, {`"stream":true,"stream_options":{"include_usage":1}`, "stream_options.include_usage", false}},
	},
	{line: "Chat request, response_format", good: []string{`"response_format":null`}, bad: []refused{{`"response_format":"json"`, "response_format", false}, {`"response_format":[]`, "response_format", false}}},
	{
		line: "Chat request, tools", good: []string{`"tools":[]`, `"tools":null`, toolMembers(`{"type":"function","function":{"name":"f"}}`)},
		bad: []refused{{`"tools":{}`, "tools", false}, {`"tools":["f"]`, "tools[0]", false}},
	},
	{line: "Chat request, tool_choice", good: []string{
		`"tool_choice":"auto"`, `"tool_choice":"none"`, `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`,
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
	}, bad: []refused{
		{`"tool_choice":"some"`, "tool_choice", false},
		{`"tool_choice":5`, "tool_choice", false},
		{`"tool_choice":{}`, "tool_choice.type", false},
		{`"tool_choice":{"type":"function"}`, "tool_choice.function", false},
		{`"tool_choice":{"type":"function","function":{}}`, "tool_choice.function.name", false},
	}},
	{
		line: "Chat request, reasoning", good: []string{`"reasoning":{}`, `"reasoning":{"effort":"low"}`, `"reasoning":{"max_tokens":5}`},
		bad: []refused{{`"reasoning":"high"`, "reasoning", false}, {`"reasoning":{"max_tokens":-1}`, "reasoning.max_tokens", false}},
	},
	{
		line: "Chat request, reasoning_effort",
		good: []string{`"reasoning_effort":"none"`, `"reasoning_effort":"low"`, `"reasoning_effort":"medium"`, `"reasoning_effort":"high"`, `"reasoning_effort":"xhigh"`, `"reasoning_effort":"low","reasoning":{"effort":"low"}`},
		bad: []refused{
			{`"reasoning_effort":3`, "reasoning_effort", false},
			{`"reasoning_effort":"low","reasoning":{"effort":"high"}`, "reasoning_effort", true},
		}, tests: []string{"translate/chat.TestCheck", "translate/chat.TestHints", "proxy/e2e.TestEffortsOfTheModel"},
	},
	{line: "Chat request, include_reasoning", good: []string{`"include_reasoning":true`, `"include_reasoning":false`}, bad: []refused{{`"include_reasoning":"no"`, "include_reasoning", false}}},
	{line: "Chat request, user", good: []string{`"user":"u"`}, bad: []refused{{`"user":5`, "user", false}}},
	{
		line: "Chat request, rule: max_tokens and max_completion_tokens match",
		good: []string{`"max_tokens":5,"max_completion_tokens":5`}, bad: []refused{{`"max_tokens":5,"max_completion_tokens":6`, "max_completion_tokens", true}},
	},
	{line: "Chat request, 200: chat completion response", check: func(t *testing.T, p *penstock) {
		var c struct {
			Choices []struct{ Message struct{ Content *string } }
			Usage   map[string]any
		}
		r := p.wantAccepted("")
		if err := json.Unmarshal([]byte(r.Body), &c); err != nil || len(c.Choices) == 0 || c.Choices[0].Message.Content == nil || c.Usage == nil {
			t.Errorf("no choices[0].message.content or no usage: %s", r.Body)
		}
	}},

	{line: "Chat message, role", good: []string{
		chatOf(`{"role":"system","content":"a"},{"role":"user","content":"a"}`), chatOf(`{"role":"developer","content":"a"},{"role":"user","content":"a"}`),
		chatOf(`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`), chatWithAssistant(`"tool_calls":[` + call + `]`),
	}, bad: []refused{
		{chatOf(`{"content":"a"}`), "messages[0].role", false}, {chatOf(`{"role":"function","content":"a"}`), "messages[0].role", false}, {chatOf(`{"role":1,"content":"a"}`), "messages[0].role", false},
	}},
	{line: "Chat message, content", good: []string{
		oneMessage(`"content":"a"`), oneMessage(`"content":[{"type":"text","text":"a"}]`), chatWithAssistant(`"tool_calls":[` + call + `]`),
	}, bad: []refused{{oneMessage(`"content":5`), "messages[0].content", false}, {oneMessage(`"content":{}`), "messages[0].content", false}, {chatWithPart(`"a"`), "messages[0].content[0]", false}}},
	{line: "Chat message, name", good: []string{oneMessage(`"content":"a","name":"bob"`)}, bad: []refused{{oneMessage(`"content":"a","name":5`), "messages[0].name", false}}},
	{line: "Chat message, tool_call_id", good: []string{chatWithAssistant(`"tool_calls":[` + call + `]`)}, bad: []refused{{oneMessage(`"content":"a","tool_call_id":5`), "messages[0].tool_call_id", false}}},
	{line: "Chat message, tool_calls", good: []string{chatWithAssistant(`"tool_calls":[` + call + `]`)}, bad: []refused{{chatWithAssistant(`"tool_calls":{}`), "messages[1].tool_calls", false}, {chatWithAssistant(`"tool_calls":["c"]`), "messages[1].tool_calls[0]", false}}},
	{line: "Content part, text", good: []string{chatWithPart(`{"type":"text","text":""}`)}, bad: []refused{
		{chatWithPart(`{"type":"text"}`), "messages[0].content[0].text", false},
		{chatWithPart(`{"type":"text","text":5}`), "messages[0].content[0].text", false},
		{chatWithPart(`{"text":"a"}`), "messages[0].content[0].type", false},
		{chatWithPart(`{"type":"video_url","video_url":"x"}`), "messages[0].content[0].video_url", false},
	}},
	{line: "Content part, image_url", good: []string{
		chatWithPart(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`), chatWithPart(`{"type":"image_url","image_url":{"url":"` + rig.PictureDataURL("jpeg") + `","detail":"low"}}`),
		chatWithPart(`{"type":"image_url","image_url":{"url":"` + rig.PictureDataURL("png") + `","detail":"auto"}}`),
	}, bad: []refused{
		{chatWithPart(`{"type":"image_url"}`), "messages[0].content[0].image_url", false},
		{chatWithPart(`{"type":"image_url","image_url":5}`), "messages[0].content[0].image_url", false},
		{chatWithPart(`{"type":"image_url","image_url":{}}`), "messages[0].content[0].image_url.url", false},
		{chatWithPart(`{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":5}}`), "messages[0].content[0].image_url.detail", false},
		{chatWithPart(`{"type":"image_url","image_url":"http://example.com/a.png"}`), "messages[0].content[0].image_url", true},
		{chatWithPart(`{"type":"image_url","image_url":"data:image/gif;base64,R0lGODlhAQABAAAAACw="}`), "messages[0].content[0].image_url", true},
	}, check: func(t *testing.T, p *penstock) {
		// The simulator accepts only an object here, so the test checks the string only against the
		// schema.
		body := chatWithPart(`{"type":"image_url","image_url":"` + rig.PictureDataURL("png") + `"}`)
		if err := rig.PublishedContract(t).Validate(rig.SchemaPointer("ChatCompletionRequest"), []byte(body)); err != nil {
			t.Error(err)
		}
		if r := p.Post(chatPath, body); r.Status != 200 && errorRecord(r).Code != "rejected_by_engine" {
			t.Errorf("a URI string is refused: %s", r.Body)
		}
	}, tests: []string{"translate/chat.TestDataURLs", "translate/chat.TestImageURLs", "proxy/e2e/faults.TestFault64_ImageURLs"}},
	{line: "Tool call", good: []string{chatWithAssistant(`"tool_calls":[` + call + `]`)}, bad: []refused{
		{chatWithAssistant(`"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].id", false},
		{chatWithAssistant(`"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].type", false},
		{chatWithAssistant(`"tool_calls":[{"id":"c1","type":"custom","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].type", false},
		{chatWithAssistant(`"tool_calls":[{"id":"c1","type":"function"}]`), "messages[1].tool_calls[0].function", false},
		{chatWithAssistant(`"tool_calls":[{"id":"c1","type":"function","function":{"arguments":"{}"}}]`), "messages[1].tool_calls[0].function.name", false},
		{chatWithAssistant(`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{}}}]`), "messages[1].tool_calls[0].function.arguments", false},
	}},
	{line: "Tool definition", good: []string{
		toolMembers(`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}`),
	}, bad: []refused{
		{toolMembers(`{"function":{"name":"f"}}`), "tools[0].type", false},
		{toolMembers(`{"type":"function"}`), "tools[0].function", false},
		{toolMembers(`{"type":"function","function":{}}`), "tools[0].function.name", false},
		{toolMembers(`{"type":"function","function":{"name":5}}`), "tools[0].function.name", false},
		{toolMembers(`{"type":"function","function":{"name":"f","description":5}}`), "tools[0].function.description", false},
		{toolMembers(`{"type":"function","function":{"name":"f","parameters":[]}}`), "tools[0].function.parameters", false},
		{toolMembers(`{"type":"function","function":{"name":"f","strict":"yes"}}`), "tools[0].function.strict", false},
	}},
	{line: "Response format", good: []string{
		`"response_format":{"type":"text"}`, `"response_format":{"type":"json_object"}`, `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}`,
	}, bad: []refused{
		{`"response_format":{}`, "response_format.type", false},
		{`"response_format":{"type":"xml"}`, "response_format.type", false},
		{`"response_format":{"type":"json_schema"}`, "response_format.json_schema", false},
		{`"response_format":{"type":"json_schema","json_schema":"s"}`, "response_format.json_schema", false},
	}},
}

var otherRows = []rule{
	{line: "GET /models", check: func(_ *testing.T, p *penstock) { p.list() }, tests: []string{"proxy/e2e.TestCatalogByKey"}},
	{line: "GET /health", check: func(t *testing.T, p *penstock) {
		if r := p.Get("/health").WantStatus(200); r.Body != `{"status":"ok"}` {
			t.Errorf("health = %s, want status ok alone", r.Body)
		}
	}},
	{line: "HEAD /", check: func(_ *testing.T, p *penstock) {
		p.Do("HEAD", "/", "", "Authorization: ").WantStatus(204)
	}},
	{line: "Health record", check: func(t *testing.T, p *penstock) {
		var h map[string]any
		if err := json.Unmarshal([]byte(p.Get("/health").Body), &h); err != nil || len(h) != 1 || h["status"] != "ok" {
			t.Errorf("health = %v, %v; want status ok alone", h, err)
		}
	}},
	{line: "POST /audio/transcriptions, 200: content types", tests: []string{"proxy/e2e.TestTranscriptions"}},
	{line: "POST /audio/speech, 200: content type", tests: []string{"proxy/e2e.TestSpeech"}},
	{line: "General: optional fields beyond their type", check: func(t *testing.T, p *penstock) {
		p.wantAccepted(`"metadata":{"a":"b"},"parallel_tool_calls":false,"unknown_member":[1,2]`)
	}},
	{line: "States and transitions", tests: []string{"proxy/e2e.TestCatalogReadiness", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Events 1, streaming", check: func(t *testing.T, p *penstock) {
		text, done := rig.StreamText(t, rig.ChatStream, p.wantAccepted(`"stream":true`).Events())
		if text == "" || !done {
			t.Errorf("streamed %q, done: %v", text, done)
		}
	}, tests: []string{"proxy/e2e.TestResponsesContract", "proxy/e2e.TestMessagesContract"}},
	{line: "Events 2, names and shapes (not shown: the published ones)", tests: []string{"proxy/e2e.TestGolden"}},
	{line: "Events 3, nothing is sent unasked (not shown)", check: func(t *testing.T, p *penstock) {
		if strings.Contains(p.Get("/openapi.json").Body, `"webhooks"`) {
			t.Error("the document tells of webhooks")
		}
	}},
	{line: "Versioning 1, the path prefix", check: func(_ *testing.T, p *penstock) {
		p.Post("/chat/completions", p.ChatRequest("")).WantError(404, "not_found_error", "not_found")
		p.Get("/models").WantError(404, "not_found_error", "not_found")
		p.Get("/v1/health").WantError(404, "not_found_error", "not_found")
	}},
	{line: "Versioning 2, the description", check: func(_ *testing.T, p *penstock) {
		for _, target := range []string{"/openapi.json", "/openapi.yaml"} {
			p.Get(target, "Authorization: Bearer nonsense").WantStatus(200)
			p.Do("HEAD", target, "").WantStatus(200)
		}
	}, tests: []string{"proxy/operate/openapi.TestVersionIsATime", "proxy/operate/openapi.TestDocumentIsValid", "proxy/e2e.TestOpenapiCommand"}},
	{line: "Versioning 4, deprecation (not shown: whatever is old says so)", check: func(t *testing.T, p *penstock) {
		if !strings.Contains(p.Get("/openapi.yaml").Body, "deprecated: true") {
			t.Error("max_tokens, the older name, is not marked")
		}
	}},
	{line: "Versioning 3, canonical ids", check: func(t *testing.T, p *penstock) {
		for _, r := range []*rig.Reply{p.Post(chatPath, rig.ChatBody("nick", "")), p.Post(chatPath, rig.ChatBody("org/anything", `"stream":true`))} {
			if !strings.Contains(r.WantStatus(200).Body, `"model":"sim"`) || strings.Contains(r.Body, "nick") {
				t.Errorf("the answer does not carry the canonical id: %.200s", r.Body)
			}
		}
	}},
}

// TestNearPath checks that the error for a misspelt path names the similar endpoint and does not
// repeat the client's text.
func TestNearPath(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for path, want := range map[string]string{
		"/v1/v1/messages": "to /v1/messages;", "/v1/chat/completions/": "to /v1/chat/completions;", "/chat/completions?a=b": "to /v1/chat/completions;",
		"/v1/v1/audio/speech//": "to /v1/audio/speech;", "/v1/" + rig.Canary: "under /v1;", "/v1/v1": "under /v1;", "/v1messages": "under /v1;",
	} {
		r := p.Post(path, "{}").WantStatus(404)
		if !strings.Contains(r.Body, want) || strings.Contains(r.Body, rig.Canary) {
			t.Errorf("%s: %s, want %q", path, r.Body, want)
		}
	}
}
