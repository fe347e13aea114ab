package answer

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream passes the chunks of an engine on to a client of the chat dialect. Each chunk goes out as
// it came, but for these changes: `model` becomes the public id; the first delta of a choice has its
// role; a choice ends once, by one of the words that SDKs with types know (see finish.go); usage is shown only to a client
// that asked for it, and then once, in a chunk of its own, unless it wants it in every chunk;
// reasoning is removed if the client wants none; members that the SDKs need are added where they
// are missing; the pieces of tool calls get the index, id and type by which clients put them
// together, and say a name once; and [DONE] is written by us, once every choice has its
// finish_reason.
//
// A Stream belongs to one call at a time. Call Reset first, then Append for each upstream event,
// and in the end either Finish or Fail. It allocates nothing per event once its buffers have grown.
type Stream struct {
	state    streamState
	options  Options
	out      eventWriter
	identity identity // of the first chunk, for a usage chunk that we make and for another engine's
	handover handover
	held     heldEvent
	template eventTemplate
	tools    toolcall.Assembler
	halves   halves
	opening  translate.Opening
	started  bool
	closed   bool // Finish or Fail has been written
}

var _ translate.Stream = (*Stream)(nil)

// keepBuffer is the size up to which a buffer is kept for the next event or call.
const keepBuffer = 64 << 10

// Reset makes s ready for a call. o is copied; nil only lets go of everything, for a pool.
func (s *Stream) Reset(o *Options) {
	*s = Stream{out: s.out, identity: s.identity, held: s.held, template: s.template, tools: s.tools}
	s.out.reset()
	s.identity.reset()
	s.held.reset()
	s.template.reset()
	s.tools.Reset()
	if o != nil {
		s.options, s.state.promptEstimate = *o, o.PromptTokens
		s.tools.Offer(o.Tools)
		s.tools.Single(o.SingleToolCall)
		s.out.model = jsonx.AppendStringS(s.out.model, o.Model)
	}
}

// Held is about how many bytes s keeps of the stream so far.
func (s *Stream) Held() int { return cap(s.held.event) }

// Append appends the client's form of one upstream event: one event, or nothing. The error is a
// *translate.BadAnswer when the event is malformed, or an *engineerror.Error when the engine
// reports a failure; nothing is appended then, and the stream has failed. Events behind the end are
// ignored. The event's data is not kept.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	waits := len(s.halves) > 0 || s.held.awaitsTimings
	if text, same := s.template.textOf(ev.Data); same && len(ev.Name) == 0 && !waits && !s.Done() {
		if len(text) > 0 || s.template.toolCall {
			s.state.deltas++
			s.started = true
		}
		return s.template.append(dst, text), nil
	}
	c := chunkPool.Get().(*Chunk)
	ok, err := s.state.parseEvent(c, ev, s.options.N)
	if ok {
		dst, err = s.appendChunk(dst, c, ev.Data)
	}
	s.out.edits.Reset()
	c.giveBack()
	return dst, err
}

// appendChunk appends the client's form of the chunk that has just been parsed from data.
func (s *Stream) appendChunk(dst []byte, c *Chunk, data []byte) ([]byte, error) {
	summary, err := s.editChoices(c)
	if err != nil {
		return dst, err
	}
	hasUsage := (c.usage.Exists() || c.timings.Exists()) && s.state.noteUsage(c)
	s.identity.note(c)
	if s.held.awaitsTimings && summary.choices == 0 && c.timings.IsObject() {
		s.held.addTimings(c.timings)
		return s.held.release(dst), nil
	}
	switch {
	case (summary.stripped || summary.again) && !summary.visible: // it carried reasoning alone, or a second end
		return dst, nil
	case summary.choices == 0 && !c.progress && !s.options.IncludeUsage: // clients read choices[0] of any other chunk
		return dst, nil
	}
	if s.options.StripTimings && c.timings.Exists() && !s.Finished() {
		s.out.edits.Delete(c.timings)
	} else {
		BoundIn(&s.out.edits, c.timings)
	}
	usageChunk := summary.choices == 0 && c.usage.IsObject()
	s.editUsage(c, usageChunk)
	if usageChunk {
		if hasUsage && s.options.IncludeUsage {
			s.completeTopLevel(c)
			s.held.event = s.out.append(s.held.event[:0], c, data)
		}
		return dst, nil
	}
	s.completeTopLevel(c)
	s.started = s.started || summary.generated
	dst = s.held.release(dst)
	start := len(dst)
	dst = s.out.append(dst, c, data)
	if !s.options.IncludeUsage && !c.timings.Exists() && s.state.allFinished(s.options.N) {
		s.held.awaitTimings(dst[start:])
		return dst[:start], nil
	}
	if v := summary.onlyText; v.Exists() && !summary.stripped && !c.usage.IsObject() && !c.timings.Exists() {
		s.template.toolCall = summary.toolCall
		s.template.remember(data, v, dst[start:], s.out.offset(c, v.Start()+1))
	}
	return dst, nil
}

// completeTopLevel notes the changes to the top level of a chunk.
func (s *Stream) completeTopLevel(c *Chunk) {
	if s.handover.pinned {
		s.identity.pin(&s.out.edits, &c.topLevel, &s.options)
	}
	s.out.completeTopLevel(c, &s.options, s.handover.pinned)
}

// editUsage notes the changes to the usage of a chunk: the client is shown it in the usage chunk,
// and in others if it asked for that.
func (s *Stream) editUsage(c *Chunk, usageChunk bool) {
	switch edits := &s.out.edits; {
	case !c.usage.Exists():
	case s.state.usage.summed && (usageChunk || s.options.ContinuousUsage && s.state.resumed() && c.usage.IsObject()):
		edits.Set(c.usage, appendUsage(nil, s.state.usage.Usage))
	case usageChunk, s.options.ContinuousUsage:
		BoundIn(edits, c.usage)
	case c.usage.IsNull(): // SGLang has it in every chunk
	case s.options.IncludeUsage:
		edits.Set(c.usage, null)
	default:
		edits.Delete(c.usage)
	}
}

// Finish appends the end of the stream: the usage chunk if the client asked for it, with an
// estimate if the engine sent no counts, then [DONE]. It returns translate.ErrNoFinish, and appends
// nothing, when a choice lacks its finish_reason. A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if !s.Finished() {
		return dst, translate.ErrNoFinish
	}
	if s.closed {
		return dst, nil
	}
	s.closed = true
	dst = s.held.release(dst)
	switch {
	case !s.options.IncludeUsage:
	case len(s.held.event) > 0:
		dst = append(dst, s.held.event...)
	default: // the engine put its counts elsewhere, or sent none
		dst = s.identity.append(append(dst, "data: "...), "chat.completion.chunk", &s.options)
		dst = append(dst, `,"choices":[],"usage":`...)
		dst = append(appendUsage(dst, s.Usage()), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...), nil
}

// Fail appends the event that reports a failure to the client. No [DONE] follows it.
func (s *Stream) Fail(dst []byte, e *apierr.Error) []byte {
	if s.closed {
		return dst
	}
	s.closed = true
	dst = append(s.held.release(dst), "data: "...)
	return append(e.Append(dst), "\n\n"...)
}

// Keepalive appends a comment, which clients ignore. It may stand wherever an event may.
func (s *Stream) Keepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// Usage returns the token counts so far; without counts from the engine, an estimate of one token a
// delta.
func (s *Stream) Usage() translate.Usage {
	u := s.state.usageSoFar()
	u.CutToolCalls = s.tools.Cut()
	return u
}

// Markup returns the word of a model's markup that the text of the first choice begins with.
func (s *Stream) Markup() translate.Markup { return s.opening.Markup }

// Started reports whether a piece of the answer has been written for the client: text, reasoning, a
// refusal, a tool call, or the end of a choice.
func (s *Stream) Started() bool {
	return s.started || s.state.unfinished < s.state.choicesSeen || s.closed
}

// Done reports whether the rest of the upstream's events is not needed: [DONE] came, or every
// choice has ended and the usage is known. Finish reports whether the answer is whole.
func (s *Stream) Done() bool { return s.state.done(s.options.N) }

// Finished reports whether every choice has its finish_reason, so that Finish will succeed.
func (s *Stream) Finished() bool { return s.state.allFinished(s.options.N) }
