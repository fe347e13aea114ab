package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// This file contains the contract's tables for the two translated dialects, which list only names
// and types. The tests of the translators check the engine's request for each field.

// member is a row of a table: a name and a type.
type member struct {
	name        string
	good, wrong []string // valid and invalid values
	// passed are valid values that the edge accepts, but that the simulated engine may reject.
	passed []string
	// unsaid are invalid values that a schema cannot reject, because it cannot express the reason.
	unsaid []string
}

// rows creates one rule for each member. base is the smallest valid request, so all members in it
// are required.
func rows(table, path, schemaName string, base map[string]string, members []member) []rule {
	var out []rule
	for _, m := range members {
		body := func(value string) string {
			o := map[string]json.RawMessage{}
			for name, v := range base {
				o[name] = json.RawMessage(v)
			}
			delete(o, m.name)
			if value != "" {
				o[m.name] = json.RawMessage(value)
			}
			text, err := json.Marshal(o)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			return string(text)
		}
		wrong := slices.Concat(m.wrong, m.unsaid)
		if base[m.name] != "" {
			wrong = append(wrong, "") // omitting a required member is also wrong
		}
		out = append(out, rule{line: table + ", " + m.name, check: func(t *testing.T, p *penstock) {
			for _, v := range slices.Concat(m.good, m.passed) {
				if err := rig.PublishedContract(t).Validate(rig.SchemaPointer(schemaName), []byte(body(v))); err != nil {
					t.Errorf("the document refuses %s: %v", body(v), err)
				}
				r := p.Post(path, body(v))
				if r.Status == 400 && slices.Contains(m.passed, v) && errorRecord(r).Code == "rejected_by_engine" {
					continue
				}
				if r.Status != 200 {
					t.Errorf("%s: status = %d, want 200\n%s", body(v), r.Status, r.Body)
				}
			}
			for _, v := range wrong {
				if err := rig.PublishedContract(t).Validate(rig.SchemaPointer(schemaName), []byte(body(v))); (err == nil) != slices.Contains(m.unsaid, v) {
					t.Errorf("%s: the document says %v", body(v), err)
				}
				r := p.Post(path, body(v))
				if r.Status != 400 {
					t.Errorf("%s: status %d, want 400\n%s", body(v), r.Status, r.Body)
					continue
				}
				if e := errorRecord(r); e.Param == nil || !strings.HasPrefix(*e.Param, m.name) || e.Code == "rejected_by_engine" {
					t.Errorf("%s: the parameter is %s, want %s: %s", body(v), orNull(e.Param), m.name, e.Message)
				}
			}
		}})
	}
	return out
}

var responsesRows = rows("Responses request", "/v1/responses", "ResponsesRequest", map[string]string{"model": `"sim"`, "input": `"Say something."`}, []member{
	{"model", []string{`"sim"`, `"nick"`}, []string{`5`, `""`, `null`}, nil, nil},
	{"input", []string{`"a"`, `[{"role":"user","content":"a"}]`, `[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]`}, []string{`5`, `{}`, `null`}, nil, nil},
	{"stream", []string{`true`, `false`, `null`}, []string{`"true"`, `1`}, nil, nil},
	{"temperature", []string{`0`, `1.5`, `null`}, []string{`"1"`}, nil, nil},
	{"top_p", []string{`0.5`, `null`}, []string{`"1"`}, nil, nil},
	{"max_output_tokens", []string{`16`, `null`}, []string{`"16"`, `1.5`, `-1`}, nil, nil},
	{
		"tools",
		[]string{`[]`, `null`, `[{"type":"function","name":"f","parameters":{"type":"object"}}]`, `[{"type":"function","name":"f"},{"type":"web_search"}]`},
		[]string{`{}`},
		nil,
		[]string{`[{"type":"web_search"}]`, `[{"type":"mcp"}]`},
	},
	{"tool_choice", []string{`"auto"`, `"none"`, `null`}, []string{`5`, `"any"`}, nil, nil},
	{"parallel_tool_calls", []string{`true`, `false`, `null`}, []string{`"yes"`}, nil, nil},
	{"text", []string{`{}`, `{"format":{"type":"text"}}`, `{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}}`}, []string{`"json"`, `{"format":{"type":"xml"}}`}, nil, nil},
	{"reasoning", []string{`{}`, `{"effort":"low","summary":"auto"}`, `null`}, []string{`"high"`, `{"effort":5}`}, nil, nil},
	{"metadata", []string{`{}`, `{"a":"b"}`, `null`}, []string{`"a"`}, nil, nil},
	{"store", []string{`false`, `null`}, []string{`true`}, nil, nil},
	{"previous_response_id", []string{`null`}, []string{`"resp_1"`}, nil, nil},
	{"prompt_cache_key", []string{`null`, `"session"`}, []string{`5`}, nil, nil},
})

var messagesRows = rows("Messages request", "/v1/messages", "MessagesRequest", map[string]string{
	"model": `"sim"`, "max_tokens": `64`, "messages": `[{"role":"user","content":"Say something."}]`,
}, []member{
	{"model", []string{`"sim"`, `"nick"`}, []string{`5`, `""`, `null`}, nil, nil},
	{"messages", []string{`[{"role":"user","content":[{"type":"text","text":"a"}]}]`}, []string{`5`, `[]`, `null`, `"a"`}, nil, nil},
	{"max_tokens", []string{`1`, `64`}, []string{`"64"`, `1.5`, `-1`, `null`}, nil, nil},
	{"system", []string{`"s"`, `[{"type":"text","text":"s"}]`, `null`}, []string{`5`, `{}`}, nil, nil},
	{"temperature", []string{`0`, `1`, `null`}, []string{`"1"`}, nil, nil},
	{"top_p", []string{`0.5`, `null`}, []string{`"1"`}, nil, nil},
	{"top_k", []string{`0`, `40`, `null`}, []string{`"1"`, `1.5`}, nil, nil},
	{"stop_sequences", []string{`[]`, `["END"]`, `null`}, []string{`"END"`, `[5]`}, nil, nil},
	{"stream", []string{`true`, `false`, `null`}, []string{`"true"`, `1`}, nil, nil},
	{"tools", []string{`[]`, `null`, `[{"name":"f","description":"d","input_schema":{"type":"object"}}]`}, []string{`{}`, `["f"]`, `[{"input_schema":{}}]`}, nil, nil},
	{"tool_choice", []string{`null`, `{"type":"auto"}`, `{"type":"none"}`}, []string{`"auto"`, `{"type":"some"}`}, nil, nil},
	{"metadata", []string{`{}`, `{"user_id":"u"}`, `null`}, []string{`"u"`}, nil, nil},
})

var speechRows = rows("Speech request", speech, "SpeechRequest", map[string]string{"model": `"speaks"`, "input": `"Say this."`}, []member{
	{"model", []string{`"speaks"`}, []string{`5`, `""`, `null`}, nil, nil},
	{"input", []string{`"a"`}, []string{`5`, `""`, `null`, `["a"]`}, nil, nil},
	{"voice", []string{`"alloy"`, `null`}, []string{`5`}, nil, nil},
	{"response_format", []string{`"wav"`, `"mp3"`, `"pcm"`, `null`}, []string{`"ogg"`, `5`}, []string{`"flac"`, `"opus"`}, nil},
	{"speed", []string{`0.25`, `1`, `4`}, []string{`0.24`, `4.01`, `"1"`}, []string{`null`}, nil},
})

var transcriptionRows = []rule{
	formRow("file", []formPart{wav("audio")}, []formPart{{}, text("file", "audio"), wav("")}),
	formRow("model", []formPart{text("model", "hears")}, []formPart{{}, text("model", "")}),
	formRow("language", []formPart{text("language", "de")}, nil),
	formRow("response_format", []formPart{
		text("response_format", "json"), text("response_format", "text"), text("response_format", "srt"), text("response_format", "verbose_json"), text("response_format", "vtt"),
	}, []formPart{text("response_format", "xml")}),
	formRow("temperature", []formPart{text("temperature", "0"), text("temperature", "0.5")}, []formPart{text("temperature", "hot")}),
	formRow("timestamp_granularities", []formPart{text("timestamp_granularities", "word"), text("timestamp_granularities[]", "segment")}, []formPart{text("timestamp_granularities[]", "minute")}),
}

// formRow returns the rule for a transcription field. An empty part stands for a missing part.
func formRow(name string, good, wrong []formPart) rule {
	parts := func(p formPart) []formPart {
		var out []formPart
		for _, one := range []formPart{text("model", "hears"), wav("audio")} {
			if one.name != name {
				out = append(out, one)
			}
		}
		if strings.HasPrefix(p.name, "timestamp_granularities") {
			out = append(out, text("response_format", "verbose_json"))
		}
		if p.name != "" {
			out = append(out, p)
		}
		return out
	}
	return rule{line: "Transcription form, " + name, check: func(t *testing.T, p *penstock) {
		for _, part := range good {
			if r := p.upload(transcriptions, parts(part)...); r.Status != 200 {
				t.Errorf("%v: status = %d, want 200\n%s", part, r.Status, r.Body)
			}
		}
		for _, part := range wrong {
			r := p.upload(transcriptions, parts(part)...)
			if r.Status != 400 {
				t.Errorf("%v: status %d, want 400\n%s", part, r.Status, r.Body)
				continue
			}
			if e := errorRecord(r); orNull(e.Param) != name {
				t.Errorf("%v: the parameter is %s", part, orNull(e.Param))
			}
		}
	}, tests: []string{"proxy/e2e.TestTranscriptions", "proxy/e2e.TestTranscriptions_Refused"}}
}

// TestResponsesContract checks the parts of the contract about /responses that are not in the
// table.
func TestResponsesContract(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	const path = "/v1/responses"
	body := func(more string) string {
		return `{"model":"sim","input":"Say something about ` + rig.Canary + `."` + more + `}`
	}

	whole := p.Post(path, body("")).WantStatus(200)
	if !strings.Contains(whole.Body, `"status":"completed"`) {
		t.Errorf("answer = %s, want it completed", whole.Body)
	}
	events := p.Post(path, body(`,"stream":true`)).WantStatus(200).Events()
	wantOrder(t, events, "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed")
	if last := events[len(events)-1].Data; last != "[DONE]" {
		t.Errorf("the stream ends with %s", last)
	}
	for more, param := range map[string]string{`,"store":true`: "store", `,"previous_response_id":"resp_1"`: "previous_response_id"} {
		e := p.Post(path, body(more)).WantError(400, "invalid_request_error", "unsupported_parameter")
		if orNull(e.Param) != param {
			t.Errorf("%s: the parameter is %s", more, orNull(e.Param))
		}
	}
	secret := p.Post(path, body(`,"sim":{"reasoning":8}`)).WantStatus(200)
	streamed := p.Post(path, body(`,"stream":true,"reasoning":{"effort":"high"}`)).WantStatus(200)
	for _, r := range []*rig.Reply{secret, streamed} {
		if strings.Contains(r.Body, "reasoning_text") || strings.Contains(r.Body, "summary_text") {
			t.Errorf("reasoning is exposed: %s", r.Body)
		}
	}
}

// TestMessagesContract checks the parts of the contract about /messages that are not in the table.
func TestMessagesContract(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	const path = "/v1/messages"
	body := func(more string) string {
		return `{"model":"sim","max_tokens":64,"messages":[{"role":"user","content":"Say something about ` + rig.Canary + `."}]` + more + `}`
	}
	whole := p.Post(path, body("")).WantStatus(200)
	if !strings.Contains(whole.Body, `"type":"message"`) {
		t.Errorf("answer = %s, want a message", whole.Body)
	}
	p.Post(path, body(""), "Authorization: ", "x-api-key: "+p.Key, "anthropic-version: 2023-06-01").WantStatus(200)
	p.Post(path+"?beta=true", body(`,"tools":[{"name":"f","input_schema":{"type":"object"}}]`)).WantStatus(200)
	events := p.Post(path, body(`,"stream":true`)).WantStatus(200).Events()
	wantOrder(t, events, "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop")
	count := p.Post(path+"/count_tokens", strings.Replace(body(""), `"max_tokens":64,`, "", 1)).WantStatus(200)
	if !strings.HasPrefix(count.Body, `{"input_tokens":`) {
		t.Errorf("count = %s, want input_tokens", count.Body)
	}
	e := p.Post(path, body(`,"temperature":"hot"`))
	if !strings.HasPrefix(e.WantStatus(400).Body, `{"type":"error"`) || !strings.Contains(e.Body, e.Header.Get("Request-Id")) {
		t.Errorf("error = %s, want the form of this dialect with the request id", e.Body)
	}
}

// wantOrder checks that events with the given names occur, and that they first occur in the given
// order.
func wantOrder(t *testing.T, events []rig.Event, names ...string) {
	t.Helper()
	var first []string
	for _, e := range events {
		if e.Name != "" && e.Name != "ping" && !slices.Contains(first, e.Name) {
			first = append(first, e.Name)
		}
	}
	if !slices.Equal(first, names) {
		t.Errorf("events in the order %v, want %v", first, names)
	}
}

// TestEffortsOfTheModel checks requests with an effort that the model does not list. The chat
// endpoint must reject the request, and the other endpoints must lower the effort.
func TestEffortsOfTheModel(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Model: "supported_reasoning_efforts: [none, low]"})
	e := p.Post(chatPath, p.ChatRequest(`"reasoning_effort":"high"`)).WantError(400, "invalid_request_error", "unsupported_parameter")
	if orNull(e.Param) != "reasoning_effort" || !strings.Contains(e.Message, "none, low") {
		t.Errorf("param = %s, message %s; want reasoning_effort and its values", orNull(e.Param), e.Message)
	}
	p.Post(chatPath, p.ChatRequest(`"reasoning_effort":"low"`)).WantStatus(200)
	for path, body := range map[string]string{
		"/v1/responses": `{"model":"sim","input":"a","reasoning":{"effort":"high"}}`,
		"/v1/messages":  `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"a"}],"output_config":{"effort":"max"}}`,
	} {
		p.Post(path, body).WantStatus(200)
		var sent struct {
			Effort string `json:"reasoning_effort"`
		}
		last := p.Engines[0].Stats().LastRequest
		if err := json.Unmarshal(last.Body, &sent); err != nil || sent.Effort != "low" {
			t.Errorf("%s: the engine was told %q (%v)", path, sent.Effort, err)
		}
	}
}

// TestBareCompletion checks that a client receives all members that the contract and the SDKs'
// types promise, even if the engine's answer contains only the text.
func TestBareCompletion(t *testing.T) {
	t.Parallel()
	p := startBare(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"twelve bytes"}}]}`)
	})
	body := p.Post("/v1/chat/completions", `{"model":"talk","messages":[{"role":"user","content":"x"}]}`).WantStatus(200).Body
	if err := rig.PublishedContract(t).Validate(rig.SchemaPointer("ChatCompletion"), []byte(body)); err != nil {
		t.Errorf("the body does not fit ChatCompletion: %v\n%s", err, body)
	}
	if !strings.Contains(body, `"id":"chatcmpl-`) {
		t.Errorf("no id of its own: %s", body)
	}
}

// TestDeveloperAsSystem checks that the role developer becomes system only for an engine whose
// templates do not support developer.
func TestDeveloperAsSystem(t *testing.T) {
	t.Parallel()
	for engine, want := range map[string]string{"sim": "developer", "plain": "system"} {
		p := start(t, rig.Setup{Engines: recordingEngine(), Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
engines: [{ name: plain, like: sim, quirks: [developer_as_system] }]
upstreams: [{ name: up, url: "{{up-0}}", engine: ` + engine + `, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: up }] }]
`})
		p.Post("/v1/chat/completions", `{"model":"sim","messages":[{"role":"developer","content":"a"},{"role":"user","content":"b"}]}`).WantStatus(200)
		if sent := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(sent, `{"role":"`+want+`","content":"a"}`) {
			t.Errorf("%s received %s, want the role %s", engine, sent, want)
		}
	}
}
