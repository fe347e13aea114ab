package config

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// binder puts a YAML tree into Go values and collects everything that does not fit. The library's own decoder stops at the
// first mistake and forgets where a value stood; binding the tree here gives all of them, and a mark for every value, by
// which later checks find their lines.
type binder struct {
	src      *source
	dir      string                      // what relative paths are relative to
	env      func(string) (string, bool) // os.LookupEnv
	anchors  map[string]ast.Node
	marks    map[string]mark
	broken   map[string]bool // paths that were reported: checks that depend on them are skipped
	problems Problems
	reported [2]int   // how many were found: errors, warnings
	files    []string // files the values came from
	literal  bool     // a secret stands in the file itself
	least    string   // the remedy for a file without anything in it
	nodes    int      // that may still be visited; aliases can multiply a small file
	paths    int      // bytes of the paths of those that were
}

// bytesPerValue is about how many bytes of a long file there are for each of its values: what room is made for in advance.
const bytesPerValue = 20

// nodeBinder is a type with several written forms.
type nodeBinder interface {
	bindNode(b *binder, n ast.Node, path string, depth int)
}

// scalarUnmarshaler is a type that parses its own text, such as Duration.
type scalarUnmarshaler interface {
	UnmarshalYAML([]byte) error
}

func newBinder(src *source, size int, dir string) *binder {
	return &binder{
		src: src, dir: dir, env: os.LookupEnv,
		nodes:   100_000, // what aliases may add to the file's own
		anchors: map[string]ast.Node{}, marks: make(map[string]mark, size/bytesPerValue), broken: map[string]bool{},
	}
}

// tree binds a document's body to the value that into points to.
func (b *binder) tree(body ast.Node, into any) {
	ast.Walk(anchorVisitor{b}, body)
	b.bind(body, reflect.ValueOf(into).Elem(), "", 0)
}

// anchorVisitor collects anchors before binding starts, because one may stand below a key that is not bound.
type anchorVisitor struct{ b *binder }

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		name := a.Name.GetToken().Value
		if _, taken := v.b.anchors[name]; taken {
			v.b.failNode(a, "", "the anchor &%s is set twice", name)
		}
		v.b.anchors[name] = a.Value
	}
	return v
}

// failNode reports a problem with the value at path, which stands at n.
func (b *binder) failNode(n ast.Node, path, format string, args ...any) {
	b.failAt(startToken(n), path, format, args...)
}

func (b *binder) failAt(t *token.Token, path, format string, args ...any) {
	b.broken[path] = true
	if b.reported[0] < maxProblems { // or making it would cost for nothing
		b.report(b.at(t, path).problem(fmt.Sprintf(format, args...)))
	}
}

// report adds a problem, unless there are enough of its kind.
func (b *binder) report(p Problem) {
	n := &b.reported[0]
	if p.Warning {
		n = &b.reported[1]
	}
	if *n++; *n <= maxProblems {
		b.problems = append(b.problems, p)
	}
}

// full reports that nothing more needs to be looked for: enough is wrong.
func (b *binder) full() bool { return b.reported[0] >= maxProblems }

func (b *binder) at(t *token.Token, path string) mark {
	m := mark{src: b.src, path: path}
	if t != nil && t.Position != nil {
		m.line, m.column = t.Position.Line, max(1, t.Position.Column)
	}
	return m
}

// bind puts n into v. On a mistake v keeps what it held, which is the default.
func (b *binder) bind(n ast.Node, v reflect.Value, path string, depth int) {
	if b.full() {
		return
	}
	b.marks[path] = b.at(startToken(n), path)
	n, ok := b.resolve(n, path, depth)
	if !ok || isNull(n) {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case nodeBinder:
		p.bindNode(b, n, path, depth)
		return
	case scalarUnmarshaler:
		if text, ok := b.text(n, path, "a value"); ok {
			if err := p.UnmarshalYAML([]byte(text)); err != nil {
				// The message quotes the text; a variable's value must not be shown.
				shown := strings.ReplaceAll(err.Error(), strconv.Quote(text), b.marks[path].show(text))
				b.failNode(n, path, "%s", shown)
			}
		}
		return
	case *Secret:
		b.secret(n, p, path)
		return
	}
	if v.Type() == timeType {
		b.time(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		b.fields(n, v, path, depth)
	case reflect.Slice:
		b.list(n, v, path, depth)
	case reflect.Map:
		b.mapping(n, v, path, depth)
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		b.bind(n, p.Elem(), path, depth)
		v.Set(p)
	case reflect.Interface:
		if value := b.free(n, path, depth); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	default:
		b.scalar(n, v, path)
	}
}

// resolve returns what n stands for: anchors, aliases and the tags of plain YAML are looked through.
func (b *binder) resolve(n ast.Node, path string, depth int) (ast.Node, bool) {
	first := n
	b.paths += len(path)
	for hops := 0; ; hops++ {
		if b.nodes--; b.nodes < 0 || depth+hops > maxDepth || b.paths > maxPaths {
			if !b.broken[tooLarge] {
				b.broken[tooLarge] = true
				b.failNode(first, path, "the file nests too deeply or repeats an alias too often")
			}
			return nil, false
		}
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			to, ok := b.anchors[name]
			if !ok {
				b.failNode(x, path, "there is no anchor &%s for the alias *%s; a text that begins with * is written in quotes", name, name)
				return nil, false
			}
			n = to
		case *ast.TagNode:
			switch t := x.GetToken().Value; t {
			case "!!str", "!!int", "!!float", "!!bool", "!!map", "!!seq", "!!null":
				n = x.Value
			default:
				b.failNode(x, path, "the tag %s has no meaning here", t)
				return nil, false
			}
		default:
			return n, true
		}
	}
}

// tooLarge marks that the ceilings were reported; it is no path that a file can have.
const tooLarge = "\x00"

// entry is one member of a mapping.
type entry struct {
	name  string
	key   *token.Token
	value ast.Node
}

// entries lists the members of a mapping with its merge keys resolved, and reports members that stand there twice.
func (b *binder) entries(n ast.Node, path string, depth int) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		b.failNode(n, path, "want keys with values here, not %s", kindOf(n))
		return nil, false
	}
	b.nodes -= len(values)
	var own []entry
	var merged []ast.Node
	seen := map[string]*token.Token{}
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, v.Value)
			continue
		}
		key := startToken(v.Key)
		name, ok := keyText(v.Key)
		if !ok {
			b.failAt(key, path, "a key must be a plain word")
			continue
		}
		if first, twice := seen[name]; twice {
			b.hideLikely(name, v.Value)
			b.failAt(key, join(path, name), "the key %q is given twice: first on line %d", name, first.Position.Line)
			continue
		}
		seen[name] = key
		own = append(own, entry{name, key, v.Value})
	}
	for _, m := range merged {
		for _, e := range b.mergedEntries(m, path, depth) {
			if seen[e.name] == nil {
				seen[e.name] = e.key
				own = append(own, e)
			}
		}
	}
	return own, true
}

// mergedEntries lists what a merge key brings in: the members of one mapping, or of several.
func (b *binder) mergedEntries(n ast.Node, path string, depth int) []entry {
	n, ok := b.resolve(n, path, depth+1)
	if !ok {
		return nil
	}
	if s, ok := n.(*ast.SequenceNode); ok {
		var all []entry
		for _, v := range s.Values {
			all = append(all, b.mergedEntries(v, path, depth+1)...)
		}
		return all
	}
	got, _ := b.entries(n, path, depth+1)
	return got
}

// fields binds a mapping to a struct by its yaml tags. A name that is no field is a problem.
func (b *binder) fields(n ast.Node, v reflect.Value, path string, depth int) {
	members, ok := b.entries(n, path, depth)
	if !ok {
		return
	}
	names := fieldNames(v.Type())
	for _, m := range members {
		at := join(path, m.name)
		i := index(names, m.name)
		if i < 0 {
			b.unknown(m, names, path, at)
			continue
		}
		b.bind(m.value, v.Field(names[i].field), at, depth+1)
		b.markEmpty(m, at)
	}
}

// markEmpty points at the key when its value is absent: there is nothing else to point at.
func (b *binder) markEmpty(m entry, path string) {
	if isNull(m.value) {
		b.marks[path] = b.at(m.key, path)
	}
}

func (b *binder) unknown(m entry, names []fieldName, path, at string) {
	known := make([]string, len(names))
	for i, n := range names {
		known[i] = n.yaml
	}
	hint := ": want " + quoteList(known)
	likely := nearest(m.name, known)
	b.hideLikely(m.name+" "+likely, m.value)
	if likely != "" {
		hint = fmt.Sprintf(": did you mean %q?", likely)
		b.broken[join(path, likely)] = true // or it would be reported as missing, too
	}
	b.failAt(m.key, at, "unknown key %q%s", m.name, hint)
}

// list binds a sequence to a slice. Elements start from their default, and an empty list is empty, not absent.
func (b *binder) list(n ast.Node, v reflect.Value, path string, depth int) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		b.failNode(n, path, "want a list here, not %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, min(len(s.Values), 1024)) // a list of what is wrong is not read to its end
	for i, e := range s.Values {
		if b.full() {
			break
		}
		at := path + "[" + strconv.Itoa(i) + "]"
		out = reflect.Append(out, elementDefault(v.Type().Elem()))
		element := out.Index(i)
		b.bind(e, element, at, depth+1)
		if isNull(e) {
			b.failNode(e, at, "the list has an empty entry")
		}
	}
	v.Set(out)
}

// mapping binds a mapping with free names to a map of strings to something.
func (b *binder) mapping(n ast.Node, v reflect.Value, path string, depth int) {
	members, ok := b.entries(n, path, depth)
	if !ok {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(members))
	for _, m := range members {
		value := reflect.New(v.Type().Elem()).Elem()
		b.bind(m.value, value, join(path, m.name), depth+1)
		out.SetMapIndex(reflect.ValueOf(m.name), value)
	}
	v.Set(out)
}

// free turns a tree into maps, slices, strings, numbers and booleans.
func (b *binder) free(n ast.Node, path string, depth int) any {
	switch x := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		out := map[string]any{}
		b.mapping(n, reflect.ValueOf(&out).Elem(), path, depth)
		return out
	case *ast.SequenceNode:
		out := []any{}
		b.list(n, reflect.ValueOf(&out).Elem(), path, depth)
		return out
	case *ast.BoolNode:
		return x.Value
	case *ast.IntegerNode:
		if u, ok := x.Value.(uint64); ok && u > 1<<63-1 {
			return float64(u)
		} else if ok {
			return int64(u)
		}
		return x.Value
	case *ast.FloatNode:
		return x.Value
	}
	if text, ok := b.text(n, path, "a value"); ok {
		return text
	}
	return nil
}

// fieldName ties a key of the file to a field of a struct.
type fieldName struct {
	yaml  string
	field int
}

// fieldCache keeps the result of fieldNames by type.
var fieldCache sync.Map

// fieldNames lists the fields of a struct that a file can set, in their order.
func fieldNames(t reflect.Type) []fieldName {
	if names, ok := fieldCache.Load(t); ok {
		return names.([]fieldName)
	}
	var out []fieldName
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && tag != "" && tag != "-" {
			out = append(out, fieldName{tag, i})
		}
	}
	fieldCache.Store(t, out)
	return out
}

func index(names []fieldName, yaml string) int {
	for i, n := range names {
		if n.yaml == yaml {
			return i
		}
	}
	return -1
}

func join(path, name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r == '.' || r == '[' || r == '"' || unicode.IsControl(r) }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func isNull(n ast.Node) bool {
	if n == nil {
		return true
	}
	return n.Type() == ast.NullType
}

// keyText returns the text of a mapping's key.
func keyText(k ast.MapKeyNode) (string, bool) {
	var n ast.Node = k
	if q, ok := n.(*ast.MappingKeyNode); ok {
		n = q.Value
	}
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// startToken returns the token that n begins with. A mapping's own token is its first colon.
func startToken(n ast.Node) *token.Token {
	switch x := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return startToken(x.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return startToken(x.Key)
	case *ast.MappingKeyNode:
		if x.Value != nil {
			return startToken(x.Value)
		}
	}
	return n.GetToken()
}

// kindOf names what a node is, for messages.
func kindOf(n ast.Node) string {
	switch x := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return strconv.FormatBool(x.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "a text"
}
