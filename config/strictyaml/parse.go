package strictyaml

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseDocument returns the body of the only document in src, and the number of tokens in src. If src does
// not contain exactly one document, it reports a problem and returns nil. least is the remedy for
// an empty file.
func (r *problemReport) parseDocument(src []byte, least string) (body ast.Node, size int) {
	for i, line := range r.src.lines {
		if !utf8.ValidString(line) || strings.Contains(line, "\x00") {
			r.src.hide(i+1, 1, i+1)
			r.Add(valuePosition{src: r.src, line: i + 1, column: 1}.newProblem("the line is not text in UTF-8"))
			return nil, 0
		}
	}
	text := string(bytes.TrimPrefix(src, []byte("\ufeff")))
	if body, size = parseSimpleYAML(text); body != nil {
		return body, size
	}
	file, size, err := parseWithinLimits(text)
	if err != nil {
		r.reportParseError(err)
		return nil, 0
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive {
			continue // %YAML and %TAG precede their document
		}
		if d.Body != nil && !isNull(d.Body) {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		r.Add(r.newPosition(nil, "").newProblem("the file is empty: " + least))
		return nil, 0
	case 1:
		return bodies[0], size
	}
	r.fail(bodies[1], "", "a second YAML document begins here: one file holds one")
	return nil, 0
}

// parseWithinLimits parses src. If parsing would be too expensive, it returns an error. It converts a
// panic in the parser to an error, because unusual input must not take down an edge during a
// reload.
func parseWithinLimits(src string) (f *ast.File, size int, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, errors.New("parser panic")
		}
	}()
	all, err := splitTokens(src)
	if err != nil {
		return nil, 0, err
	}
	f, err = parser.Parse(all, 0, parser.AllowDuplicateMapKey())
	return f, len(all), err
}

// reportParseError reports an error that prevents parsing.
func (r *problemReport) reportParseError(err error) {
	if large, ok := errors.AsType[*tooLargeError](err); ok {
		r.failAt(large.at, "", "%s", large.why)
	} else if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		r.reportSyntaxError(syntax)
	} else {
		r.Add(r.newPosition(nil, "").newProblem("the file is not YAML"))
	}
}

// starValuePattern matches the start of a value with *, which YAML parses as an alias.
var starValuePattern = regexp.MustCompile(`(\[|[,:-] )\*`)

// reportSyntaxError reports a syntax error. Because there is no tree, it is unknown where the
// secrets on the line are. reportSyntaxError therefore hides all text after a key that may contain
// a secret.
func (r *problemReport) reportSyntaxError(err *yaml.SyntaxError) {
	at := r.newPosition(err.Token, "")
	if at.line >= 1 && at.line <= len(r.src.lines) {
		line := r.src.lines[at.line-1]
		if column := r.src.secretColumn(at.line); column > 0 {
			r.src.hide(at.line, column, at.line)
		}
		if starValuePattern.MatchString(line) {
			err.Message += `; a text that begins with * is written in quotes: "*"`
		}
	}
	if strings.Contains(err.Message, "'\t'") {
		err.Message += "; indent with blanks"
	}
	r.Add(at.newProblem("not valid YAML: " + strings.ReplaceAll(err.Message, "\t", `\t`)))
}
