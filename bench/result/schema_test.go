package result

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
)

// TestSchema checks that the schema file is up to date with the types and their comments.
func TestSchema(t *testing.T) {
	g := generator{docs: comments(t), defs: map[string]any{}}
	root := g.object(reflect.TypeFor[Result]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Result of penstock bench"
	root["patternProperties"] = map[string]any{StatisticPattern.String(): orNull(map[string]any{"type": "number"})}
	root["additionalProperties"] = map[string]any{"type": "string", "description": "Pairs of --metadata."}
	root["$defs"] = g.defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "result.schema.json", b.Bytes())
}

type generator struct {
	docs map[string]string // comments by "Type" and "Type.Field"
	defs map[string]any
}

func orNull(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
}

func (g *generator) schema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[Rate]():
		return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, map[string]any{"const": "inf"}}}
	case t.Kind() == reflect.Pointer:
		return orNull(g.schema(t.Elem()))
	case t.Kind() == reflect.Struct:
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil // set first, in case the type contains itself
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(t.Elem())}
	case t.Kind() == reflect.Array:
		return map[string]any{"type": "array", "items": g.schema(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.schema(t.Elem())}
	}
	return map[string]any{"type": map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number",
		reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer",
	}[t.Kind()]}
}

func (g *generator) object(t reflect.Type) map[string]any {
	members, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || tag == "-" {
			continue
		}
		s := g.schema(f.Type)
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		if doc := g.docs[owner.Name()+"."+f.Name]; doc != "" {
			s["description"] = doc
		}
		members[tag] = s
		if !strings.Contains(options, "omitempty") {
			required = append(required, tag)
		}
	}
	out := map[string]any{"type": "object", "properties": members, "required": required, "additionalProperties": false}
	if doc := g.docs[t.Name()]; doc != "" {
		out["description"] = doc
	}
	return out
}

// comments returns the comments of the result types and of their members, each as one line.
func comments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		addComments(docs, f.Decls)
	}
	return docs
}

func addComments(docs map[string]string, decls []ast.Decl) {
	line := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, d := range decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		spec := gen.Specs[0].(*ast.TypeSpec)
		docs[spec.Name.Name] = line(gen.Doc)
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range s.Fields.List {
			text := line(field.Doc)
			if text == "" {
				text = line(field.Comment)
			}
			for _, n := range field.Names {
				docs[spec.Name.Name+"."+n.Name] = text
			}
		}
	}
}
