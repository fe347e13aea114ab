package template

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// Funcs are the functions of a set by name. One or two values are returned, the second an error.
type Funcs map[string]any

// Raw is text that is shown as it is in HTML, too. It has to come from the program itself.
type Raw string

// Set is templates that can name each other. Once parsed it is safe for concurrent use.
type Set struct {
	left, right string
	html        bool
	funcs       map[string]reflect.Value
	names       map[string]any // for the parser
	trees       map[string]*parse.Tree
}

// Text returns an empty set whose actions stand between left and right.
func Text(left, right string, funcs Funcs) *Set { return newSet(left, right, funcs, false) }

// HTML returns an empty set whose values are escaped. They are safe as text of an element and in an
// attribute within quotes, and nowhere else: not in a script, a style, or as the start of a URL.
func HTML(funcs Funcs) *Set { return newSet("{{", "}}", funcs, true) }

func newSet(left, right string, funcs Funcs, html bool) *Set {
	s := &Set{left, right, html, map[string]reflect.Value{}, map[string]any{}, map[string]*parse.Tree{}}
	for _, f := range []Funcs{builtins, funcs} {
		maps.Copy(s.names, f)
		for name, fn := range f {
			s.funcs[name] = reflect.ValueOf(fn)
		}
	}
	return s
}

// Parse adds a template, and those that it defines. What is empty does not replace one that is not.
func (s *Set) Parse(name, text string) error {
	trees, err := parse.Parse(name, text, s.left, s.right, s.names)
	if err != nil {
		return err
	}
	for name, t := range trees {
		if s.trees[name] == nil || !parse.IsEmptyTree(t.Root) {
			s.trees[name] = t
		}
	}
	return nil
}

// Must is Parse for templates that are part of the program.
func (s *Set) Must(name, text string) *Set {
	if err := s.Parse(name, text); err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}

// Has reports whether the set has a template.
func (s *Set) Has(name string) bool { return s.trees[name] != nil }

// Render returns a template's text for data.
func (s *Set) Render(name string, data any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			failed, ours := p.(failure)
			if !ours {
				panic(p)
			}
			err = fmt.Errorf("template %s: %s", name, string(failed))
		}
	}()
	r := renderer{set: s}
	r.template(name, reflect.ValueOf(data))
	return r.out.Bytes(), nil
}

// failure ends a rendering.
type failure string

func fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// renderer is one rendering.
type renderer struct {
	set  *Set
	out  bytes.Buffer
	vars []variable
}

type variable struct {
	name  string
	value reflect.Value
}

func (r *renderer) template(name string, dot reflect.Value) {
	t := r.set.trees[name]
	if t == nil {
		fail("there is no %q", name)
	}
	outer := r.vars
	r.vars = []variable{{"$", dot}}
	r.walk(dot, t.Root)
	r.vars = outer
}

func (r *renderer) walk(dot reflect.Value, node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				r.walk(dot, one)
			}
		}
	case *parse.TextNode:
		r.out.Write(n.Text)
	case *parse.CommentNode:
	case *parse.ActionNode:
		if v := r.pipeline(dot, n.Pipe); len(n.Pipe.Decl) == 0 {
			r.print(v)
		}
	case *parse.IfNode:
		r.branch(dot, &n.BranchNode)
	case *parse.WithNode:
		r.branch(dot, &n.BranchNode)
	case *parse.RangeNode:
		r.loop(dot, n)
	case *parse.TemplateNode:
		r.template(n.Name, r.pipeline(dot, n.Pipe))
	default:
		fail("%s is not supported", node)
	}
}

// branch renders if and with.
func (r *renderer) branch(dot reflect.Value, n *parse.BranchNode) {
	defer r.scope(len(r.vars))
	switch v := r.pipeline(dot, n.Pipe); {
	case truth(v) && n.NodeType == parse.NodeWith:
		r.walk(v, n.List)
	case truth(v):
		r.walk(dot, n.List)
	default:
		r.walk(dot, n.ElseList)
	}
}

// scope ends the variables that were declared since there were n.
func (r *renderer) scope(n int) { r.vars = r.vars[:n] }

func (r *renderer) loop(dot reflect.Value, n *parse.RangeNode) {
	defer r.scope(len(r.vars))
	over := indirect(r.pipeline(dot, n.Pipe))
	outer, empty := len(r.vars), true
	each := func(i, v reflect.Value) {
		empty = false
		for at, value := range decided(len(n.Pipe.Decl), i, v) {
			r.vars[outer-len(n.Pipe.Decl)+at].value = value
		}
		r.walk(v, n.List)
		r.scope(outer)
	}
	switch over.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range over.Len() {
			each(reflect.ValueOf(i), over.Index(i))
		}
	case reflect.Int:
		for i := range int(over.Int()) {
			each(reflect.ValueOf(i), reflect.ValueOf(i))
		}
	case reflect.Map:
		keys := over.MapKeys()
		slices.SortFunc(keys, compare)
		for _, k := range keys {
			each(k, over.MapIndex(k))
		}
	case reflect.Invalid: // nothing
	default:
		fail("range over %s", over.Type())
	}
	if empty {
		r.walk(dot, n.ElseList)
	}
}

// decided is what a range sets its n variables to.
func decided(n int, index, value reflect.Value) []reflect.Value {
	return [][]reflect.Value{{}, {value}, {index, value}}[n]
}

// pipeline is the value of a pipeline, which its variables are set to.
func (r *renderer) pipeline(dot reflect.Value, p *parse.PipeNode) (v reflect.Value) {
	if p == nil {
		return v
	}
	piped := []reflect.Value(nil)
	for _, c := range p.Cmds {
		v = concrete(r.command(dot, c, piped))
		piped = []reflect.Value{v}
	}
	for _, d := range p.Decl {
		if !p.IsAssign {
			r.vars = append(r.vars, variable{d.Ident[0], v})
		} else {
			r.variable(d.Ident[0]).value = v
		}
	}
	return v
}

func (r *renderer) variable(name string) *variable {
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			return &r.vars[i]
		}
	}
	fail("there is no %s", name)
	return nil
}

// command is the value of one command of a pipeline. Its last argument is what was piped into it.
func (r *renderer) command(dot reflect.Value, c *parse.CommandNode, piped []reflect.Value) reflect.Value {
	args := c.Args[1:]
	switch n := c.Args[0].(type) {
	case *parse.FieldNode:
		return r.chain(dot, dot, n.Ident, args, piped)
	case *parse.VariableNode:
		return r.chain(dot, r.variable(n.Ident[0]).value, n.Ident[1:], args, piped)
	case *parse.ChainNode:
		return r.chain(dot, r.value(dot, n.Node), n.Field, args, piped)
	case *parse.IdentifierNode:
		return r.function(dot, n.Ident, nil, args, piped)
	}
	if len(args)+len(piped) > 0 {
		fail("%s takes no arguments", c.Args[0])
	}
	return r.value(dot, c.Args[0])
}

// value is the value of a node by itself.
func (r *renderer) value(dot reflect.Value, node parse.Node) reflect.Value {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot
	case *parse.NilNode:
		return reflect.Value{}
	case *parse.BoolNode:
		return reflect.ValueOf(n.True)
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	case *parse.NumberNode:
		if n.IsInt && !strings.ContainsAny(n.Text, ".eEpP") {
			return reflect.ValueOf(int(n.Int64))
		}
		return reflect.ValueOf(n.Float64)
	case *parse.PipeNode:
		return r.pipeline(dot, n)
	case *parse.FieldNode, *parse.VariableNode, *parse.ChainNode, *parse.IdentifierNode:
		return r.command(dot, &parse.CommandNode{Args: []parse.Node{n}}, nil)
	}
	fail("%s is not supported", node)
	return reflect.Value{}
}

// chain follows names from a value. The last one takes the arguments, if it is a function's.
func (r *renderer) chain(dot, v reflect.Value, names []string, args []parse.Node, piped []reflect.Value) reflect.Value {
	for i, name := range names {
		if i == len(names)-1 {
			return r.member(dot, v, name, args, piped)
		}
		v = r.member(dot, v, name, nil, nil)
	}
	if len(args)+len(piped) > 0 {
		fail("a value takes no arguments")
	}
	return v
}

// member is what a function makes of v, or else a field or a key of v.
func (r *renderer) member(dot, v reflect.Value, name string, args []parse.Node, piped []reflect.Value) reflect.Value {
	receiver := concrete(v)
	if fn := r.set.funcs[name]; fn.IsValid() && receiver.IsValid() && takes(fn.Type(), receiver) {
		return r.function(dot, name, []reflect.Value{receiver}, args, piped)
	}
	switch in := indirect(receiver); in.Kind() {
	case reflect.Struct:
		if f, found := in.Type().FieldByName(name); found && f.IsExported() {
			if len(args)+len(piped) > 0 {
				fail("%s is a field and takes no arguments", name)
			}
			field, err := in.FieldByIndexErr(f.Index)
			if err != nil {
				fail("%s: %v", name, err)
			}
			return field
		}
	case reflect.Map:
		return in.MapIndex(reflect.ValueOf(name).Convert(in.Type().Key()))
	case reflect.Invalid:
		fail("%s of nothing", name)
	}
	fail("%s has no %s, and no function of this name takes it", receiver.Type(), name)
	return v
}

// function calls a function with what stands first, then the arguments, then what was piped.
func (r *renderer) function(
	dot reflect.Value, name string, first []reflect.Value, args []parse.Node, piped []reflect.Value,
) (v reflect.Value) {
	if name == "and" || name == "or" { // they do not look at what is behind the deciding one
		for _, a := range args {
			if v = concrete(r.value(dot, a)); truth(v) == (name == "or") {
				break
			}
		}
		return v
	}
	all := first
	for _, a := range args {
		all = append(all, r.value(dot, a))
	}
	all = append(all, piped...)
	fn := r.set.funcs[name]
	if name == "call" {
		if fn, all = concrete(all[0]), all[1:]; fn.Kind() != reflect.Func || fn.IsNil() {
			fail("call of what is no function")
		}
	}
	return call(name, fn, all)
}

func (r *renderer) print(v reflect.Value) {
	v = concrete(v)
	if !v.IsValid() {
		if !r.set.html {
			r.out.WriteString("<no value>")
		}
		return
	}
	if v.Type() == reflect.TypeFor[Raw]() && r.set.html {
		r.out.WriteString(v.String())
		return
	}
	text := fmt.Sprint(printable(v, !r.set.html))
	if r.set.html {
		_, _ = escaper.WriteString(&r.out, text)
		return
	}
	r.out.WriteString(text)
}

// escaper writes text for HTML as html/template does.
var escaper = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;",
	"+", "&#43;", "<", "&lt;", ">", "&gt;")
