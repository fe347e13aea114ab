package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// document returns the body of the one document in src.
func (b *binder) document(src []byte) (ast.Node, bool) {
	fail := func(format string, args ...any) (ast.Node, bool) {
		b.report(b.at(nil, "").problem(fmt.Sprintf(format, args...)))
		return nil, false
	}
	for i, line := range b.src.lines {
		if !utf8.ValidString(line) || strings.Contains(line, "\x00") {
			b.src.hide(i+1, 1, i+1)
			b.report(mark{src: b.src, line: i + 1, column: 1}.problem("the line is not text in UTF-8"))
			return nil, false
		}
	}
	file, err := b.parseYAML(bytes.TrimPrefix(src, []byte("\ufeff")))
	if errors.Is(err, errReported) {
		return nil, false
	}
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		b.syntax(syntax)
		return nil, false
	}
	if err != nil {
		return fail("the file is not YAML")
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive { // %YAML and %TAG stand before the document that they are for
			continue
		}
		if d.Body != nil && !isNull(d.Body) {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return fail("the file is empty: %s", b.least)
	case 1:
		return bodies[0], true
	}
	b.failNode(bodies[1], "", "a second YAML document begins here: one file holds one")
	return nil, false
}

// errReported says that what is wrong has been reported.
var errReported = errors.New("it has been reported")

// parseYAML parses src, unless that would cost too much. A parser that panics on odd input must not take down an edge that is
// only reloading, so that is an error, too.
func (b *binder) parseYAML(src []byte) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, errors.New("parser panic")
		}
	}()
	all, at, why := tokens(string(src))
	if why != "" {
		b.failAt(at, "", "%s", why)
		return nil, errReported
	}
	b.nodes += len(all)
	return parser.Parse(all, 0, parser.AllowDuplicateMapKey())
}

// syntax reports a syntax error. There is no tree by which secrets on the line could be known, so whatever follows a key
// that may hold one is hidden.
func (b *binder) syntax(err *yaml.SyntaxError) {
	at := b.at(err.Token, "")
	if at.line >= 1 && at.line <= len(b.src.lines) {
		line := b.src.lines[at.line-1]
		if column := b.src.secretColumn(at.line); column > 0 {
			b.src.hide(at.line, column, at.line)
		}
		if strings.Contains(line, "[*") || strings.Contains(line, ", *") || strings.Contains(line, ": *") || strings.Contains(line, "- *") {
			err.Message += `; a text that begins with * is written in quotes: "*"`
		}
	}
	if strings.Contains(err.Message, "'\t'") {
		err.Message += "; indent with blanks"
	}
	b.report(at.problem("not valid YAML: " + strings.ReplaceAll(err.Message, "\t", `\t`)))
}

// secretColumn returns the column from which on a line may hold a secret; 0: nowhere. A line without a key is judged by the
// one before it that has one, because it may continue that one's value.
func (s *source) secretColumn(line int) int {
	column, keyed := afterSecretName(s.lines[line-1])
	for above := line - 1; !keyed && above >= 1; above-- {
		if column, keyed = afterSecretName(s.lines[above-1]); column > 0 {
			return 1
		}
	}
	return column
}

// afterSecretName returns the column after the first key of a line that may name a secret, or 0, and whether there is any
// key at all.
func afterSecretName(line string) (column int, keyed bool) {
	word, place := 0, 0 // where the word begins, in bytes, and where r stands, in characters
	for i, r := range line {
		place++
		switch r {
		case ':':
			if keyed = true; secretName(line[word:i]) {
				return place + 1, true
			}
			word = i + 1
		case ' ', '\t', ',', '{', '[', '-':
			word = i + 1
		}
	}
	return 0, keyed
}
