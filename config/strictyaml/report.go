package strictyaml

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"penstock/config/suggest"
)

// problemReport collects the problems of one source.
type problemReport struct {
	src       *sourceText
	positions *Positions
	Findings
}

// newPosition returns the position of the value at path, which is that of the token t.
func (r *problemReport) newPosition(t *token.Token, path string) valuePosition {
	m := valuePosition{src: r.src, path: path}
	if t != nil && t.Position != nil {
		m.line, m.column = t.Position.Line, max(1, t.Position.Column)
	}
	return m
}

// fail reports a problem with n, the value at path.
func (r *problemReport) fail(n ast.Node, path, format string, args ...any) {
	r.failAt(firstToken(n), path, format, args...)
}

func (r *problemReport) failAt(t *token.Token, path, format string, args ...any) {
	r.positions.broken[path] = true
	if !r.IsFull() { // do not format a problem that would be discarded
		r.Add(r.newPosition(t, path).newProblem(fmt.Sprintf(format, args...)))
	}
}

func (r *problemReport) warn(n ast.Node, path, message string) {
	p := r.newPosition(firstToken(n), path).newProblem(message)
	p.Warning = true
	r.Add(p)
}

// hideFromExcerpts excludes the value of n from excerpts.
func (r *problemReport) hideFromExcerpts(n ast.Node) {
	at := r.newPosition(firstToken(n), "")
	last := at.line
	switch x := n.(type) {
	case *ast.StringNode:
		last += strings.Count(strings.TrimSpace(x.Token.Origin), "\n")
	case *ast.LiteralNode:
		last += 1 + strings.Count(x.Value.Value, "\n")
	case *ast.SequenceNode, *ast.MappingNode, *ast.MappingValueNode:
		ast.Walk(lastLineVisitor{&last}, n)
	}
	r.src.hide(at.line, at.column, last)
}

// lastLineVisitor is an ast.Visitor that finds the last line of a tree.
type lastLineVisitor struct{ line *int }

func (l lastLineVisitor) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil {
		*l.line = max(*l.line, t.Position.Line+strings.Count(strings.TrimSpace(t.Origin), "\n"))
	}
	return l
}

// hideLikely hides the value of an unknown key if the key's name suggests a secret.
func (r *problemReport) hideLikely(name string, n ast.Node) {
	if text, _ := rawText(n); n != nil && isSecretName(name) && !isReference(n) && !countsTokens(name, text) {
		r.hideFromExcerpts(n)
	}
}

// isReference reports whether a value refers to a variable or a file.
func isReference(n ast.Node) bool {
	text, ok := rawText(n)
	return ok && (strings.HasPrefix(text, "${") || strings.HasPrefix(text, "file:"))
}

// isSecretName reports whether a key with this name probably contains a secret.
func isSecretName(name string) bool {
	name = suggest.NormalizeName(name)
	for _, word := range []string{"key", "token", "secret", "pass", "hash", "auth", "bearer", "cred"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// countsTokens reports whether a key whose name suggests a secret contains a number of tokens, such
// as max_tokens.
func countsTokens(name, value string) bool {
	counts := false
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == '-' || r == ' ' }) {
		if word == "tokens" {
			counts = true
		} else if isSecretName(word) {
			return false
		}
	}
	return counts && countPattern.MatchString(value)
}

// countPattern matches a number that is too short for a secret.
var countPattern = regexp.MustCompile(`^[0-9][0-9_]{0,11}[kKmM]?$`)
