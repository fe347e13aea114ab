package responses

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// customInput finds the input of a custom tool in the arguments of the function that replaces the
// tool. The arguments should be {"input":"…"}. The edge sends the text of this string as it
// arrives. It holds back arguments in any other form until they end.
//
// The zero value is ready for use. Malformed arguments are passed on unchanged, so that the tool
// can reject them.
type customInput struct {
	tool      string // the tool's name, which some models write before the input
	read      int    // number of bytes of the arguments that have been read
	pending   []byte // decoded arguments whose meaning is still undecided
	decodeBuf []byte // buffer for unescaped text
	phase     inputPhase
	fence     fenceRemover
}

type inputPhase uint8

const (
	inputPhaseStart    inputPhase = iota
	inputPhaseInString            // within the input string
	inputPhaseEnded               // after the input string
	inputPhaseHeld                // the arguments start differently and are held back
)

// add reads a piece of the arguments and appends the input that it contains. piece and the appended
// text are contents of a JSON string.
func (c *customInput) add(dst, piece []byte) []byte {
	c.pending = jsonx.AppendDecoded(c.pending, piece)
	c.read += len(piece)
	if c.phase == inputPhaseStart {
		c.matchStart()
	}
	if c.phase == inputPhaseInString {
		dst = c.decodeText(dst)
	}
	return dst
}

func (c *customInput) finish(dst []byte) []byte {
	switch c.phase {
	case inputPhaseInString: // the arguments were truncated, so an incomplete escape is dropped
	case inputPhaseEnded:
		// Something other than whitespace follows the string.
		if rest := append([]byte(`{"":""`), c.pending...); !toolcall.IsBlank(c.pending) && !isJSON(rest) {
			dst = c.fence.add(dst, append([]byte{'"'}, c.pending...))
		}
	case inputPhaseStart, inputPhaseHeld:
		dst = c.fence.add(dst, c.unwrap(c.pending))
	}
	c.pending, c.phase = nil, inputPhaseEnded
	return c.fence.finish(dst)
}

func isJSON(text []byte) bool {
	var d jsonx.Doc
	return d.Parse(text, jsonx.Options{}) == nil
}

// maxUndecided limits the text whose meaning is undecided, because this text is scanned again for
// every piece.
const maxUndecided = 512

// inputStartTokens are the tokens at the start of well-formed arguments. Whitespace may appear between
// them.
var inputStartTokens = [...]string{`{`, `"input"`, `:`, `"`}

func (c *customInput) matchStart() {
	rest := c.pending
	for _, token := range inputStartTokens {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		switch {
		case bytes.HasPrefix(rest, []byte(token)):
			rest = rest[len(token):]
		case bytes.HasPrefix([]byte(token), rest) && len(c.pending) < maxUndecided: // the token is incomplete
			return
		default:
			c.phase = inputPhaseHeld
			return
		}
	}
	c.pending = append(c.pending[:0], rest...)
	c.phase = inputPhaseInString
}

func (c *customInput) decodeText(dst []byte) []byte {
	in, out := c.pending, c.decodeBuf[:0]
	for len(in) > 0 {
		n := bytes.IndexAny(in, "\"\\")
		if n < 0 {
			n = len(in)
		}
		out, in = append(out, in[:n]...), in[n:]
		if len(in) == 0 {
			break
		}
		if in[0] == '"' {
			c.phase, in = inputPhaseEnded, in[1:]
			break
		}
		var size int
		if out, size = appendEscape(out, in); size == 0 {
			break
		}
		in = in[size:]
	}
	c.pending, c.decodeBuf = append(c.pending[:0], in...), out
	return c.fence.add(dst, out)
}

// plainEscapes lists the characters after the backslash of a two-byte escape, each followed by its
// meaning.
const plainEscapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// appendEscape decodes the escape at the start of in. It returns the escape's length, or 0 if the
// escape is incomplete. It copies an invalid escape unchanged.
func appendEscape(dst, in []byte) ([]byte, int) {
	if len(in) < 2 {
		return dst, 0
	}
	for i := 0; i < len(plainEscapes); i += 2 {
		if plainEscapes[i] == in[1] {
			return append(dst, plainEscapes[i+1]), 2
		}
	}
	const size = len(`\u0000`)
	r, ok := parseHexEscape(in)
	switch {
	case !ok && len(in) < size && in[1] == 'u':
		return dst, 0
	case !ok:
		return append(dst, in[0]), 1
	case !utf16.IsSurrogate(r):
		return utf8.AppendRune(dst, r), size
	}
	low, ok := parseHexEscape(in[size:])
	if begun := in[size:min(len(in), size+2)]; !ok && len(in) < 2*size && string(begun) == `\u`[:len(begun)] {
		return dst, 0
	}
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		return utf8.AppendRune(dst, pair), 2 * size
	}
	return utf8.AppendRune(dst, utf8.RuneError), size
}

func parseHexEscape(in []byte) (r rune, ok bool) {
	if len(in) < len(`\u0000`) || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	for _, c := range in[2:6] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

// customInputMemberNames lists the members in which models send an input. The correct member is input.
var customInputMemberNames = [...]string{"input", "patch", "command", "cmd"}

// unwrap returns the input from arguments in any form. It recognizes three forms: a string, an
// object that contains the string, and an object with an array that contains the string, possibly
// after the tool's name. It returns any other arguments unchanged, because unwrapping a longer
// array would lose elements.
func (c *customInput) unwrap(text []byte) []byte {
	var d jsonx.Doc
	if d.Parse(text, jsonx.Options{Record: 4}) != nil {
		return text
	}
	v := d.Root()
	for range 2 { // some models nest an input within an input
		if !v.IsObject() {
			break
		}
		inner := onlyElement(v)
		for _, name := range customInputMemberNames {
			if m := v.Get(name); !inner.Exists() && m.Exists() {
				inner = m
			}
		}
		v = inner
	}
	if n := v.Len(); v.IsArray() && (n == 1 || n == 2 && v.Index(0).EqualText(c.tool)) {
		v = v.Index(n - 1)
	}
	switch {
	case v.IsString():
		return v.AppendText(nil)
	case d.Root().IsObject() && d.Root().Len() == 0: // a tool call without arguments
		return nil
	}
	return text
}

func onlyElement(v jsonx.Value) jsonx.Value {
	it := v.Iter()
	if !it.Next() {
		return jsonx.Value{}
	}
	first := it.Value()
	if it.Next() {
		return jsonx.Value{}
	}
	return first
}

// fenceRemover removes the code fence that models write around an input. It is enabled for tools
// with a grammar, because their inputs cannot start with a fence. The zero value passes on all
// text.
type fenceRemover struct {
	enabled   bool
	phase     fencePhase
	pending   []byte // text that may belong to a fence
	wroteText bool   // text before pending has been passed on
}

type fencePhase uint8

const (
	fencePhaseStart     fencePhase = iota
	fencePhaseFirstLine            // reading the first line, which may be the fence
	fencePhaseInside
	fencePhaseNone
)

const fenceMark = "```"

// add reads the next text. It appends any text outside the fence, as the contents of a JSON string.
func (f *fenceRemover) add(dst, text []byte) []byte {
	if !f.enabled || f.phase == fencePhaseNone {
		return jsonx.AppendEscaped(dst, text)
	}
	f.pending = append(f.pending, text...)
	if f.phase == fencePhaseStart {
		switch begin := bytes.TrimLeft(f.pending, " \t\r\n"); {
		case bytes.HasPrefix(begin, []byte(fenceMark)):
			f.phase, f.pending = fencePhaseFirstLine, begin
		case bytes.HasPrefix([]byte(fenceMark), begin) && len(f.pending) < maxUndecided: // the fence mark is incomplete
			return dst
		default:
			f.phase = fencePhaseNone
			return f.writeHeld(dst, len(f.pending))
		}
	}
	if f.phase == fencePhaseFirstLine {
		end := bytes.IndexByte(f.pending, '\n')
		if end < 0 && len(f.pending) < maxUndecided {
			return dst
		}
		if end < 0 { // the line is too long to be a fence
			f.phase = fencePhaseNone
			return f.writeHeld(dst, len(f.pending))
		}
		f.phase, f.pending = fencePhaseInside, f.pending[end+1:]
	}
	return f.writeHeld(dst, f.findClosing())
}

// findClosing returns the offset of a closing fence in the held text. A closing fence is on a
// separate line, and only whitespace follows it.
func (f *fenceRemover) findClosing() int {
	text := f.pending
	n := len(bytes.TrimRight(text, " \t\r\n"))
	marks := 0
	for marks < len(fenceMark) && n > 0 && text[n-1] == '`' {
		n, marks = n-1, marks+1
	}
	n = len(bytes.TrimRight(text[:n], " \t"))
	switch {
	case len(text)-n > maxUndecided, marks > 0 && (n > 0 || f.wroteText) && (n == 0 || text[n-1] != '\n'):
		return len(text)
	case n > 0 && text[n-1] == '\n':
		return n - 1
	}
	return n
}

func (f *fenceRemover) writeHeld(dst []byte, n int) []byte {
	dst = jsonx.AppendEscaped(dst, f.pending[:n])
	f.wroteText = f.wroteText || n > 0 // only part of the held text has been passed on
	f.pending = append(f.pending[:0], f.pending[n:]...)
	return dst
}

// finish appends the held bytes, unless they are the closing fence.
func (f *fenceRemover) finish(dst []byte) []byte {
	rest := f.pending
	f.pending = nil
	if f.phase == fencePhaseInside && bytes.Equal(bytes.TrimSpace(rest), []byte(fenceMark)) {
		return dst
	}
	return jsonx.AppendEscaped(dst, rest)
}
