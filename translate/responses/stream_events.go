package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Append appends the client's events for one event of the engine, none or more. The error is a
// *translate.BadAnswer when the event is malformed or the answer too large, or a *engineerror.Error when
// the engine reports a failure.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := s.reader.Read(ev)
	if !ok || err != nil || s.phase == phaseEnded {
		return dst, err
	}
	dst = s.start(dst)
	if err := s.take(); err != nil {
		return dst, err
	}
	return s.flush(dst, false), nil
}

// Finish appends what ends the stream well: whatever has been held, the response, and [DONE]. It
// returns translate.ErrNoFinish, and appends nothing, when the engine has not said how the answer ended.
// A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if err := s.reader.End(); err != nil || s.phase == phaseEnded {
		return dst, err
	}
	dst = s.flush(s.start(dst), true)
	status := s.status()
	dst = s.begin(dst, "response."+status)
	dst = s.appendResponse(append(dst, `,"response":`...), status, nil)
	return s.done(dst), nil
}

// Fail appends what ends the stream badly: the error, the failed response with what there is of it,
// and [DONE].
func (s *Stream) Fail(dst []byte, e *apierr.Error) []byte {
	if s.phase == phaseEnded {
		return dst
	}
	dst = s.start(dst)
	dst = s.begin(dst, "error")
	dst = append(appendError(dst, e), "}\n\n"...)
	dst = s.begin(dst, "response.failed")
	dst = s.appendResponse(append(dst, `,"response":`...), statusFailed, e)
	return s.done(dst)
}

// done ends the last event and the stream.
func (s *Stream) done(dst []byte) []byte {
	s.phase = phaseEnded
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}

// Keepalive appends a comment, which clients ignore. It may stand wherever an event may.
func (s *Stream) Keepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// Whole reports whether the engine has said how the answer ended: Finish will succeed.
func (s *Stream) Finished() bool { return s.reader.Finished() }

// Done reports whether nothing more is wanted from the engine.
func (s *Stream) Done() bool { return s.reader.Done() }

// start appends the two events that every stream begins with.
func (s *Stream) start(dst []byte) []byte {
	if s.phase != phaseIdle {
		return dst
	}
	s.phase = phaseStarted
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = s.begin(dst, name)
		dst = s.appendResponse(append(dst, `,"response":`...), statusInProgress, nil)
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

// begin appends the beginning of an event, up to and with its number.
func (s *Stream) begin(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return s.number(append(dst, `","sequence_number":`...))
}

func (s *Stream) number(dst []byte) []byte {
	dst = appendInt(dst, s.seq)
	s.seq++
	return dst
}

// flush sends what can be sent: one part after the other, of which one is open at a time. A tool
// call is complete when its arguments are; the parts behind it wait until then. At the end nothing
// waits.
func (s *Stream) flush(dst []byte, end bool) []byte {
	for s.head < len(s.parts) {
		p := &s.parts[s.head]
		if p.state == stateHeld {
			if p.kind == kindToolCall && len(s.reader.ToolCalls.List[p.toolCall].Name) == 0 && !end {
				return dst // clients want the name with the beginning
			}
			dst = s.open(dst, p)
		}
		last := s.head == len(s.parts)-1
		if !end && (last || !s.complete(p)) {
			return s.delta(dst, p, s.all(p))
		}
		s.end(s.head)
		dst = s.close(s.delta(dst, p, s.all(p)), s.head)
		s.head++
	}
	return dst
}

// delta sends what of all, which is what p says, has not been sent yet.
func (s *Stream) delta(dst []byte, p *part, all []byte) []byte {
	if len(all) <= p.sent {
		return dst
	}
	dst = s.number(append(dst, s.event...))
	dst = append(append(dst, s.lead...), all[p.sent:]...)
	p.sent = len(all)
	if p.logSent < len(p.logs) {
		more := p.logs[p.logSent:]
		if p.logSent > 0 {
			more = more[1:] // the comma
		}
		p.logSent = len(p.logs)
		dst = append(append(dst, "\",\"logprobs\":["...), more...)
		return append(dst, "]}\n\n"...)
	}
	return append(dst, s.tail...)
}

// deltaEvents is what begin would append but for the number, for the events that there are many of.
var deltaEvents = [...]string{
	kindText:     "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":",
	kindRefusal:  "event: response.refusal.delta\ndata: {\"type\":\"response.refusal.delta\",\"sequence_number\":",
	kindToolCall: "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":",
}

// open sends the beginning of p, and prepares its deltas.
func (s *Stream) open(dst []byte, p *part) []byte {
	p.state = stateOpen
	if !p.joins {
		dst = s.begin(dst, "response.output_item.added")
		dst = appendInt(append(dst, `,"output_index":`...), p.item)
		dst = append(dst, `,"item":`...)
		if p.kind == kindToolCall {
			dst = s.appendToolCall(dst, p, nil, statusInProgress)
		} else {
			dst = s.appendItemID(append(dst, `{"id":"`...), p)
			dst = append(dst, `","type":"message","status":"in_progress","role":"assistant","content":[]}`...)
		}
		dst = append(dst, "}\n\n"...)
	}
	if p.kind != kindToolCall {
		dst = s.begin(dst, "response.content_part.added")
		dst = s.appendPlace(dst, p)
		dst = s.appendContent(append(dst, `,"part":`...), p, nil, nil)
		dst = append(dst, "}\n\n"...)
	}
	s.lead = append(s.appendPlace(s.lead[:0], p), `,"delta":"`...)
	s.event, s.tail = deltaEvents[p.kind], "\"}\n\n"
	if p.kind == kindText {
		s.tail = "\",\"logprobs\":[]}\n\n"
	}
	return dst
}

// appendPlace appends the members that say where a part is.
func (s *Stream) appendPlace(dst []byte, p *part) []byte {
	dst = s.appendItemID(append(dst, `,"item_id":"`...), p)
	dst = appendInt(append(dst, `","output_index":`...), p.item)
	if p.kind != kindToolCall {
		dst = appendInt(append(dst, `,"content_index":`...), p.content)
	}
	return dst
}

// close sends the end of part n, and of its item when no other part joins it.
func (s *Stream) close(dst []byte, n int) []byte {
	p := &s.parts[n]
	switch p.kind {
	case kindText:
		dst = s.appendPlace(s.begin(dst, "response.output_text.done"), p)
		dst = append(append(append(dst, `,"text":"`...), p.text...), "\",\"logprobs\":["...)
		dst = append(append(dst, p.logs...), "]}\n\n"...)
	case kindRefusal:
		dst = s.appendPlace(s.begin(dst, "response.refusal.done"), p)
		dst = append(append(append(dst, `,"refusal":"`...), p.text...), "\"}\n\n"...)
	case kindToolCall:
		dst = s.appendPlace(s.begin(dst, "response.function_call_arguments.done"), p)
		dst = append(append(dst, `,"name":"`...), s.reader.ToolCalls.List[p.toolCall].Name...)
		dst = append(append(append(dst, `","arguments":"`...), s.all(p)...), "\"}\n\n"...)
	}
	if p.kind != kindToolCall {
		dst = s.appendPlace(s.begin(dst, "response.content_part.done"), p)
		dst = s.appendContent(append(dst, `,"part":`...), p, p.text, p.logs)
		dst = append(dst, "}\n\n"...)
	}
	if n+1 < len(s.parts) && s.parts[n+1].joins {
		return dst
	}
	first := n
	for s.parts[first].joins {
		first--
	}
	dst = s.begin(dst, "response.output_item.done")
	dst = appendInt(append(dst, `,"output_index":`...), p.item)
	dst = s.appendItem(append(dst, `,"item":`...), first)
	return append(dst, "}\n\n"...)
}
