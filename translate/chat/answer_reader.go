package chat

import (
	"bytes"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// AnswerReader reads an engine's answer for a translator to another dialect: the contents of each
// event, the tool calls one by one, the end, and the counts. It reads the first choice alone, for
// the other dialects have no more.
//
//	s.Reset(id)
//	ok, err := s.Read(ev)    // for each event of a stream; then look at Content, ToolCalls and so on
//	err := s.ReadWhole(c)    // or once for a whole completion
//
// Texts are the contents of JSON strings, without quotes and with the engine's escapes: they are
// valid in any other JSON string as they are, and never hold a line end.
//
// The zero value is ready. An AnswerReader belongs to one call at a time. Once its buffers have
// grown it does not allocate per event.
type AnswerReader struct {
	tally
	short hole
	which *[]byte // the text that the hole is of; nil: the arguments of tool call last

	// Content, Refusal and Reasoning are the texts of the last event, each maybe empty. They borrow
	// from the event.
	Content, Refusal, Reasoning []byte
	// Logprobs are the elements of the log probabilities of the last event's Content, as JSON with
	// commas. They are empty if the event has anything else beside the content, since they would
	// show the tokens of that.
	Logprobs []byte
	// Touched are the positions in ToolCalls of the tool calls in the last event, in its order.
	Touched []int
	// ToolCalls are the tool calls so far, in the order of their first appearance.
	ToolCalls []ToolCall
	// Finish is how the choice ended, or FinishNone.
	Finish Finish
	// StopSequence is the stop sequence that the engine says it met; nil if it says none.
	StopSequence []byte

	tools   toolcall.Assembler
	halves  halves
	opening opening
	lone    bool   // a string of the event holds half of a surrogate pair
	id      string // ours, of the answer
	last    int    // the tool call that the last piece was about
	size    int    // bytes of text and arguments, for the bound
	args    int    // bytes of what ToolCalls hold
}

// ToolCall is one tool call. All of it are contents of JSON strings.
type ToolCall struct {
	ID, Name []byte // maybe empty; see AnswerReader.ToolCallID
	Args     []byte // so far

	looked int  // the length of Args when Complete last looked at them
	whole  bool // and what it saw
}

// Finish is how a choice ended.
type Finish uint8

// The ways a choice ends. Any other word of an engine counts as FinishStop.
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

// Reset makes s ready for another answer and lets go of the last one. id is our id of the answer,
// from which the ids of tool calls are made if the engine gives no usable ones.
func (s *AnswerReader) Reset(id string) {
	s.short.reset()
	s.tools.Reset()
	toolCalls := s.ToolCalls[:cap(s.ToolCalls)]
	if len(toolCalls) > keepToolCalls {
		toolCalls = nil
	}
	for i := range toolCalls {
		toolCalls[i].reset()
	}
	*s = AnswerReader{
		short: s.short, tools: s.tools, ToolCalls: toolCalls[:0],
		Touched: s.Touched[:0], StopSequence: s.StopSequence[:0], id: id,
	}
}

// SetPromptEstimate sets our estimate of the prompt, in tokens, for an engine that counts nothing.
// Call it after Reset.
func (s *AnswerReader) SetPromptEstimate(prompt int) { s.prompt = prompt }

// keepToolCalls is the number of tool calls whose memory is kept.
const keepToolCalls = 16

// reset empties c, but for memory that is worth keeping.
func (c *ToolCall) reset() {
	*c = ToolCall{ID: keep(c.ID), Name: keep(c.Name), Args: keep(c.Args)}
}

// keep returns b empty, or nil when it has grown large.
func keep(b []byte) []byte {
	if cap(b) > keepBuffer/keepToolCalls {
		return nil
	}
	return b[:0]
}

// Read reads one event of the engine's stream. It reports whether the event was a chunk of an
// answer that has begun; if not, the event has nothing for the client. The error is a *BadAnswer
// when the event is malformed or the answer too large, or an *EngineError when the engine reports a
// failure. Events behind the end are ignored.
func (s *AnswerReader) Read(ev sse.Event) (bool, error) {
	s.Content, s.Refusal, s.Reasoning, s.Logprobs, s.Touched = nil, nil, nil, nil, s.Touched[:0]
	if text, same := s.short.match(ev.Data); same && len(ev.Name) == 0 && len(s.halves) == 0 && !s.Done() {
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
func (s *AnswerReader) again(text []byte) error {
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
	c := &s.ToolCalls[s.last]
	c.Args = append(c.Args, text...)
	s.args += len(text)
	return s.grow(len(text))
}

// kept is how many bytes of text the event brought that a translator may have to keep.
func (s *AnswerReader) kept() int { return len(s.Content) + len(s.Refusal) + len(s.Logprobs) }

// grow counts n bytes against the bound of an answer.
func (s *AnswerReader) grow(n int) error {
	if s.size += n; s.size > MaxAnswer {
		return bad(TooLarge)
	}
	return nil
}

// read takes the chunk c that has just been parsed from data.
func (s *AnswerReader) read(c *Chunk, data []byte) error {
	s.short.forget()
	s.lone = c.lone
	var (
		choice   Choice
		first    jsonx.Value // what the next chunk may well differ in alone
		toolCall bool
		delta    Delta
		n        int
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
			first, toolCall = delta.hole()
		}
	}
	if c.usage.Exists() || c.timings.Exists() {
		s.count(c)
	}
	if n == 1 && first.Exists() && !s.lone && len(s.halves) == 0 && !c.usage.IsObject() && !c.timings.Exists() && len(s.Logprobs) == 0 {
		s.learn(data, first, toolCall, &delta)
	}
	return nil
}

// learn remembers the chunk for the next one.
func (s *AnswerReader) learn(data []byte, v jsonx.Value, toolCall bool, d *Delta) {
	switch v {
	case d.Content:
		if s.which = &s.Content; !s.opening.done {
			return // the short cut does not look at what an answer begins with
		}
	case d.Refusal:
		s.which = &s.Refusal
	case d.Reasoning:
		s.which = &s.Reasoning
	default:
		s.which = nil
	}
	if s.short.toolCall = toolCall; toolCall == (s.which == nil) {
		s.short.learn(data, v)
	}
}

// take takes what a choice brings: a delta, or a message when whole.
func (s *AnswerReader) take(choice *Choice, d *Delta, whole bool) error {
	if err := d.check(); err != nil {
		return err
	}
	s.choice(choice)
	if d.Visible() || HasText(d.Reasoning) {
		s.deltas++
	}
	end := whole || choice.Finished()
	for _, t := range [...]struct {
		to     *[]byte
		from   jsonx.Value
		member string
	}{{&s.Content, d.Content, MemberContent}, {&s.Refusal, d.Refusal, MemberRefusal}, {&s.Reasoning, d.Reasoning, MemberReasoning}} {
		switch {
		case t.from.IsString():
			*t.to = inside(t.from)
			if s.lone || len(s.halves) > 0 {
				*t.to = s.halves.piece(textPlace{member: t.member}, *t.to, end)
			}
		case t.from.Exists() && !t.from.IsNull() && t.to != &s.Reasoning:
			return bad(notText)
		}
	}
	if !s.opening.done {
		s.opening.add(d.Content)
	}
	if len(s.Content) > 0 && choice.Logprobs.IsObject() && len(s.Refusal)+len(s.Reasoning) == 0 && d.ToolCalls.Len() == 0 {
		if list := choice.Logprobs.Get("content"); list.IsArray() && list.Len() > 0 {
			s.Logprobs = bytes.TrimSpace(inside(list))
			if s.lone {
				s.Logprobs = bytes.Clone(s.Logprobs)
				jsonx.MendLone(s.Logprobs)
			}
		}
	}
	if err := s.toolCalls(d.ToolCalls, whole); err != nil {
		return err
	}
	if end && len(s.halves) > 0 {
		s.endTexts()
	}
	if err := s.grow(s.kept()); err != nil {
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

// toolCalls takes the pieces of tool calls in a delta, or the tool calls of a message when whole.
func (s *AnswerReader) toolCalls(v jsonx.Value, whole bool) error {
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return bad(badToolCall)
		}
		var (
			part toolcall.Part
			ok   bool
		)
		if whole {
			part, ok = s.tools.Whole(0, &p)
		} else {
			part, ok = s.tools.Piece(0, &p)
		}
		if !ok {
			return bad(tooManyToolCalls)
		}
		s.last = part.Position
		if s.last == len(s.ToolCalls) {
			s.addToolCall()
		}
		s.Touched = append(s.Touched, s.last)
		if err := s.piece(&s.ToolCalls[s.last], &p, &part); err != nil {
			return err
		}
	}
	return nil
}

// addToolCall makes room for a tool call, with the memory of an older one if there is any.
func (s *AnswerReader) addToolCall() {
	if n := len(s.ToolCalls); n < cap(s.ToolCalls) {
		s.ToolCalls = s.ToolCalls[:n+1]
		return
	}
	s.ToolCalls = append(s.ToolCalls, ToolCall{})
}

// piece adds a piece to a tool call.
func (s *AnswerReader) piece(to *ToolCall, p *toolcall.Piece, part *toolcall.Part) error {
	before := len(to.ID) + len(to.Name) + len(to.Args)
	if part.TakeID {
		to.ID = append(to.ID, inside(p.ID)...)
		jsonx.MendLone(to.ID)
	}
	if part.TakeName {
		to.Name = append(to.Name, inside(p.Name)...)
		jsonx.MendLone(to.Name)
	}
	switch args := p.Args; {
	case args.IsString() && (s.lone || len(s.halves) > 0 || hasEscapes(inside(args))):
		to.Args = append(to.Args, s.halves.piece(textPlace{toolCall: part.Position}, inside(args), false)...)
	case args.IsString():
		to.Args = append(to.Args, inside(args)...)
	case args.IsObject(): // Ollama's native shape
		to.Args = appendArguments(to.Args, args)
	case args.Exists() && !args.IsNull():
		return bad(badToolCall)
	}
	more := len(to.ID) + len(to.Name) + len(to.Args) - before
	s.args += more
	return s.grow(more)
}

// endTexts ends the texts that still wait: with a replacement character, mostly.
func (s *AnswerReader) endTexts() {
	for _, h := range s.halves {
		text := h.mend(h.escape)
		switch h.member {
		case MemberContent:
			s.Content = text
		case MemberRefusal:
			s.Refusal = text
		case MemberReasoning:
			s.Reasoning = text
		default:
			c := &s.ToolCalls[h.toolCall]
			c.Args = append(c.Args, text...)
			s.args += len(text)
		}
	}
	s.halves = nil
}

// ToolCallID returns the id of tool call i, as the contents of a JSON string: the engine's or,
// where that is none of use, ours (see package toolcall). It does not change once the tool call has
// a name.
func (s *AnswerReader) ToolCallID(i int) []byte {
	c := &s.ToolCalls[i]
	if len(c.ID) == 0 {
		c.ID = toolcall.AppendID(c.ID, s.id, 0, i)
	}
	return c.ID
}

// Complete reports whether the arguments of tool call i are a whole JSON object, so that nothing is
// missing.
func (s *AnswerReader) Complete(i int) bool {
	c := &s.ToolCalls[i]
	if c.looked != len(c.Args) {
		c.looked, c.whole = len(c.Args), complete(c.Args)
	}
	return c.whole
}

// ReadWhole takes a whole completion, which has been parsed: its first choice, as if it had come in
// one event. Unlike a stream it may leave the finish_reason out. The error is a *BadAnswer. c must
// stay as it is while the texts are in use.
func (s *AnswerReader) ReadWhole(c *Completion) error {
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
	s.lone = c.lone
	delta.Read(first.Body)
	s.usage = c.Usage().of(s.prompt)
	return s.take(&first, &delta, true)
}

// HeldToolCalls is about how many bytes ToolCalls hold.
func (s *AnswerReader) HeldToolCalls() int { return s.args }

// TextSize is the number of bytes of text and of tool calls so far, without reasoning.
func (s *AnswerReader) TextSize() int { return s.size }

// Whole reports whether the choice has its finish_reason: the stream may end well from here on.
func (s *AnswerReader) Whole() bool { return s.whole(0) }

// Done reports whether nothing more is wanted from upstream; see Stream.Done.
func (s *AnswerReader) Done() bool { return s.done(0) }

// Markup returns the word of a model's markup that the text begins with.
func (s *AnswerReader) Markup() Markup { return s.opening.markup }

// Usage returns the token counts so far; without counts from the engine, an estimate: that of
// SetPromptEstimate, and one token a delta.
func (s *AnswerReader) Usage() Usage {
	if s.usage.Estimated { // of a whole completion
		return s.usage
	}
	return s.total()
}

// End reports whether the stream may end: nil, or ErrNoFinish when the choice lacks its
// finish_reason.
func (s *AnswerReader) End() error {
	if !s.Whole() {
		return ErrNoFinish
	}
	return nil
}

// complete reports whether arguments, as the contents of a JSON string, are a whole JSON object.
func complete(args []byte) bool {
	if len(args) == 0 || len(args) > maxComplete || args[len(args)-1] != '}' {
		return false
	}
	var d jsonx.Doc
	quoted := append(append([]byte{'"'}, args...), '"')
	if d.Parse(quoted, jsonx.Options{}) != nil {
		return false
	}
	text := d.Root().AppendText(nil)
	return d.Parse(text, jsonx.Options{Record: 1}) == nil
}

// maxComplete bounds the arguments that are looked at: it is done for each piece, so an engine
// could make it costly.
const maxComplete = 64 << 10
