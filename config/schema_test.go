package config

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/config/money"
	"penstock/config/strictyaml"
	"penstock/config/testkit/golden"
	"penstock/config/testkit/selfsigned"
)

// TestSchemaIsCurrent compares schema.json with the structs. The schema is generated from their
// yaml tags and comments, the defaults, and the closed sets of values.
func TestSchemaIsCurrent(t *testing.T) {
	g := generator{docs: fieldComments(t)}
	root := g.structure(reflect.ValueOf(*Defaults()), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Penstock configuration"
	want, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "schema.json", append(want, '\n'))
}

// TestSchemaNamesEveryKey looks up deeply nested keys by name, to check that the generator omits no
// branch.
func TestSchemaNamesEveryKey(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"properties.limits.properties.body_memory",
		"properties.limits.properties.reply_memory",
		"properties.keys.items.properties.hash.anyOf",
		"properties.upstreams.items.properties.probe.properties.fall",
		"properties.upstreams.items.properties.concurrency.anyOf",
		"properties.models.items.properties.deployments.items.properties.served",
		"properties.models.items.properties.vision.properties.max_pixels",
		"properties.models.items.properties.timeouts.properties.idle",
		"properties.engines.items.properties.detect.items",
	} {
		at := any(root)
		for name := range strings.SplitSeq(path, ".") {
			m, _ := at.(map[string]any)
			at = m[name]
		}
		if at == nil {
			t.Errorf("%s is missing", path)
		}
	}
	if root["additionalProperties"] != false {
		t.Error("unknown keys are allowed")
	}
}

type generator struct {
	docs map[string]string // comments by "Type.Field"
}

// required maps paths to the members that have no default.
var required = map[string][]string{
	"keys": {"id", "hash"}, "upstreams": {"name", "url"}, "models": {"id", "deployments"},
	"models.deployments": {"upstream"}, "engines": {"name"}, "discover": {"upstream"},
}

const variablePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*\}`

func (g generator) structure(v reflect.Value, path string) map[string]any {
	properties := map[string]any{}
	for f := range v.Type().Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || tag == "" || tag == "-" {
			continue
		}
		p := g.value(v.FieldByIndex(f.Index), strictyaml.JoinPath(path, tag))
		if doc := g.docs[v.Type().Name()+"."+f.Name]; doc != "" {
			p["description"] = doc
		}
		properties[tag] = p
	}
	out := map[string]any{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if r := required[path]; r != nil {
		out["required"] = r
	}
	return out
}

// value describes the allowed values of v. The content of v is the default.
func (g generator) value(v reflect.Value, path string) map[string]any {
	text := func(pattern string) map[string]any {
		p := map[string]any{"type": "string", "pattern": pattern}
		if !v.IsZero() {
			p["default"] = v.Interface().(interface{ String() string }).String()
		}
		return p
	}
	switch v.Interface().(type) {
	case Duration:
		return map[string]any{"anyOf": []any{map[string]any{"const": 0}, text(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$|` + variablePattern)}}
	case Resolve:
		srv := map[string]any{"type": "string", "pattern": `^srv:[A-Za-z0-9_.-]+( +([0-9.]+(ns|us|µs|ms|s|m|h))+)?$`}
		return map[string]any{"anyOf": []any{map[string]any{"const": 0}, text(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$|` + variablePattern), srv}}
	case Bytes:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 0}, text(`^[0-9.]+ *([KMGT]i?)?B?$|` + variablePattern)}}
	case Percent:
		return text(`^[0-9.]+ *%$|` + variablePattern)
	case Secret:
		return map[string]any{"type": []string{"string", "integer"}, "writeOnly": true}
	case time.Time:
		return map[string]any{"type": "string", "pattern": `^\d{4}-\d\d-\d\d([Tt].*)?$|` + variablePattern}
	case KeyHashes:
		one := map[string]any{"type": "string", "pattern": `^sha256:[0-9A-Fa-f]{64}$|` + variablePattern}
		entry := g.structure(reflect.ValueOf(KeyHash{}), path)
		return map[string]any{"writeOnly": true, "anyOf": []any{one, map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{one, entry}}}}}
	case money.Amount:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number", "minimum": 0}, map[string]any{"type": "string", "pattern": `^[0-9]+(\.[0-9]{1,6})?$|` + variablePattern}}}
	case Audiences:
		return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}}
	case Ledger:
		return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, g.structure(v, path)}}
	case Concurrency:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 1}, g.structure(v, path)}}
	}
	switch v.Kind() {
	case reflect.Struct:
		return g.structure(v, path)
	case reflect.Pointer:
		if v.IsNil() {
			return g.value(reflect.Zero(v.Type().Elem()), path)
		}
		return g.value(v.Elem(), path)
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		if d, ok := element.Addr().Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
		p := map[string]any{"type": []string{"array", "null"}, "items": g.value(element, path)}
		if v.Len() > 0 {
			p["default"] = v.Interface()
		}
		return p
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.value(reflect.Zero(v.Type().Elem()), path)}
	case reflect.Interface:
		return map[string]any{}
	}
	return g.scalar(v, path)
}

func (g generator) scalar(v reflect.Value, path string) map[string]any {
	p := map[string]any{}
	switch v.Kind() {
	case reflect.String:
		p["type"] = "string"
		if set := allowedValues[path]; set != nil {
			p["anyOf"] = []any{map[string]any{"enum": set}, map[string]any{"pattern": variablePattern}}
		}
	case reflect.Bool:
		p["anyOf"] = []any{map[string]any{"type": "boolean"}, map[string]any{"type": "string", "pattern": variablePattern}}
	case reflect.Int, reflect.Int64:
		p["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string", "pattern": variablePattern}}
	case reflect.Float64:
		p["anyOf"] = []any{map[string]any{"type": "number"}, map[string]any{"type": "string", "pattern": variablePattern}}
	}
	if !v.IsZero() {
		p["default"] = v.Interface()
	}
	return p
}

// fieldComments reads the comments of all struct fields in the package.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, name := range []string{"schema.go", "engine.go", "fleet.go", "hooks.go", "issuers.go", "keys.go", "ledger.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						doc := f.Comment.Text()
						if f.Doc.Text() != "" && f.Comment.Text() == "" {
							doc = f.Doc.Text()
						}
						docs[spec.Name.Name+"."+id.Name] = strings.Join(strings.Fields(doc), " ")
					}
				}
			}
			return false
		})
	}
	return docs
}

// TestExampleIsComplete loads the example unchanged, and again with all commented settings enabled.
// It checks that the example contains every key.
func TestExampleIsComplete(t *testing.T) {
	if f, problems := ParseValid("example.yaml", Example(), bundledProfiles); f == nil || len(problems) > 0 {
		t.Fatalf("as it is:\n%s", problems)
	}
	t.Chdir(t.TempDir())
	t.Setenv("PENSTOCK_ADMIN_TOKEN", "a-token-of-enough-characters")
	t.Setenv("GPU_KEY", "k")
	for _, name := range []string{"seal.key", "seal-old.key", "keys.secret", "fleet.secret", "eab.key", "end-users.key"} {
		if err := os.WriteFile(name, []byte(strings.Repeat("k", 44)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("STORE_PASSWORD", "p")
	t.Setenv("BILLING_TOKEN", "t")
	t.Setenv("HOOK_TOKEN", "t")
	t.Setenv("GRAFANA_TOKEN", "0123456789abcdef")
	t.Setenv("PORTAL_TOKEN_HASH", "sha256:"+strings.Repeat("0", 64))
	for _, name := range []string{"edge.pem", "edge.key", "admin.pem", "admin.key", "ca.pem", "c.pem", "c.key", "issuer-keys.json"} {
		write(t, name, []byte("-"))
	}
	write(t, "clients.pem", []byte(selfsigned.NewAuthority(t, "clients").PEM))
	write(t, "authority.pem", []byte(selfsigned.NewAuthority(t, "authority").PEM))
	write(t, "keys.yaml", []byte("keys: []\n"))
	shown := map[string]bool{}
	// only one of them is enabled at a time, because they exclude each other
	for _, others := range [][]string{
		{"#tls: { cert: ", "  #keys: { file: "},
		{"#tls: { acme: ", "    #secrets: [\"file:keys.secret", "    #store: cached", "    #cache: "},
	} {
		for path := range enabledExample(t, others...).positions().Paths() {
			shown[plainPath(path)] = true
		}
	}
	for path := range schemaPaths(reflect.TypeFor[File](), "") {
		if !shown[path] {
			t.Errorf("%s is not shown", path)
		}
	}
}

// enabledExample returns the example with all commented settings enabled, except the lines that
// start with one of the given texts.
func enabledExample(t *testing.T, without ...string) *File {
	t.Helper()
	for _, line := range without {
		if !bytes.Contains(Example(), []byte("\n"+line)) {
			t.Fatalf("no line begins with %q", line)
		}
	}
	var lines []string
	for line := range strings.Lines(string(Example())) {
		if slices.ContainsFunc(without, func(other string) bool { return strings.HasPrefix(line, other) }) {
			continue
		}
		if rest := strings.TrimLeft(line, " "); len(rest) > 1 && rest[0] == '#' && rest[1] >= 'a' && rest[1] <= 'z' {
			line = strings.Replace(line, "#", "", 1)
		}
		lines = append(lines, line)
	}
	// Enable the queue.
	text := strings.Replace(strings.Join(lines, ""), "queue: { depth: 0, wait: 0s }", "queue: { depth: 4, wait: 5s }", 1)
	f, problems := ParseValid("all.yaml", []byte(text), bundledProfiles)
	if len(problems) != 1 || !problems[0].Warning || problems[0].Path != "auth" {
		t.Fatalf("with everything switched on, want one warning about auth:\n%s", problems)
	}
	return f
}

// plainPath removes the list positions from a path.
func plainPath(path string) string {
	for {
		i := strings.IndexByte(path, '[')
		if i < 0 {
			return path
		}
		path = path[:i] + path[i+strings.IndexByte(path[i:], ']')+1:]
	}
}

// schemaPaths yields every key of the schema. It skips keys in profiles, because the bundled
// profiles document them. It also skips model timeouts, because they equal those in timeouts.
func schemaPaths(t reflect.Type, path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[Engine]() || t == reflect.TypeFor[ModelTimeouts]() {
			return
		}
		for _, f := range strictyaml.Fields(t) {
			at := strictyaml.JoinPath(path, f.Key)
			if !yield(at) {
				return
			}
			for p := range schemaPaths(t.Field(f.Index).Type, at) {
				if !yield(p) {
					return
				}
			}
		}
	}
}
