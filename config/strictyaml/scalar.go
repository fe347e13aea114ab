package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// scalarText returns the text of a scalar with ${VAR} resolved. want describes the expected value
// in the message that is reported if n is a list or a mapping.
func (b *Binder) scalarText(n Node, want string) (string, bool) {
	raw, ok := rawText(n.ast)
	if !ok {
		b.report.fail(n.ast, n.path, "want %s here, not %s", want, nodeKind(n.ast))
		return "", false
	}
	text, err := b.references.expandVariables(raw)
	if err != nil {
		b.Fail(n, err.Error())
		return "", false
	}
	if text != raw {
		marks := b.report.positions.positions
		m := marks[n.path]
		m.reference = raw
		marks[n.path] = m
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

// scalarNames maps the kinds that bindScalar supports to their names in messages.
var scalarNames = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false",
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
}

func (b *Binder) bindScalar(n Node, v reflect.Value) {
	want := scalarNames[v.Kind()]
	if want == "" {
		panic("BUG: no binding for " + v.Type().String())
	}
	text, ok := b.scalarText(n, want)
	if !ok {
		return
	}
	wrong := func() { b.Fail(n, b.report.positions.QuoteValue(n.path, text)+" is not "+want) }
	switch v.Kind() {
	case reflect.String:
		if _, ok := n.ast.(*ast.BoolNode); ok {
			b.Fail(n, "want a text here, not "+text+": put it in quotes if you mean the word")
			return
		}
		if raw, _ := rawText(n.ast); strings.Contains(raw, "://") && strings.ContainsAny(raw, "@?") {
			b.HideFromExcerpts(n) // the value may be a password or a key
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
		if errors.Is(err, strconv.ErrRange) {
			b.Fail(n, fmt.Sprintf("%s is out of range: at most %d in size", b.report.positions.QuoteValue(n.path, text), i))
			return
		}
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

// bindTime binds a time in RFC 3339 format, or a date. A date means the start of that day in UTC.
func (b *Binder) bindTime(n Node, into *time.Time) {
	text, ok := b.scalarText(n, "a time")
	if !ok {
		return
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			*into = t
			return
		}
	}
	b.Fail(n, b.report.positions.QuoteValue(n.path, text)+" is not a time: write 2027-01-31 or 2027-01-31T15:04:05Z")
}

// ReadSecret returns the value of a secret, which may be a literal, a text with ${VAR}, or the
// contents of file:PATH. If the secret cannot be read, ReadSecret reports a problem and returns
// false.
func (b *Binder) ReadSecret(n Node) (value string, ok bool) {
	raw, ok := rawText(n.ast)
	if !ok {
		b.HideFromExcerpts(n)
		b.report.fail(n.ast, n.path, "want a text here, not %s", nodeKind(n.ast))
		return "", false
	}
	name, isFile := strings.CutPrefix(raw, "file:")
	if !isFile && !strings.Contains(raw, "${") {
		b.HideFromExcerpts(n)
		b.hasLiteralSecret = true
	}
	value, err := b.references.expandVariables(raw)
	if err == nil && isFile {
		var warning string
		name, _ = b.references.expandVariables(name)
		if value, warning, err = b.references.readSecretFile(name); warning != "" {
			b.report.warn(n.ast, n.path, warning)
		}
	}
	switch {
	case err != nil:
		b.Fail(n, err.Error())
		return "", false
	case strings.ContainsFunc(value, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		b.Fail(n, "the secret has a blank, a line break or a character that is not ASCII, which no header can carry")
		return "", false
	case value == "":
		b.report.warn(n.ast, n.path, "the secret is empty, as if it were not set")
	}
	return value, true
}
