package dialect

import (
	"fmt"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// Kind is the dialect that an exchange is held in.
type Kind uint8

// The dialects.
const (
	Chat Kind = iota
	Messages
	Responses
)

// Answer is what is known of an answer while it is told.
type Answer struct {
	Profile                         *profile.Profile
	Faults                          *fault.Effects
	ID, Model                       string
	Created                         int64
	Now                             func() int64
	Stream                          bool
	Max                             int // tokens that were asked for; below 0: not said
	Calls                           []profile.ToolCall
	Prompt, Cached, Spoken, Thought int           // tokens; the last two grow
	Timings                         func() []byte // llama.cpp's
	Event                           func(name string, data []byte) bool
}

// is reports whether the engine is of one of the named families.
func (a *Answer) is(families string) bool { return a.Profile.Is(families) }

// Writer tells an answer in one of the other dialects: token by token, or as a whole.
type Writer struct {
	a     *Answer
	said  content
	shape shape
	begun bool
}

// shape is how a dialect tells what happens to an answer and its items. False: there is no stream
// any more.
type shape interface {
	begin() bool
	open(at int) bool
	delta(at int, text string) bool
	closed(at int) bool
	end() bool
	done() bool
	whole() []byte
}

// NewWriter returns the writer of an answer; nil for chat.
func NewWriter(kind Kind, a *Answer) *Writer {
	w := &Writer{a: a, said: content{calls: map[int]int{}}}
	switch kind {
	case Chat:
		return nil
	case Messages:
		w.shape = &messages{a, &w.said}
	default:
		w.shape = &responses{a: a, said: &w.said}
	}
	return w
}

// Begin opens the stream, once.
func (w *Writer) Begin() bool {
	if w.begun {
		return true
	}
	w.begun = true
	return w.shape.begin()
}

// Piece tells one token.
func (w *Writer) Piece(p *profile.Piece) bool {
	at := w.said.find(p)
	if at < 0 {
		// llama.cpp closes everything at the end
		if !w.a.Faults.Interwove && !w.a.is("llamacpp") && !w.close() {
			return false
		}
		if at = w.said.add(p); !w.shape.open(at) {
			return false
		}
	}
	text := w.said.say(at, p, w.a.Calls)
	return text == "" || w.shape.delta(at, text)
}

// close ends what is open.
func (w *Writer) close() bool {
	for at := range w.said.items {
		if it := &w.said.items[at]; !it.closed {
			if it.closed = true; !w.shape.closed(at) {
				return false
			}
		}
	}
	return true
}

// End tells why the answer stopped; Done is what comes last of all.
func (w *Writer) End(finish, stopped string) bool {
	w.said.finish, w.said.stopped = finish, stopped
	return w.close() && w.shape.end()
}

// Done tells that the stream is over.
func (w *Writer) Done() bool { return w.a.Faults.NoFinish || w.a.Faults.NoDone || w.shape.done() }

// Whole is a plain answer of all that next gives.
func (w *Writer) Whole(next func() (profile.Piece, bool), finish, stopped string) []byte {
	for p, ok := next(); ok; p, ok = next() {
		if p.Kind == profile.PieceThought { // the tokens have been counted already
			w.a.Thought++
		}
		at := w.said.find(&p)
		if at < 0 {
			at = w.said.add(&p)
		}
		w.said.say(at, &p, w.a.Calls)
	}
	w.said.finish, w.said.stopped = finish, stopped
	return w.shape.whole()
}

// content is what an answer has said so far.
type content struct {
	items           []item
	calls           map[int]int // where a call stands
	finish, stopped string
}

// item is a block of Messages, or an output item of Responses.
type item struct {
	kind   profile.PieceKind // PieceText, PieceThought or PieceCall
	call   int
	said   []byte // the inside of a JSON string
	closed bool
}

// find returns the item that a token goes on with; -1: it begins a new one.
func (c *content) find(p *profile.Piece) int {
	if p.Kind > profile.PieceThought {
		if at, ok := c.calls[p.Call]; ok {
			return at
		}
		return -1
	}
	at := len(c.items) - 1
	if at < 0 || c.items[at].kind != p.Kind || c.items[at].closed {
		return -1
	}
	return at
}

func (c *content) add(p *profile.Piece) int {
	at, kind := len(c.items), p.Kind
	if kind > profile.PieceThought {
		kind = profile.PieceCall
		c.calls[p.Call] = at
	}
	c.items = append(c.items, item{kind: kind, call: p.Call})
	return at
}

// say adds a token to an item and returns what it says, as the inside of a JSON string.
func (c *content) say(at int, p *profile.Piece, calls []profile.ToolCall) string {
	text := p.Escaped
	if p.Kind == profile.PieceWhole {
		text = string(wire.AppendEscaped(nil, calls[p.Call].Args))
	}
	c.items[at].said = append(c.items[at].said, text...)
	return text
}

// each writes all items with commas between.
func (c *content) each(write func(at int) []byte) string {
	var b []byte
	for at := range c.items {
		if at > 0 {
			b = append(b, ',')
		}
		b = append(b, write(at)...)
	}
	return string(b)
}

func quoted(s string) string { return string(wire.AppendString(nil, s)) }

// MessagesError writes an error as Messages has it.
func MessagesError(p *profile.Profile, a profile.APIError, nextID func() uint64) []byte {
	kind := a.Kind
	switch {
	case kind != "":
	case a.Status == 404:
		kind = "not_found_error"
	case a.Status == 429:
		kind = "rate_limit_error"
	case a.Status == 503 || a.Status == 529:
		kind = "overloaded_error"
	case a.Status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	more := ""
	if p.Family == "ollama" {
		more = `,"request_id":"req_` + profile.Hex32(nextID())[:24] + `"`
	}
	return fmt.Appendf(nil, `{"type":"error","error":{"type":%s,"message":%s}%s}`, quoted(kind), quoted(a.Message), more)
}
