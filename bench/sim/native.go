package sim

import (
	"fmt"
	"strconv"

	"github.com/valyala/fastjson"
)

// dialect is what an exchange is held in.
type dialect uint8

const (
	dialectChat dialect = iota
	dialectMessages
	dialectResponses
)

// voice tells an answer in one of the other dialects: token by token, or as a whole.
type voice struct {
	a         *answer
	responses bool
	items     []item // blocks of Messages, items of Responses, in their order
	calls     map[int]int
	begun     bool
	finish    string
	stopped   string
}

// item is a block or an output item.
type item struct {
	kind   pieceKind // pieceText, pieceThought or pieceCall
	call   int
	said   []byte // the inside of a JSON string
	closed bool
}

// newVoice returns the voice for an exchange; nil for chat.
func newVoice(a *answer) *voice {
	if a.x.dialect == dialectChat {
		return nil
	}
	return &voice{a: a, responses: a.x.dialect == dialectResponses, calls: map[int]int{}}
}

// event tells one event: a name and the members behind type.
func (v *voice) event(name, format string, args ...any) bool {
	v.a.x.name = name
	ok := v.a.x.event(fmt.Appendf(nil, `{"type":"`+name+`"`+format+`}`, args...))
	v.a.x.name = ""
	return ok
}

func quoted(s string) []byte { return appendString(nil, s) }

// usage tells the counts, as the dialect has them.
func (v *voice) usage() []byte {
	a := v.a
	if a.x.t.usage == usageNever {
		return []byte("null")
	}
	if !v.responses {
		return fmt.Appendf(nil, `{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`, a.prompt-a.cached, a.cached, a.spoken)
	}
	return fmt.Appendf(nil, `{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		a.prompt, a.cached, a.spoken, a.thought, a.prompt+a.spoken)
}

// begin opens the stream.
func (v *voice) begin() bool {
	a := v.a
	v.begun = true
	if !v.responses {
		return v.event("message_start", `,"message":{"id":%s,"type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":%s}`,
			quoted(a.s.id), quoted(a.s.model), v.usage())
	}
	return v.event("response.created", `,"response":%s`, v.response("in_progress", "null")) &&
		v.event("response.in_progress", `,"response":%s`, v.response("in_progress", "null"))
}

// step tells the next token, and the end after the last one. False: the stream is over before its time.
func (v *voice) step(c *script) bool {
	if !v.begun && !v.begin() {
		return false
	}
	if p, ok := c.next(); ok {
		v.a.say(1)
		if p.kind == pieceThought {
			v.a.thought++
		}
		if !v.piece(&p) {
			return false
		}
	}
	if c.left > 0 {
		return true
	}
	c.closed = true
	return v.a.x.t.noFinish || v.end(c.finish, c.stopped)
}

// piece tells one token.
func (v *voice) piece(p *piece) bool {
	at := v.find(p)
	if at < 0 {
		if !v.a.x.t.interwove && !v.close() {
			return false
		}
		if at = v.add(p); !v.open(at) {
			return false
		}
	}
	text := v.say(at, p)
	return text == "" || v.delta(at, text)
}

// find returns the item that a token goes on with; -1: it begins a new one.
func (v *voice) find(p *piece) int {
	if p.kind > pieceThought {
		if at, ok := v.calls[p.call]; ok {
			return at
		}
		return -1
	}
	at := len(v.items) - 1
	if at < 0 || v.items[at].kind != p.kind || v.items[at].closed {
		return -1
	}
	return at
}

func (v *voice) add(p *piece) int {
	at, kind := len(v.items), p.kind
	if kind > pieceThought {
		kind = pieceCall
		v.calls[p.call] = at
	}
	v.items = append(v.items, item{kind: kind, call: p.call})
	return at
}

// say adds a token to an item and returns what it says, as the inside of a JSON string.
func (v *voice) say(at int, p *piece) string {
	text := p.esc
	if p.kind == pieceWhole {
		text = string(appendEscaped(nil, v.a.q.calls[p.call].args))
	}
	v.items[at].said = append(v.items[at].said, text...)
	return text
}

func (v *voice) open(at int) bool {
	it := &v.items[at]
	if v.responses {
		if !v.event("response.output_item.added", `,"output_index":%d,"item":%s`, at, v.item(at, false)) {
			return false
		}
		return it.kind != pieceText || v.event("response.content_part.added", `,"item_id":"item_%d","output_index":%d,"content_index":0,"part":{"type":"output_text","text":""}`, at, at)
	}
	return v.event("content_block_start", `,"index":%d,"content_block":%s`, at, v.block(at, false))
}

func (v *voice) delta(at int, text string) bool {
	kind := v.items[at].kind
	if v.responses {
		name := map[pieceKind]string{pieceText: "response.output_text.delta", pieceThought: "response.reasoning_text.delta", pieceCall: "response.function_call_arguments.delta"}[kind]
		return v.event(name, `,"item_id":"item_%d","output_index":%d,"content_index":0,"delta":"%s"`, at, at, text)
	}
	name := map[pieceKind]string{pieceText: `text_delta","text`, pieceThought: `thinking_delta","thinking`, pieceCall: `input_json_delta","partial_json`}[kind]
	return v.event("content_block_delta", `,"index":%d,"delta":{"type":"%s":"%s"}`, at, name, text)
}

// close ends what is open.
func (v *voice) close() bool {
	for at := range v.items {
		it := &v.items[at]
		if it.closed {
			continue
		}
		it.closed = true
		switch {
		case !v.responses && it.kind == pieceThought:
			if !v.event("content_block_delta", `,"index":%d,"delta":{"type":"signature_delta","signature":"c2ln"}`, at) {
				return false
			}
		case v.responses && it.kind == pieceText:
			if !v.event("response.output_text.done", `,"item_id":"item_%d","output_index":%d,"content_index":0,"text":"%s"`, at, at, it.said) ||
				!v.event("response.content_part.done", `,"item_id":"item_%d","output_index":%d,"content_index":0,"part":{"type":"output_text","text":"%s"}`, at, at, it.said) {
				return false
			}
		case v.responses && it.kind == pieceCall:
			if !v.event("response.function_call_arguments.done", `,"item_id":"item_%d","output_index":%d,"arguments":"%s"`, at, at, it.said) {
				return false
			}
		}
		if v.responses {
			if !v.event("response.output_item.done", `,"output_index":%d,"item":%s`, at, v.item(at, true)) {
				return false
			}
		} else if !v.event("content_block_stop", `,"index":%d`, at) {
			return false
		}
	}
	return true
}

// end tells why the answer stopped; done is what comes last of all.
func (v *voice) end(finish, stopped string) bool {
	v.finish, v.stopped = finish, stopped
	if !v.close() {
		return false
	}
	return v.responses || v.event("message_delta", `,"delta":{"stop_reason":"%s","stop_sequence":%s},"usage":%s`, v.reason(), v.sequence(), v.usage())
}

func (v *voice) done() bool {
	switch t := &v.a.x.t; {
	case t.noFinish || t.noDone:
		return true
	case !v.responses:
		return v.event("message_stop", "")
	}
	status := v.status()
	return v.event("response."+status, `,"response":%s`, v.response(status, string(v.usage())))
}

func (v *voice) reason() string {
	switch {
	case v.finish == "length":
		return "max_tokens"
	case v.finish == "content_filter":
		return "refusal"
	case len(v.calls) > 0:
		return "tool_use"
	case v.stopped != "":
		return "stop_sequence"
	}
	return "end_turn"
}

func (v *voice) sequence() []byte {
	if v.stopped == "" {
		return []byte("null")
	}
	return quoted(v.stopped)
}

func (v *voice) status() string {
	if v.finish == "length" || v.finish == "content_filter" {
		return "incomplete"
	}
	return "completed"
}

// block is a block of Messages, at its beginning or with all that it says.
func (v *voice) block(at int, whole bool) []byte {
	it := &v.items[at]
	said := it.said
	if !whole {
		said = nil
	}
	switch it.kind {
	case pieceText:
		return fmt.Appendf(nil, `{"type":"text","text":"%s"}`, said)
	case pieceThought:
		return fmt.Appendf(nil, `{"type":"thinking","thinking":"%s","signature":""}`, said)
	}
	input := []byte("{}")
	if whole {
		if s, err := fastjson.ParseBytes(append(append([]byte{'"'}, said...), '"')); err == nil && len(s.GetStringBytes()) > 0 {
			input = s.GetStringBytes()
		}
	}
	c := &v.a.q.calls[it.call]
	return fmt.Appendf(nil, `{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quoted(c.id), quoted(c.name), input)
}

// item is an item of Responses.
func (v *voice) item(at int, whole bool) []byte {
	it := &v.items[at]
	head := `{"id":"item_` + strconv.Itoa(at) + `","status":"in_progress",`
	if whole {
		head = `{"id":"item_` + strconv.Itoa(at) + `","status":"completed",`
	}
	switch it.kind {
	case pieceText:
		content := []byte("[]")
		if whole {
			content = fmt.Appendf(nil, `[{"type":"output_text","text":"%s","annotations":[]}]`, it.said)
		}
		return fmt.Appendf(nil, head+`"type":"message","role":"assistant","content":%s}`, content)
	case pieceThought:
		return fmt.Appendf(nil, head+`"type":"reasoning","summary":[{"type":"summary_text","text":"%s"}],"content":[{"type":"reasoning_text","text":"%s"}]}`, it.said, it.said)
	}
	c := &v.a.q.calls[it.call]
	return fmt.Appendf(nil, head+`"type":"function_call","call_id":%s,"name":%s,"arguments":"%s"}`, quoted(c.id), quoted(c.name), it.said)
}

func (v *voice) response(status, usage string) []byte {
	a := v.a
	output := []byte{'['}
	for at := range v.items {
		if at > 0 {
			output = append(output, ',')
		}
		output = append(output, v.item(at, true)...)
	}
	details := "null"
	switch v.finish {
	case "length":
		details = `{"reason":"max_output_tokens"}`
	case "content_filter":
		details = `{"reason":"content_filter"}`
	}
	return fmt.Appendf(nil, `{"id":"resp_%s","object":"response","created_at":%d,"status":"%s","incomplete_details":%s,"error":null,"model":%s,"output":%s],"usage":%s}`,
		a.s.id, a.s.created, status, details, quoted(a.s.model), output, usage)
}

// whole is a plain answer.
func (v *voice) whole(c *script) []byte {
	for {
		p, ok := c.next()
		if !ok {
			break
		}
		if p.kind == pieceThought { // the tokens have been counted, see plain
			v.a.thought++
		}
		at := v.find(&p)
		if at < 0 {
			at = v.add(&p)
		}
		v.say(at, &p)
	}
	v.finish, v.stopped = c.finish, c.stopped
	if v.responses {
		status := v.status()
		return v.response(status, string(v.usage()))
	}
	content := []byte{'['}
	for at := range v.items {
		if at > 0 {
			content = append(content, ',')
		}
		content = append(content, v.block(at, true)...)
	}
	return fmt.Appendf(nil, `{"id":%s,"type":"message","role":"assistant","model":%s,"content":%s],"stop_reason":"%s","stop_sequence":%s,"usage":%s}`,
		quoted(v.a.s.id), quoted(v.a.s.model), content, v.reason(), v.sequence(), v.usage())
}

// appendNativeError writes an error as the dialect has it; false: the profile's own shape is it, on Responses too.
func (x *exchange) appendNativeError(dst []byte, a apiError) ([]byte, bool) {
	if x.dialect != dialectMessages {
		return dst, false
	}
	kind := a.kind
	switch {
	case kind != "":
	case a.status == 429:
		kind = "rate_limit_error"
	case a.status == 503 || a.status == 529:
		kind = "overloaded_error"
	case a.status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	return fmt.Appendf(dst, `{"type":"error","error":{"type":%s,"message":%s}}`, quoted(kind), quoted(a.message)), true
}
