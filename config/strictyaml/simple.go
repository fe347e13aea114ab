package strictyaml

import (
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// The parser takes about 60 µs per API key, which is more than half a second for ten thousand keys.
// The plain reader therefore reads a file in the usual format line by line, and builds the same
// tree. The parser reads all other files: those with block texts, anchors, tags, empty values,
// escapes, non-ASCII characters or syntax errors.

type simpleLine struct {
	number, indent int
	text           string // without indentation, comment and trailing spaces
}

// simpleYAMLReader reads a file in the usual format. If unusual becomes true, the results are invalid
// and the parser must read the file.
type simpleYAMLReader struct {
	lines   []simpleLine // remaining lines
	depth   int
	size    int // number of values read
	unusual bool
}

// parseSimpleYAML returns the same tree as the parser for a file in the usual format, and
// approximately the number of its tokens. It returns nil if the file has another format or exceeds
// a limit.
func parseSimpleYAML(src string) (body ast.Node, size int) {
	if countStructuralChars(src) > maxStructureChars || findLongBlankLineRun(src) > 0 {
		return nil, 0
	}
	var p simpleYAMLReader
	if p.splitLines(src); p.unusual || len(p.lines) == 0 {
		return nil, 0
	}
	if !strings.HasPrefix(p.lines[0].text, "- ") && keyLength(p.lines[0].text) == 0 {
		return nil, 0
	}
	body = p.readBlock()
	if p.unusual || len(p.lines) > 0 {
		return nil, 0
	}
	return body, 2 * p.size
}

// maxSimpleLineBytes is the maximum length of a line in bytes. This limits the wasted work if a file
// has an unusual line near its end.
const maxSimpleLineBytes = 1000

func (p *simpleYAMLReader) splitLines(src string) {
	for i := range len(src) {
		if c := src[i]; c != '\n' && (c < ' ' || c > '~') {
			p.unusual = true
			return
		}
	}
	p.lines = make([]simpleLine, 0, strings.Count(src, "\n")+1)
	number := 0
	for line := range strings.SplitSeq(src, "\n") {
		number++
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' {
			continue
		}
		// The parser would report different columns.
		if len(text) > maxSimpleLineBytes || strings.HasSuffix(text, " ") {
			p.unusual = true
			return
		}
		indent := len(line) - len(text)
		if i := strings.Index(text, " #"); i >= 0 {
			if strings.ContainsAny(text, `"'`) { // the # may be within quotes
				p.unusual = true
				return
			}
			text = text[:i]
		}
		p.lines = append(p.lines, simpleLine{number, indent, strings.TrimRight(text, " ")})
	}
}

// maxSimpleKeyBytes is the maximum length of a key in bytes.
const maxSimpleKeyBytes = 64

// keyLength returns the length of the key at the start of text, including the colon and the spaces
// after it. It returns 0 if text does not start with a key.
func keyLength(text string) int {
	n := 0
	for n < len(text) && n < maxSimpleKeyBytes && isKeyByte(text[n], n == 0) {
		n++
	}
	if n == 0 || n == len(text) || text[n] != ':' {
		return 0
	}
	if n++; n == len(text) {
		return n
	}
	blanks := len(text[n:]) - len(strings.TrimLeft(text[n:], " "))
	if blanks == 0 {
		return 0
	}
	return n + blanks
}

// isKeyByte reports whether a key may contain c or, if first is true, start with c.
func isKeyByte(c byte, first bool) bool {
	return c == '_' || isLetter(c) || !first && (c == '-' || isDigit(c))
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isPlainText reports whether text is an unquoted value, that is, words separated by single spaces.
// Only the first word may contain a colon, $ or brace.
func isPlainText(text string) bool {
	if text == "" || !isLetter(text[0]) && !isDigit(text[0]) && text[0] != '/' && text[0] != '$' {
		return false
	}
	first := true
	for i := 1; i < len(text); i++ {
		next := byte(' ') // at the end of text
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch c := text[i]; {
		case isPlainTextByte(c, first):
		case c == ':' && first && isPlainTextByte(next, true):
		case c == ' ' && isPlainTextByte(next, false):
			first = false
		default:
			return false
		}
	}
	return true
}

// isPlainTextByte reports whether c may occur in an unquoted value. first is true for the value's
// first word.
func isPlainTextByte(c byte, first bool) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("/$_.+@=*~-", c) >= 0 || first && (c == '{' || c == '}')
}

// readBlock reads the list, mapping or value that starts on the next line.
func (p *simpleYAMLReader) readBlock() ast.Node {
	p.depth++
	defer func() { p.depth-- }()
	switch first := &p.lines[0]; {
	case p.depth > maxNestingDepth/2:
		p.unusual = true
		return nil
	case strings.HasPrefix(first.text, "- "):
		return p.readList(first.indent)
	case keyLength(first.text) > 0:
		return p.readMapping(first.indent)
	default:
		p.lines = p.lines[1:]
		return p.readValue(first.text, first.number, first.indent+1)
	}
}

func (p *simpleYAMLReader) readList(indent int) ast.Node {
	list := ast.Sequence(token.SequenceEntry("-", tokenPosition(&p.lines[0], 0)), false)
	for !p.unusual && p.continuesBlock(indent) && strings.HasPrefix(p.lines[0].text, "- ") {
		first := &p.lines[0]
		rest := strings.TrimLeft(first.text[1:], " ")
		first.indent += len(first.text) - len(rest)
		first.text = rest
		list.Values = append(list.Values, p.readBlock())
	}
	return list
}

func (p *simpleYAMLReader) readMapping(indent int) ast.Node {
	mapping := ast.Mapping(nil, false)
	for !p.unusual && p.continuesBlock(indent) {
		line := p.lines[0]
		head := keyLength(line.text)
		if head == 0 || len(mapping.Values) == maxMembers {
			p.unusual = p.unusual || !strings.HasPrefix(line.text, "- ") || len(mapping.Values) == maxMembers
			break
		}
		name := p.newScalar(strings.TrimRight(line.text[:head], ": "), tokenPosition(&line, 0))
		p.lines = p.lines[1:]
		var value ast.Node
		switch rest := line.text[head:]; {
		case rest != "":
			value = p.readValue(rest, line.number, line.indent+head+1)
		case len(p.lines) > 0 && (p.lines[0].indent > indent || p.lines[0].indent == indent && strings.HasPrefix(p.lines[0].text, "- ")):
			value = p.readBlock()
		default: // null
			p.unusual = true
		}
		key, isText := name.(*ast.StringNode)
		if !isText {
			p.unusual = true
			break
		}
		mapping.Values = append(mapping.Values, ast.MappingValue(nil, key, value))
	}
	return mapping
}

// continuesBlock reports whether the next line belongs to the block with this indentation. A line
// that is indented further is either part of a multi-line value or a mistake. In either case,
// p.unusual is set to true.
func (p *simpleYAMLReader) continuesBlock(indent int) bool {
	if len(p.lines) == 0 {
		return false
	}
	p.unusual = p.unusual || p.lines[0].indent > indent
	return p.lines[0].indent == indent
}

func tokenPosition(l *simpleLine, offset int) *token.Position {
	return &token.Position{Line: l.number, Column: l.indent + offset + 1}
}

// Patterns for values in brackets.
var (
	flowTextPattern       = regexp.MustCompile(`^[A-Za-z0-9/](?:[A-Za-z0-9/_.+@*~-]|:[A-Za-z0-9/_.+@*~-])*`)
	flowQuotedTextPattern = regexp.MustCompile(`^(?:"[^"\\]*"|'[^']*')`)
)

// readValue reads the remainder of a line as a value.
func (p *simpleYAMLReader) readValue(text string, line, column int) ast.Node {
	at := &token.Position{Line: line, Column: column}
	if text[0] != '{' && text[0] != '[' && text[0] != '"' && text[0] != '\'' {
		p.unusual = p.unusual || !isPlainText(text)
		return p.newScalar(text, at)
	}
	f := flowReader{p, text, at}
	n := f.readValue()
	p.unusual = p.unusual || f.rest != ""
	return n
}

// newScalar returns a node for an unquoted text. The characters of the text determine the node's
// type.
func (p *simpleYAMLReader) newScalar(text string, at *token.Position) ast.Node {
	p.size++
	switch t := token.New(text, text, at); t.Type { //nolint:exhaustive // the parser reads all other types
	case token.StringType:
		return ast.String(t)
	case token.IntegerType:
		return ast.Integer(t)
	case token.FloatType:
		return ast.Float(t)
	case token.BoolType:
		return ast.Bool(t)
	}
	p.unusual = true
	return nil
}

// flowReader reads a value in brackets or quotes on one line.
type flowReader struct {
	*simpleYAMLReader
	rest string // the remaining part of the line
	at   *token.Position
}

// skipBytes drops n bytes and the spaces that follow.
func (f *flowReader) skipBytes(n int) {
	left := strings.TrimLeft(f.rest[n:], " ")
	f.at = &token.Position{Line: f.at.Line, Column: f.at.Column + len(f.rest) - len(left)}
	f.rest = left
}

func (f *flowReader) readValue() ast.Node {
	f.depth++
	defer func() { f.depth-- }()
	if f.unusual = f.unusual || f.rest == "" || f.depth > maxNestingDepth/2; f.unusual {
		return nil
	}
	at := f.at
	switch f.rest[0] {
	case '{':
		mapping := ast.Mapping(token.MappingStart("{", at), true)
		f.readMembers('}', func() {
			head := keyLength(f.rest)
			name, isText := f.newScalar(strings.TrimRight(f.rest[:head], ": "), f.at).(*ast.StringNode)
			if f.unusual = f.unusual || head == 0 || !isText || len(mapping.Values) == maxMembers; f.unusual {
				return
			}
			f.skipBytes(head)
			mapping.Values = append(mapping.Values, ast.MappingValue(nil, name, f.readValue()))
		})
		return mapping
	case '[':
		list := ast.Sequence(token.SequenceStart("[", at), true)
		f.readMembers(']', func() { list.Values = append(list.Values, f.readValue()) })
		return list
	case '"', '\'':
		f.size++
		quoted := flowQuotedTextPattern.FindString(f.rest)
		if f.unusual = quoted == ""; f.unusual {
			return nil
		}
		f.skipBytes(len(quoted))
		return ast.String(token.DoubleQuote(quoted[1:len(quoted)-1], quoted, at))
	}
	text := flowTextPattern.FindString(f.rest)
	if f.unusual = text == ""; f.unusual {
		return nil
	}
	f.skipBytes(len(text))
	return f.newScalar(text, at)
}

// readMembers reads a sequence of members in brackets. The next byte must be the opening bracket,
// and last is the closing bracket.
func (f *flowReader) readMembers(last byte, member func()) {
	f.skipBytes(1)
	for first := true; !f.unusual; first = false {
		switch {
		case f.rest == "":
			f.unusual = true
		case f.rest[0] == last && first:
			f.skipBytes(1)
			return
		default:
			member()
			if f.unusual || f.rest == "" {
				f.unusual = true
				return
			}
			end := f.rest[0]
			f.unusual = end != last && end != ','
			f.skipBytes(1)
			if end == last {
				return
			}
		}
	}
}
