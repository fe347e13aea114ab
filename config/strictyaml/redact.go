package strictyaml

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// RemovedText replaces a removed text.
const RemovedText = "(removed)"

// RedactionRules defines what Redact removes.
type RedactionRules struct {
	// Secret reports whether values of type t are secrets.
	Secret func(t reflect.Type) bool
	// Text returns the part of a text that may be shown. path contains no list positions, as in
	// upstreams.wake.url.
	Text func(path, text string) string
}

// Redact returns the document in src without secrets, and the removed texts. It removes values of
// secret types, values for which the type to has no field, and comments. Variables appear as
// references, and aliases are replaced by their values. ok is false if src is not YAML.
func Redact(src []byte, to reflect.Type, rules RedactionRules) (text []byte, left []string, ok bool) {
	places := &Positions{positions: map[string]valuePosition{}, broken: map[string]bool{}}
	r := &problemReport{src: newSourceText("", src), positions: places}
	body, size := r.parseDocument(src, "")
	if body == nil {
		return nil, nil, false
	}
	x := &redactor{tree: newAliasResolver(r, body, size), rules: rules}
	inline, lines := x.redactValue(Node{ast: body}, to)
	if inline != "" {
		lines = []string{inline}
	}
	return []byte(strings.Join(lines, "\n") + "\n"), x.removed, true
}

type redactor struct {
	tree    *aliasResolver
	rules   RedactionRules
	removed []string
}

// redactValue returns n without secrets, either as text for the same line or as additional lines.
func (x *redactor) redactValue(n Node, t reflect.Type) (inline string, lines []string) {
	n, ok := x.tree.resolve(n)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, bindsItself := reflect.New(t).Interface().(NodeBinder)
	_, isText := rawText(n.ast)
	switch {
	case !ok || x.rules.Secret(t):
		return x.removeSecret(n.ast), nil
	case isNull(n.ast):
		return "null", nil
	case isText && (bindsItself || !isContainerType(t)):
		return x.redactScalar(n), nil
	case n.IsMapping() && t.Kind() == reflect.Struct:
		return x.redactMembers(n, func(name string) reflect.Type {
			if i := FieldIndexByKey(t, name); i >= 0 {
				return t.Field(i).Type
			}
			return nil
		})
	case n.IsMapping() && (t.Kind() == reflect.Map || t.Kind() == reflect.Interface):
		return x.redactMembers(n, func(name string) reflect.Type {
			switch {
			case isSecretName(name):
				return nil
			case t.Kind() == reflect.Map:
				return t.Elem()
			}
			return t
		})
	case n.IsList() && (t.Kind() == reflect.Slice || t.Kind() == reflect.Interface):
		return x.redactElements(n, t)
	case n.IsList() && bindsItself && len(Fields(t)) == 1: // a keys_file may be a bare list
		only := Fields(t)[0]
		return x.redactValue(n.WithPath(JoinPath(n.path, only.Key)), t.Field(only.Index).Type)
	}
	return strconv.Quote(RemovedText), nil // a value of an unexpected kind may contain any text
}

// isContainerType reports whether values of type t contain other values.
func isContainerType(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		return true
	case reflect.Struct:
		return len(Fields(t)) > 0 // a time has no fields
	}
	return false
}

// settingNamePattern matches a possible name of a setting.
var settingNamePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{0,40}$`)

// redactMembers writes a mapping. typeOf returns a value's type by name, or nil if the value must
// be removed.
func (x *redactor) redactMembers(n Node, typeOf func(name string) reflect.Type) (inline string, lines []string) {
	all, ok := x.tree.entries(n)
	if !ok || len(all) == 0 {
		return "{}", nil
	}
	for _, m := range all {
		t := typeOf(m.name)
		name := strconv.Quote(m.name)
		if settingNamePattern.MatchString(m.name) {
			name = m.name
		} else if t == nil { // a line such as "token:VALUE", without a space after the colon, is a name
			x.removed = append(x.removed, m.name)
			name = strconv.Quote(RemovedText)
		}
		if text, _ := rawText(m.value); t == nil && countsTokens(m.name, text) && isSecretName(m.name) {
			lines = append(lines, name+": "+text)
			continue
		}
		if t == nil && isSecretName(m.name) {
			lines = append(lines, name+": "+x.removeSecret(m.value))
			continue
		} else if t == nil {
			lines = append(lines, name+": "+strconv.Quote(RemovedText))
			continue
		}
		inline, below := x.redactValue(Node{m.value, JoinPath(n.path, m.name), n.depth + 1}, t)
		if below == nil {
			lines = append(lines, name+": "+inline)
			continue
		}
		lines = append(lines, name+":")
		for _, line := range below {
			lines = append(lines, "  "+line)
		}
	}
	return "", lines
}

func (x *redactor) redactElements(n Node, t reflect.Type) (inline string, lines []string) {
	list := n.ast.(*ast.SequenceNode)
	if len(list.Values) == 0 {
		return "[]", nil
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for _, e := range list.Values {
		inline, below := x.redactValue(Node{e, n.path, n.depth + 1}, t)
		if below == nil {
			below = []string{inline}
		}
		for i, line := range below {
			if i == 0 {
				lines = append(lines, "- "+line)
			} else {
				lines = append(lines, "  "+line)
			}
		}
	}
	return "", lines
}

// redactScalar writes a scalar. Numbers and booleans stay unchanged, and texts are quoted.
func (x *redactor) redactScalar(n Node) string {
	raw, _ := rawText(n.ast)
	shown := x.rules.Text(n.path, raw)
	if shown != raw {
		x.removed = append(x.removed, raw)
		return strconv.Quote(shown)
	}
	switch n.ast.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return strconv.Quote(raw)
	}
	return raw
}

// removeSecret records all texts below n as removed, and returns the text that replaces n.
func (x *redactor) removeSecret(n ast.Node) string {
	if n != nil {
		ast.Walk(textVisitor{x}, n)
	}
	return strconv.Quote(RemovedText)
}

// textVisitor is an ast.Visitor that records texts as removed.
type textVisitor struct{ *redactor }

// Visit implements ast.Visitor.
func (v textVisitor) Visit(n ast.Node) ast.Visitor {
	if raw, ok := rawText(n); ok && !isReference(n) && !isNull(n) {
		v.removed = append(v.removed, raw)
	}
	return v
}
