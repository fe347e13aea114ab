package sim

import (
	"fmt"
	"strconv"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// dialect is what an exchange is held in.
type dialect uint8

const (
	dialectChat dialect = iota
	dialectMessages
	dialectResponses
)

// dialectWriter tells an answer in one of the other dialects: token by token, or as a whole.
type dialectWriter struct {
	a         *answer
	responses bool
	items     []item // blocks of Messages, items of Responses, in their order
	calls     map[int]int
	told      int // events so far
	begun     bool
	finish    string
	stopped   string
}

// item is a block or an output item.
type item struct {
	kind   profile.PieceKind // PieceText, PieceThought or PieceCall
	call   int
	said   []byte // the inside of a JSON string
	closed bool
}

// newVoice returns the voice for an exchange; nil for chat.
func newVoice(a *answer) *dialectWriter {
	if a.x.dialect == dialectChat {
		return nil
	}
	return &dialectWriter{a: a, responses: a.x.dialect == dialectResponses, calls: map[int]int{}}
}

// event tells one event: a name and the members behind type.
func (v *dialectWriter) event(name, format string, args ...any) bool {
	if v.responses && !v.is("llamacpp") {
		format += `,"sequence_number":` + strconv.Itoa(v.told)
	}
	v.told++
	return v.a.x.event(name, fmt.Appendf(nil, `{"type":"`+name+`"`+format+`}`, args...))
}

func quoted(s string) []byte { return wire.AppendString(nil, s) }

// is reports whether the engine is of one of the named families: the dialects of llama.cpp and
// Ollama were recorded, those of the others are as the dialect's own documentation has them.
func (v *dialectWriter) is(families string) bool { return v.a.x.p.Is(families) }

// begin opens the stream.
func (v *dialectWriter) begin() bool {
	v.begun = true
	if !v.responses {
		return v.event("message_start", `,"message":%s`, v.opening())
	}
	return v.event("response.created", `,"response":%s`, v.response("in_progress")) &&
		v.event("response.in_progress", `,"response":%s`, v.response("in_progress"))
}

// step tells the next token, and the end after the last one. False: the stream is over before its
// time.
func (v *dialectWriter) step(c *generationPlan) bool {
	if !v.begun && !v.begin() {
		return false
	}
	if p, ok := c.next(); ok {
		v.a.say(1)
		if p.Kind == profile.PieceThought {
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
	return v.a.x.t.NoFinish || v.end(c.finish, c.stopped)
}

// piece tells one token.
func (v *dialectWriter) piece(p *profile.Piece) bool {
	at := v.find(p)
	if at < 0 {
		if !v.a.x.t.Interwove && !v.is("llamacpp") && !v.close() { // llama.cpp closes everything at the end
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
func (v *dialectWriter) find(p *profile.Piece) int {
	if p.Kind > profile.PieceThought {
		if at, ok := v.calls[p.Call]; ok {
			return at
		}
		return -1
	}
	at := len(v.items) - 1
	if at < 0 || v.items[at].kind != p.Kind || v.items[at].closed {
		return -1
	}
	return at
}

func (v *dialectWriter) add(p *profile.Piece) int {
	at, kind := len(v.items), p.Kind
	if kind > profile.PieceThought {
		kind = profile.PieceCall
		v.calls[p.Call] = at
	}
	v.items = append(v.items, item{kind: kind, call: p.Call})
	return at
}

// say adds a token to an item and returns what it says, as the inside of a JSON string.
func (v *dialectWriter) say(at int, p *profile.Piece) string {
	text := p.Escaped
	if p.Kind == profile.PieceWhole {
		text = string(wire.AppendEscaped(nil, v.a.q.calls[p.Call].Args))
	}
	v.items[at].said = append(v.items[at].said, text...)
	return text
}

// open tells that an item begins.
func (v *dialectWriter) open(at int) bool {
	it := &v.items[at]
	if !v.responses {
		return v.event("content_block_start", `,"index":%d,"content_block":%s`, at, v.block(at, false))
	}
	if !v.event("response.output_item.added", `%s,"item":%s`, v.place(at, false), v.item(at, stageAdded)) {
		return false
	}
	return it.kind != profile.PieceText || v.event("response.content_part.added", `%s,"part":%s`, v.within(at), v.part(nil,
		stageAdded))
}

// delta tells a piece of an item.
func (v *dialectWriter) delta(at int, text string) bool {
	kind := v.items[at].kind
	if !v.responses {
		member := map[profile.PieceKind]string{
			profile.PieceText: `text_delta","text`, profile.PieceThought: `thinking_delta","thinking`,
			profile.PieceCall: `input_json_delta","partial_json`,
		}[kind]
		return v.event("content_block_delta", `,"index":%d,"delta":{"type":"%s":"%s"}`, at, member, text)
	}
	switch {
	case kind == profile.PieceThought && v.is("ollama"):
		return v.event("response.reasoning_summary_text.delta", `%s,"summary_index":0,"delta":"%s"`, v.of(at), text)
	case kind == profile.PieceThought:
		return v.event("response.reasoning_text.delta", `%s,"delta":"%s"`, v.within(at), text)
	case kind == profile.PieceCall:
		return v.event("response.function_call_arguments.delta", `%s,"delta":"%s"`, v.of(at), text)
	}
	return v.event("response.output_text.delta", `%s,"delta":"%s"%s`, v.within(at), text, v.logprobs())
}

// close ends what is open.
func (v *dialectWriter) close() bool {
	for at := range v.items {
		it := &v.items[at]
		if it.closed {
			continue
		}
		it.closed = true
		if v.responses && !v.closeItem(at, it) || !v.responses && !v.closeBlock(at, it) {
			return false
		}
	}
	return true
}

// end tells why the answer stopped; done is what comes last of all.
func (v *dialectWriter) end(finish, stopped string) bool {
	v.finish, v.stopped = finish, stopped
	if !v.close() {
		return false
	}
	return v.responses || v.event("message_delta", `,"delta":%s,"usage":%s`, v.ending(), v.usage(true))
}

func (v *dialectWriter) done() bool {
	switch t := &v.a.x.t; {
	case t.NoFinish || t.NoDone:
		return true
	case !v.responses:
		return v.event("message_stop", "")
	}
	more := []byte(nil)
	if v.is("llamacpp") {
		more = append([]byte(`,"timings":`), v.a.timings()...)
	}
	return v.event("response."+v.status(), `,"response":%s%s`, v.response(v.status()), more)
}

// whole is a plain answer.
func (v *dialectWriter) whole(c *generationPlan) []byte {
	for {
		p, ok := c.next()
		if !ok {
			break
		}
		if p.Kind == profile.PieceThought { // the tokens have been counted, see plain
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
		return v.response(v.status())
	}
	return v.message()
}
