package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"penstock/proxy/operate/openapi"
)

// This file checks responses against the published document (proxy/operate/openapi). An independent
// JSON Schema library validates the bodies.

// Contract is the published document, parsed for checks.
type Contract struct {
	Operations []*Operation
	schemas    *jsonschema.Compiler
	mu         sync.Mutex // guards the compiler
	compiled   map[string]*jsonschema.Schema
}

// Operation is a method on a path.
type Operation struct {
	Method, Path string // the complete path, including /v1
	at           string // JSON pointer into the document
	Responses    map[string]Response
}

// Response is the document's description of one status.
type Response struct {
	Ref     string                `json:"$ref"`
	Headers map[string]headerSpec `json:"headers"`
	Content map[string]any        `json:"content"`
	at      string
}

type headerSpec struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
	at       string
}

var loadContract = sync.OnceValues(func() (*Contract, error) {
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
	closeEdgeSchemas(root)
	c := &Contract{schemas: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := c.schemas.AddResource(documentURL, root); err != nil {
		return nil, err
	}
	for path, item := range doc.Paths {
		base := doc.Servers[0].URL
		if raw := item["servers"]; raw != nil {
			base = "" // for pages at the root of the host
		}
		for method, raw := range item {
			if method != "get" && method != "head" && method != "post" {
				continue
			}
			var o struct{ Responses map[string]Response }
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op := &Operation{
				Method: strings.ToUpper(method), Path: base + path, at: "/paths/" + escapePointer(path) + "/" + method,
				Responses: map[string]Response{},
			}
			for status, r := range o.Responses {
				r.at = op.at + "/responses/" + status
				if op.Responses[status], err = resolveResponse(root, r); err != nil {
					return nil, err
				}
			}
			c.Operations = append(c.Operations, op)
		}
	}
	slices.SortFunc(c.Operations, func(a, b *Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return c, nil
})

const documentURL = "https://penstock.example/openapi.json"

// PublishedContract returns the published contract.
func PublishedContract(t testing.TB) *Contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatalf("read the OpenAPI document: %v", err)
	}
	return c
}

// closeEdgeSchemas closes the schemas of objects that only the edge writes, so that checks find
// undocumented members. The published schemas are open, so that clients accept members that are
// added later.
func closeEdgeSchemas(root map[string]any) {
	schemas := root["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{
		"Health", "Error", "MessagesError", "ErrorDetail", "ErrorMetadata", "QuotaMetadata", "ModelList", "Model", "Capacity", "Pool", "VisionPolicy",
		"Message", "OutputBlock", "MessagesUsage", "TokenCount", "MessageEvent", "Response", "OutputItem", "OutputPart", "ResponseEvent",
	} {
		closeObjectSchema(schemas[name], false)
	}
}

func closeObjectSchema(v any, branch bool) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	properties, isObject := s["properties"].(map[string]any)
	if isObject && !branch {
		s["unevaluatedProperties"] = false
	}
	for _, p := range properties {
		closeObjectSchema(p, false)
	}
	closeObjectSchema(s["items"], false)
	if list, ok := s["oneOf"].([]any); ok {
		for _, one := range list {
			closeObjectSchema(one, isObject)
		}
	}
}

func resolveResponse(root map[string]any, r Response) (Response, error) {
	if r.Ref != "" {
		at := strings.TrimPrefix(r.Ref, "#")
		if err := lookupPointer(root, at, &r); err != nil {
			return r, err
		}
		r.at = at
	}
	for name, h := range r.Headers {
		h.at = r.at + "/headers/" + escapePointer(name)
		if h.Ref != "" {
			h.at = strings.TrimPrefix(h.Ref, "#")
			if err := lookupPointer(root, h.at, &h); err != nil {
				return r, err
			}
		}
		r.Headers[name] = h
	}
	return r, nil
}

func lookupPointer(root map[string]any, pointer string, into any) error {
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

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// Validate validates JSON text against the schema at a pointer.
func (c *Contract) Validate(at string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.validateValue(at, v)
}

func (c *Contract) validateValue(at string, v any) error {
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

// SchemaPointer returns the pointer to a named schema.
func SchemaPointer(name string) string { return "/components/schemas/" + name }

// Operation returns the operation of a request, or nil if the document does not describe it.
func (c *Contract) Operation(method, target string) *Operation {
	path, _, _ := strings.Cut(target, "?")
	for _, op := range c.Operations {
		if op.Method != method {
			continue
		}
		fixed, isTemplate := strings.CutSuffix(op.Path, "{id}")
		if op.Path == path || isTemplate && strings.HasPrefix(path, fixed) && len(path) > len(fixed) {
			return op
		}
	}
	return nil
}

// ErrorSchema returns the schema of errors at a path.
func ErrorSchema(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/") {
		return "MessagesError"
	}
	return "Error"
}

// earlyStatuses lists the statuses that any request may receive before the edge selects an
// operation. The document's introduction lists the same statuses.
var earlyStatuses = []int{400, 404, 405, 408, 431, 505}

// WantConforming checks the status, headers, media type and body of a response against the document.
func (r *Reply) WantConforming(method, target string) *Reply {
	r.T.Helper()
	c := PublishedContract(r.T)
	report := func(format string, args ...any) {
		r.T.Helper()
		r.T.Errorf("%s %s: status %d: %s\n%.600s", method, target, r.Status, fmt.Sprintf(format, args...), r.Body)
	}
	op := c.Operation(method, target)
	var res Response
	listed := false
	if op != nil {
		res, listed = op.Responses[strconv.Itoa(r.Status)]
	}
	if !listed {
		_, query, _ := strings.Cut(target, "?")
		refused := r.Status == 401 && query != "" // a credential in the query is rejected everywhere
		if !refused && !slices.Contains(earlyStatuses, r.Status) || op != nil && r.Status == 404 {
			report("the document does not list it")
		} else if err := c.Validate(SchemaPointer(ErrorSchema(target)), []byte(r.Body)); err != nil && method != "HEAD" {
			report("%v", err)
		}
		return r
	}
	for name, h := range res.Headers {
		if err := c.validateHeader(h, r.Header.Values(name)); err != nil {
			report("header %s: %v", name, err)
		}
	}
	media := r.Header.Get("Content-Type")
	_, known := res.Content[media]
	at := res.at + "/content/" + escapePointer(media) + "/schema"
	switch {
	case method == "HEAD" || len(res.Content) == 0:
		if r.Body != "" {
			report("a body although there must be none")
		}
	case !known:
		report("media type %q; the document has %v", media, slices.Collect(maps.Keys(res.Content)))
	case media == "text/event-stream":
		for _, e := range ParseEvents(r.Body) {
			if e.Data == "[DONE]" {
				continue
			}
			if err := c.Validate(at, []byte(e.Data)); err != nil {
				report("event %s: %v", e.Data, err)
			}
		}
	case strings.HasSuffix(media, "json"):
		if err := c.Validate(at, []byte(r.Body)); err != nil {
			report("%v", err)
		}
	}
	return r
}

func (c *Contract) validateHeader(h headerSpec, values []string) error {
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
	return c.validateValue(h.at+"/schema", v)
}
