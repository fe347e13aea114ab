package answer

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// The members of a delta that hold texts.
const (
	memberContent   = "content"
	memberRefusal   = "refusal"
	memberReasoning = "reasoning_content"
)

// Reader reads an engine's answer for a translator to another dialect: the contents of each event,
// the tool calls one by one, the end, and the counts. It reads the first choice, because the other
// dialects have only one choice. Some hosts put text and tool calls into two choices of one answer
// and mean both. The other choice's tool calls therefore count if the first choice has ended
// without any.
//
//	s.Reset(id)
//	ok, err := s.Read(ev)    // for each event of a stream; then look at Content, ToolCalls and so on
//	err := s.ReadWhole(c)    // or once for a whole completion
//
// Texts are the contents of JSON strings, without quotes and with the engine's escapes. They are
// valid unchanged in any other JSON string, and never contain a line end.
//
// The zero value is ready. A Reader belongs to one call at a time. Once its buffers have
// grown it does not allocate per event.
type Reader struct {
	state        streamState
	template     template
	templateText *[]byte // the text to which template applies; nil: the arguments of the last tool call

	// Content, Refusal and Reasoning are the texts in the last event, which may be empty. They are
	// slices of the event.
	Content, Refusal, Reasoning []byte
	// Logprobs holds the log probabilities for the last event's Content, as JSON elements with
	// commas. It is empty if the event has anything other than content, because the log
	// probabilities would reveal tokens that are not shown. For a whole answer it holds the log
	// probabilities of the tokens that make up the content.
	Logprobs []byte
	// ToolCalls holds the tool calls so far.
	ToolCalls ToolCalls
	// Finish is how the choice ended; FinishNone: it has not ended.
	Finish Finish
	// StopSequence is the stop sequence that ended the answer, as reported by the engine; nil:
	// none.
	StopSequence []byte

	halves  halves
	opening translate.Opening
	lone    bool // a string of the event contains half of a surrogate pair
	size    int  // bytes of text and of tool calls, for the limit
	beside  int  // the choice whose tool calls are read; see readBeside
}

// Reset prepares r for another answer and releases the previous one. id is the edge's id for the
// answer. Tool call ids are derived from it if the engine gives no usable ids. promptTokens is the
// edge's estimate of the prompt, for an engine that sends no counts.
func (r *Reader) Reset(id string, promptTokens int) {
	*r = Reader{template: r.template, ToolCalls: r.ToolCalls, StopSequence: r.StopSequence[:0]}
	r.template.reset()
	r.ToolCalls.reset(id)
	r.state.promptEstimate = promptTokens
}

// Offer sets the names of the request's tools, and whether the request allows only a single tool
// call; see toolcall.Assembler.
func (r *Reader) Offer(names toolcall.Names, single bool) {
	r.ToolCalls.tools.Offer(names)
	r.ToolCalls.tools.Single(single)
}

// Read reads one event of the engine's stream. It reports whether the event was a chunk of an
// answer that has started. Otherwise the event contains nothing for the client. The error is a
// *translate.BadAnswer if the event is malformed or the answer too large, or an *engineerror.Error
// if the engine reports a failure. Events after the end are ignored.
func (r *Reader) Read(ev sse.Event) (bool, error) {
	r.Content, r.Refusal, r.Reasoning, r.Logprobs, r.ToolCalls.Touched = nil, nil, nil, nil, r.ToolCalls.Touched[:0]
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
	return err == nil && r.state.choicesSeen > 0, err // there is no answer before its first choice
}

// readRepeated reads a chunk that differs from the last one only in its text.
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
	r.ToolCalls.continueLast(text)
	return r.countBytes(len(text))
}

// textBytes returns the number of bytes of the event's text that a translator may have to keep.
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
		text     jsonx.Value // the only text that may differ in the next chunk
		toolCall bool
		delta    Delta
		n        int
	)
	for it := c.choices.Iter(); it.Next(); n++ {
		if err := choice.ReadDelta(it.Value()); err != nil {
			return err
		}
		delta.Read(choice.Body)
		if choice.Index != 0 {
			if err := r.readBeside(&choice, &delta, false); err != nil {
				return err
			}
			continue
		}
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
	counts := c.usage.IsObject() || c.timings.Exists()
	waits := r.lone || len(r.halves) > 0 || r.ToolCalls.tools.Holds() || r.ToolCalls.tools.Cut()
	if n == 1 && text.Exists() && !waits && !counts && len(r.Logprobs) == 0 {
		r.rememberChunk(data, text, toolCall, &delta)
	}
	return nil
}

// rememberChunk keeps the chunk as the template for the next chunk.
func (r *Reader) rememberChunk(data []byte, v jsonx.Value, toolCall bool, d *Delta) {
	switch v {
	case d.Content:
		if r.templateText = &r.Content; !r.opening.Done {
			return // otherwise the template would skip the check for markup
		}
	case d.Refusal:
		r.templateText = &r.Refusal
	case d.Reasoning:
		r.templateText = &r.Reasoning
	default:
		r.templateText = nil
	}
	if r.template.toolCall = toolCall; toolCall == (r.templateText == nil) {
		r.template.remember(data, v.Start()+1, v.End()-1)
	}
}

// readChoice reads a choice: its delta or, if whole, its message.
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
	}{
		{&r.Content, d.Content, memberContent},
		{&r.Refusal, d.Refusal, memberRefusal},
		{&r.Reasoning, d.Reasoning, memberReasoning},
	} {
		switch {
		case t.from.IsString():
			*t.to = t.from.Inside()
			if r.lone || len(r.halves) > 0 {
				*t.to = r.halves.piece(textPlace{member: t.member}, *t.to, end)
			}
		case t.to == &r.Content && t.from.IsArray():
		case t.from.Exists() && !t.from.IsNull() && t.to != &r.Reasoning:
			return badAnswer(notText)
		}
	}
	if d.Content.IsArray() {
		r.joinParts(d.Content)
	}
	if !r.opening.Done {
		r.opening.Add(d.Content)
	}
	r.readLogprobs(choice, d, whole)
	n, err := r.ToolCalls.read(d.ToolCalls, whole, r.lone, &r.halves)
	if tooLarge := r.countBytes(n); tooLarge != nil {
		return tooLarge
	}
	if err != nil {
		return err
	}
	if end {
		r.ToolCalls.takeReleased(r.ToolCalls.tools.Release(0))
	}
	if end && len(r.halves) > 0 {
		r.endTexts()
	}
	if err := r.countBytes(r.textBytes()); err != nil {
		return err
	}
	if choice.Finished() {
		if r.Finish == FinishNone { // some engines send the end twice
			r.Finish, _ = finishOf(choice.Finish)
		}
		if r.Finish == FinishStop && len(r.ToolCalls.List) > 0 {
			r.Finish = FinishToolCalls
		}
		if choice.Stop.IsString() {
			r.StopSequence = append(r.StopSequence[:0], choice.Stop.Inside()...)
		}
	}
	return nil
}

// readBeside reads the tool calls of a choice other than the first, if the first choice has ended
// and no other choice has tool calls.
func (r *Reader) readBeside(choice *Choice, d *Delta, whole bool) error {
	ours := r.beside == choice.Index
	if !ours && (!whole && !r.Finished() || len(r.ToolCalls.List) > 0 || !d.ToolCalls.Index(0).Exists()) {
		return nil
	}
	if err := d.check(); err != nil {
		return err
	}
	r.beside = choice.Index
	n, err := r.ToolCalls.read(d.ToolCalls, whole, r.lone, &r.halves)
	if err == nil {
		err = r.countBytes(n)
	}
	if err != nil {
		return err
	}
	if whole || choice.Finished() {
		r.ToolCalls.takeReleased(r.ToolCalls.tools.Release(0))
	}
	if r.Finish == FinishStop { // the end of the first choice
		r.Finish = FinishToolCalls
	}
	return nil
}

// joinParts joins the texts of a content that is a list of parts into one text, and its thoughts
// into the reasoning.
func (r *Reader) joinParts(content jsonx.Value) {
	var text, thoughts []byte
	_ = eachPart(content, func(piece []byte, thought bool) error {
		if thought {
			thoughts = append(thoughts, piece...)
		} else {
			text = append(text, piece...)
		}
		return nil
	})
	if r.lone {
		jsonx.MendLone(text)
		jsonx.MendLone(thoughts)
	}
	if r.Content = text; len(thoughts) > 0 {
		r.Reasoning = thoughts
	}
}

// readLogprobs reads the log probabilities of a choice's content.
func (r *Reader) readLogprobs(choice *Choice, d *Delta, whole bool) {
	alone := len(r.Refusal)+len(r.Reasoning) == 0 && d.ToolCalls.Len() == 0
	if len(r.Content) == 0 || !alone && !whole {
		return
	}
	list := choice.Logprobs.Get("content")
	if !list.IsArray() || list.Len() == 0 {
		return
	}
	if r.Logprobs = bytes.TrimSpace(list.Inside()); !alone && d.Content.IsString() {
		r.Logprobs = textLogprobs(list, d.Content)
	}
	if r.lone {
		r.Logprobs = bytes.Clone(r.Logprobs)
		jsonx.MendLone(r.Logprobs)
	}
}

// endTexts ends the texts that still wait for the second half of a surrogate pair, usually with a
// replacement character.
func (r *Reader) endTexts() {
	for _, h := range r.halves {
		text := h.mend(h.escape)
		switch h.member {
		case memberContent:
			r.Content = text
		case memberRefusal:
			r.Refusal = text
		case memberReasoning:
			r.Reasoning = text
		default:
			r.ToolCalls.addArgs(h.toolCall, text)
		}
	}
	r.halves = nil
}

// ReadWhole reads the first choice of a whole, parsed completion, as if it had arrived in one
// event. Unlike in a stream, the finish_reason may be missing. The error is a *translate.BadAnswer.
// The completion must not change while the texts are in use.
func (r *Reader) ReadWhole(c *Completion) error {
	var (
		choice, first Choice
		delta         Delta
	)
	for it := c.top.choices.Iter(); it.Next(); {
		if err := choice.ReadMessage(it.Value()); err != nil {
			return err
		}
		if it.Index() == 0 || choice.Index == 0 && first.Index != 0 {
			first = choice
		}
	}
	first.Index = 0
	r.lone = c.top.lone
	delta.Read(first.Body)
	r.state.usage.Usage = c.Usage().WithPrompt(r.state.promptEstimate)
	if err := r.readChoice(&first, &delta, true); err != nil {
		return err
	}
	for it := c.top.choices.Iter(); it.Next() && len(r.ToolCalls.List) == 0; {
		if err := choice.ReadMessage(it.Value()); err != nil {
			return err
		}
		delta.Read(choice.Body)
		choice.Index = max(1, it.Index()) // some hosts give both the number 0
		if err := r.readBeside(&choice, &delta, true); err != nil {
			return err
		}
	}
	return nil
}

// TextSize returns the number of bytes of text and of tool calls so far, without reasoning.
func (r *Reader) TextSize() int { return r.size }

// Finished reports whether the choice has its finish_reason. The stream may then end successfully.
func (r *Reader) Finished() bool { return r.state.allFinished(0) }

// Done reports whether the stream needs nothing more from the upstream; see Stream.Done.
func (r *Reader) Done() bool { return r.state.done(0) }

// Markup returns the kind of markup with which the text starts.
func (r *Reader) Markup() translate.Markup { return r.opening.Markup }

// Usage returns the token counts so far. If the engine has sent none, it returns the edge's
// estimate of the prompt and one token for each delta.
func (r *Reader) Usage() translate.Usage {
	u := r.state.usage.Usage
	if !u.Estimated { // the usage is not from a whole completion
		u = r.state.usageSoFar()
	}
	u.Finish, u.CutToolCalls = r.Finish, r.ToolCalls.tools.Cut()
	return u
}

// End returns nil if the stream may end, or ErrNoFinish if the choice lacks its finish_reason.
func (r *Reader) End() error {
	if !r.Finished() {
		return translate.ErrNoFinish
	}
	return nil
}
