package chat

import (
	"bytes"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Source reads an engine's answer for a translator to another dialect: what each event brings, the tool calls kept
// apart, the end, and the counts. It reads the first choice alone, for the other dialects have no more.
//
//	s.Reset(id)
//	ok, err := s.Read(ev)    // for each event of a stream; then look at Content, Calls and so on
//	err := s.ReadWhole(c)    // or once for a whole completion
//
// Texts are the contents of JSON strings, without quotes and with the escapes that the engine chose: they are valid in any
// other JSON string as they are, and never hold a line end.
//
// The zero value is ready. A Source belongs to one call at a time. Once its buffers have grown it does not allocate per event.
type Source struct {
	tally
	short hole
	which *[]byte // the text that the hole is of; nil: the arguments of call last

	// Content, Refusal and Reasoning are what the last event brought, each maybe empty. They borrow from the event.
	Content, Refusal, Reasoning []byte
	// Touched are the positions in Calls of the calls that the last event was about, in its order.
	Touched []int
	// Calls are the calls so far, in the order of their first appearance.
	Calls []Call
	// Finish is how the choice ended, or FinishNone.
	Finish Finish
	// StopSequence is the stop sequence that the engine says it met; nil if it says none.
	StopSequence []byte

	id   string // ours, of the answer
	last int    // the call that the last piece was about
	size int    // bytes of text and arguments, for the bound
}

// Call is one tool call. All of it are contents of JSON strings.
type Call struct {
	ID, Name []byte // maybe empty; see Source.CallID
	Args     []byte // so far

	index   int
	settled bool   // what CallID returns is final
	made    []byte // by us, in place of ID; empty: ID is used
	looked  int    // the length of Args when Complete last looked at them
	whole   bool   // and what it saw
}

// Finish is how a choice ended.
type Finish uint8

// The ways a choice ends. What an engine calls otherwise counts as FinishStop.
const (
	FinishNone Finish = iota // it goes on
	FinishStop
	FinishLength
	FinishToolCalls
	FinishContentFilter
)

func finishOf(v jsonx.Value) Finish {
	switch {
	case v.EqualText("length"), v.EqualText("max_tokens"):
		return FinishLength
	case v.EqualText("tool_calls"), v.EqualText("function_call"):
		return FinishToolCalls
	case v.EqualText("content_filter"):
		return FinishContentFilter
	}
	return FinishStop
}

// Reset makes s ready for another answer and lets go of the last one. id is our id of the answer, from which ids of
// calls are made when the engine gives none of use.
func (s *Source) Reset(id string) {
	s.short.reset()
	calls := s.Calls[:cap(s.Calls)]
	if len(calls) > keepCalls {
		calls = nil
	}
	for i := range calls {
		calls[i].reset()
	}
	*s = Source{short: s.short, Calls: calls[:0], Touched: s.Touched[:0], StopSequence: s.StopSequence[:0], id: id}
}

// Guess says what we take the prompt for, in tokens; it is told where the engine counts nothing. It is called after Reset.
func (s *Source) Guess(prompt int) { s.prompt = prompt }

// keepCalls is the number of calls whose memory is kept.
const keepCalls = 16

// reset empties c, but for memory that is worth keeping.
func (c *Call) reset() {
	*c = Call{ID: keep(c.ID), Name: keep(c.Name), Args: keep(c.Args), made: keep(c.made)}
}

// keep returns b empty, or nil when it has grown large.
func keep(b []byte) []byte {
	if cap(b) > keepBuffer/keepCalls {
		return nil
	}
	return b[:0]
}

// Read takes one event of the engine's stream. It reports whether the event was a chunk of an answer that has begun; if not, it
// brought nothing to tell. The error is a *BadAnswer when the event is malformed or the answer too large, or an *EngineError when
// the engine reports a failure. Events behind the end are ignored.
func (s *Source) Read(ev sse.Event) (bool, error) {
	s.Content, s.Refusal, s.Reasoning, s.Touched = nil, nil, nil, s.Touched[:0]
	if text, same := s.short.match(ev.Data); same && len(ev.Name) == 0 && !s.Done() {
		return true, s.again(text)
	}
	c := chunkPool.Get().(*Chunk)
	defer c.giveBack()
	ok, err := s.begin(c, ev, 0)
	if !ok {
		return false, err
	}
	err = s.read(c, ev.Data)
	return err == nil && s.choices > 0, err // what comes before the first choice is no answer yet, and may never become one
}

// again takes a chunk that differs from the one before in its text alone.
func (s *Source) again(text []byte) error {
	if s.which != nil {
		if len(text) == 0 {
			return nil
		}
		*s.which = text
		s.deltas++
		return s.grow(s.kept())
	}
	s.deltas++
	s.Touched = append(s.Touched, s.last)
	c := &s.Calls[s.last]
	c.Args = append(c.Args, text...)
	return s.grow(len(text))
}

// kept is how many bytes of text the event brought that a translator may have to keep.
func (s *Source) kept() int { return len(s.Content) + len(s.Refusal) }

// grow counts n bytes against the bound of an answer.
func (s *Source) grow(n int) error {
	if s.size += n; s.size > MaxAnswer {
		return bad(TooLarge)
	}
	return nil
}

// read takes the chunk c that has just been parsed from data.
func (s *Source) read(c *Chunk, data []byte) error {
	s.short.forget()
	var (
		choice Choice
		first  jsonx.Value // what the next chunk may well differ in alone
		call   bool
		delta  Delta
		n      int
	)
	for it := c.choices.Iter(); it.Next(); n++ {
		if err := choice.Read(it.Value()); err != nil {
			return err
		}
		if err := choice.delta(); err != nil {
			return err
		}
		if choice.Index != 0 {
			continue
		}
		delta.Read(choice.Body)
		if err := s.take(&choice, &delta, false); err != nil {
			return err
		}
		if !choice.Finished() {
			first, call = delta.hole()
		}
	}
	if c.usage.Exists() || c.timings.Exists() {
		s.count(c)
	}
	if n == 1 && first.Exists() && !c.usage.IsObject() && !c.timings.Exists() {
		s.learn(data, first, call, &delta)
	}
	return nil
}

// learn remembers the chunk for the next one.
func (s *Source) learn(data []byte, v jsonx.Value, call bool, d *Delta) {
	switch v {
	case d.Content:
		s.which = &s.Content
	case d.Refusal:
		s.which = &s.Refusal
	case d.Reasoning:
		s.which = &s.Reasoning
	default:
		s.which = nil
	}
	if call == (s.which == nil) {
		s.short.learn(data, v)
	}
}

// take takes what a choice brings: a delta, or a message when whole.
func (s *Source) take(choice *Choice, d *Delta, whole bool) error {
	if err := d.check(); err != nil {
		return err
	}
	s.choice(choice)
	if d.Visible() || HasText(d.Reasoning) {
		s.deltas++
	}
	for _, t := range [...]struct {
		to   *[]byte
		from jsonx.Value
	}{{&s.Content, d.Content}, {&s.Refusal, d.Refusal}, {&s.Reasoning, d.Reasoning}} {
		switch {
		case t.from.IsString():
			*t.to = inside(t.from)
		case t.from.Exists() && !t.from.IsNull() && t.to != &s.Reasoning:
			return bad(notText)
		}
	}
	if err := s.grow(s.kept()); err != nil {
		return err
	}
	if err := s.calls(d.ToolCalls, whole); err != nil {
		return err
	}
	if choice.Finished() {
		s.Finish = finishOf(choice.Finish)
		if choice.Stop.IsString() {
			s.StopSequence = append(s.StopSequence[:0], inside(choice.Stop)...)
		}
	}
	return nil
}

// calls takes the pieces of calls in a delta, or the calls of a message when whole.
func (s *Source) calls(v jsonx.Value, whole bool) error {
	var p callPiece
	for it := v.Iter(); it.Next(); {
		if err := p.read(it.Value()); err != nil {
			return err
		}
		at, index, err := len(s.Calls), len(s.Calls), error(nil)
		if !whole {
			at, index, err = joinCall(&p, len(s.Calls), s.last, s.old)
		} else if at == maxCalls {
			err = bad(tooManyCalls)
		}
		if err != nil {
			return err
		}
		if at == len(s.Calls) {
			s.addCall(index)
		}
		s.last = at
		s.Touched = append(s.Touched, at)
		if err := s.piece(&s.Calls[at], &p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) old(i int) callSoFar {
	c := &s.Calls[i]
	return callSoFar{c.index, c.ID, c.Name, c.Args}
}

// addCall makes room for a call, with the memory of an older one if there is any.
func (s *Source) addCall(index int) {
	if n := len(s.Calls); n < cap(s.Calls) {
		s.Calls = s.Calls[:n+1]
		s.Calls[n].index = index
		return
	}
	s.Calls = append(s.Calls, Call{index: index})
}

// piece adds a piece to a call. What is told once and then repeated, also as "" or null, says nothing more.
func (s *Source) piece(to *Call, p *callPiece) error {
	before := len(to.ID) + len(to.Name) + len(to.Args)
	if !to.settled && len(to.ID) == 0 && HasText(p.id) {
		to.ID = append(to.ID, inside(p.id)...)
	}
	if len(to.Name) == 0 && HasText(p.name) {
		to.Name = append(to.Name, inside(p.name)...)
	}
	switch args := p.args; {
	case args.IsString():
		to.Args = append(to.Args, inside(args)...)
	case args.IsObject(): // Ollama's native shape
		to.Args = jsonx.AppendEscaped(to.Args, args.Raw())
	case args.Exists() && !args.IsNull():
		return bad(badCall)
	}
	return s.grow(len(to.ID) + len(to.Name) + len(to.Args) - before)
}

// CallID returns the id of call i, as the contents of a JSON string. It is the engine's, or one of ours when the engine
// has given none so far, has given it to an earlier call too, or counts the calls of each answer from 0, as TGI and LMDeploy
// do: clients match results to calls by id, throughout a conversation, and some drop the earlier of two calls with one id.
// It does not change from then on.
func (s *Source) CallID(i int) []byte {
	c := &s.Calls[i]
	if !c.settled {
		c.settled = true
		ours := len(c.ID) == 0 || isCount(c.ID)
		for j := range i {
			ours = ours || bytes.Equal(c.ID, s.Calls[j].ID)
		}
		if ours {
			c.made = AppendCallID(c.made[:0], s.id, 0, i)
		}
	}
	if len(c.made) > 0 {
		return c.made
	}
	return c.ID
}

// isCount reports whether an id is a small number. Random ones of digits alone, as LM Studio makes them, have nine.
func isCount(id []byte) bool {
	for _, b := range id {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(id) <= 3
}

// Complete reports whether the arguments of call i are a whole JSON object, so that nothing is missing.
func (s *Source) Complete(i int) bool {
	c := &s.Calls[i]
	if c.looked != len(c.Args) {
		c.looked, c.whole = len(c.Args), complete(c.Args)
	}
	return c.whole
}

// ReadWhole takes a whole completion, which has been parsed: its first choice, as if it had come in one event. Unlike a
// stream it may leave the finish_reason out. The error is a *BadAnswer. c must stay as it is while the texts are in use.
func (s *Source) ReadWhole(c *Completion) error {
	var (
		choice, first Choice
		delta         Delta
	)
	for it := c.choices.Iter(); it.Next(); {
		if err := choice.Read(it.Value()); err != nil {
			return err
		}
		if it.Index() == 0 || choice.Index == 0 && first.Index != 0 {
			first = choice
		}
	}
	first.Index = 0
	delta.Read(first.Body)
	s.usage = c.Usage().of(s.prompt)
	return s.take(&first, &delta, true)
}

// Whole reports whether the choice has its finish_reason: the stream may end well from here on.
func (s *Source) Whole() bool { return s.whole(0) }

// Done reports whether nothing more is wanted from upstream; see Stream.Done.
func (s *Source) Done() bool { return s.done(0) }

// Usage returns the token counts so far; when the engine told none, an estimate: what Guess said, and one token a delta.
func (s *Source) Usage() Usage {
	if s.usage.Estimated { // of a whole completion
		return s.usage
	}
	return s.total()
}

// End reports whether the stream may end: nil, or ErrNoFinish when the choice lacks its finish_reason.
func (s *Source) End() error {
	if !s.Whole() {
		return ErrNoFinish
	}
	return nil
}
