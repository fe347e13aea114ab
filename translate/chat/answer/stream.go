package answer

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream passes on the chunks of an engine to a client of the chat dialect, with only these
// changes:
//   - `model` becomes the public id.
//   - The first delta of a choice has a role.
//   - A choice ends once, with a finish_reason that typed SDKs recognize (see finish.go).
//   - Usage is sent in a separate chunk, or in every chunk, only if the client requested it.
//   - Unwanted reasoning is removed.
//   - Missing members that the SDKs need are added.
//   - The pieces of tool calls have an index, id and type, and each name is sent once.
//   - The edge itself writes [DONE] when every choice has a finish_reason.
//
// A Stream belongs to one call at a time. Call Reset first, then Append for each upstream event,
// and finally either Finish or Fail. A Stream does not allocate per event once its buffers have
// grown.
type Stream struct {
	callScopedState
	out      chunkRewriter
	identity answerIdentity // from the first chunk, for the edge's usage chunk and for another engine's chunks
	held     heldEvent
	template eventTemplate
	head     chunkHead
	tools    toolcall.Assembler
}

type callScopedState struct {
	state          streamState
	options        *WriteOptions
	handover       engineHandover
	heldSurrogates heldSurrogates
	opening        translate.MarkupDetector
	started        bool
	closed         bool
}

var _ translate.Stream = (*Stream)(nil)

const maxKeptBuffer = 64 << 10

// noOptions are the options of a Stream without a call.
var noOptions WriteOptions

// Reset prepares the Stream for a call. o must not change until the next Reset. If o is nil, Reset
// only releases memory.
func (s *Stream) Reset(o *WriteOptions) {
	perChoice := s.state.perChoice
	if perChoice != nil {
		*perChoice = usagePerChoice{}
	}
	s.callScopedState = callScopedState{state: streamState{perChoice: perChoice}, options: &noOptions}
	s.out.reset()
	s.identity.reset()
	s.held.reset()
	s.template.reset()
	s.head.reset()
	s.tools.Reset()
	if o != nil {
		s.options, s.state.promptEstimate = o, o.PromptTokens
		s.tools.SetToolNames(o.Tools)
		s.tools.SetSingle(o.SingleToolCall)
		s.out.model = jsonx.AppendStringS(s.out.model, o.Model)
	}
}

// BufferedBytes returns roughly how many bytes the Stream buffers.
func (s *Stream) BufferedBytes() int { return cap(s.held.event) }

// Append appends the client's event for one upstream event, if there is one. If the event is
// malformed, the error is a *translate.BadAnswerError. If the engine reports a failure, it is an
// *engineerror.Error. If Append returns an error, it appends nothing, and the stream has failed.
// Append does not retain the event's data.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	waits := len(s.heldSurrogates) > 0 || s.held.awaitsTimings
	if len(ev.Name) == 0 && !waits && !s.IsDone() {
		if text, same := s.template.matchText(ev.Data); same {
			if len(text) > 0 || s.template.toolCall {
				s.state.recordOutput(len(text))
				s.started = true
			}
			return s.template.append(dst, text), nil
		}
		if out, ok := s.appendSimpleChunk(dst, ev.Data); ok {
			return out, nil
		}
	}
	c := chunkPool.Get().(*Chunk)
	ok, err := s.state.parseEvent(c, ev, s.options.N)
	if ok {
		dst, err = s.appendChunk(dst, c, ev.Data)
	}
	s.out.edits.Reset()
	c.recycle()
	return dst, err
}

func (s *Stream) appendChunk(dst []byte, c *Chunk, data []byte) ([]byte, error) {
	summary, err := s.editChoices(c)
	if err != nil {
		return dst, err
	}
	hasUsage := (c.usage.Exists() || c.timings.Exists()) && s.state.recordUsage(c)
	s.identity.record(c)
	if s.held.awaitsTimings && summary.choices == 0 && c.timings.IsObject() {
		s.held.addTimings(c.timings)
		return s.held.appendHeld(dst), nil
	}
	switch {
	case (summary.stripped || summary.repeatsFinish) && !summary.visible: // the chunk contains only unwanted reasoning or a second end
		return dst, nil
	case summary.choices == 0 && !c.hasProgress && !s.options.IncludeUsage: // clients read choices[0] of every chunk except the usage chunk
		return dst, nil
	}
	if s.options.StripTimings && c.timings.Exists() && !s.IsFinished() {
		s.out.edits.Delete(c.timings)
	} else {
		BoundNumbersIn(&s.out.edits, c.timings)
	}
	usageChunk := summary.choices == 0 && c.usage.IsObject()
	s.editUsage(c, usageChunk)
	if usageChunk {
		if hasUsage && s.options.IncludeUsage {
			s.completeTopLevelMembers(c)
			s.held.event = s.out.append(s.held.event[:0], c, data)
		}
		return dst, nil
	}
	s.completeTopLevelMembers(c)
	s.started = s.started || summary.generated
	dst = s.held.appendHeld(dst)
	start := len(dst)
	dst = s.out.append(dst, c, data)
	if !s.options.IncludeUsage && !c.timings.Exists() && s.state.allFinished(s.options.N) {
		s.held.holdForTimings(dst[start:])
		return dst[:start], nil
	}
	if v := summary.onlyText; v.Exists() && !summary.stripped && !c.usage.IsObject() && !c.timings.Exists() {
		s.template.toolCall = summary.toolCall
		s.template.store(data, v.Start()+1, v.End()-1, dst[start:], s.out.toEventOffset(c, v.Start()+1))
	}
	return dst, nil
}

func (s *Stream) completeTopLevelMembers(c *Chunk) {
	if s.handover.pinned {
		s.identity.pin(&s.out.edits, &c.topLevelMembers, s.options)
	}
	s.out.completeTopLevelMembers(c, s.options, s.handover.pinned)
}

func (s *Stream) editUsage(c *Chunk, usageChunk bool) {
	switch edits := &s.out.edits; {
	case !c.usage.Exists():
	case s.state.usage.summed && (usageChunk || s.options.ContinuousUsage && s.state.isResumed() && c.usage.IsObject()):
		edits.Set(c.usage, appendUsage(nil, s.state.usage.Usage))
	case usageChunk, s.options.ContinuousUsage:
		BoundNumbersIn(edits, c.usage)
	case c.usage.IsNull(): // SGLang sends a null usage in every chunk
	case s.options.IncludeUsage:
		edits.Set(c.usage, nullValue)
	default:
		edits.Delete(c.usage)
	}
}

// Finish appends the usage chunk, if the client requested it, and [DONE]. If a choice lacks a
// finish_reason, Finish appends nothing and returns translate.ErrNoFinish. A second call appends
// nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if !s.IsFinished() {
		return dst, translate.ErrNoFinish
	}
	if s.closed {
		return dst, nil
	}
	s.closed = true
	dst = s.held.appendHeld(dst)
	switch {
	case !s.options.IncludeUsage:
	case len(s.held.event) > 0:
		dst = append(dst, s.held.event...)
	default: // the engine sent no usage chunk
		dst = s.identity.append(append(dst, "data: "...), "chat.completion.chunk", s.options)
		dst = append(dst, `,"choices":[],"usage":`...)
		dst = append(appendUsage(dst, s.Usage()), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...), nil
}

// AppendFailure appends the event that reports a failure, without [DONE].
func (s *Stream) AppendFailure(dst []byte, e *apierr.Error) []byte {
	if s.closed {
		return dst
	}
	s.closed = true
	dst = append(s.held.appendHeld(dst), "data: "...)
	return append(e.AppendBody(dst), "\n\n"...)
}

// AppendKeepalive appends a comment, which clients ignore.
func (s *Stream) AppendKeepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// Usage returns the token counts so far, or an estimate.
func (s *Stream) Usage() translate.Usage {
	u := s.state.usageSoFar()
	u.CutToolCalls = s.tools.HasSurplus()
	return u
}

// UnparsedMarkup returns the markup word at the start of the first choice's text, if any.
func (s *Stream) UnparsedMarkup() translate.Markup { return s.opening.Markup }

// HasStarted reports whether any part of the answer has been written for the client.
func (s *Stream) HasStarted() bool {
	return s.started || s.state.unfinished < s.state.choicesSeen || s.closed
}

// IsDone reports whether the caller can ignore later upstream events, because [DONE] has arrived,
// or because every choice has ended and the usage is known. Only Finish shows whether the answer is
// complete.
func (s *Stream) IsDone() bool { return s.state.isDone(s.options.N) }

// IsFinished reports whether every choice has a finish_reason.
func (s *Stream) IsFinished() bool { return s.state.allFinished(s.options.N) }
