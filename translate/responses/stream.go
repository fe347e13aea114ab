package responses

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// Stream writes the answer to one request: the events of a stream, or the whole response object.
// Request.Decode must fill RequestInfo before Reset is called. Then either call Append for each
// event from the engine and finally Finish or Fail, or call AppendWhole once.
//
// The zero value is ready. A Stream belongs to one call at a time and is meant to be pooled. It
// keeps the text that it has sent, at most translate.MaxAnswer bytes, because the last events
// repeat that text. Except when that text grows, an event allocates nothing.
type Stream struct {
	RequestInfo RequestInfo // filled by Request.Decode

	identity dialects.Identity
	phase    phase
	output   output
	events   eventWriter
	head     int // the open part, or the next one
}

var _ translate.Stream = (*Stream)(nil)

// phase is the state of a stream.
type phase uint8

const (
	phaseIdle    phase = iota // nothing has been sent
	phaseStarted              // response.created has been sent
	phaseEnded                // [DONE] has been sent
)

// Reset prepares s for an answer to the request in RequestInfo.
func (s *Stream) Reset(i *dialects.Identity) {
	s.identity, s.phase = *i, phaseIdle
	s.events.seq, s.head = 0, 0
	s.output.reset(i, &s.RequestInfo)
}

// Started reports whether an output item has started.
func (s *Stream) Started() bool { return len(s.output.parts) > 0 || s.phase == phaseEnded }

// NextEngine prepares for another engine's events, after response.in_progress or after an open text
// part.
func (s *Stream) NextEngine() {
	if s.Started() {
		s.output.reader.Resume()
		return
	}
	s.output.reset(&s.identity, &s.RequestInfo)
}

// Release drops the last call's data, so that s can go into a pool.
func (s *Stream) Release() {
	s.RequestInfo.reset()
	s.Reset(&dialects.Identity{})
}

// Held returns roughly how many bytes of the stream s keeps: all text and tool calls.
func (s *Stream) Held() int { return s.output.reader.TextSize() + s.output.kept }

// Markup returns the kind of markup with which the text starts.
func (s *Stream) Markup() translate.Markup { return s.output.reader.Markup() }

// Usage returns the engine's counts so far, or an estimate if it sent none.
func (s *Stream) Usage() translate.Usage { return s.output.reader.Usage() }

// Append appends the client's events, if any, for one event from the engine. The error is a
// *translate.BadAnswer if the event is malformed or the answer too large, or a *engineerror.Error
// if the engine reports a failure.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := s.output.reader.Read(ev)
	if !ok || err != nil || s.phase == phaseEnded {
		return dst, err
	}
	dst = s.start(dst)
	if err := s.output.take(); err != nil {
		return dst, err
	}
	return s.flush(dst, false), nil
}

// Finish appends the successful end of the stream: all held parts, the response, and [DONE]. If the
// engine has not said how the answer ended, Finish appends nothing and returns
// translate.ErrNoFinish. A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if err := s.output.reader.End(); err != nil || s.phase == phaseEnded {
		return dst, err
	}
	if err := s.output.checkSummary(); err != nil {
		return dst, err
	}
	dst = s.flush(s.start(dst), true)
	status := s.output.status()
	dst = s.events.begin(dst, "response."+status)
	dst = s.appendResponse(append(dst, `,"response":`...), status, nil)
	return s.end(dst), nil
}

// Fail appends the end of a failed stream: the error, the failed response with the output so far,
// and [DONE].
func (s *Stream) Fail(dst []byte, e *apierr.Error) []byte {
	if s.phase == phaseEnded {
		return dst
	}
	dst = s.start(dst)
	dst = s.events.begin(dst, "error")
	dst = append(appendError(dst, e), "}\n\n"...)
	dst = s.events.begin(dst, "response.failed")
	dst = s.appendResponse(append(dst, `,"response":`...), statusFailed, e)
	return s.end(dst)
}

// end ends the last event and the stream.
func (s *Stream) end(dst []byte) []byte {
	s.phase = phaseEnded
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}

// maxRepeated is the maximum length, in bytes, of what a keep-alive repeats: the output so far and
// the members of the request.
const maxRepeated = 64 << 10

// Keepalive appends an event without new content. Codex ends a turn that is silent for its
// stream_idle_timeout_ms (5 minutes), and counts only events, not comments. The event is one that
// all clients know: an empty delta of the open item if it has deltas, otherwise
// response.in_progress. openai-node replaces its snapshot of the response with the one in
// response.in_progress, so that event includes the output so far. Beyond maxRepeated, Keepalive
// appends a comment instead.
func (s *Stream) Keepalive(dst []byte) []byte {
	if s.phase == phaseIdle {
		return s.start(dst)
	}
	if o := &s.output; s.head < len(o.parts) && o.parts[s.head].state == stateOpen && !o.parts[s.head].kind.isSealed() {
		return s.events.emptyDelta(dst)
	}
	if s.output.size() > maxRepeated {
		return sse.AppendComment(dst, "keep-alive")
	}
	info := &s.RequestInfo
	if len(info.members) > maxRepeated {
		info = &RequestInfo{}
	}
	return s.appendInProgress(dst, "response.in_progress", info)
}

// Finished reports whether the engine has said how the answer ended. Finish then succeeds.
func (s *Stream) Finished() bool { return s.output.reader.Finished() }

// Done reports whether the stream needs nothing more from the engine.
func (s *Stream) Done() bool { return s.output.reader.Done() }

// start appends the two events with which every stream starts.
func (s *Stream) start(dst []byte) []byte {
	if s.phase != phaseIdle {
		return dst
	}
	s.phase = phaseStarted
	dst = s.appendInProgress(dst, "response.created", &s.RequestInfo)
	return s.appendInProgress(dst, "response.in_progress", &s.RequestInfo)
}

// appendInProgress appends an event with the response so far.
func (s *Stream) appendInProgress(dst []byte, name string, info *RequestInfo) []byte {
	dst = append(s.events.begin(dst, name), `,"response":`...)
	dst = appendResponse(dst, &s.identity, info, &s.output, statusInProgress, nil)
	return append(dst, "}\n\n"...)
}

// flush sends the parts in order, as far as possible. Only one part is open at a time. A tool call
// is complete when its arguments are complete, and later parts wait until then. If end is true, no
// part waits.
func (s *Stream) flush(dst []byte, end bool) []byte {
	o := &s.output
	for s.head < len(o.parts) {
		p := &o.parts[s.head]
		if p.state == stateHeld {
			if p.kind == kindToolCall && len(o.reader.ToolCalls.List[p.toolCall].Name) == 0 && !end {
				return dst // clients expect the name at the start
			}
			dst = s.events.open(dst, o, p)
		}
		last := s.head == len(o.parts)-1
		if !end && (last || !o.complete(p)) {
			return s.events.delta(dst, p, o.textOf(p))
		}
		o.end(s.head)
		dst = s.events.close(s.events.delta(dst, p, o.textOf(p)), o, s.head)
		s.head++
	}
	return dst
}

// AppendWhole appends the response object for a whole, parsed completion. The error is a
// *translate.BadAnswer.
func (s *Stream) AppendWhole(dst []byte, c *answer.Completion) ([]byte, error) {
	if err := s.readWhole(c); err != nil {
		return dst, err
	}
	return s.appendResponse(dst, s.output.status(), nil), nil
}

func (s *Stream) readWhole(c *answer.Completion) error {
	o := &s.output
	if err := o.reader.ReadWhole(c); err != nil {
		return err
	}
	if err := o.take(); err != nil {
		return err
	}
	if err := o.checkSummary(); err != nil {
		return err
	}
	for n := range o.parts {
		o.end(n)
	}
	return nil
}

func (s *Stream) appendResponse(dst []byte, status string, e *apierr.Error) []byte {
	return appendResponse(dst, &s.identity, &s.RequestInfo, &s.output, status, e)
}
