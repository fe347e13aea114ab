package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"penstock/proxy/openapi"
)

// This file holds answers to the published document (proxy/openapi): which statuses, headers and media types an operation
// has, and whether a body fits its schema. Bodies are validated by a JSON Schema library that knows nothing of us.

// contract is the published document, ready to be asked.
type contract struct {
	operations []*operation
	schemas    *jsonschema.Compiler
	mu         sync.Mutex // the compiler's
	compiled   map[string]*jsonschema.Schema
}

// operation is a method on a path.
type operation struct {
	method, path string // path is the whole one, /v1 included
	at           string // JSON pointer into the document
	responses    map[string]response
}

// response is what the document says of one status.
type response struct {
	Ref     string            `json:"$ref"`
	Headers map[string]header `json:"headers"`
	Content map[string]any    `json:"content"`
	at      string
}

type header struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
	at       string
}

// theContract reads the document once for all tests.
var theContract = sync.OnceValues(func() (*contract, error) {
	var doc struct {
		Servers []struct{ URL string }
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapi.JSON(), &doc); err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON()))
	if err != nil {
		return nil, err
	}
	root := tree.(map[string]any)
	closeAnswers(root)
	c := &contract{schemas: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := c.schemas.AddResource(documentURL, root); err != nil {
		return nil, err
	}
	for path, item := range doc.Paths {
		base := doc.Servers[0].URL
		if raw := item["servers"]; raw != nil {
			base = "" // the host's own pages
		}
		for method, raw := range item {
			if method != "get" && method != "head" && method != "post" {
				continue
			}
			var o struct{ Responses map[string]response }
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op := &operation{method: strings.ToUpper(method), path: base + path, at: "/paths/" + escape(path) + "/" + method, responses: map[string]response{}}
			for status, r := range o.Responses {
				r.at = op.at + "/responses/" + status
				if op.responses[status], err = resolve(root, r); err != nil {
					return nil, err
				}
			}
			c.operations = append(c.operations, op)
		}
	}
	slices.SortFunc(c.operations, func(a, b *operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return c, nil
})

const documentURL = "https://penstock.example/openapi.json"

// published is theContract for a test.
func published(t testing.TB) *contract {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Fatalf("read the OpenAPI document: %v", err)
	}
	return c
}

// closeAnswers forbids members that the document does not name, in the schemas of what is wholly ours. In public they are
// open: clients must not choke on what is added later.
func closeAnswers(root map[string]any) {
	schemas := root["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{
		"Health", "Error", "MessagesError", "ErrorDetail", "ErrorMetadata", "ModelList", "Model", "Capacity", "Pool", "VisionPolicy",
		"Message", "OutputBlock", "MessagesUsage", "TokenCount", "MessageEvent", "Response", "OutputItem", "OutputPart", "ResponseEvent",
	} {
		closeObject(schemas[name], false)
	}
}

// closeObject closes v and the objects in it. branch: v is an alternative of an object that is closed as a whole.
func closeObject(v any, branch bool) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	properties, isObject := s["properties"].(map[string]any)
	if isObject && !branch {
		s["unevaluatedProperties"] = false
	}
	for _, p := range properties {
		closeObject(p, false)
	}
	closeObject(s["items"], false)
	if list, ok := s["oneOf"].([]any); ok {
		for _, one := range list {
			closeObject(one, isObject)
		}
	}
}

// resolve follows the references of a response and of its headers.
func resolve(root map[string]any, r response) (response, error) {
	if r.Ref != "" {
		at := strings.TrimPrefix(r.Ref, "#")
		if err := lookup(root, at, &r); err != nil {
			return r, err
		}
		r.at = at
	}
	for name, h := range r.Headers {
		h.at = r.at + "/headers/" + escape(name)
		if h.Ref != "" {
			h.at = strings.TrimPrefix(h.Ref, "#")
			if err := lookup(root, h.at, &h); err != nil {
				return r, err
			}
		}
		r.Headers[name] = h
	}
	return r, nil
}

// lookup decodes what a JSON pointer points at.
func lookup(root map[string]any, pointer string, into any) error {
	var v any = root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := v.(map[string]any)
		if v, ok = m[part], ok && m[part] != nil; !ok {
			return fmt.Errorf("the document has nothing at %s", pointer)
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// escape writes s as one part of a JSON pointer.
func escape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// fits validates JSON text against the schema at a pointer.
func (c *contract) fits(at string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.allows(at, v)
}

func (c *contract) allows(at string, v any) error {
	c.mu.Lock()
	s := c.compiled[at]
	if s == nil {
		var err error
		if s, err = c.schemas.Compile(documentURL + "#" + at); err != nil {
			c.mu.Unlock()
			return err
		}
		c.compiled[at] = s
	}
	c.mu.Unlock()
	return s.Validate(v)
}

// schema is the pointer of a named schema.
func schema(name string) string { return "/components/schemas/" + name }

// operation finds the operation of a request, nil when the document has none. target may have a query.
func (c *contract) operation(method, target string) *operation {
	path, _, _ := strings.Cut(target, "?")
	for _, op := range c.operations {
		if op.method != method {
			continue
		}
		fixed, isTemplate := strings.CutSuffix(op.path, "{id}")
		if op.path == path || isTemplate && strings.HasPrefix(path, fixed) && len(path) > len(fixed) {
			return op
		}
	}
	return nil
}

// errorShape is the schema of errors at a path.
func errorShape(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/") {
		return "MessagesError"
	}
	return "Error"
}

// early are the statuses that any request may meet before it reaches an operation; the document's introduction lists them.
var early = []int{400, 404, 405, 408, 431, 505}

// conforms checks an answer against what the document says of the operation: status, headers, media type and body.
func (r *reply) conforms(method, target string) *reply {
	r.t.Helper()
	c := published(r.t)
	report := func(format string, args ...any) {
		r.t.Helper()
		r.t.Errorf("%s %s: status %d: %s\n%.600s", method, target, r.status, fmt.Sprintf(format, args...), r.body)
	}
	op := c.operation(method, target)
	var res response
	listed := false
	if op != nil {
		res, listed = op.responses[strconv.Itoa(r.status)]
	}
	if !listed {
		if !slices.Contains(early, r.status) || op != nil && r.status == 404 {
			report("the document does not list it")
		} else if err := c.fits(schema(errorShape(target)), []byte(r.body)); err != nil && method != "HEAD" {
			report("%v", err)
		}
		return r
	}
	for name, h := range res.Headers {
		if err := c.header(h, r.header.Values(name)); err != nil {
			report("header %s: %v", name, err)
		}
	}
	media := r.header.Get("Content-Type")
	_, known := res.Content[media]
	at := res.at + "/content/" + escape(media) + "/schema"
	switch {
	case method == "HEAD" || len(res.Content) == 0:
		if r.body != "" {
			report("a body although there must be none")
		}
	case !known:
		report("media type %q; the document has %v", media, slices.Collect(maps.Keys(res.Content)))
	case media == "text/event-stream":
		for _, e := range parseEvents(r.body) {
			if e.data == "[DONE]" {
				continue
			}
			if err := c.fits(at, []byte(e.data)); err != nil {
				report("event %s: %v", e.data, err)
			}
		}
	case strings.HasSuffix(media, "json"):
		if err := c.fits(at, []byte(r.body)); err != nil {
			report("%v", err)
		}
	}
	return r
}

// header checks the values of one header.
func (c *contract) header(h header, values []string) error {
	switch {
	case len(values) == 0 && h.Required:
		return fmt.Errorf("missing")
	case len(values) == 0:
		return nil
	case len(values) > 1:
		return fmt.Errorf("sent %d times", len(values))
	}
	var v any = values[0]
	if _, err := strconv.Atoi(values[0]); err == nil {
		v = json.Number(values[0])
	}
	return c.allows(h.at+"/schema", v)
}

// TestOpenapiCommand: the program prints what the edge serves.
func TestOpenapiCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []byte
	}{
		{nil, openapi.YAML()}, {[]string{"--format", "yaml"}, openapi.YAML()}, {[]string{"--format", "json"}, openapi.JSON()},
	} {
		out, err := exec.Command(binary(t), append([]string{"openapi"}, c.args...)...).Output()
		if err != nil || !bytes.Equal(out, c.want) {
			t.Errorf("penstock openapi %v: %v, %.100q", c.args, err, out)
		}
	}
	if err := exec.Command(binary(t), "openapi", "--format", "xml").Run(); err == nil {
		t.Error("an unknown format is accepted")
	}
}

// TestGolden validates what the translators' golden files take from clients and send to them.
func TestGolden(t *testing.T) {
	t.Parallel()
	c := published(t)
	seen := map[string]int{}
	check := func(file, section, name, text string) {
		seen[file[:strings.IndexByte(file, '/')]+" "+name]++
		if err := c.fits(schema(name), []byte(text)); err != nil && !slices.Contains(foreign, file) {
			t.Errorf("%s, section %s: %v\n%.500s", file, section, err, text)
		}
	}
	root := filepath.Join("..", "..", "translate")
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		sections := map[string]string{}
		for _, f := range txtar.Parse(text).Files {
			sections[f.Name] = string(f.Data)
		}
		for _, name := range answerSections {
			checkAnswer(file, sections[name], func(schema, text string) { check(file, name, schema, text) })
		}
		for _, r := range goldenRequests {
			if strings.HasPrefix(file, r.folder) && sections[r.accepted] != "" {
				check(file, r.section, r.schema, sections[r.section])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range goldenKinds {
		if seen[want] == 0 {
			t.Errorf("nothing of the kind %q was found among %v: has a section been renamed?", want, seen)
		}
	}
}

// answerSections are the sections of golden files that hold what a client is sent.
var answerSections = []string{"client", "assembled", "response", "whole", "stream", "response.json"}

// goldenRequests says where the bodies of clients are. One is a good one when the file has what becomes of it.
var goldenRequests = []struct{ folder, section, accepted, schema string }{
	{"messages/testdata/request/", "request", "upstream-request", "CountTokensRequest"}, // max_tokens is left out where it does not matter
	{"responses/testdata/request/", "request.json", "chat.json", "ResponsesRequest"},
}

// goldenKinds are what TestGolden must find, so that it cannot pass by finding nothing.
var goldenKinds = []string{
	"chat ChatCompletion", "chat ChatCompletionEvent",
	"messages CountTokensRequest", "messages Message", "messages MessageEvent",
	"responses ResponsesRequest", "responses Response", "responses ResponseEvent", "forward CompletionEvent",
}

// foreign are golden files in which an engine's own idea of a chunk is passed on: text in parts, calls without an index,
// arguments that are an object. Clients of that engine would see the same.
var foreign = []string{"chat/testdata/stream/calls-no-index.txtar", "chat/testdata/stream/text-parts.txtar"}

// eventSchemas are the schemas of the events in golden files, by the beginning of their names.
var eventSchemas = []struct{ files, schema string }{
	{"chat/", "ChatCompletionEvent"},
	{"messages/", "MessageEvent"},
	{"responses/", "ResponseEvent"},
	{"forward/testdata/completion", "CompletionEvent"},
	{"forward/testdata/", "TranscriptionEvent"},
}

// checkAnswer finds the answers in a golden section, a body or the data of events, and the schema of each. Lines that tell
// the test of an error are left out.
func checkAnswer(file, section string, check func(schema, text string)) {
	if !strings.HasPrefix(section, "data:") && !strings.HasPrefix(section, "event:") {
		if name := answerSchema(section); name != "" {
			check(name, section)
		}
		return
	}
	for _, e := range parseEvents(section) {
		for _, s := range eventSchemas {
			if strings.HasPrefix(file, s.files) && strings.HasPrefix(e.data, "{") { // not [DONE]
				check(s.schema, e.data)
				break
			}
		}
	}
}

// answerSchema tells by its constants which answer a body is.
func answerSchema(body string) string {
	var v struct{ Object, Type string }
	if json.Unmarshal([]byte(body), &v) != nil {
		return ""
	}
	switch {
	case v.Object == "chat.completion":
		return "ChatCompletion"
	case v.Object == "response":
		return "Response"
	case v.Type == "message":
		return "Message"
	case v.Type == "error":
		return "MessagesError"
	}
	return ""
}
