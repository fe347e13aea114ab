package strictyaml

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"penstock/config/suggest"
)

// Document is the result of Read.
type Document struct {
	Positions  *Positions
	Files      []string // files from which values were read
	HasSecret  bool     // the file contains a secret
	HasContent bool     // the file is not empty and its syntax is valid
	report     *problemReport
}

// Retired is a setting that existed only in earlier versions. A file that contains it is still
// valid.
type Retired struct {
	// Remedy explains what to do about the setting. In messages, it follows the name of the
	// setting.
	Remedy string
	// Unsafe makes the setting an error instead of a warning. Use it for limits and consents. If
	// the edge ignored them, the file would allow more than its author intended.
	Unsafe bool
}

// Options configures Read.
type Options struct {
	// Least is the remedy for an empty file.
	Least string
	// Retired maps the paths of retired settings. In these paths, each list position is replaced by
	// [], as in upstreams[].native. The values of these settings are not read.
	Retired map[string]Retired
}

// Read parses src and binds it to the struct *into. Problems use name as the file name, and
// relative paths in src are resolved against its directory. If a value cannot be bound, it keeps
// its default, and Problems reports it.
func Read(name string, src []byte, into any, o Options) *Document {
	const bytesPerValue = 20 // estimate for the first allocation, taken from a long file
	places := &Positions{positions: make(map[string]valuePosition, len(src)/bytesPerValue), broken: map[string]bool{}}
	d := &Document{Positions: places, report: &problemReport{src: newSourceText(name, src), positions: places}}
	body, size := d.report.parseDocument(src, o.Least)
	if d.HasContent = body != nil; d.HasContent {
		b := &Binder{
			report: d.report, tree: newAliasResolver(d.report, body, size), retired: o.Retired,
			references: referenceResolver{dir: filepath.Dir(name), env: os.LookupEnv},
		}
		b.bind(Node{ast: body}, reflect.ValueOf(into).Elem())
		d.Files, d.HasSecret = b.references.files, b.hasLiteralSecret
	}
	return d
}

// Fail reports a problem with the value at path.
func (d *Document) Fail(path, message string) {
	d.Positions.MarkBroken(path)
	d.report.Add(d.Positions.positions[path].newProblem(message))
}

// Problems returns all problems, with excerpts.
func (d *Document) Problems() Problems {
	if d.report.IsFull() {
		d.report.AddAll(Problems{{
			File:    d.report.src.name,
			Message: fmt.Sprintf("there are at least %d problems: these are the first that were found", MaxProblems),
		}})
	}
	d.report.src.addExcerpts(d.report.problems)
	return d.report.Problems()
}

// Binder binds a YAML tree to Go values and collects all mistakes. The decoder in the YAML library
// stops at the first mistake and does not record positions. Binder records the position of every
// value, so that later checks can report the line.
type Binder struct {
	report           *problemReport
	tree             *aliasResolver
	references       referenceResolver
	retired          map[string]Retired
	hasLiteralSecret bool // the file contains a secret
}

// NodeBinder is implemented by types that have more than one YAML form.
type NodeBinder interface {
	BindNode(b *Binder, n Node)
}

// scalarUnmarshaler is implemented by types that parse their text, such as durations.
type scalarUnmarshaler interface {
	UnmarshalYAML([]byte) error
}

// defaultSetter is implemented by list elements that have defaults.
type defaultSetter interface {
	SetDefaults()
}

// Fail reports a problem with the value at n.
func (b *Binder) Fail(n Node, message string) { b.report.fail(n.ast, n.path, "%s", message) }

// HideFromExcerpts excludes the value at n from excerpts.
func (b *Binder) HideFromExcerpts(n Node) { b.report.hideFromExcerpts(n.ast) }

// IsBroken reports whether the value at n could not be read.
func (b *Binder) IsBroken(n Node) bool { return b.report.positions.broken[n.path] }

// ContainsBroken reports whether n contains a value that could not be read.
func (b *Binder) ContainsBroken(n Node) bool {
	return b.report.positions.hasBrokenPath(n.path, func(rest string) bool { return strings.HasPrefix(rest, ".") })
}

// BindFields binds a mapping to the struct *into.
func (b *Binder) BindFields(n Node, into any) { b.bindFields(n, reflect.ValueOf(into).Elem()) }

// BindList binds a sequence to the slice *into.
func (b *Binder) BindList(n Node, into any) { b.bindList(n, reflect.ValueOf(into).Elem()) }

// BindScalar binds a string, number or boolean to *into.
func (b *Binder) BindScalar(n Node, into any) { b.bindScalar(n, reflect.ValueOf(into).Elem()) }

// bind stores the value at n in v. If the value is invalid, v keeps its previous value, which is
// the default.
func (b *Binder) bind(n Node, v reflect.Value) {
	if b.report.IsFull() {
		return
	}
	b.report.positions.positions[n.path] = b.report.newPosition(firstToken(n.ast), n.path)
	n, ok := b.tree.resolve(n)
	if !ok || isNull(n.ast) {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case NodeBinder:
		p.BindNode(b, n)
		return
	case scalarUnmarshaler:
		b.bindUnmarshaler(n, p)
		return
	case *time.Time:
		b.bindTime(n, p)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		b.bindFields(n, v)
	case reflect.Slice:
		b.bindList(n, v)
	case reflect.Map:
		b.bindMapping(n, v)
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		b.bind(n, p.Elem())
		v.Set(p)
	case reflect.Interface:
		if value := b.convertAny(n); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	default:
		b.bindScalar(n, v)
	}
}

// bindFields binds a mapping to a struct by its yaml tags. An unknown name is a mistake.
func (b *Binder) bindFields(n Node, v reflect.Value) {
	members, ok := b.tree.entries(n)
	if !ok {
		return
	}
	fields := Fields(v.Type())
	for _, m := range members {
		at := JoinPath(n.path, m.name)
		i := FieldIndexByKey(v.Type(), m.name)
		if i < 0 {
			if !b.reportIfRetired(m, at) {
				b.reportUnknownKey(m, fields, n.path, at)
			}
			continue
		}
		b.bind(Node{m.value, at, n.depth + 1}, v.Field(i))
		if isNull(m.value) { // report the position of the key, because there is no value
			b.report.positions.positions[at] = b.report.newPosition(m.key, at)
		}
	}
}

// reportIfRetired reports whether a key is a retired setting. If so, it adds a problem that contains the
// remedy.
func (b *Binder) reportIfRetired(m mappingEntry, at string) bool {
	r, ok := b.retired[listIndexPattern.ReplaceAllString(at, "[]")]
	if !ok {
		return false
	}
	b.report.hideLikely(m.name, m.value)
	if r.Unsafe {
		b.report.failAt(m.key, at, "%s is no longer a setting: %s", m.name, r.Remedy)
		return true
	}
	p := b.report.newPosition(m.key, at).newProblem(fmt.Sprintf("%s is no longer a setting and is ignored: %s", m.name, r.Remedy))
	p.Warning = true
	b.report.Add(p)
	return true
}

// listIndexPattern matches list positions in a path.
var listIndexPattern = regexp.MustCompile(`\[\d+\]`)

func (b *Binder) reportUnknownKey(m mappingEntry, fields []Field, path, at string) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.Key
	}
	likely := suggest.Nearest(m.name, known)
	b.report.hideLikely(m.name+" "+likely, m.value)
	hint := ": want " + suggest.JoinWithOr(known)
	if likely != "" {
		hint = fmt.Sprintf(": did you mean %q?", likely)
		// Otherwise the intended setting would also be reported as missing.
		b.report.positions.MarkBroken(JoinPath(path, likely))
	}
	b.report.failAt(m.key, at, "unknown key %q%s", m.name, hint)
}

// bindList binds a sequence to a slice. Elements start from their defaults. An empty list is not
// nil.
func (b *Binder) bindList(n Node, v reflect.Value) {
	s, ok := n.ast.(*ast.SequenceNode)
	if !ok {
		b.report.fail(n.ast, n.path, "want a list here, not %s", nodeKind(n.ast))
		return
	}
	// limits the first allocation; if there are too many mistakes, reading stops early
	const most = 1024
	out := reflect.MakeSlice(v.Type(), 0, min(len(s.Values), most))
	for i, e := range s.Values {
		if b.report.IsFull() {
			break
		}
		at := EntryPath(n.path, i)
		// for long lists of keys, this is faster than append
		if i == out.Cap() {
			larger := reflect.MakeSlice(v.Type(), i, min(len(s.Values), 4*i))
			reflect.Copy(larger, out)
			out = larger
		}
		out = out.Slice(0, i+1)
		element := out.Index(i)
		if d, ok := element.Addr().Interface().(defaultSetter); ok {
			d.SetDefaults()
		}
		b.bind(Node{e, at, n.depth + 1}, element)
		if isNull(e) {
			b.report.fail(e, at, "the list has an empty entry")
		}
	}
	v.Set(out)
}

// bindMapping binds a mapping to a map with string keys.
func (b *Binder) bindMapping(n Node, v reflect.Value) {
	members, ok := b.tree.entries(n)
	if !ok {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(members))
	for _, m := range members {
		value := reflect.New(v.Type().Elem()).Elem()
		b.bind(Node{m.value, JoinPath(n.path, m.name), n.depth + 1}, value)
		out.SetMapIndex(reflect.ValueOf(m.name), value)
	}
	v.Set(out)
}

// convertAny converts a tree to maps, slices, strings, numbers and booleans.
func (b *Binder) convertAny(n Node) any {
	switch x := n.ast.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		out := map[string]any{}
		b.bindMapping(n, reflect.ValueOf(&out).Elem())
		return out
	case *ast.SequenceNode:
		out := []any{}
		b.bindList(n, reflect.ValueOf(&out).Elem())
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
	if text, ok := b.scalarText(n, "a value"); ok {
		return text
	}
	return nil
}

// bindUnmarshaler binds a value that parses its text.
func (b *Binder) bindUnmarshaler(n Node, into scalarUnmarshaler) {
	text, ok := b.scalarText(n, "a value")
	if !ok {
		return
	}
	if err := into.UnmarshalYAML([]byte(text)); err != nil {
		// The message quotes the text, but must not reveal the value of a variable.
		b.Fail(n, strings.ReplaceAll(err.Error(), strconv.Quote(text), b.report.positions.QuoteValue(n.path, text)))
	}
}
