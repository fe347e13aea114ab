package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/auth"
)

// The contract is the API specification that clients were promised: tables of fields and numbered rules. Every row of every
// table and every rule is named here, with what holds it: requests that must be accepted or refused, a check, or the tests
// elsewhere that do it better.

// rule is one line of the contract.
type rule struct {
	line string // where it stands: heading, then row or number
	// good are chat requests that are accepted: a member to add to a plain request, or a whole body when it begins with {.
	good []string
	// bad are chat requests that are refused with 400 and the parameter.
	bad []refused
	// check is any other expectation.
	check func(t *testing.T, p *penstock)
	// tests are Go tests that hold the line: folder of the package, dot, name.
	tests []string
}

// refused is a chat request, as in rule.good, with the answer's param.
type refused struct {
	request, param string
	// unsaid: the rule is one that a schema cannot state.
	unsaid bool
}

func TestContract(t *testing.T) {
	t.Parallel()
	_, narrow, _ := auth.NewKey()
	p := start(t, setup{
		upstream: "concurrency: { text: 16, vision: 4, audio: 4 }",
		model:    fullModel,
		keys:     `- { id: narrow, hash: "` + narrow + `", models: [other] }`,
		models:   otherKinds,
	})
	known := goTests(t)
	lines := map[string]bool{}
	for _, r := range slices.Concat(serviceRules, modelRows, chatRows, responsesRows, messagesRows, transcriptionRows, speechRows, otherRows, authRules, errorRules, limitRules) {
		t.Run(r.line, func(t *testing.T) {
			if lines[r.line] {
				t.Errorf("the line is there twice")
			}
			lines[r.line] = true
			if len(r.good)+len(r.bad)+len(r.tests) == 0 && r.check == nil {
				t.Error("nothing holds this line")
			}
			q := *p // the same edge; failures are reported to this line
			q.t = t
			for _, g := range r.good {
				q.accepts(g)
			}
			for _, b := range r.bad {
				q.refuses(b)
			}
			if r.check != nil {
				r.check(t, &q)
			}
			for _, name := range r.tests {
				if !known[name] {
					t.Errorf("there is no test %s", name)
				}
			}
		})
	}
}

// fullModel sets every member of a model that the catalog publishes.
const fullModel = `aliases: [nick, "org/*"], name: Sim One, owned_by: acme, task: chatting, created: 1700000000, context_length: 32768,
    max_output_length: 4096, capacity_tpm: 1000000, input_modalities: [text, image], output_modalities: [text],
    modality_context_lengths: { image: 8192 }, supported_features: [tools, structured_outputs, reasoning],
    supported_reasoning_efforts: [none, low, medium, high, xhigh], pricing: { input: "0.10" },
    vision: { max_image_edge: 2048, max_pixels: 1000000, max_tokens: 2048, context_length: 8192, retry_after_seconds: 7 }`

// otherKinds has a model of every other kind, and one whose id holds a slash.
const otherKinds = `- { id: hears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }
- { id: speaks, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
- { id: paints, kind: image, deployments: [{ upstream: up-0, served: sim }] }
- { id: edits, kind: image-edit, deployments: [{ upstream: up-0, served: sim }] }
- { id: embeds, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }
- { id: ranks, kind: rerank, deployments: [{ upstream: up-0, served: sim }] }
- { id: other, deployments: [{ upstream: up-0, served: sim }], supported_endpoints: [/v1/chat/completions] }
- { id: vendor/family/model, deployments: [{ upstream: up-0, served: sim }] }
`

// body is the chat request that a row means.
func (p *penstock) body(request string) string {
	if strings.HasPrefix(request, "{") {
		return request
	}
	return p.chat(request)
}

// accepts sends a chat request that must be answered, and that the published schema must allow.
func (p *penstock) accepts(request string) *reply {
	p.t.Helper()
	body := p.body(request)
	if err := published(p.t).fits(schema("ChatCompletionRequest"), []byte(body)); err != nil {
		p.t.Errorf("the document refuses %s: %v", request, err)
	}
	r := p.post(chatPath, body)
	if r.status != 200 {
		p.t.Errorf("%s: status %d\n%s", request, r.status, r.body)
	}
	return r
}

// refuses sends a chat request that must be refused by the edge for one parameter, and by the published schema.
func (p *penstock) refuses(b refused) {
	p.t.Helper()
	body := p.body(b.request)
	if err := published(p.t).fits(schema("ChatCompletionRequest"), []byte(body)); (err == nil) != b.unsaid {
		p.t.Errorf("%s: the document says %v", b.request, err)
	}
	before := p.engines[0].Stats().Requests
	r := p.post(chatPath, body)
	if r.status != 400 {
		p.t.Errorf("%s: status %d, want 400\n%s", b.request, r.status, r.body)
		return
	}
	e := r.errorRecord()
	switch {
	case e.Type != "invalid_request_error" || e.Code == "rejected_by_engine":
		p.t.Errorf("%s: %s, %s", b.request, e.Type, e.Code)
	case e.Param == nil || *e.Param != b.param:
		p.t.Errorf("%s: the parameter is %v, want %s: %s", b.request, show(e.Param), b.param, e.Message)
	case !strings.Contains(e.Message, b.param):
		p.t.Errorf("%s: the message does not name %s: %s", b.request, b.param, e.Message)
	}
	if after := p.engines[0].Stats().Requests; after != before {
		p.t.Errorf("%s: an engine was asked", b.request)
	}
}

func show(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// errorRecord reads an error without an opinion on it.
func (r *reply) errorRecord() *apiError {
	r.t.Helper()
	var e struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error == nil {
		r.t.Fatalf("not an error record: %.300q", r.body)
	}
	return e.Error
}

// goTests are the tests of the module as "folder.TestName".
func goTests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, depth := range []string{"*", "*/*", "*/*/*"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(depth), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			known[filepath.ToSlash(folder)+"."+string(m[1])] = true
		}
	}
	return known
}

// entry is one model of the catalog as plain JSON.
func (p *penstock) entry(id string) map[string]any {
	p.t.Helper()
	target := "/v1/models/" + id
	r := p.get(target).wantStatus(200)
	var m map[string]any
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		p.t.Fatal(err)
	}
	return m
}

// publishes checks one member of the full model, given as JSON.
func publishes(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) {
		got, err := json.Marshal(p.entry("sim")[member])
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is %s, want %s", member, got, want)
		}
	}
}

// chatOf is a chat request with the given messages.
func chatOf(messages string) string { return `{"model":"sim","messages":[` + messages + `]}` }

// oneMessage is a chat request with one message of a user and these further members.
func oneMessage(members string) string { return chatOf(`{"role":"user",` + members + `}`) }

// part is a chat request with one content part.
func part(p string) string { return oneMessage(`"content":[` + p + `]`) }

// replay is a chat request whose second message is the assistant's with the given members.
func replay(members string) string {
	return chatOf(`{"role":"user","content":"a"},{"role":"assistant","content":null,` + members + `},{"role":"tool","tool_call_id":"c1","content":"ok"}`)
}

// tool is a chat request with one tool definition and the assistant told not to use it.
func tool(definition string) string { return `"tool_choice":"none","tools":[` + definition + `]` }

var serviceRules = []rule{
	{line: "What the service does 1, JSON over HTTP, an upload, binary audio", good: []string{`"user":"u"`}, tests: []string{"proxy/e2e.TestTranscriptions", "proxy/e2e.TestSpeech"}},
	{line: "What the service does 2, surfaces", check: func(t *testing.T, p *penstock) {
		for _, path := range []string{chatPath, "/v1/responses", "/v1/messages"} {
			if r := p.do("POST", path, "{"); r.status != 400 {
				t.Errorf("POST %s {: status %d", path, r.status)
			}
		}
		p.get("/v1/models").wantStatus(200)
		p.get("/health").wantStatus(200)
		p.do("HEAD", "/", "", "Authorization: ").wantStatus(204)
	}, tests: []string{"proxy/e2e.TestFault64_ImageURLs"}},
	{line: "What the service does 3, capabilities are published", check: publishes("supported_features", `["tools","structured_outputs","reasoning"]`)},
	{line: "What the service does 4, kinds", check: func(t *testing.T, p *penstock) {
		for id, kind := range map[string]string{
			"sim": "chat", "hears": "audio-transcription", "speaks": "audio-speech", "paints": "image", "edits": "image-edit", "embeds": "embedding", "ranks": "rerank",
		} {
			if got := p.entry(id)["kind"]; got != kind {
				t.Errorf("%s is of kind %v, want %s", id, got, kind)
			}
		}
	}},
	{
		line:  "What the service does 5, vision and function tools only",
		good:  []string{visionBody(picture("png"), "")},
		bad:   []refused{{tool(`{"type":"web_search"}`), "tools[0].type", false}},
		tests: []string{"translate/chat.TestCheck"},
	},
	{line: "What the service does 6, only ready models", tests: []string{"proxy/e2e.TestCatalogReadiness"}},
}

var modelRows = []rule{
	{line: "Model, id", check: publishes("id", `"sim"`)},
	{line: "Model, object", check: publishes("object", `"model"`)},
	{line: "Model, created", check: publishes("created", `1700000000`)},
	{line: "Model, owned_by", check: publishes("owned_by", `"acme"`)},
	{line: "Model, name", check: publishes("name", `"Sim One"`)},
	{line: "Model, kind", check: publishes("kind", `"chat"`)},
	{line: "Model, task", check: publishes("task", `"chatting"`)},
	{line: "Model, supported_endpoints", check: func(t *testing.T, p *penstock) {
		for _, id := range p.list().ids() {
			for _, path := range p.entry(id)["supported_endpoints"].([]any) {
				if published(t).operation("POST", path.(string)) == nil {
					t.Errorf("%s promises %v, which the document does not have", id, path)
				}
				if r := p.post(path.(string), "{"); r.status == 404 || r.status == 405 {
					t.Errorf("%s promises %v, which is answered with %d", id, path, r.status)
				}
			}
		}
		for _, path := range []string{chatPath, "/v1/messages", "/v1/responses"} {
			if !slices.Contains(p.entry("sim")["supported_endpoints"].([]any), any(path)) {
				t.Errorf("a chat model is not offered on %s", path)
			}
		}
	}},
	{line: "Model, input_modalities", check: publishes("input_modalities", `["text","image"]`)},
	{line: "Model, output_modalities", check: publishes("output_modalities", `["text"]`)},
	{line: "Model, context_length", check: publishes("context_length", `32768`)},
	{line: "Model, modality_context_lengths", check: publishes("modality_context_lengths", `{"image":8192}`)},
	{line: "Model, max_output_length", check: publishes("max_output_length", `4096`)},
	{line: "Model, capacity_tpm", check: publishes("capacity_tpm", `1000000`)},
	{line: "Model, capacity", check: func(t *testing.T, p *penstock) {
		if p.entry("sim")["capacity"] == nil {
			t.Error("no capacity")
		}
	}, tests: []string{"proxy/e2e.TestCatalogCapacity"}},
	{line: "Model, vision", check: publishes("vision", `{"context_length":8192,"max_image_edge":2048,"max_pixels":1000000,"max_tokens":2048,"retry_after_seconds":7}`)},
	{line: "Model, pricing", check: publishes("pricing", `{"input":"0.10"}`)},
	{line: "Model, supported_features", check: publishes("supported_features", `["tools","structured_outputs","reasoning"]`)},
	{line: "Model, is_ready", check: publishes("is_ready", `true`), tests: []string{"proxy/e2e.TestCatalogReadiness"}},
	{line: "Model, model_info.supported_reasoning_efforts", check: publishes("model_info", `{"supported_reasoning_efforts":["none","low","medium","high","xhigh"]}`)},

	{line: "Capacity, available_concurrency", check: capacityMember("available_concurrency", "20")},
	{line: "Capacity, total_concurrency", check: capacityMember("total_concurrency", "20")},
	{line: "Capacity, active_requests", check: capacityMember("active_requests", "0")},
	{line: "Capacity, utilization_percent", check: capacityMember("utilization_percent", "0"), tests: []string{"routing.TestCapacity"}},
	{line: "Capacity, unit", check: capacityMember("unit", `"concurrent_requests"`)},
	{line: "Capacity, updated_at", check: func(t *testing.T, p *penstock) {
		at := p.entry("sim")["capacity"].(map[string]any)["updated_at"].(float64)
		if d := time.Since(time.Unix(int64(at), 0)); d < -time.Second || d > 3*time.Second {
			t.Errorf("updated %v ago", d)
		}
	}},
	{line: "Capacity, modalities", check: capacityMember("modalities", `{"text":{"active_requests":0,"available_concurrency":16,"total_concurrency":16,"utilization_percent":0},`+
		`"vision":{"active_requests":0,"available_concurrency":4,"total_concurrency":4,"utilization_percent":0}}`), tests: []string{"proxy/e2e.TestCatalogSharedPool"}},

	{line: "Vision, max_image_edge", check: publishesVision("max_image_edge", "2048")},
	{line: "Vision, max_pixels", check: func(t *testing.T, p *penstock) {
		publishesVision("max_pixels", "1000000")(t, p)
		p.refuses(refused{visionBody(blank(1001, 1000), ""), "messages[0].content[1].image_url.url", true})
	}},
	{line: "Vision, max_tokens", check: func(t *testing.T, p *penstock) {
		publishesVision("max_tokens", "2048")(t, p)
		p.accepts(visionBody(picture("png"), `"max_tokens":4000`))
	}, tests: []string{"translate/chat.TestCheck"}},
	{line: "Vision, context_length", check: publishesVision("context_length", "8192"), tests: []string{"translate/chat.TestCheck"}},
	{line: "Vision, retry_after_seconds", check: publishesVision("retry_after_seconds", "7"), tests: []string{"proxy/e2e.TestCatalogVisionFull"}},

	{line: "List of models, object", check: func(t *testing.T, p *penstock) {
		if l := p.list(); l.Object != "list" {
			t.Errorf("object is %q", l.Object)
		}
	}},
	{line: "List of models, data", check: func(t *testing.T, p *penstock) {
		if got := p.list().ids(); !slices.Equal(got, []string{"sim", "hears", "speaks", "paints", "edits", "embeds", "ranks", "other", "vendor/family/model"}) {
			t.Errorf("models %v", got)
		}
	}},
}

// capacityMember checks one member of the capacity object of the full model at rest.
func capacityMember(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) { within(t, p.entry("sim")["capacity"], member, want) }
}

func publishesVision(member, want string) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) { within(t, p.entry("sim")["vision"], member, want) }
}

func within(t *testing.T, object any, member, want string) {
	t.Helper()
	got, err := json.Marshal(object.(map[string]any)[member])
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is %s, want %s", member, got, want)
	}
}

// numberRow is a member that is a number between two bounds, both included.
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
		check: func(_ *testing.T, p *penstock) {
			p.post(chatPath, chatBody("nobody", "")).wantError(404, "not_found_error", "model_not_found")
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
		line: "Chat request, tools", good: []string{`"tools":[]`, `"tools":null`, tool(`{"type":"function","function":{"name":"f"}}`)},
		bad: []refused{{`"tools":{}`, "tools", false}, {`"tools":["f"]`, "tools[0]", false}},
	},
	{line: "Chat request, tool_choice", good: []string{
		`"tool_choice":"auto"`, `"tool_choice":"none"`, `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`,
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
	}, bad: []refused{
		{`"tool_choice":"any"`, "tool_choice", false},
		{`"tool_choice":5`, "tool_choice", false},
		{`"tool_choice":{}`, "tool_choice.type", false},
		{`"tool_choice":{"type":"function"}`, "tool_choice.function", false},
		{`"tool_choice":{"type":"function","function":{}}`, "tool_choice.function.name", false},
	}},
	{
		line: "Chat request, reasoning", good: []string{`"reasoning":{}`, `"reasoning":{"effort":"low"}`, `"reasoning":{"max_tokens":5}`},
		bad: []refused{{`"reasoning":"high"`, "reasoning", false}, {`"reasoning":{"effort":"ultra"}`, "reasoning.effort", false}, {`"reasoning":{"max_tokens":-1}`, "reasoning.max_tokens", false}},
	},
	{
		line: "Chat request, reasoning_effort",
		good: []string{`"reasoning_effort":"none"`, `"reasoning_effort":"low"`, `"reasoning_effort":"medium"`, `"reasoning_effort":"high"`, `"reasoning_effort":"xhigh"`, `"reasoning_effort":"low","reasoning":{"effort":"low"}`},
		bad: []refused{
			{`"reasoning_effort":"ultra"`, "reasoning_effort", false},
			{`"reasoning_effort":3`, "reasoning_effort", false},
			{`"reasoning_effort":"low","reasoning":{"effort":"high"}`, "reasoning_effort", true},
		}, tests: []string{"translate/chat.TestCheck", "proxy/e2e.TestEffortsOfTheModel"},
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
		r := p.accepts("")
		if err := json.Unmarshal([]byte(r.body), &c); err != nil || len(c.Choices) == 0 || c.Choices[0].Message.Content == nil || c.Usage == nil {
			t.Errorf("no choices[0].message.content or no usage: %s", r.body)
		}
	}},

	{line: "Chat message, role", good: []string{
		chatOf(`{"role":"system","content":"a"},{"role":"user","content":"a"}`), chatOf(`{"role":"developer","content":"a"},{"role":"user","content":"a"}`),
		chatOf(`{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`), replay(`"tool_calls":[` + call + `]`),
	}, bad: []refused{
		{chatOf(`{"content":"a"}`), "messages[0].role", false}, {chatOf(`{"role":"function","content":"a"}`), "messages[0].role", false}, {chatOf(`{"role":1,"content":"a"}`), "messages[0].role", false},
	}},
	{line: "Chat message, content", good: []string{
		oneMessage(`"content":"a"`), oneMessage(`"content":[{"type":"text","text":"a"}]`), replay(`"tool_calls":[` + call + `]`),
	}, bad: []refused{{oneMessage(`"content":5`), "messages[0].content", false}, {oneMessage(`"content":{}`), "messages[0].content", false}, {part(`"a"`), "messages[0].content[0]", false}}},
	{line: "Chat message, name", good: []string{oneMessage(`"content":"a","name":"bob"`)}, bad: []refused{{oneMessage(`"content":"a","name":5`), "messages[0].name", false}}},
	{line: "Chat message, tool_call_id", good: []string{replay(`"tool_calls":[` + call + `]`)}, bad: []refused{{oneMessage(`"content":"a","tool_call_id":5`), "messages[0].tool_call_id", false}}},
	{line: "Chat message, tool_calls", good: []string{replay(`"tool_calls":[` + call + `]`)}, bad: []refused{{replay(`"tool_calls":{}`), "messages[1].tool_calls", false}, {replay(`"tool_calls":["c"]`), "messages[1].tool_calls[0]", false}}},
	{line: "Content part, text", good: []string{part(`{"type":"text","text":""}`)}, bad: []refused{
		{part(`{"type":"text"}`), "messages[0].content[0].text", false},
		{part(`{"type":"text","text":5}`), "messages[0].content[0].text", false},
		{part(`{"text":"a"}`), "messages[0].content[0].type", false},
		{part(`{"type":"video_url","video_url":"x"}`), "messages[0].content[0].type", false},
	}},
	{line: "Content part, image_url", good: []string{
		part(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`), part(`{"type":"image_url","image_url":{"url":"` + picture("jpeg") + `","detail":"low"}}`),
		part(`{"type":"image_url","image_url":{"url":"` + picture("png") + `","detail":"auto"}}`),
	}, bad: []refused{
		{part(`{"type":"image_url"}`), "messages[0].content[0].image_url", false},
		{part(`{"type":"image_url","image_url":5}`), "messages[0].content[0].image_url", false},
		{part(`{"type":"image_url","image_url":{}}`), "messages[0].content[0].image_url.url", false},
		{part(`{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"max"}}`), "messages[0].content[0].image_url.detail", false},
		{part(`{"type":"image_url","image_url":"http://example.com/a.png"}`), "messages[0].content[0].image_url", true},
		{part(`{"type":"image_url","image_url":"data:image/gif;base64,R0lGODlhAQABAAAAACw="}`), "messages[0].content[0].image_url", true},
	}, check: func(t *testing.T, p *penstock) {
		// The simulator, like OpenAI, takes the object alone: that the string reaches it is all that the edge can do.
		body := part(`{"type":"image_url","image_url":"` + picture("png") + `"}`)
		if err := published(t).fits(schema("ChatCompletionRequest"), []byte(body)); err != nil {
			t.Error(err)
		}
		if r := p.post(chatPath, body); r.status != 200 && r.errorRecord().Code != "rejected_by_engine" {
			t.Errorf("a URI string is refused: %s", r.body)
		}
	}, tests: []string{"translate/chat.TestDataURLs", "translate/chat.TestImageURLs", "proxy/e2e.TestFault64_ImageURLs"}},
	{line: "Tool call", good: []string{replay(`"tool_calls":[` + call + `]`)}, bad: []refused{
		{replay(`"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].id", false},
		{replay(`"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].type", false},
		{replay(`"tool_calls":[{"id":"c1","type":"custom","function":{"name":"f","arguments":"{}"}}]`), "messages[1].tool_calls[0].type", false},
		{replay(`"tool_calls":[{"id":"c1","type":"function"}]`), "messages[1].tool_calls[0].function", false},
		{replay(`"tool_calls":[{"id":"c1","type":"function","function":{"arguments":"{}"}}]`), "messages[1].tool_calls[0].function.name", false},
		{replay(`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{}}}]`), "messages[1].tool_calls[0].function.arguments", false},
	}},
	{line: "Tool definition", good: []string{
		tool(`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}`),
	}, bad: []refused{
		{tool(`{"function":{"name":"f"}}`), "tools[0].type", false},
		{tool(`{"type":"function"}`), "tools[0].function", false},
		{tool(`{"type":"function","function":{}}`), "tools[0].function.name", false},
		{tool(`{"type":"function","function":{"name":5}}`), "tools[0].function.name", false},
		{tool(`{"type":"function","function":{"name":"f","description":5}}`), "tools[0].function.description", false},
		{tool(`{"type":"function","function":{"name":"f","parameters":[]}}`), "tools[0].function.parameters", false},
		{tool(`{"type":"function","function":{"name":"f","strict":"yes"}}`), "tools[0].function.strict", false},
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

// list is the catalog.
type list struct {
	Object string
	Data   []struct {
		ID      string `json:"id"`
		IsReady bool   `json:"is_ready"`
	}
}

func (l *list) ids() []string {
	var ids []string
	for _, m := range l.Data {
		ids = append(ids, m.ID)
	}
	return ids
}

// list reads the catalog with the given further header lines.
func (p *penstock) list(header ...string) *list {
	p.t.Helper()
	r := p.get("/v1/models", header...).wantStatus(200)
	l := new(list)
	if err := json.Unmarshal([]byte(r.body), l); err != nil {
		p.t.Fatal(err)
	}
	return l
}

// blank is a data URL of an empty picture of that size.
func blank(width, height int) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

var authRules = []rule{
	{line: "Authentication 1, bearer", check: func(_ *testing.T, p *penstock) {
		p.post(chatPath, p.chat(""), "Authorization: Bearer "+p.key).wantStatus(200)
	}, tests: []string{"proxy/auth.TestExtractHeaders"}},
	{line: "Authentication 2, x-api-key", check: func(_ *testing.T, p *penstock) {
		p.post(chatPath, p.chat(""), "Authorization: ", "x-api-key: "+p.key).wantStatus(200)
	}},
	{line: "Authentication 3, both must be the same", check: func(_ *testing.T, p *penstock) {
		p.post(chatPath, p.chat(""), "x-api-key: "+p.key).wantStatus(200)
		p.post(chatPath, p.chat(""), "x-api-key: "+p.key+"x").wantError(401, "authentication_error", "credential_conflict")
	}, tests: []string{"proxy/e2e.TestFault53_TwoCredentials"}},
	{line: "Authentication 4, public pages", check: func(t *testing.T, p *penstock) {
		for _, target := range []string{"/v1/models", "/v1/models/sim", "/health", "/openapi.json", "/openapi.yaml"} {
			p.get(target).wantStatus(200)
		}
		p.do("HEAD", "/", "", "Authorization: ").wantStatus(204)
	}, tests: []string{"proxy/e2e.TestCatalogByKey"}},
	{line: "Authentication 5, credentials in the query string", check: func(_ *testing.T, p *penstock) {
		p.post(chatPath+"?api_key="+p.key, p.chat("")).wantError(401, "authentication_error", "credential_in_query")
		p.get("/v1/models?api_key="+p.key).wantError(401, "authentication_error", "credential_in_query")
	}, tests: []string{"proxy/e2e.TestFault54_CredentialInTheQuery", "proxy/auth.TestExtractQuery"}},
	{line: "Authentication 6, 401", tests: []string{"proxy/e2e.TestFault52_BadCredentials", "proxy/e2e.TestFault53_TwoCredentials"}},
	{line: "Authentication 7, 403", tests: []string{"proxy/e2e.TestFault55_NoRightToTheModel", "proxy/e2e.TestStatuses"}},
	{line: "Authentication 8, a good key promises nothing more", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Authentication 9, keys stay in headers and secret storage", check: func(t *testing.T, p *penstock) {
		r := p.post(chatPath, p.chat(""), "Origin: https://page.example").wantStatus(200)
		if got := r.header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("pages may call without anybody having said so: %s", got)
		}
	}, tests: []string{"proxy/auth.TestCredentialNeverPrints"}}, // and end of every test: no key in the log
}

var errorRules = []rule{
	{line: "Error, message", check: errorMember(func(e *apiError) bool { return e.Message != "" })},
	{line: "Error, type", check: errorMember(func(e *apiError) bool { return e.Type == "invalid_request_error" })},
	{line: "Error, code", check: errorMember(func(e *apiError) bool { return e.Code == "invalid_value" })},
	{line: "Error, param", check: errorMember(func(e *apiError) bool { return e.Param != nil && *e.Param == "temperature" })},
	{line: "Error, metadata", check: errorMember(func(e *apiError) bool { return e.Metadata == nil }), tests: []string{"proxy/e2e.TestCatalogVisionFull"}},
	{line: "Error, metadata of a vision-capacity 429", tests: []string{"proxy/e2e.TestCatalogVisionFull"}},
	{line: "Status 400", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 401", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 403", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 404", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 413", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 429", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Status 500", tests: []string{"proxy.TestPanicIsAnInternalError"}},
	{line: "Status 502", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 503", tests: []string{"proxy/e2e.TestStatuses", "proxy/e2e.TestCatalogReadiness"}},
	{line: "Status 504", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Status 529", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Errors, rule: Retry-After on 429, 503 and 504", tests: []string{"proxy/e2e.TestStatuses"}},
	{line: "Errors, rule: store true and previous_response_id are rejected", tests: []string{"proxy/e2e.TestResponsesContract"}},
}

// errorMember checks the record of one refusal.
func errorMember(holds func(*apiError) bool) func(*testing.T, *penstock) {
	return func(t *testing.T, p *penstock) {
		r := p.post(chatPath, p.chat(`"temperature":9`)).wantStatus(400)
		if !holds(r.errorRecord()) {
			t.Errorf("%s", r.body)
		}
	}
}

var limitRules = []rule{
	{line: "Limits 1, max_completion_tokens bounds reasoning too", check: func(t *testing.T, p *penstock) {
		r := p.accepts(`"max_completion_tokens":6,"reasoning":{"effort":"high","max_tokens":100},"sim":{"reasoning":20}`)
		var c struct {
			Usage struct {
				Completion int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(r.body), &c); err != nil || c.Usage.Completion > 6 {
			t.Errorf("%d tokens were written, 6 allowed", c.Usage.Completion)
		}
	}, tests: []string{"translate/chat.TestAppendUpstream"}},
	{line: "Limits 2, numeric ranges", tests: []string{"translate/chat.TestRequestRulesCoverContract"}}, // and the rows of the chat request
	{line: "Limits 3, per-model limits are published", check: publishes("max_output_length", "4096")},
	{line: "Limits 4, admission is by concurrency, vision apart", tests: []string{"proxy/e2e.TestCatalogVisionFull", "proxy/e2e.TestOneLedger"}},
	{line: "Limits 5, oversized bodies", tests: []string{"proxy/e2e.TestFault59_BodyTooLarge", "proxy/e2e.TestStatuses"}},
	{line: "Limits 6, request rates", tests: []string{"proxy/limit.TestTake", "proxy/e2e.TestStatuses"}},
	{line: "Limits 7, discovery may be cached", tests: []string{"proxy/e2e.TestCatalogCaching"}},
}

var otherRows = []rule{
	{line: "GET /models", check: func(_ *testing.T, p *penstock) { p.list() }, tests: []string{"proxy/e2e.TestCatalogByKey"}},
	{line: "GET /health", check: func(t *testing.T, p *penstock) {
		if r := p.get("/health").wantStatus(200); r.body != `{"status":"ok"}` {
			t.Errorf("%s", r.body)
		}
	}},
	{line: "HEAD /", check: func(_ *testing.T, p *penstock) {
		p.do("HEAD", "/", "", "Authorization: ").wantStatus(204)
	}},
	{line: "Health record", check: func(t *testing.T, p *penstock) {
		var h map[string]any
		if err := json.Unmarshal([]byte(p.get("/health").body), &h); err != nil || len(h) != 1 || h["status"] != "ok" {
			t.Errorf("%v %v", h, err)
		}
	}},
	{line: "POST /audio/transcriptions, 200: content types", tests: []string{"proxy/e2e.TestTranscriptions"}},
	{line: "POST /audio/speech, 200: content type", tests: []string{"proxy/e2e.TestSpeech"}},
	{line: "General: optional fields beyond their type", check: func(t *testing.T, p *penstock) {
		p.accepts(`"metadata":{"a":"b"},"parallel_tool_calls":false,"unknown_member":[1,2]`)
	}},
	{line: "States and transitions", tests: []string{"proxy/e2e.TestCatalogReadiness", "proxy/e2e.TestCatalogVisionFull"}},
	{line: "Events 1, streaming", check: func(t *testing.T, p *penstock) {
		text, done := chatText(t, p.accepts(`"stream":true`).events())
		if text == "" || !done {
			t.Errorf("streamed %q, done: %v", text, done)
		}
	}, tests: []string{"proxy/e2e.TestResponsesContract", "proxy/e2e.TestMessagesContract"}},
	{line: "Events 2, names and shapes (not shown: the published ones)", tests: []string{"proxy/e2e.TestGolden"}},
	{line: "Events 3, nothing is sent unasked (not shown)", check: func(t *testing.T, p *penstock) {
		if strings.Contains(p.get("/openapi.json").body, `"webhooks"`) {
			t.Error("the document tells of webhooks")
		}
	}},
	{line: "Versioning 1, the path prefix", check: func(_ *testing.T, p *penstock) {
		p.post("/chat/completions", p.chat("")).wantError(404, "not_found_error", "not_found")
		p.get("/models").wantError(404, "not_found_error", "not_found")
		p.get("/v1/health").wantError(404, "not_found_error", "not_found")
	}},
	{line: "Versioning 2, the description", check: func(_ *testing.T, p *penstock) {
		for _, target := range []string{"/openapi.json", "/openapi.yaml"} {
			p.get(target, "Authorization: Bearer nonsense").wantStatus(200)
			p.do("HEAD", target, "").wantStatus(200)
		}
	}, tests: []string{"proxy/openapi.TestVersionIsATime", "proxy/openapi.TestDocumentIsValid", "proxy/e2e.TestOpenapiCommand"}},
	{line: "Versioning 4, deprecation (not shown: whatever is old says so)", check: func(t *testing.T, p *penstock) {
		if !strings.Contains(p.get("/openapi.yaml").body, "deprecated: true") {
			t.Error("max_tokens, the older name, is not marked")
		}
	}},
	{line: "Versioning 3, canonical ids", check: func(t *testing.T, p *penstock) {
		for _, r := range []*reply{p.post(chatPath, chatBody("nick", "")), p.post(chatPath, chatBody("org/anything", `"stream":true`))} {
			if !strings.Contains(r.wantStatus(200).body, `"model":"sim"`) || strings.Contains(r.body, "nick") {
				t.Errorf("the answer does not carry the canonical id: %.200s", r.body)
			}
		}
	}},
}
