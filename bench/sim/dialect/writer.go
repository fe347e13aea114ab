package dialect

import (
	"cmp"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// Kind is the dialect that an exchange is held in.
type Kind string

// The dialects.
const (
	Chat      Kind = ""
	Messages  Kind = "messages"
	Responses Kind = "responses"
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
	Tell                            func(dialect, section string, about any) []byte // renders a section
}

// Writer tells an answer in one of the other dialects: token by token, or as a whole.
type Writer struct {
	a               *Answer
	kind            Kind
	begun, over     bool
	items           []*item
	calls           map[int]*item // by the number of the call
	finish, stopped string
	told            int // events so far
}

// item is a block of Messages, or an output item of Responses, as templates see it.
type item struct {
	At     int
	Kind   string // text, thought or call
	Family string
	Stage  string // how far it has come when it is shown: added, done, or whole in a whole answer
	Text   string // what it has said, as the inside of a JSON string; nothing when it is added
	Input  string // the arguments of a call as an object
	Call   *profile.ToolCall

	said   []byte
	closed bool
	// An event that says something: its name, and what stands before and behind the text.
	name, before, after string
}

// answer is the answer as templates see it.
type answer struct {
	Told                          *Answer
	Family, Finish, Stopped, Took string
	Items                         []*item
	NoUsage, Called, Finished     bool
	Uncached, All                 int
	Now                           int64
}

// NewWriter returns the writer of an answer; nil for chat.
func NewWriter(kind Kind, a *Answer) *Writer {
	if kind == Chat {
		return nil
	}
	return &Writer{a: a, kind: kind, calls: map[int]*item{}}
}

// Begin opens the stream, once.
func (w *Writer) Begin() bool {
	if w.begun {
		return true
	}
	w.begun = true
	return w.tell("begin", w.answer())
}

// Piece tells one token.
func (w *Writer) Piece(p *profile.Piece) bool {
	it := w.find(p)
	if it == nil {
		// llama.cpp closes everything at the end
		if !w.a.Faults.Interwove && !w.a.Profile.Is("llamacpp") && !w.close() {
			return false
		}
		if it = w.add(p); !w.tell("open", it.at("added")) {
			return false
		}
		one := *it
		one.Text = "\x00"
		delta := string(w.a.Tell(string(w.kind), "delta", &one))
		it.name, delta, _ = strings.Cut(delta, " ")
		it.before, it.after, _ = strings.Cut(delta, one.Text)
	}
	text := it.say(p)
	return text == "" || w.event(it.name, it.before, text, it.after)
}

// tell sends the events of a section.
func (w *Writer) tell(section string, about any) bool {
	for line := range strings.Lines(string(w.a.Tell(string(w.kind), section, about))) {
		if name, members, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !w.event(name, members) {
			return false
		}
	}
	return true
}

// event sends one event, given by the parts of its members.
func (w *Writer) event(name string, members ...string) bool {
	o := wire.Members(nil)
	o.Add(`{"type":"`, name, `"`)
	if members[0] != "{}" {
		members[0] = "," + members[0][1:]
		o.Add(members...)
		o = o[:len(o)-1]
	}
	if w.kind == Responses && !w.a.Profile.Is("llamacpp") {
		o.Add(`,"sequence_number":`).Int(w.told)
	}
	w.told++
	return w.a.Event(name, append(o, '}'))
}

// close ends what is open.
func (w *Writer) close() bool {
	for _, it := range w.items {
		if !it.closed {
			if it.closed = true; !w.tell("closed", it.at("done")) {
				return false
			}
		}
	}
	return true
}

// End tells why the answer stopped; Done is what comes last of all.
func (w *Writer) End(finish, stopped string) bool {
	w.finish, w.stopped, w.over = finish, stopped, true
	return w.close() && w.tell("end", w.answer())
}

// Done tells that the stream is over.
func (w *Writer) Done() bool {
	return w.a.Faults.NoFinish || w.a.Faults.NoDone || w.tell("done", w.answer())
}

// Whole is a plain answer of all that next gives.
func (w *Writer) Whole(next func() (profile.Piece, bool), finish, stopped string) []byte {
	for p, ok := next(); ok; p, ok = next() {
		if p.Kind == profile.PieceThought { // the tokens have been counted already
			w.a.Thought++
		}
		it := w.find(&p)
		if it == nil {
			it = w.add(&p)
		}
		it.say(&p)
	}
	w.finish, w.stopped, w.over = finish, stopped, true
	return w.a.Tell(string(w.kind), "whole", w.answer())
}

// answer is what templates see of the answer as it stands.
func (w *Writer) answer() *answer {
	a := &answer{
		Told: w.a, Family: w.a.Profile.Family, Finish: w.finish, Stopped: w.stopped, Items: w.items,
		NoUsage: w.a.Faults.Usage == fault.UsageNever, Called: len(w.calls) > 0, Finished: w.over,
		Uncached: w.a.Prompt - w.a.Cached, All: w.a.Prompt + w.a.Spoken, Now: w.a.Now(), Took: string(w.a.Timings()),
	}
	stage := "whole"
	if w.a.Stream {
		stage = "done"
	}
	for _, it := range a.Items {
		it.at(stage)
	}
	return a
}

// find returns the item that a token goes on with; nil: it begins a new one.
func (w *Writer) find(p *profile.Piece) *item {
	if p.Kind > profile.PieceThought {
		return w.calls[p.Call]
	}
	if len(w.items) == 0 {
		return nil
	}
	if last := w.items[len(w.items)-1]; last.Kind == kindOf(p) && !last.closed {
		return last
	}
	return nil
}

func kindOf(p *profile.Piece) string {
	switch p.Kind {
	case profile.PieceText:
		return "text"
	case profile.PieceThought:
		return "thought"
	default:
		return "call"
	}
}

func (w *Writer) add(p *profile.Piece) *item {
	it := &item{At: len(w.items), Kind: kindOf(p), Family: w.a.Profile.Family}
	if it.Kind == "call" {
		it.Call, w.calls[p.Call] = &w.a.Calls[p.Call], it
	}
	w.items = append(w.items, it)
	return it
}

// say adds a token to an item and returns what it says, as the inside of a JSON string.
func (it *item) say(p *profile.Piece) string {
	text := p.Escaped
	if p.Kind == profile.PieceWhole {
		text = string(wire.AppendEscaped(nil, it.Call.Args))
	}
	it.said = append(it.said, text...)
	return text
}

// at is the item as it is shown at a stage.
func (it *item) at(stage string) *item {
	it.Stage, it.Text, it.Input = stage, "", "{}"
	if stage == "added" {
		return it
	}
	it.Text = string(it.said)
	if args, err := fastjson.Parse(`"` + it.Text + `"`); err == nil && len(args.GetStringBytes()) > 0 {
		it.Input = string(args.GetStringBytes())
	}
	return it
}

// MessagesError writes an error as Messages has it.
func MessagesError(
	p *profile.Profile, a profile.APIError, nextID func() uint64, tell func(dialect, section string, about any) []byte,
) []byte {
	kinds := map[int]string{
		404: "not_found_error", 429: "rate_limit_error", 503: "overloaded_error", 529: "overloaded_error",
	}
	kind := cmp.Or(a.Kind, kinds[a.Status], "invalid_request_error")
	if a.Status >= 500 {
		kind = cmp.Or(a.Kind, kinds[a.Status], "api_error")
	}
	return tell("messages", "error", struct{ Family, Kind, Message, RequestID string }{
		p.Family, kind, a.Message, "req_" + profile.Hex32(nextID())[:24],
	})
}
