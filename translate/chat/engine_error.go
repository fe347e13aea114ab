package chat

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// MaxErrorBody is how much of an engine's complaint is held, once a Shortener has been at it.
// Engines repeat the request in it, so that it may be as long as that.
const MaxErrorBody = 256 << 10

// maxErrorText is how much a Shortener leaves of a string: more than is shown of a message, also
// where that has others in it.
const maxErrorText = 16 << 10

// Shortener takes the ends of long strings out of JSON that comes in pieces. What was JSON is still
// JSON, and what is no JSON keeps its beginning. The zero value is ready for one body.
type Shortener struct {
	text    bool // within a string
	skip    bool // behind what is left of it
	size    int  // bytes of it so far
	escaped bool // the last byte was the backslash of an escape
	digits  int  // that are left of an escape by number
}

// Append appends what is left of the next piece.
func (s *Shortener) Append(dst, p []byte) []byte {
	for _, b := range p {
		within := s.escaped || s.digits > 0 || b&0xc0 == 0x80 // of an escape, or of a character
		switch {
		case !s.text:
			s.text, s.skip, s.size = b == '"', false, 0
		case s.escaped:
			if s.escaped = false; b == 'u' {
				s.digits = 4
			}
		case s.digits > 0:
			s.digits--
		case b == '"':
			s.text, s.skip = false, false
		case b == '\\':
			s.escaped = true
		}
		if s.size++; s.text && s.size > maxErrorText && !within {
			s.skip = true
		}
		if !s.skip {
			dst = append(dst, b)
		}
	}
	return dst
}

// maxMessage bounds what is kept of an engine's message, in bytes.
const maxMessage = 1 << 10

// EngineError is an engine's report of a failure, in the body of an answer or in an event of its
// stream. Its texts may quote the request: they may be shown to the client that made it, and must
// never be logged.
type EngineError struct {
	// Status is the HTTP status that the body itself names, 400 to 599, or 0. A stream has no
	// other, since its real status was 200.
	Status int
	// Type and Code are the engine's words if they are identifiers; otherwise they are empty.
	// Numbers are not codes: see Status.
	Type, Code string
	// Message is clean: valid UTF-8, one line, at most 1 KiB, no control characters; addresses,
	// absolute paths and what looks like a key are blotted out, as they are more likely the
	// engine's than the client's. Models have their engine's names; see Rename.
	Message string

	// ContextOverflow: the prompt, or the prompt and the tokens asked for, do not fit into the
	// engine's context. ContextPrompt and ContextMax are the two sizes in tokens, both 0 unless the
	// engine's message has both. ContextAnswer is the number of tokens asked for beside a prompt
	// that fits; 0: the prompt itself does not fit, or the engine names only the sum, as
	// ContextPrompt. ContextAtLeast: the engine has counted the prompt no further than it had to.
	// ContextExcess is the number of tokens by which the prompt exceeds the context, from an engine
	// that names no other.
	ContextOverflow, ContextAtLeast          bool
	ContextExcess                            int
	ContextPrompt, ContextAnswer, ContextMax int

	// ClientFault: the request is to blame, whatever the status says: no other engine of the kind
	// would take it, and this one is not the worse for it.
	ClientFault bool

	// Absent is what a 404 or 405 is about.
	Absent Absence
}

// Error names the status and nothing that the engine said, so that it may be logged.
func (e *EngineError) Error() string {
	switch {
	case e.ContextOverflow:
		return "engine error: context overflow"
	case e.Status != 0:
		return "engine error: status " + strconv.Itoa(e.Status)
	}
	return "engine error"
}

// ParseEngineError reads the body of an answer whose status is not 200, or the data of an error
// event, for which status is 0. It understands the shapes of all engines that we know:
// {"error":{…}}, {"error":"…"} with or without error_type, the same members at the top level,
// FastAPI's {"detail":…}, an error that carries another one as JSON in its message (Ollama hands on
// what its runner said), and plain text. Of a body of MaxErrorBody, which may be the beginning of a
// longer one, it reads what is there. HTML and what cannot be read have no message. It never fails.
func ParseEngineError(status int, contentType string, body []byte) EngineError {
	var e EngineError
	cut := len(body) >= MaxErrorBody
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '{' || body[0] == '[' || body[0] == '"':
		var d jsonx.Doc
		switch {
		case len(body) <= translate.MaxAnswer && d.Parse(body, jsonx.Options{Record: recordDepth}) == nil:
			e.read(d.Root(), 0)
		case cut && d.Parse(closeCut(body), jsonx.Options{Record: recordDepth}) == nil:
			e.read(d.Root(), 0)
		}
	case body[0] == '<' || strings.Contains(contentType, "html"):
	default:
		e.Message = string(body[:min(len(body), 2*maxMessage)])
	}
	e.settle(status)
	return e
}

// closeCut makes JSON of the beginning of one: the string that it breaks off in, if it is a value,
// and all that is open are closed; a member without a whole name or the beginning of its value is
// left out. What was no JSON is none after it.
func closeCut(body []byte) []byte {
	var (
		open    []byte // what closes the containers, the outermost first
		whole   int    // up to here, and with as many of them as
		depth   int    // this, everything is a whole element or member, or can become one
		text    bool   // within a string
		begin   int    // where that began
		escaped bool
	)
	for i, c := range body {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			if text = !text; text {
				begin = i
			}
		case text:
		case c == '{', c == '[':
			open = append(open, c+2) // its counterpart in ASCII
			whole, depth = i+1, len(open)
		case c == '}', c == ']':
			if len(open) == 0 {
				return nil
			}
			open = open[:len(open)-1]
			whole, depth = i+1, len(open)
		case c == ',':
			whole, depth = i, len(open)
		}
	}
	out := bytes.Clone(body[:whole])
	if text && isValue(body[:begin]) {
		out = append(bytes.ToValidUTF8(cutEscape(body), nil), '"')
		depth = len(open)
	}
	for i := depth - 1; i >= 0; i-- {
		out = append(out, open[i])
	}
	return out
}

// isValue reports whether a string behind before is a member's value: its name would stand behind a
// comma or a brace.
func isValue(before []byte) bool { return bytes.HasSuffix(bytes.TrimSpace(before), []byte{':'}) }

// cutEscape returns the beginning of a string without the part of an escape that may be at its end.
func cutEscape(s []byte) []byte {
	for i := len(s) - 1; i >= 0 && i > len(s)-7; i-- {
		if s[i] != '\\' {
			continue
		}
		from := i
		for from > 0 && s[from-1] == '\\' {
			from--
		}
		if (i-from)%2 == 0 && (i == len(s)-1 || s[i+1] == 'u' && i+6 > len(s)) { // an odd number of them: the last one begins an escape
			return s[:i]
		}
		break
	}
	return s
}

// readEngineError reads an error object that has been parsed already, from inside a stream.
func readEngineError(root jsonx.Value) EngineError {
	var e EngineError
	e.read(root, 0)
	e.settle(0)
	return e
}

// maxNested is how many errors may be wrapped into each other; more are not looked into.
const maxNested = 4

// read takes from v what it says. What an inner object says wins, for it is closer to the fault.
func (e *EngineError) read(v jsonx.Value, depth int) {
	switch v.Kind() {
	case jsonx.String:
		e.text(v, depth)
		return
	case jsonx.Array: // FastAPI's list of faults; other engines put one error into a list
		e.list(v, depth)
		return
	case jsonx.Object:
	default:
		return
	}
	if depth == maxNested {
		return
	}
	var inner jsonx.Value
	said := false
	for it := v.Iter(); it.Next(); {
		m := it.Value()
		switch string(it.Key().Raw()) {
		case "error", "detail", "errors":
			if truthy(m) {
				inner = m
			}
		case "message", "msg":
			if m.HasText() {
				e.text(m, depth)
				said = true
			}
		case "type", "error_type":
			e.word(&e.Type, m)
		case "code", "status", "status_code":
			if !e.number(m) {
				e.word(&e.Code, m)
			}
		case "param":
			if text, ok := m.Text(); ok && string(text) == "model" {
				e.Absent = AbsentModel // if it turns out to be a 404
			}
		case "n_prompt_tokens":
			e.ContextPrompt = translate.Count(m)
		case "n_ctx":
			e.ContextMax = translate.Count(m)
		}
	}
	if inner.Exists() && !(said && inner.IsString()) { // beside a message, a string is a class (Kokoro)
		e.read(inner, depth+1)
	}
}

// text takes a message, or what is wrapped into it.
func (e *EngineError) text(v jsonx.Value, depth int) {
	text := v.AppendText(nil)
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' && depth < maxNested {
		var d jsonx.Doc
		if d.Parse(trimmed, jsonx.Options{Record: recordDepth}) == nil && (d.Root().Get("error").Exists() || d.Root().Get("message").Exists()) {
			e.read(d.Root(), depth+1)
			return
		}
	}
	e.Message = string(text)
}

// list takes the faults that FastAPI found in a request: {"loc":["body","messages"],"msg":"Field
// required"}.
func (e *EngineError) list(v jsonx.Value, depth int) {
	var text []byte
	for it := v.Iter(); it.Next() && len(text) < maxMessage; {
		fault := it.Value()
		if !fault.Get("msg").HasText() {
			if depth < maxNested {
				e.read(fault, depth+1)
			}
			continue
		}
		if len(text) > 0 {
			text = append(text, "; "...)
		}
		for at := fault.Get("loc").Iter(); at.Next(); {
			if at.Index() > 0 {
				text = append(text, '.')
			}
			if at.Value().IsString() {
				text = at.Value().AppendText(text)
			} else {
				text = append(text, at.Value().Raw()...)
			}
			text = text[:min(len(text), 2*maxMessage)]
		}
		text = append(text, ": "...)
		text = fault.Get("msg").AppendText(text)
	}
	if len(text) > 0 {
		e.Message = string(text)
	}
}

// number takes a status, as a number or as digits, and reports whether v is a number of any kind.
func (e *EngineError) number(v jsonx.Value) bool {
	n, ok := v.Int()
	if text, plain := v.Text(); plain {
		i, err := strconv.Atoi(string(text[:min(len(text), 4)]))
		n, ok = int64(i), err == nil && len(text) <= 4
	}
	if ok && n >= 400 && n <= 599 {
		e.Status = int(n)
	}
	return ok
}

// word takes a type or a code if it is an identifier.
func (e *EngineError) word(to *string, v jsonx.Value) {
	text, ok := v.Text()
	if !ok || len(text) == 0 || len(text) > 64 {
		return
	}
	for _, c := range text {
		if c != '_' && c != '-' && c != '.' && !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') {
			return
		}
	}
	if '0' <= text[0] && text[0] <= '9' { // SGLang has the status here
		return
	}
	if keyAt(string(text)) > 0 {
		return
	}
	*to = string(text)
}

// settle cleans the message and draws the conclusions. The HTTP status is 0 inside a stream.
func (e *EngineError) settle(status int) {
	said, aboutModel := e.Message, e.Absent == AbsentModel
	e.Message, e.Absent = clean(e.Message), AbsentNothing
	lower := strings.ToLower(e.Message)
	if e.Type == "exceed_context_size_error" || e.Code == "context_length_exceeded" || overflows(lower) {
		e.ContextOverflow, e.ClientFault = true, true
		if e.ContextPrompt == 0 || e.ContextMax == 0 {
			e.ContextPrompt, e.ContextAnswer, e.ContextMax = overflowSizes(lower)
			e.ContextAtLeast = e.ContextAnswer > 0 && strings.Contains(lower, lowerBound)
			if e.ContextMax == 0 {
				e.ContextExcess = sizeAfter(lower, excessMark)
			}
		}
	} else {
		e.ContextPrompt, e.ContextMax = 0, 0
	}
	if status < 300 { // what was sent as a good answer; a redirect is none, and no complaint either
		status = e.Status
	}
	if status == 0 && containsAny(lower, overloadTexts) {
		e.Status, status = 429, 429
	}
	switch status {
	case 400, 413, 422:
		e.ClientFault = true
	case 404, 405:
		if e.Absent = e.absentOf(status, aboutModel, said); e.Absent == AbsentNothing {
			e.ClientFault = true
		}
	case 0, 500, 501:
		e.ClientFault = e.ClientFault || clientTypes[e.Type] || containsAny(lower, clientTexts)
	}
}

func containsAny(s string, list []string) bool {
	for _, part := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func overflows(lower string) bool { return containsAny(lower, overflowTexts) }

// overflowSizes finds the sizes of the request and of the context in a message: of the prompt and
// the answer if the prompt alone would fit, otherwise of the whole request. All are 0 unless the
// message has them and they exceed the context, so that the client knows how much to cut.
func overflowSizes(lower string) (prompt, answer, most int) {
	most = firstSize(lower, maxMarks)
	if prompt, answer = firstSize(lower, inputMarks), firstSize(lower, answerMarks); prompt > 0 && prompt < most && prompt+answer > most {
		return prompt, answer, most
	}
	for _, mark := range promptMarks {
		prompt = max(prompt, sizeAfter(lower, mark))
	}
	if most == 0 || prompt <= most {
		return 0, 0, 0
	}
	return prompt, 0, most
}

// firstSize returns the number of tokens behind the first of marks that has one, or 0.
func firstSize(s string, marks []string) int {
	for _, mark := range marks {
		if size := sizeAfter(s, mark); size > 0 {
			return size
		}
	}
	return 0
}

// sizeAfter returns the number of tokens behind mark, 0 if there is none.
func sizeAfter(s, mark string) int {
	for {
		i := strings.Index(s, mark)
		if i < 0 {
			return 0
		}
		s = s[i+len(mark):]
		n := 0
		for n < len(s) && n < 9 && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		size, err := strconv.Atoi(s[:n])
		if err == nil && !strings.HasPrefix(s[n:], " input char") && !strings.HasPrefix(s[n:], " char") {
			return size
		}
	}
}

// clean returns what of an engine's message may be shown.
func clean(s string) string {
	if strings.Contains(s, "Traceback (most recent call last)") {
		return ""
	}
	if len(s) > 4*maxMessage {
		s = s[:4*maxMessage]
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.Is(unicode.Cf, r) { // nobody sees it, but it would hide a key from blot
			continue
		}
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return cutMessage(blot(b.String()))
}

// cutMessage returns the beginning of a message that is too long.
func cutMessage(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
