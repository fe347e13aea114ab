package answer

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// The members of a delta that contain texts.
const (
	memberContent   = "content"
	memberRefusal   = "refusal"
	memberReasoning = "reasoning_content"
)

// Reader reads an engine's answer for a translator to another dialect. It reads the first choice,
// because the other dialects have only one. Some hosts split the text and the tool calls into two
// choices. Therefore, if the first choice ends without tool calls, the Reader uses the tool calls
// of the second choice.
//
//	s.Reset(id, promptTokens)
//	ok, err := s.Read(ev)      // for each event of a stream; then use Content, ToolCalls and so on
//	err := s.ReadCompletion(c) // or once for a whole completion
//
// Texts are the contents of JSON strings, with the engine's escapes. They can be copied unchanged
// into another JSON string, and never contain a line end.
//
// The zero value is ready for use. A Reader belongs to one call at a time. Once its buffers have
// grown, it does not allocate per event.
type Reader struct {
	state        streamState
	template     chunkTemplate
	templateText *[]byte // the text to which template applies; nil means the arguments of the last tool call

	// Content, Refusal and Reasoning are the texts in the last event. They are slices of the event
	// and may be empty.
	Content, Refusal, Reasoning []byte
	// Logprobs contains the log probabilities for Content as comma-separated JSON elements. If an
	// event contains anything other than content, Logprobs is empty, because the list would reveal
	// tokens that the client does not see.
	Logprobs  []byte
	ToolCalls ToolCalls
	// Finish says how the choice ended. FinishNone means that it has not ended.
	Finish Finish
	// StopSequence is the stop sequence that ended the answer according to the engine, or empty.
	StopSequence []byte

	heldSurrogates   heldSurrogates
	opening          translate.MarkupDetector
	hasLoneSurrogate bool // a string of the event contains half of a surrogate pair
	answerBytes      int  // bytes of text and of tool calls, for the limit
	secondChoice     int
}

// Reset prepares the Reader for another answer. If the engine sends no usable tool call ids, the
// Reader derives ids from the argument id. promptTokens is the edge's estimate of the prompt's
// size.
func (r *Reader) Reset(id string, promptTokens int) {
	*r = Reader{template: r.template, ToolCalls: r.ToolCalls, StopSequence: r.StopSequence[:0]}
	r.template.reset()
	r.ToolCalls.reset(id)
	r.state.promptEstimate = promptTokens
}

// SetTools sets the names of the request's tools, and whether the request allows only a single tool
// call.
func (r *Reader) SetTools(names toolcall.ToolNames, single bool) {
	r.ToolCalls.tools.SetToolNames(names)
	r.ToolCalls.tools.SetSingle(single)
}

// Read reads one event of the engine's stream. It returns false if the event contains nothing for
// the client. If the event is malformed or the answer is too large, the error is a
// *translate.BadAnswerError. If the engine reports a failure, it is an *engineerror.Error.
func (r *Reader) Read(ev sse.Event) (bool, error) {
	r.Content, r.Refusal, r.Reasoning, r.Logprobs, r.ToolCalls.Touched = nil, nil, nil, nil, r.ToolCalls.Touched[:0]
	if text, same := r.template.matchText(ev.Data); same && len(ev.Name) == 0 && len(r.heldSurrogates) == 0 && !r.IsDone() {
		return true, r.readTextMatchingTemplate(text)
	}
	c := chunkPool.Get().(*Chunk)
	defer c.recycle()
	ok, err := r.state.parseEvent(c, ev, 0)
	if !ok {
		return false, err
	}
	err = r.read(c, ev.Data)
	return err == nil && r.state.choicesSeen > 0, err // the answer starts with the first choice
}

func (r *Reader) readTextMatchingTemplate(text []byte) error {
	if r.templateText != nil {
		if len(text) == 0 {
			return nil
		}
		*r.templateText = text
		r.state.recordOutput(len(text))
		return r.countBytes(r.textByteCount())
	}
	r.state.recordOutput(len(text))
	r.ToolCalls.appendToLastArguments(text)
	return r.countBytes(len(text))
}

func (r *Reader) textByteCount() int { return len(r.Content) + len(r.Refusal) + len(r.Logprobs) }

func (r *Reader) countBytes(n int) error {
	if r.answerBytes += n; r.answerBytes > translate.MaxAnswerBytes {
		return newBadAnswer(translate.ReasonTooLarge)
	}
	return nil
}

func (r *Reader) read(c *Chunk, data []byte) error {
	r.template.forget()
	r.hasLoneSurrogate = c.hasLoneSurrogate
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
			if err := r.readSecondChoice(&choice, &delta, false); err != nil {
				return err
			}
			continue
		}
		if err := r.readChoice(&choice, &delta, false); err != nil {
			return err
		}
		if !choice.HasFinished() {
			text, toolCall = delta.findOnlyText()
		}
	}
	if c.usage.Exists() || c.timings.Exists() {
		r.state.recordUsage(c)
	}
	counts := c.usage.IsObject() || c.timings.Exists()
	waits := r.hasLoneSurrogate || len(r.heldSurrogates) > 0 || r.ToolCalls.tools.HasHeldNames() || r.ToolCalls.tools.HasSurplus()
	if n == 1 && text.Exists() && !waits && !counts && len(r.Logprobs) == 0 {
		r.storeTemplate(data, text, toolCall, &delta)
	}
	return nil
}

func (r *Reader) storeTemplate(data []byte, v jsonx.Value, toolCall bool, d *Delta) {
	switch v {
	case d.Content:
		if r.templateText = &r.Content; !r.opening.Done {
			return // the template would skip the check for markup
		}
	case d.Refusal:
		r.templateText = &r.Refusal
	case d.Reasoning:
		r.templateText = &r.Reasoning
	default:
		r.templateText = nil
	}
	if r.template.toolCall = toolCall; toolCall == (r.templateText == nil) {
		r.template.store(data, v.Start()+1, v.End()-1, 0)
	}
}

func (r *Reader) readChoice(choice *Choice, d *Delta, whole bool) error {
	if err := d.check(); err != nil {
		return err
	}
	r.state.recordChoice(choice)
	if d.HasVisibleOutput() || d.Reasoning.HasText() {
		r.state.recordOutput(d.generatedBytes())
	}
	end := whole || choice.HasFinished()
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
			*t.to = t.from.RawContents()
			if r.hasLoneSurrogate || len(r.heldSurrogates) > 0 {
				*t.to = r.heldSurrogates.nextPiece(textLocation{member: t.member}, *t.to, end)
			}
		case t.to == &r.Content && t.from.IsArray():
		case t.from.Exists() && !t.from.IsNull() && t.to != &r.Reasoning:
			return newBadAnswer(reasonNotText)
		}
	}
	if d.Content.IsArray() {
		r.joinParts(d.Content)
	}
	if !r.opening.Done {
		r.opening.AddValue(d.Content)
	}
	r.readLogprobs(choice, d, whole)
	n, err := r.ToolCalls.read(d.ToolCalls, whole, r.hasLoneSurrogate, &r.heldSurrogates)
	if tooLarge := r.countBytes(n); tooLarge != nil {
		return tooLarge
	}
	if err != nil {
		return err
	}
	if end {
		r.ToolCalls.applyReleased(r.ToolCalls.tools.ReleaseHeldNames(0))
	}
	if end && len(r.heldSurrogates) > 0 {
		r.completeSurrogatePairs()
	}
	if err := r.countBytes(r.textByteCount()); err != nil {
		return err
	}
	if choice.HasFinished() {
		if r.Finish == FinishNone { // some engines send the end twice
			r.Finish, _ = parseFinish(choice.Finish)
		}
		if r.Finish == FinishStop && len(r.ToolCalls.List) > 0 {
			r.Finish = FinishToolCalls
		}
		if choice.Stop.IsString() {
			r.StopSequence = append(r.StopSequence[:0], choice.Stop.RawContents()...)
		}
	}
	return nil
}

// readSecondChoice reads the tool calls of a second choice, but only if the first choice has ended
// and no third choice has tool calls.
func (r *Reader) readSecondChoice(choice *Choice, d *Delta, whole bool) error {
	ours := r.secondChoice == choice.Index
	if !ours && (!whole && !r.IsFinished() || len(r.ToolCalls.List) > 0 || !d.ToolCalls.Index(0).Exists()) {
		return nil
	}
	if err := d.check(); err != nil {
		return err
	}
	r.secondChoice = choice.Index
	n, err := r.ToolCalls.read(d.ToolCalls, whole, r.hasLoneSurrogate, &r.heldSurrogates)
	if err == nil {
		err = r.countBytes(n)
	}
	if err != nil {
		return err
	}
	if whole || choice.HasFinished() {
		r.ToolCalls.applyReleased(r.ToolCalls.tools.ReleaseHeldNames(0))
	}
	if r.Finish == FinishStop { // the end of the first choice
		r.Finish = FinishToolCalls
	}
	return nil
}

func (r *Reader) joinParts(content jsonx.Value) {
	var text, thoughts []byte
	_ = visitTextParts(content, func(piece []byte, thought bool) error {
		if thought {
			thoughts = append(thoughts, piece...)
		} else {
			text = append(text, piece...)
		}
		return nil
	})
	if r.hasLoneSurrogate {
		jsonx.ReplaceLoneSurrogates(text)
		jsonx.ReplaceLoneSurrogates(thoughts)
	}
	if r.Content = text; len(thoughts) > 0 {
		r.Reasoning = thoughts
	}
}

func (r *Reader) readLogprobs(choice *Choice, d *Delta, whole bool) {
	alone := len(r.Refusal)+len(r.Reasoning) == 0 && d.ToolCalls.Len() == 0
	if len(r.Content) == 0 || !alone && !whole {
		return
	}
	list := choice.Logprobs.Get("content")
	if !list.IsArray() || list.Len() == 0 {
		return
	}
	if r.Logprobs = bytes.TrimSpace(list.RawContents()); !alone && d.Content.IsString() {
		r.Logprobs = textLogprobs(list, d.Content)
	}
	if r.hasLoneSurrogate {
		r.Logprobs = bytes.Clone(r.Logprobs)
		jsonx.ReplaceLoneSurrogates(r.Logprobs)
	}
}

// completeSurrogatePairs completes the texts that lack the second half of a surrogate pair. It
// usually appends U+FFFD.
func (r *Reader) completeSurrogatePairs() {
	for _, h := range r.heldSurrogates {
		text := h.replaceLone(h.escape)
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
	r.heldSurrogates = nil
}

// ReadCompletion reads the first choice of a completion, as if it had arrived in one event. The
// finish_reason may be missing. The error is a *translate.BadAnswerError. While the texts are in
// use, the completion must not change.
func (r *Reader) ReadCompletion(c *ChatCompletion) error {
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
	r.hasLoneSurrogate = c.top.hasLoneSurrogate
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
		choice.Index = max(1, it.Index()) // some hosts number both choices 0
		if err := r.readSecondChoice(&choice, &delta, true); err != nil {
			return err
		}
	}
	return nil
}

// TextSize returns the number of bytes of text and of tool calls so far.
func (r *Reader) TextSize() int { return r.answerBytes }

// IsFinished reports whether the choice has a finish_reason.
func (r *Reader) IsFinished() bool { return r.state.allFinished(0) }

// IsDone reports whether the caller can ignore later upstream events.
func (r *Reader) IsDone() bool { return r.state.isDone(0) }

// UnparsedMarkup returns the markup word at the start of the text, if any.
func (r *Reader) UnparsedMarkup() translate.Markup { return r.opening.Markup }

// Usage returns the token counts so far. If the engine has sent none, it returns the edge's
// estimate.
func (r *Reader) Usage() translate.Usage {
	u := r.state.usage.Usage
	if !u.Estimated { // the usage is not an estimate from a whole completion
		u = r.state.usageSoFar()
	}
	u.Finish, u.CutToolCalls = r.Finish, r.ToolCalls.tools.HasSurplus()
	return u
}

// CheckFinished returns ErrNoFinish if the choice lacks a finish_reason.
func (r *Reader) CheckFinished() error {
	if !r.IsFinished() {
		return translate.ErrNoFinish
	}
	return nil
}
