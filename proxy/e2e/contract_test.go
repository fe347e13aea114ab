package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// The contract is the API specification promised to clients: tables of fields and numbered rules.
// The tests list every row and every rule with its checks: requests to accept or refuse, a
// function, or other tests.

// rule is one line of the contract.
type rule struct {
	line string // the line's position: the heading, then the row or the number
	// good are accepted chat requests. A request that starts with { is a complete body. Any other
	// text is a member to add to a plain request.
	good []string
	// bad are chat requests that are rejected with a 400 and the given parameter.
	bad []refused
	// check tests the parts of the rule that requests alone cannot test.
	check func(t *testing.T, p *penstock)
	// tests are the Go tests that check the line, written as the folder of the package, a dot and
	// the name of the test.
	tests []string
}

// refused is a chat request in the format of rule.good, with the param of the expected error.
type refused struct {
	request, param string
	// unsaid is true if a schema cannot express the rule.
	unsaid bool
}

func TestContract(t *testing.T) {
	t.Parallel()
	_, narrow, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Upstream: "concurrency: { text: 16, vision: 4, audio: 4 }",
		Model:    fullModel,
		Keys:     `- { id: narrow, hash: "` + narrow + `", models: [other] }`,
		Models:   otherKinds,
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
			q := *p // the same edge, but failures are reported in the subtest for this line
			q.T = t
			for _, g := range r.good {
				q.wantAccepted(g)
			}
			for _, b := range r.bad {
				q.wantRejected(b)
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

const fullModel = `aliases: [nick, "org/*"], name: Sim One, owned_by: acme, task: chatting, created: 1700000000, context_length: 32768,
    max_output_length: 4096, capacity_tpm: 1000000, input_modalities: [text, image], output_modalities: [text],
    modality_context_lengths: { image: 8192 }, supported_features: [tools, structured_outputs, reasoning],
    supported_reasoning_efforts: [none, low, medium, high, xhigh], pricing: { input: "0.10" },
    vision: { max_image_edge: 2048, max_pixels: 1000000, max_tokens: 2048, context_length: 8192, retry_after_seconds: 7 }`

// otherKinds contains a model of every other kind, and a model with a slash in its id.
const otherKinds = `- { id: hears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }
- { id: speaks, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
- { id: paints, kind: image, deployments: [{ upstream: up-0, served: sim }] }
- { id: edits, kind: image-edit, deployments: [{ upstream: up-0, served: sim }] }
- { id: embeds, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }
- { id: ranks, kind: rerank, deployments: [{ upstream: up-0, served: sim }] }
- { id: other, deployments: [{ upstream: up-0, served: sim }], supported_endpoints: [/v1/chat/completions] }
- { id: vendor/family/model, deployments: [{ upstream: up-0, served: sim }] }
`

func (p *penstock) body(request string) string {
	if strings.HasPrefix(request, "{") {
		return request
	}
	return p.ChatRequest(request)
}

// wantAccepted sends a chat request that the edge and the published schema must accept.
func (p *penstock) wantAccepted(request string) *rig.Reply {
	p.T.Helper()
	body := p.body(request)
	if err := rig.PublishedContract(p.T).Validate(rig.SchemaPointer("ChatCompletionRequest"), []byte(body)); err != nil {
		p.T.Errorf("the document refuses %s: %v", request, err)
	}
	r := p.Post(chatPath, body)
	if r.Status != 200 {
		p.T.Errorf("%s: status = %d, want 200\n%s", request, r.Status, r.Body)
	}
	return r
}

// wantRejected sends a chat request that the edge and the published schema must refuse. The edge's error
// must name the expected parameter.
func (p *penstock) wantRejected(b refused) {
	p.T.Helper()
	body := p.body(b.request)
	if err := rig.PublishedContract(p.T).Validate(rig.SchemaPointer("ChatCompletionRequest"), []byte(body)); (err == nil) != b.unsaid {
		p.T.Errorf("%s: the document says %v", b.request, err)
	}
	before := p.Engines[0].Stats().Requests
	r := p.Post(chatPath, body)
	if r.Status != 400 {
		p.T.Errorf("%s: status %d, want 400\n%s", b.request, r.Status, r.Body)
		return
	}
	e := errorRecord(r)
	switch {
	case e.Type != "invalid_request_error" || e.Code == "rejected_by_engine":
		p.T.Errorf("%s: %s, %s", b.request, e.Type, e.Code)
	case e.Param == nil || *e.Param != b.param:
		p.T.Errorf("%s: the parameter is %v, want %s: %s", b.request, orNull(e.Param), b.param, e.Message)
	case !strings.Contains(e.Message, b.param):
		p.T.Errorf("%s: the message does not name %s: %s", b.request, b.param, e.Message)
	}
	if after := p.Engines[0].Stats().Requests; after != before {
		p.T.Errorf("%s: an engine was asked", b.request)
	}
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func errorRecord(r *rig.Reply) *rig.APIError {
	r.T.Helper()
	var e struct {
		Error *rig.APIError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil || e.Error == nil {
		r.T.Fatalf("not an error record: %.300q", r.Body)
	}
	return e.Error
}

// goTests returns the tests of the module as "folder.TestName".
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

func (p *penstock) entry(id string) map[string]any {
	p.T.Helper()
	target := "/v1/models/" + id
	r := p.Get(target).WantStatus(200)
	var m map[string]any
	if err := json.Unmarshal([]byte(r.Body), &m); err != nil {
		p.T.Fatal(err)
	}
	return m
}

type modelList struct {
	Object string
	Data   []struct {
		ID      string `json:"id"`
		IsReady bool   `json:"is_ready"`
	}
}

func (l *modelList) ids() []string {
	var ids []string
	for _, m := range l.Data {
		ids = append(ids, m.ID)
	}
	return ids
}

func (p *penstock) list(header ...string) *modelList {
	p.T.Helper()
	r := p.Get("/v1/models", header...).WantStatus(200)
	l := new(modelList)
	if err := json.Unmarshal([]byte(r.Body), l); err != nil {
		p.T.Fatal(err)
	}
	return l
}
