package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var timeType = reflect.TypeFor[time.Time]()

// text returns the text of a scalar as it was written, without quotes and with its ${VAR} resolved. want names what should
// stand there, for the message when there is a list or a mapping.
func (b *binder) text(n ast.Node, path, want string) (string, bool) {
	raw, ok := rawText(n)
	if !ok {
		b.failNode(n, path, "want %s here, not %s", want, kindOf(n))
		return "", false
	}
	text, err := b.expand(raw)
	if err != nil {
		b.failNode(n, path, "%s", err)
		return "", false
	}
	if text != raw {
		m := b.marks[path]
		m.raw = raw
		b.marks[path] = m
	}
	return text, true
}

func rawText(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// scalars are the kinds that scalar can bind, as messages call them.
var scalars = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false",
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
}

// scalar binds one string, number or boolean.
func (b *binder) scalar(n ast.Node, v reflect.Value, path string) {
	want := scalars[v.Kind()]
	if want == "" {
		panic("BUG: no binding for " + v.Type().String())
	}
	text, ok := b.text(n, path, want)
	if !ok {
		return
	}
	wrong := func() { b.failNode(n, path, "%s is not %s", b.marks[path].show(text), want) }
	switch v.Kind() {
	case reflect.String:
		if _, ok := n.(*ast.BoolNode); ok {
			b.failNode(n, path, "want a text here, not %s: put it in quotes if you mean the word", text)
			return
		}
		if raw, _ := rawText(n); strings.Contains(raw, "://") && strings.ContainsAny(raw, "@?") {
			b.hide(n) // a URL with a password or a key
		}
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "false":
			v.SetBool(text == "true")
		default:
			wrong()
		}
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, v.Type().Bits())
		if err != nil {
			wrong()
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			wrong()
			return
		}
		v.SetFloat(f)
	}
}

// time binds a moment in RFC 3339, or a date, which means its first moment in UTC.
func (b *binder) time(n ast.Node, v reflect.Value, path string) {
	text, ok := b.text(n, path, "a time")
	if !ok {
		return
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			v.Set(reflect.ValueOf(t))
			return
		}
	}
	b.failNode(n, path, "%s is not a time: write 2027-01-31 or 2027-01-31T15:04:05Z", b.marks[path].show(text))
}

// show quotes the value that stands at m for a message, bounded.
func (m mark) show(text string) string {
	if m.raw != "" {
		text = m.raw
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "..."
	}
	return fmt.Sprintf("%q", text)
}
