package responses

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// customInput finds the input of a custom tool in the arguments of the function that replaces the
// tool. The arguments should be {"input":"…"}, whose text is sent as it arrives. Models also wrap
// the input differently, or write it without a wrapper. Such arguments are held until they end.
//
// The zero value is ready. Malformed arguments are passed on unchanged, for the tool to refuse.
type customInput struct {
	tool    string // the tool's name, which models put before an input as on a command line
	read    int    // number of bytes of the arguments that have been read
	pending []byte // decoded arguments that are still undecided
	room    []byte // buffer for unescaped text
	phase   inputPhase
	fence   fence
}

// inputPhase is the position in the arguments that a customInput has reached.
type inputPhase uint8

const (
	inputBegins inputPhase = iota
	inputText              // inside the string
	inputEnded             // after the string
	inputHeld              // the arguments start differently
)

// add reads a piece of the arguments and appends the input in that piece. Both are contents of a
// JSON string.
func (c *customInput) add(dst, piece []byte) []byte {
	c.pending = jsonx.AppendDecoded(c.pending, piece)
	c.read += len(piece)
	if c.phase == inputBegins {
		c.begin()
	}
	if c.phase == inputText {
		dst = c.text(dst)
	}
	return dst
}

// finish appends the rest of the input.
func (c *customInput) finish(dst []byte) []byte {
	switch c.phase {
	case inputText: // the arguments were truncated; half an escape has no meaning
	case inputEnded:
		if rest := append([]byte(`{"":""`), c.pending...); !toolcall.Blank(c.pending) && !isJSON(rest) { // more than space follows the string
			dst = c.fence.add(dst, append([]byte{'"'}, c.pending...))
		}
	case inputBegins, inputHeld:
		dst = c.fence.add(dst, c.unwrap(c.pending))
	}
	c.pending, c.phase = nil, inputEnded
	return c.fence.finish(dst)
}

func isJSON(text []byte) bool {
	var d jsonx.Doc
	return d.Parse(text, jsonx.Options{}) == nil
}

// maxUndecided is the maximum length of text that is held back while its meaning is undecided. Such
// text is read again with every piece.
const maxUndecided = 512

// inputTokens are the tokens with which the arguments should start, with optional space between
// them.
var inputTokens = [...]string{`{`, `"input"`, `:`, `"`}

// begin examines the start of the arguments.
func (c *customInput) begin() {
	rest := c.pending
	for _, token := range inputTokens {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		switch {
		case bytes.HasPrefix(rest, []byte(token)):
			rest = rest[len(token):]
		case bytes.HasPrefix([]byte(token), rest) && len(c.pending) < maxUndecided: // incomplete
			return
		default:
			c.phase = inputHeld
			return
		}
	}
	c.pending = append(c.pending[:0], rest...)
	c.phase = inputText
}

// text reads what has arrived of the string.
func (c *customInput) text(dst []byte) []byte {
	in, out := c.pending, c.room[:0]
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
			c.phase, in = inputEnded, in[1:]
			break
		}
		var size int
		if out, size = appendEscape(out, in); size == 0 {
			break
		}
		in = in[size:]
	}
	c.pending, c.room = append(c.pending[:0], in...), out
	return c.fence.add(dst, out)
}

// plainEscapes are the single-letter escapes and their meanings.
const plainEscapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// appendEscape appends the character for which the escape at the start of in stands. It returns the
// escape's length, or 0 if the escape is incomplete. An invalid escape stands for itself.
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
	r, ok := hexEscape(in)
	switch {
	case !ok && len(in) < size && in[1] == 'u':
		return dst, 0
	case !ok:
		return append(dst, in[0]), 1
	case !utf16.IsSurrogate(r):
		return utf8.AppendRune(dst, r), size
	}
	low, ok := hexEscape(in[size:])
	if begun := in[size:min(len(in), size+2)]; !ok && len(in) < 2*size && string(begun) == `\u`[:len(begun)] {
		return dst, 0
	}
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		return utf8.AppendRune(dst, pair), 2 * size
	}
	return utf8.AppendRune(dst, utf8.RuneError), size
}

// hexEscape reads an escape \u0000.
func hexEscape(in []byte) (r rune, ok bool) {
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

// wrappings lists the members into which models put an input. The right one is named input.
var wrappings = [...]string{"input", "patch", "command", "cmd"}

// unwrap returns the input in complete arguments. The input is a string, possibly in an object or
// in an array in that object, alone or after the tool's name. Any other arguments are themselves
// the input, because unwrapping a longer array would lose elements.
func (c *customInput) unwrap(text []byte) []byte {
	var d jsonx.Doc
	if d.Parse(text, jsonx.Options{Record: 4}) != nil {
		return text
	}
	v := d.Root()
	for range 2 { // some models put an input within an input
		if !v.IsObject() {
			break
		}
		inner := only(v)
		for _, name := range wrappings {
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

// only returns the value in an object with a single member.
func only(v jsonx.Value) jsonx.Value {
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

// fence removes the code fence that models put around an input. It is enabled for a tool with a
// grammar, whose input cannot start with a fence. The zero value passes everything on.
type fence struct {
	on    bool
	phase fencePhase
	held  []byte // may belong to a fence
	line  bool   // text has been released before held
}

type fencePhase uint8

const (
	fenceBegins fencePhase = iota
	fenceOpens             // the first line is the fence
	fenceInside
	fenceNone
)

const fenceMark = "```"

// add appends text that is not part of a fence, as contents of a JSON string.
func (f *fence) add(dst, text []byte) []byte {
	if !f.on || f.phase == fenceNone {
		return jsonx.AppendEscaped(dst, text)
	}
	f.held = append(f.held, text...)
	if f.phase == fenceBegins {
		switch begin := bytes.TrimLeft(f.held, " \t\r\n"); {
		case bytes.HasPrefix(begin, []byte(fenceMark)):
			f.phase, f.held = fenceOpens, begin
		case bytes.HasPrefix([]byte(fenceMark), begin) && len(f.held) < maxUndecided: // incomplete
			return dst
		default:
			f.phase = fenceNone
			return f.release(dst, len(f.held))
		}
	}
	if f.phase == fenceOpens {
		end := bytes.IndexByte(f.held, '\n')
		if end < 0 && len(f.held) < maxUndecided {
			return dst
		}
		if end < 0 { // the line is too long for a fence
			f.phase = fenceNone
			return f.release(dst, len(f.held))
		}
		f.phase, f.held = fenceInside, f.held[end+1:]
	}
	return f.release(dst, f.closing())
}

// closing returns the offset in held at which a closing fence may start. Such a fence is on its own
// line and is followed only by space.
func (f *fence) closing() int {
	text := f.held
	n := len(bytes.TrimRight(text, " \t\r\n"))
	marks := 0
	for marks < len(fenceMark) && n > 0 && text[n-1] == '`' {
		n, marks = n-1, marks+1
	}
	n = len(bytes.TrimRight(text[:n], " \t"))
	switch {
	case len(text)-n > maxUndecided, marks > 0 && (n > 0 || f.line) && (n == 0 || text[n-1] != '\n'):
		return len(text)
	case n > 0 && text[n-1] == '\n':
		return n - 1
	}
	return n
}

// release appends the first n held bytes.
func (f *fence) release(dst []byte, n int) []byte {
	dst = jsonx.AppendEscaped(dst, f.held[:n])
	f.line = f.line || n > 0 // a line end before the closing fence would be held
	f.held = append(f.held[:0], f.held[n:]...)
	return dst
}

// finish appends the held bytes, unless they are the closing fence.
func (f *fence) finish(dst []byte) []byte {
	rest := f.held
	f.held = nil
	if f.phase == fenceInside && bytes.Equal(bytes.TrimSpace(rest), []byte(fenceMark)) {
		return dst
	}
	return jsonx.AppendEscaped(dst, rest)
}
