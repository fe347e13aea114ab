package messages

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream writes the answer to one request: either the whole message (AppendCompletion), or the
// events of a stream, which it makes from an engine's chat stream:
//
//	message_start,
//	(content_block_start, content_block_delta…, content_block_stop)…,
//	message_delta, message_stop
//
// After a failure, error is the last event. Only one block is open at a time. Blocks are numbered
// from 0.
//
// The zero value is ready for Reset. A Stream belongs to one call at a time. It does not allocate
// per event once its buffers have grown.
type Stream struct {
	RequestInfo RequestInfo // filled by Request.Decode

	identity  dialects.AnswerIdentity
	reader    answer.Reader
	phase     streamPhase
	queue     blockQueue
	toolCalls []toolCallProgress // by position in reader.ToolCalls
	block     blockWriter
	input     toolInput
}

var _ translate.Stream = (*Stream)(nil)

type streamPhase uint8

const (
	streamPhaseIdle    streamPhase = iota // no event has been sent
	streamPhaseStarted                    // message_start has been sent
	streamPhaseClosed                     // message_stop or error has been sent
)

type toolCallProgress struct {
	sentBytes int // number of argument bytes that have been sent
	closed    bool
}

// Reset prepares the Stream for an answer to the request in RequestInfo.
func (s *Stream) Reset(i *dialects.AnswerIdentity) {
	s.identity, s.phase = *i, streamPhaseIdle
	s.block.index = 0
	s.queue.reset()
	s.PrepareForNextEngine()
}

// HasStarted reports whether a block has started.
func (s *Stream) HasStarted() bool {
	return s.block.index > 0 || len(s.queue) > 0 && s.queue[0].open || s.phase == streamPhaseClosed
}

// PrepareForNextEngine prepares for events from another engine. It may be called after
// message_start or while a text block is open.
func (s *Stream) PrepareForNextEngine() {
	if s.HasStarted() {
		s.reader.Resume()
		return
	}
	s.queue.reset()
	s.reader.Reset(s.identity.ID, s.identity.PromptTokens)
	s.reader.SetTools(s.identity.Tools, s.identity.SingleCall)
	s.input.reset()
	s.toolCalls = s.toolCalls[:0]
}

// Release releases all data of the call.
func (s *Stream) Release() {
	s.RequestInfo.reset()
	s.Reset(&dialects.AnswerIdentity{})
}

// Append appends the client's events for one event from the engine. The error is a
// *translate.BadAnswerError or a *engineerror.Error. If Append returns an error, it appends
// nothing, and the caller may only call AppendFailure. Append does not retain the event's data.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := s.reader.Read(ev)
	if !ok || err != nil {
		return dst, err
	}
	out := dst
	if s.phase == streamPhaseIdle {
		out = appendStart(out, &s.identity, s.reader.Usage())
	}
	if how := s.RequestInfo.thinking; len(s.reader.Reasoning) > 0 && how != thinkingHidden {
		out = s.addText(out, how.blockContentKind(), s.reader.Reasoning)
	}
	if len(s.reader.Content) > 0 {
		out = s.addText(out, kindText, s.reader.Content)
	}
	if len(s.reader.Refusal) > 0 {
		out = s.addText(out, kindText, s.reader.Refusal)
	}
	for _, i := range s.reader.ToolCalls.Touched {
		if err := s.updateToolCall(i); err != nil {
			return dst, err
		}
	}
	if len(s.queue) > 1 || len(s.reader.ToolCalls.Touched) > 0 {
		if out, err = s.appendReady(out); err != nil {
			return dst, err
		}
	}
	s.phase = max(s.phase, streamPhaseStarted) // after an error, the client has not been sent message_start
	return out, nil
}

// appendStart appends message_start. Clients replace the counts in this event with later counts.
func appendStart(dst []byte, identity *dialects.AnswerIdentity, u translate.Usage) []byte {
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
	dst = jsonx.AppendStringS(dst, identity.ID)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = jsonx.AppendStringS(dst, identity.Model)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	if !u.Known {
		u = translate.Usage{}
	}
	dst = appendUsage(dst, u)
	return append(dst, "}}\n\n"...)
}

// addText adds a piece of text. If the block of this kind is open and no other block is held back,
// addText sends the piece immediately.
func (s *Stream) addText(dst []byte, k contentKind, text []byte) []byte {
	n := len(s.queue)
	same := n > 0 && s.queue[n-1].kind == k
	if !same {
		s.queue.push(k)
		n++
	}
	last := &s.queue[n-1]
	if n == 1 && !same && s.RequestInfo.thinking.canStream(k) {
		dst = s.block.beginTextBlock(dst, last)
	}
	if k != kindSealed && n == 1 && last.open {
		return s.block.appendDelta(dst, text)
	}
	last.storeText(text)
	return dst
}

// updateToolCall processes a change of tool call i. It queues new tool calls in order of first
// appearance.
func (s *Stream) updateToolCall(i int) error {
	if i == len(s.toolCalls) {
		s.toolCalls = append(s.toolCalls, toolCallProgress{})
		s.queue.push(kindToolCall).toolCall = i
		return nil
	}
	if c := &s.toolCalls[i]; c.closed {
		args := s.reader.ToolCalls.List[i].Args
		if _, more := firstNonSpace(args[c.sentBytes:]); more {
			return errAfterArguments
		}
		c.sentBytes = len(args)
	}
	return nil
}

// appendReady appends the remaining text of the first block and, once that block is complete, later
// blocks.
func (s *Stream) appendReady(dst []byte) ([]byte, error) {
	for len(s.queue) > 0 {
		p := &s.queue[0]
		dst = s.flushText(dst, p)
		complete := p.kind != kindToolCall || s.reader.Finish != answer.FinishNone ||
			p.open && s.reader.ToolCalls.IsComplete(p.toolCall)
		if len(s.queue) == 1 || !complete {
			break
		}
		var err error
		if dst, err = s.endBlock(dst, p); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// flushText appends the unsent text of a block and, if necessary, opens the block first. It cannot
// open a tool call that has no name yet.
func (s *Stream) flushText(dst []byte, p *streamBlock) []byte {
	if p.kind == kindSealed {
		return dst
	}
	if p.kind != kindToolCall {
		if !p.open {
			dst = s.block.beginTextBlock(dst, p)
		}
		if len(p.text) > 0 {
			dst = s.block.appendDelta(dst, p.text)
			p.text = p.text[:0]
		}
		return dst
	}
	t, c := &s.reader.ToolCalls.List[p.toolCall], &s.toolCalls[p.toolCall]
	if !p.open {
		if len(t.Name) == 0 {
			return dst
		}
		dst = s.block.beginToolCall(dst, p, s.reader.ToolCalls.ID(p.toolCall), t.Name)
	}
	if len(t.Args) == c.sentBytes {
		return dst
	}
	if c.sentBytes == 0 { // null and white space are sent only if no other text follows
		if first, _ := firstNonSpace(t.Args); first != '{' {
			return dst
		}
	}
	dst = s.block.appendDelta(dst, t.Args[c.sentBytes:])
	c.sentBytes = len(t.Args)
	return dst
}

// firstNonSpace returns the first byte in the contents of a JSON string that is not white space. It
// also skips escaped white space.
func firstNonSpace(args []byte) (byte, bool) {
	for i := 0; i < len(args); i++ {
		switch c := args[i]; c {
		case ' ':
		case '\\':
			if i++; args[i] != 'n' && args[i] != 't' && args[i] != 'r' {
				return '\\', true
			}
		default:
			return c, true
		}
	}
	return 0, false
}

func (s *Stream) endBlock(dst []byte, p *streamBlock) ([]byte, error) {
	switch p.kind {
	case kindToolCall:
		var err error
		if dst, err = s.endToolCall(dst, p.toolCall); err != nil {
			return dst, err
		}
		dst = s.block.endBlock(dst)
	case kindThinking:
		dst = s.block.endBlock(s.block.appendSignature(dst, []byte(placeholderSignature)))
	case kindSealed:
		dst = s.block.endSealed(dst, p, s.RequestInfo.thinking, s.identity.Seal)
	case kindText:
		dst = s.block.endBlock(dst)
	}
	s.queue.pop()
	return dst, nil
}

// endToolCall checks that the tool call may end, and appends the unsent part of its input.
func (s *Stream) endToolCall(dst []byte, i int) ([]byte, error) {
	c, from := &s.toolCalls[i], &s.reader.ToolCalls.List[i]
	if len(from.Name) == 0 {
		return dst, errToolCallWithoutName
	}
	c.closed = true
	if s.reader.ToolCalls.IsComplete(i) {
		return dst, nil
	}
	switch value, is := s.input.read(from.Args); {
	case is == inputKindObject && len(value) == 0:
		dst = s.block.appendDelta(dst, emptyToolInput)
	case is == inputKindTruncated && s.reader.Finish != answer.FinishLength:
		return dst, errArguments
	case is == inputKindOther && c.sentBytes == 0: // the input does not start like an object
		dst = s.block.appendDelta(dst, from.Args)
	}
	c.sentBytes = len(from.Args)
	return dst, nil
}

// Finish appends the end of a successful answer. If the engine stopped too early, the error is
// translate.ErrNoFinish. If a tool call is malformed, the error is a *translate.BadAnswerError. If
// Finish returns an error, it appends nothing. A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if err := s.reader.CheckFinished(); err != nil {
		return dst, err
	}
	if s.phase == streamPhaseClosed {
		return dst, nil
	}
	out, err := s.appendReady(dst)
	if err == nil && len(s.queue) > 0 {
		out, err = s.endBlock(out, &s.queue[0])
	}
	if err != nil {
		return dst, err
	}
	s.phase = streamPhaseClosed
	out = append(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	out = appendStopReason(out, &s.reader, s.RequestInfo.stopSequences)
	out = append(out, `},"usage":`...)
	out = s.RequestInfo.cleared.appendEdits(appendUsage(out, s.reader.Usage()))
	return append(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), nil
}

// AppendFailure appends the error event, which is the last event.
func (s *Stream) AppendFailure(dst []byte, e *apierr.Error) []byte {
	if s.phase == streamPhaseClosed {
		return dst
	}
	s.phase = streamPhaseClosed
	dst = append(dst, "event: error\ndata: "...)
	dst = e.AppendMessages(dst, s.identity.RequestID)
	return append(dst, "\n\n"...)
}

// AppendKeepalive appends a ping, which may be sent even before the first event.
func (s *Stream) AppendKeepalive(dst []byte) []byte {
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

// IsFinished reports whether the engine has sent a finish_reason.
func (s *Stream) IsFinished() bool { return s.reader.IsFinished() }

// IsDone reports whether the stream needs no more events from the engine.
func (s *Stream) IsDone() bool { return s.reader.IsDone() }

// BufferedBytes returns roughly how many bytes the Stream buffers.
func (s *Stream) BufferedBytes() int {
	return s.reader.ToolCalls.BufferedBytes() + s.queue.bufferedBytes()
}

// UnparsedMarkup returns the markup word at the start of the text, if any.
func (s *Stream) UnparsedMarkup() translate.Markup { return s.reader.UnparsedMarkup() }

// Usage returns the engine's counts so far, or an estimate.
func (s *Stream) Usage() translate.Usage { return s.reader.Usage() }
