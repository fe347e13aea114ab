package answer

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Reader reads an engine's answer for a translator to another dialect: the contents of each
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
// The zero value is ready. A Reader belongs to one call at a time. Once its buffers have
// grown it does not allocate per event.
type Reader struct {
	state        streamState
	template     template
	templateText *[]byte // the text of template; nil: the arguments of lastToolCall

	// Content, Refusal and Reasoning are the texts of the last event, each maybe empty. They borrow
	// from the event.
	Content, Refusal, Reasoning []byte
	// Logprobs are the elements of the log probabilities of the last event's Content, as JSON with
	// commas. They are empty if an event has anything else beside the content, since they would
	// show the tokens of that; of a whole answer they are those whose tokens make up the content.
	Logprobs []byte
	// Touched are the positions in ToolCalls of the tool calls in the last event, in its order.
	Touched []int
	// ToolCalls are the tool calls so far, in the order of their first appearance.
	ToolCalls []ToolCall
	// Finish is how the choice ended, or FinishNone.
	Finish Finish
	// StopSequence is the stop sequence that the engine says it met; nil if it says none.
	StopSequence []byte

	tools        toolcall.Assembler
	halves       halves
	opening      translate.Opening
	lone         bool   // a string of the event holds half of a surrogate pair
	id           string // ours, of the answer
	lastToolCall int    // of the last piece
	size         int    // bytes of text and arguments, for the bound
	heldBytes    int    // bytes of what ToolCalls hold
}

// ToolCall is one tool call. All of it are contents of JSON strings.
type ToolCall struct {
	ID, Name []byte // maybe empty; see Reader.ToolCallID
	Args     []byte // so far

	checkedLen int  // the length of Args at the last check by Complete
	complete   bool // and its result
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
func (r *Reader) Reset(id string) {
	r.template.reset()
	r.tools.Reset()
	toolCalls := r.ToolCalls[:cap(r.ToolCalls)]
	if len(toolCalls) > keepToolCalls {
		toolCalls = nil
	}
	for i := range toolCalls {
		toolCalls[i].reset()
	}
	*r = Reader{
		template: r.template, tools: r.tools, ToolCalls: toolCalls[:0],
		Touched: r.Touched[:0], StopSequence: r.StopSequence[:0], id: id,
	}
}

// SetPromptEstimate sets our estimate of the prompt, in tokens, for an engine that counts nothing.
// Call it after Reset.
func (r *Reader) SetPromptEstimate(prompt int) { r.state.promptEstimate = prompt }

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
// when the event is malformed or the answer too large, or an *engineerror.Error when the engine reports a
// failure. Events behind the end are ignored.
func (r *Reader) Read(ev sse.Event) (bool, error) {
	r.Content, r.Refusal, r.Reasoning, r.Logprobs, r.Touched = nil, nil, nil, nil, r.Touched[:0]
	if text, same := r.template.textOf(ev.Data); same && len(ev.Name) == 0 && len(r.halves) == 0 && !r.Done() {
		return true, r.readRepeated(text)
	}
	c := chunkPool.Get().(*Chunk)
	defer c.giveBack()
	ok, err := r.state.parseEvent(c, ev, 0)
	if !ok {
		return false, err
	}
	err = r.read(c, ev.Data)
	return err == nil && r.state.choicesSeen > 0, err // before the first choice there is no answer yet, and maybe never
}

// readRepeated reads a chunk that differs from the one before in its text alone.
func (r *Reader) readRepeated(text []byte) error {
	if r.templateText != nil {
		if len(text) == 0 {
			return nil
		}
		*r.templateText = text
		r.state.deltas++
		return r.countBytes(r.textBytes())
	}
	r.state.deltas++
	r.Touched = append(r.Touched, r.lastToolCall)
	c := &r.ToolCalls[r.lastToolCall]
	c.Args = append(c.Args, text...)
	r.heldBytes += len(text)
	return r.countBytes(len(text))
}

// textBytes is the number of bytes of the event's text that a translator may have to keep.
func (r *Reader) textBytes() int { return len(r.Content) + len(r.Refusal) + len(r.Logprobs) }

// countBytes counts n bytes against the limit of an answer.
func (r *Reader) countBytes(n int) error {
	if r.size += n; r.size > translate.MaxAnswer {
		return badAnswer(translate.TooLarge)
	}
	return nil
}

// read reads the chunk c that has just been parsed from data.
func (r *Reader) read(c *Chunk, data []byte) error {
	r.template.forget()
	r.lone = c.lone
	var (
		choice   Choice
		text     jsonx.Value // in which alone the next chunk may differ
		toolCall bool
		delta    Delta
		n        int
	)
	for it := c.choices.Iter(); it.Next(); n++ {
		if err := choice.ReadDelta(it.Value()); err != nil {
			return err
		}
		if choice.Index != 0 {
			continue
		}
		delta.Read(choice.Body)
		if err := r.readChoice(&choice, &delta, false); err != nil {
			return err
		}
		if !choice.Finished() {
			text, toolCall = delta.onlyText()
		}
	}
	if c.usage.Exists() || c.timings.Exists() {
		r.state.noteUsage(c)
	}
	if n == 1 && text.Exists() && !r.lone && len(r.halves) == 0 && !c.usage.IsObject() && !c.timings.Exists() && len(r.Logprobs) == 0 {
		r.rememberChunk(data, text, toolCall, &delta)
	}
	return nil
}

// rememberChunk keeps the chunk as the template for the next one.
func (r *Reader) rememberChunk(data []byte, v jsonx.Value, toolCall bool, d *Delta) {
	switch v {
	case d.Content:
		if r.templateText = &r.Content; !r.opening.Done {
			return // the template skips the check for markup at the beginning
		}
	case d.Refusal:
		r.templateText = &r.Refusal
	case d.Reasoning:
		r.templateText = &r.Reasoning
	default:
		r.templateText = nil
	}
	if r.template.toolCall = toolCall; toolCall == (r.templateText == nil) {
		r.template.remember(data, v)
	}
}

// readChoice reads a choice: its delta, or its message if whole.
func (r *Reader) readChoice(choice *Choice, d *Delta, whole bool) error {
	if err := d.check(); err != nil {
		return err
	}
	r.state.noteChoice(choice)
	if d.Visible() || d.Reasoning.HasText() {
		r.state.deltas++
	}
	end := whole || choice.Finished()
	for _, t := range [...]struct {
		to     *[]byte
		from   jsonx.Value
		member string
	}{{&r.Content, d.Content, MemberContent}, {&r.Refusal, d.Refusal, MemberRefusal}, {&r.Reasoning, d.Reasoning, MemberReasoning}} {
		switch {
		case t.from.IsString():
			*t.to = t.from.Inside()
			if r.lone || len(r.halves) > 0 {
				*t.to = r.halves.piece(textPlace{member: t.member}, *t.to, end)
			}
		case t.from.Exists() && !t.from.IsNull() && t.to != &r.Reasoning:
			return badAnswer(notText)
		}
	}
	if !r.opening.Done {
		r.opening.Add(d.Content)
	}
	alone := len(r.Refusal)+len(r.Reasoning) == 0 && d.ToolCalls.Len() == 0
	if len(r.Content) > 0 && choice.Logprobs.IsObject() && (alone || whole) {
		if list := choice.Logprobs.Get("content"); list.IsArray() && list.Len() > 0 {
			if r.Logprobs = bytes.TrimSpace(list.Inside()); !alone && d.Content.IsString() {
				r.Logprobs = textLogprobs(list, d.Content)
			}
			if r.lone {
				r.Logprobs = bytes.Clone(r.Logprobs)
				jsonx.MendLone(r.Logprobs)
			}
		}
	}
	if err := r.readToolCalls(d.ToolCalls, whole); err != nil {
		return err
	}
	if end && len(r.halves) > 0 {
		r.endTexts()
	}
	if err := r.countBytes(r.textBytes()); err != nil {
		return err
	}
	if choice.Finished() {
		if r.Finish = finishOf(choice.Finish); r.Finish == FinishStop && len(r.ToolCalls) > 0 {
			r.Finish = FinishToolCalls
		}
		if choice.Stop.IsString() {
			r.StopSequence = append(r.StopSequence[:0], choice.Stop.Inside()...)
		}
	}
	return nil
}

// readToolCalls reads the pieces of tool calls in a delta, or the tool calls of a message if whole.
func (r *Reader) readToolCalls(v jsonx.Value, whole bool) error {
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return badAnswer(badToolCall)
		}
		var (
			part toolcall.Part
			ok   bool
		)
		if whole {
			part, ok = r.tools.AddWhole(0, &p)
		} else {
			part, ok = r.tools.AddPiece(0, &p)
		}
		if !ok {
			return badAnswer(tooManyToolCalls)
		}
		r.lastToolCall = part.Position
		if r.lastToolCall == len(r.ToolCalls) {
			r.addToolCall()
		}
		r.Touched = append(r.Touched, r.lastToolCall)
		if err := r.readPiece(&r.ToolCalls[r.lastToolCall], &p, &part); err != nil {
			return err
		}
	}
	return nil
}

// addToolCall makes room for a tool call, with the memory of an older one if there is any.
func (r *Reader) addToolCall() {
	if n := len(r.ToolCalls); n < cap(r.ToolCalls) {
		r.ToolCalls = r.ToolCalls[:n+1]
		return
	}
	r.ToolCalls = append(r.ToolCalls, ToolCall{})
}

// readPiece adds a piece to a tool call.
func (r *Reader) readPiece(to *ToolCall, p *toolcall.Piece, part *toolcall.Part) error {
	before := len(to.ID) + len(to.Name) + len(to.Args)
	if part.TakeID {
		to.ID = append(to.ID, p.ID.Inside()...)
		jsonx.MendLone(to.ID)
	}
	if part.TakeName {
		to.Name = append(to.Name, p.Name.Inside()...)
		jsonx.MendLone(to.Name)
	}
	switch args := p.Args; {
	case args.IsString() && (r.lone || len(r.halves) > 0 || toolcall.HasEscapes(args.Inside())):
		to.Args = append(to.Args, r.halves.piece(textPlace{toolCall: part.Position}, args.Inside(), false)...)
	case args.IsString():
		to.Args = append(to.Args, args.Inside()...)
	case args.IsObject(): // Ollama's native shape
		to.Args = appendArguments(to.Args, args)
	case args.Exists() && !args.IsNull():
		return badAnswer(badToolCall)
	}
	more := len(to.ID) + len(to.Name) + len(to.Args) - before
	r.heldBytes += more
	return r.countBytes(more)
}

// endTexts ends the texts that wait for the second half of a surrogate pair, mostly with a
// replacement character.
func (r *Reader) endTexts() {
	for _, h := range r.halves {
		text := h.mend(h.escape)
		switch h.member {
		case MemberContent:
			r.Content = text
		case MemberRefusal:
			r.Refusal = text
		case MemberReasoning:
			r.Reasoning = text
		default:
			c := &r.ToolCalls[h.toolCall]
			c.Args = append(c.Args, text...)
			r.heldBytes += len(text)
		}
	}
	r.halves = nil
}

// ToolCallID returns the id of tool call i, as the contents of a JSON string: the engine's or,
// where that is none of use, ours (see package toolcall). It does not change once the tool call has
// a name.
func (r *Reader) ToolCallID(i int) []byte {
	c := &r.ToolCalls[i]
	if len(c.ID) == 0 {
		c.ID = toolcall.AppendID(c.ID, r.id, 0, i)
	}
	return c.ID
}

// Complete reports whether the arguments of tool call i are a whole JSON object, so that nothing is
// missing.
func (r *Reader) Complete(i int) bool {
	c := &r.ToolCalls[i]
	if c.checkedLen != len(c.Args) {
		c.checkedLen, c.complete = len(c.Args), isWholeObject(c.Args)
	}
	return c.complete
}

// ReadWhole takes a whole completion, which has been parsed: its first choice, as if it had come in
// one event. Unlike a stream it may leave the finish_reason out. The error is a *BadAnswer. c must
// stay as it is while the texts are in use.
func (r *Reader) ReadWhole(c *Completion) error {
	var (
		choice, first Choice
		delta         Delta
	)
	for it := c.choices.Iter(); it.Next(); {
		if err := choice.ReadMessage(it.Value()); err != nil {
			return err
		}
		if it.Index() == 0 || choice.Index == 0 && first.Index != 0 {
			first = choice
		}
	}
	first.Index = 0
	r.lone = c.lone
	delta.Read(first.Body)
	r.state.usage.Usage = c.Usage().WithPrompt(r.state.promptEstimate)
	return r.readChoice(&first, &delta, true)
}

// HeldToolCalls is about how many bytes ToolCalls hold.
func (r *Reader) HeldToolCalls() int { return r.heldBytes }

// TextSize is the number of bytes of text and of tool calls so far, without reasoning.
func (r *Reader) TextSize() int { return r.size }

// Whole reports whether the choice has its finish_reason: the stream may end well from here on.
func (r *Reader) Finished() bool { return r.state.allFinished(0) }

// Done reports whether nothing more is wanted from upstream; see Stream.Done.
func (r *Reader) Done() bool { return r.state.done(0) }

// Markup returns the word of a model's markup that the text begins with.
func (r *Reader) Markup() translate.Markup { return r.opening.Markup }

// Usage returns the token counts so far; without counts from the engine, an estimate: that of
// SetPromptEstimate, and one token a delta.
func (r *Reader) Usage() translate.Usage {
	if r.state.usage.Estimated { // of a whole completion
		return r.state.usage.Usage
	}
	return r.state.usageSoFar()
}

// End reports whether the stream may end: nil, or ErrNoFinish when the choice lacks its
// finish_reason.
func (r *Reader) End() error {
	if !r.Finished() {
		return translate.ErrNoFinish
	}
	return nil
}

// isWholeObject reports whether arguments, as the contents of a JSON string, are a whole JSON
// object.
func isWholeObject(args []byte) bool {
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

// maxComplete is the limit of the arguments that are parsed: each piece has them parsed again,
// which an engine could make costly.
const maxComplete = 64 << 10
