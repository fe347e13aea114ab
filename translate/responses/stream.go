package responses

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// Stream writes the answer to one request: the events of a stream, or the whole response object.
// Request.Decode must fill RequestInfo before Reset is called. After Reset, either call Append for
// each event from the engine and finally Finish or AppendFailure, or call AppendCompletion once.
//
// The zero value is ready for Reset. A Stream belongs to one call at a time. It stores the text
// that it has sent, at most translate.MaxAnswerBytes bytes, because the last events repeat that
// text.
type Stream struct {
	RequestInfo RequestInfo // filled by Request.Decode

	identity    dialects.AnswerIdentity
	phase       streamPhase
	output      answerOutput
	events      eventWriter
	currentPart int // index of the open part or, if no part is open, of the next part
}

var _ translate.Stream = (*Stream)(nil)

type streamPhase uint8

const (
	streamPhaseIdle    streamPhase = iota // no event has been sent
	streamPhaseStarted                    // response.created has been sent
	streamPhaseEnded                      // [DONE] has been sent
)

// Reset prepares the Stream for an answer to the request in RequestInfo.
func (s *Stream) Reset(i *dialects.AnswerIdentity) {
	s.identity, s.phase = *i, streamPhaseIdle
	s.events.seq, s.currentPart = 0, 0
	s.output.reset(i, &s.RequestInfo)
}

// HasStarted reports whether an output item has started.
func (s *Stream) HasStarted() bool { return len(s.output.parts) > 0 || s.phase == streamPhaseEnded }

// PrepareForNextEngine prepares for events from another engine. It may be called after
// response.in_progress or while a text part is open.
func (s *Stream) PrepareForNextEngine() {
	if s.HasStarted() {
		s.output.reader.Resume()
		return
	}
	s.output.reset(&s.identity, &s.RequestInfo)
}

// Release releases all data of the call.
func (s *Stream) Release() {
	s.RequestInfo.reset()
	s.Reset(&dialects.AnswerIdentity{})
}

// BufferedBytes returns roughly how many bytes the Stream stores.
func (s *Stream) BufferedBytes() int { return s.output.reader.TextSize() + s.output.storedBytes }

// UnparsedMarkup returns the markup word at the start of the text, if any.
func (s *Stream) UnparsedMarkup() translate.Markup { return s.output.reader.UnparsedMarkup() }

// Usage returns the engine's counts so far, or an estimate if the engine has sent no counts.
func (s *Stream) Usage() translate.Usage { return s.output.reader.Usage() }

// Append appends the client's events for one event from the engine. If the event is malformed or
// the answer is too large, the error is a *translate.BadAnswerError. If the engine reports a
// failure, it is an *engineerror.Error.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := s.output.reader.Read(ev)
	if !ok || err != nil || s.phase == streamPhaseEnded {
		return dst, err
	}
	dst = s.ensureStarted(dst)
	if err := s.output.addEvent(); err != nil {
		return dst, err
	}
	return s.flush(dst, false), nil
}

// Finish appends the end of a successful stream: all held parts, the response, and [DONE]. If there
// is no finish_reason, Finish appends nothing and returns translate.ErrNoFinish. A second call
// appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if err := s.output.reader.CheckFinished(); err != nil || s.phase == streamPhaseEnded {
		return dst, err
	}
	if err := s.output.checkComplete(); err != nil {
		return dst, err
	}
	dst = s.flush(s.ensureStarted(dst), true)
	status := s.output.status()
	dst = s.events.begin(dst, "response."+status)
	dst = s.appendResponse(append(dst, `,"response":`...), status, nil)
	return s.appendStreamEnd(dst), nil
}

// AppendFailure appends the error, the failed response with the output so far, and [DONE].
func (s *Stream) AppendFailure(dst []byte, e *apierr.Error) []byte {
	if s.phase == streamPhaseEnded {
		return dst
	}
	dst = s.ensureStarted(dst)
	dst = s.events.begin(dst, "error")
	dst = append(appendError(dst, e), "}\n\n"...)
	dst = s.events.begin(dst, "response.failed")
	dst = s.appendResponse(append(dst, `,"response":`...), statusFailed, e)
	return s.appendStreamEnd(dst)
}

func (s *Stream) appendStreamEnd(dst []byte) []byte {
	s.phase = streamPhaseEnded
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}

// maxKeepaliveRepeatBytes is the maximum length of the text that a keep-alive repeats: the output
// so far and the request's members.
const maxKeepaliveRepeatBytes = 64 << 10

// AppendKeepalive appends an event without new content. Codex ends a turn if it receives no event
// for its stream_idle_timeout_ms (5 minutes), even if it receives comments. If the open item has
// deltas, the event is an empty delta. Otherwise it is response.in_progress. openai-node replaces
// its snapshot with the response in this event, so the event includes the output so far. If the
// event would exceed maxKeepaliveRepeatBytes, AppendKeepalive appends a comment instead.
func (s *Stream) AppendKeepalive(dst []byte) []byte {
	if s.phase == streamPhaseIdle {
		return s.ensureStarted(dst)
	}
	if o := &s.output; s.currentPart < len(o.parts) && o.parts[s.currentPart].state == partStateOpen && !o.parts[s.currentPart].kind.isSealed() {
		return s.events.appendEmptyDelta(dst)
	}
	if s.output.bufferedBytes() > maxKeepaliveRepeatBytes {
		return sse.AppendComment(dst, "keep-alive")
	}
	info := &s.RequestInfo
	if len(info.members) > maxKeepaliveRepeatBytes {
		info = &RequestInfo{}
	}
	return s.appendInProgress(dst, "response.in_progress", info)
}

// IsFinished reports whether the engine has sent a finish_reason.
func (s *Stream) IsFinished() bool { return s.output.reader.IsFinished() }

// IsDone reports whether the stream needs no more events from the engine.
func (s *Stream) IsDone() bool { return s.output.reader.IsDone() }

func (s *Stream) ensureStarted(dst []byte) []byte {
	if s.phase != streamPhaseIdle {
		return dst
	}
	s.phase = streamPhaseStarted
	dst = s.appendInProgress(dst, "response.created", &s.RequestInfo)
	return s.appendInProgress(dst, "response.in_progress", &s.RequestInfo)
}

func (s *Stream) appendInProgress(dst []byte, name string, info *RequestInfo) []byte {
	dst = append(s.events.begin(dst, name), `,"response":`...)
	dst = appendResponse(dst, &s.identity, info, &s.output, statusInProgress, nil)
	return append(dst, "}\n\n"...)
}

// flush appends all text that can be sent. Only one part is open at a time. If the open part is a
// tool call, later parts are held back until the arguments are complete. If end is true, flush
// sends all parts.
func (s *Stream) flush(dst []byte, end bool) []byte {
	o := &s.output
	for s.currentPart < len(o.parts) {
		p := &o.parts[s.currentPart]
		if p.state == partStateHeld {
			if p.isNameless() {
				return dst // clients expect the name when the item starts
			}
			dst = s.events.openPart(dst, o, p)
		}
		last := s.currentPart == len(o.parts)-1
		if !end && (last || !o.isPartComplete(p)) {
			return s.events.appendDelta(dst, p, o.textOf(p))
		}
		o.endPart(s.currentPart)
		dst = s.events.closePart(s.events.appendDelta(dst, p, o.textOf(p)), o, s.currentPart)
		s.currentPart++
	}
	return dst
}

// AppendCompletion appends the response object for a completion. The error is a
// *translate.BadAnswerError.
func (s *Stream) AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error) {
	if err := s.readCompletion(c); err != nil {
		return dst, err
	}
	return s.appendResponse(dst, s.output.status(), nil), nil
}

func (s *Stream) readCompletion(c *answer.ChatCompletion) error {
	o := &s.output
	if err := o.reader.ReadCompletion(c); err != nil {
		return err
	}
	if err := o.addEvent(); err != nil {
		return err
	}
	if err := o.checkComplete(); err != nil {
		return err
	}
	for n := range o.parts {
		if !o.parts[n].isNameless() {
			o.endPart(n)
		}
	}
	return nil
}

func (s *Stream) appendResponse(dst []byte, status string, e *apierr.Error) []byte {
	return appendResponse(dst, &s.identity, &s.RequestInfo, &s.output, status, e)
}
