package strictyaml

import (
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// The parser takes some 60 µs for a key of the API: half a second of a reload for ten thousand. So
// files in the usual form are read here, line by line, into the same tree, and all others by the
// parser: with block texts, anchors, tags, empty values, escapes, or anything that is not ASCII. A
// file with a mistake in its syntax is one of those.

// plainLine is a line that holds something.
type plainLine struct {
	number, indent int
	text           string // without the indent, a comment, and the blanks before that
}

// plainReader reads a file in the usual form. Once odd is set the file is the parser's, and what is
// returned means nothing.
type plainReader struct {
	lines []plainLine // that are left
	depth int
	size  int // values read
	odd   bool
}

// plainTree returns the tree of a file in the usual form, as the parser would, and about how many
// tokens the parser would see. It returns nil if the file has another form or breaks a bound.
func plainTree(src string) (body ast.Node, size int) {
	if structure(src) > maxMarks || longBlank(src) > 0 {
		return nil, 0
	}
	var p plainReader
	if p.cut(src); p.odd || len(p.lines) == 0 {
		return nil, 0
	}
	if !strings.HasPrefix(p.lines[0].text, "- ") && !plainKey.MatchString(p.lines[0].text) {
		return nil, 0
	}
	body = p.block()
	if p.odd || len(p.lines) > 0 {
		return nil, 0
	}
	return body, 2 * p.size
}

// maxPlainLine bounds a line, in bytes, so that little is read in vain of a file that becomes odd at its end.
const maxPlainLine = 1000

// cut splits the text into lines.
func (p *plainReader) cut(src string) {
	for i := range len(src) {
		if c := src[i]; c != '\n' && (c < ' ' || c > '~') {
			p.odd = true
			return
		}
	}
	p.lines = make([]plainLine, 0, strings.Count(src, "\n")+1)
	number := 0
	for line := range strings.SplitSeq(src, "\n") {
		number++
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' {
			continue
		}
		if len(text) > maxPlainLine || strings.HasSuffix(text, " ") { // before a blank the parser takes another column for some values
			p.odd = true
			return
		}
		indent := len(line) - len(text)
		if i := strings.Index(text, " #"); i >= 0 {
			if strings.ContainsAny(text, `"'`) { // it may be within the quotes
				p.odd = true
				return
			}
			text = text[:i]
		}
		p.lines = append(p.lines, plainLine{number, indent, strings.TrimRight(text, " ")})
	}
}

// plainKey matches a key, and what of its line stands between it and its value.
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}:( +|$)`)

// block reads the list, the mapping or the value that begins on the first of the lines.
func (p *plainReader) block() ast.Node {
	p.depth++
	defer func() { p.depth-- }()
	switch first := &p.lines[0]; {
	case p.depth > maxDepth/2:
		p.odd = true
		return nil
	case strings.HasPrefix(first.text, "- "):
		return p.list(first.indent)
	case plainKey.MatchString(first.text):
		return p.mapping(first.indent)
	default:
		p.lines = p.lines[1:]
		return p.value(first.text, first.number, first.indent+1)
	}
}

func (p *plainReader) list(indent int) ast.Node {
	list := ast.Sequence(token.SequenceEntry("-", position(&p.lines[0], 0)), false)
	for !p.odd && p.continues(indent) && strings.HasPrefix(p.lines[0].text, "- ") {
		first := &p.lines[0]
		rest := strings.TrimLeft(first.text[1:], " ")
		first.indent += len(first.text) - len(rest)
		first.text = rest
		list.Values = append(list.Values, p.block())
	}
	return list
}

func (p *plainReader) mapping(indent int) ast.Node {
	mapping := ast.Mapping(nil, false)
	for !p.odd && p.continues(indent) {
		line := p.lines[0]
		head := len(plainKey.FindString(line.text))
		if head == 0 || len(mapping.Values) == maxMembers {
			p.odd = p.odd || !strings.HasPrefix(line.text, "- ") || len(mapping.Values) == maxMembers
			break
		}
		name := p.scalar(strings.TrimRight(line.text[:head], ": "), position(&line, 0))
		p.lines = p.lines[1:]
		var value ast.Node
		switch rest := line.text[head:]; {
		case rest != "":
			value = p.value(rest, line.number, line.indent+head+1)
		case len(p.lines) > 0 && (p.lines[0].indent > indent || p.lines[0].indent == indent && strings.HasPrefix(p.lines[0].text, "- ")):
			value = p.block()
		default: // null
			p.odd = true
		}
		key, isText := name.(*ast.StringNode)
		if !isText {
			p.odd = true
			break
		}
		mapping.Values = append(mapping.Values, ast.MappingValue(nil, key, value))
	}
	return mapping
}

// continues reports whether the next line belongs to what has so much of an indent, or to something
// around it. A line with more of it continues a text or is a mistake.
func (p *plainReader) continues(indent int) bool {
	if len(p.lines) == 0 {
		return false
	}
	p.odd = p.odd || p.lines[0].indent > indent
	return p.lines[0].indent == indent
}

func position(l *plainLine, offset int) *token.Position {
	return &token.Position{Line: l.number, Column: l.indent + offset + 1}
}

// The forms of a value that is on one line.
var (
	plainText   = regexp.MustCompile(`^[A-Za-z0-9/$](?:[A-Za-z0-9/$_.+@=*~{}-]|:[A-Za-z0-9/$_.+@=*~{}-])*(?: [A-Za-z0-9/$_.+@=*~-]+)*$`)
	plainInFlow = regexp.MustCompile(`^[A-Za-z0-9/](?:[A-Za-z0-9/_.+@*~-]|:[A-Za-z0-9/_.+@*~-])*`)
	plainQuoted = regexp.MustCompile(`^(?:"[^"\\]*"|'[^']*')`)
)

// value reads the value that the rest of a line is.
func (p *plainReader) value(text string, line, column int) ast.Node {
	at := &token.Position{Line: line, Column: column}
	if text[0] != '{' && text[0] != '[' && text[0] != '"' && text[0] != '\'' {
		p.odd = p.odd || !plainText.MatchString(text)
		return p.scalar(text, at)
	}
	f := flow{p, text, at}
	n := f.value()
	p.odd = p.odd || f.rest != ""
	return n
}

// scalar makes a node of a text without quotes, by what the text looks like.
func (p *plainReader) scalar(text string, at *token.Position) ast.Node {
	p.size++
	switch t := token.New(text, text, at); t.Type { //nolint:exhaustive // the others are the parser's
	case token.StringType:
		return ast.String(t)
	case token.IntegerType:
		return ast.Integer(t)
	case token.FloatType:
		return ast.Float(t)
	case token.BoolType:
		return ast.Bool(t)
	}
	p.odd = true
	return nil
}

// flow reads a value that is in brackets or quotes, on one line.
type flow struct {
	*plainReader
	rest string // what of the line is left
	at   *token.Position
}

// skip takes n bytes and the blanks behind them.
func (f *flow) skip(n int) {
	left := strings.TrimLeft(f.rest[n:], " ")
	f.at = &token.Position{Line: f.at.Line, Column: f.at.Column + len(f.rest) - len(left)}
	f.rest = left
}

func (f *flow) value() ast.Node {
	f.depth++
	defer func() { f.depth-- }()
	if f.odd = f.odd || f.rest == "" || f.depth > maxDepth/2; f.odd {
		return nil
	}
	at := f.at
	switch f.rest[0] {
	case '{':
		mapping := ast.Mapping(token.MappingStart("{", at), true)
		f.members('}', func() {
			head := len(plainKey.FindString(f.rest))
			name, isText := f.scalar(strings.TrimRight(f.rest[:head], ": "), f.at).(*ast.StringNode)
			if f.odd = f.odd || head == 0 || !isText || len(mapping.Values) == maxMembers; f.odd {
				return
			}
			f.skip(head)
			mapping.Values = append(mapping.Values, ast.MappingValue(nil, name, f.value()))
		})
		return mapping
	case '[':
		list := ast.Sequence(token.SequenceStart("[", at), true)
		f.members(']', func() { list.Values = append(list.Values, f.value()) })
		return list
	case '"', '\'':
		f.size++
		quoted := plainQuoted.FindString(f.rest)
		if f.odd = quoted == ""; f.odd {
			return nil
		}
		f.skip(len(quoted))
		return ast.String(token.DoubleQuote(quoted[1:len(quoted)-1], quoted, at))
	}
	text := plainInFlow.FindString(f.rest)
	if f.odd = text == ""; f.odd {
		return nil
	}
	f.skip(len(text))
	return f.scalar(text, at)
}

// members reads what stands in brackets, of which the next byte is the first, up to last.
func (f *flow) members(last byte, member func()) {
	f.skip(1)
	for first := true; !f.odd; first = false {
		switch {
		case f.rest == "":
			f.odd = true
		case f.rest[0] == last && first:
			f.skip(1)
			return
		default:
			member()
			if f.odd || f.rest == "" {
				f.odd = true
				return
			}
			end := f.rest[0]
			f.odd = end != last && end != ','
			f.skip(1)
			if end == last {
				return
			}
		}
	}
}
