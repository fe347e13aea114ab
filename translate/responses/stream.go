package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Append appends the client's events for one event of the engine, none or more. The error is a
// *chat.BadAnswer when the event is malformed or the answer too large, or a *chat.EngineError when
// the engine reports a failure.
func (a *Answer) Append(dst []byte, ev sse.Event) ([]byte, error) {
	ok, err := a.source.Read(ev)
	if !ok || err != nil || a.phase == phaseEnded {
		return dst, err
	}
	dst = a.start(dst)
	if err := a.take(); err != nil {
		return dst, err
	}
	return a.flush(dst, false), nil
}

// Finish appends what ends the stream well: whatever has been held, the response, and [DONE]. It
// returns chat.ErrNoFinish, and appends nothing, when the engine has not said how the answer ended.
// A second call appends nothing.
func (a *Answer) Finish(dst []byte) ([]byte, error) {
	if err := a.source.End(); err != nil || a.phase == phaseEnded {
		return dst, err
	}
	dst = a.flush(a.start(dst), true)
	status := a.status()
	dst = a.begin(dst, "response."+status)
	dst = a.appendResponse(append(dst, `,"response":`...), status, nil)
	return a.done(dst), nil
}

// Fail appends what ends the stream badly: the error, the failed response with what there is of it,
// and [DONE].
func (a *Answer) Fail(dst []byte, e *apierr.Error) []byte {
	if a.phase == phaseEnded {
		return dst
	}
	dst = a.start(dst)
	dst = a.begin(dst, "error")
	dst = append(appendError(dst, e), "}\n\n"...)
	dst = a.begin(dst, "response.failed")
	dst = a.appendResponse(append(dst, `,"response":`...), statusFailed, e)
	return a.done(dst)
}

// done ends the last event and the stream.
func (a *Answer) done(dst []byte) []byte {
	a.phase = phaseEnded
	return append(dst, "}\n\ndata: [DONE]\n\n"...)
}

// Keepalive appends a comment, which clients ignore. It may stand wherever an event may.
func (a *Answer) Keepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// Whole reports whether the engine has said how the answer ended: Finish will succeed.
func (a *Answer) Whole() bool { return a.source.Whole() }

// Done reports whether nothing more is wanted from the engine.
func (a *Answer) Done() bool { return a.source.Done() }

// start appends the two events that every stream begins with.
func (a *Answer) start(dst []byte) []byte {
	if a.phase != phaseIdle {
		return dst
	}
	a.phase = phaseStarted
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = a.begin(dst, name)
		dst = a.appendResponse(append(dst, `,"response":`...), statusInProgress, nil)
		dst = append(dst, "}\n\n"...)
	}
	return dst
}

// begin appends the beginning of an event, up to and with its number.
func (a *Answer) begin(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return a.number(append(dst, `","sequence_number":`...))
}

func (a *Answer) number(dst []byte) []byte {
	dst = appendInt(dst, a.seq)
	a.seq++
	return dst
}

// flush sends what can be sent: one part after the other, of which one is open at a time. A tool
// call is complete when its arguments are; the parts behind it wait until then. At the end nothing
// waits.
func (a *Answer) flush(dst []byte, end bool) []byte {
	for a.head < len(a.parts) {
		p := &a.parts[a.head]
		if p.state == stateHeld {
			if p.kind == kindToolCall && len(a.source.ToolCalls[p.toolCall].Name) == 0 && !end {
				return dst // clients want the name with the beginning
			}
			dst = a.open(dst, p)
		}
		last := a.head == len(a.parts)-1
		if !end && (last || !a.complete(p)) {
			return a.delta(dst, p, a.all(p))
		}
		a.end(a.head)
		dst = a.close(a.delta(dst, p, a.all(p)), a.head)
		a.head++
	}
	return dst
}

// delta sends what of all, which is what p says, has not been sent yet.
func (a *Answer) delta(dst []byte, p *part, all []byte) []byte {
	if len(all) <= p.sent {
		return dst
	}
	dst = a.number(append(dst, a.event...))
	dst = append(append(dst, a.lead...), all[p.sent:]...)
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
	return append(dst, a.tail...)
}

// deltaEvents is what begin would append but for the number, for the events that there are many of.
var deltaEvents = [...]string{
	kindText:     "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":",
	kindRefusal:  "event: response.refusal.delta\ndata: {\"type\":\"response.refusal.delta\",\"sequence_number\":",
	kindToolCall: "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":",
}

// open sends the beginning of p, and prepares its deltas.
func (a *Answer) open(dst []byte, p *part) []byte {
	p.state = stateOpen
	if !p.joins {
		dst = a.begin(dst, "response.output_item.added")
		dst = appendInt(append(dst, `,"output_index":`...), p.item)
		dst = append(dst, `,"item":`...)
		if p.kind == kindToolCall {
			dst = a.appendToolCall(dst, p, nil, statusInProgress)
		} else {
			dst = a.appendItemID(append(dst, `{"id":"`...), p)
			dst = append(dst, `","type":"message","status":"in_progress","role":"assistant","content":[]}`...)
		}
		dst = append(dst, "}\n\n"...)
	}
	if p.kind != kindToolCall {
		dst = a.begin(dst, "response.content_part.added")
		dst = a.appendPlace(dst, p)
		dst = a.appendContent(append(dst, `,"part":`...), p, nil, nil)
		dst = append(dst, "}\n\n"...)
	}
	a.lead = append(a.appendPlace(a.lead[:0], p), `,"delta":"`...)
	a.event, a.tail = deltaEvents[p.kind], "\"}\n\n"
	if p.kind == kindText {
		a.tail = "\",\"logprobs\":[]}\n\n"
	}
	return dst
}

// appendPlace appends the members that say where a part is.
func (a *Answer) appendPlace(dst []byte, p *part) []byte {
	dst = a.appendItemID(append(dst, `,"item_id":"`...), p)
	dst = appendInt(append(dst, `","output_index":`...), p.item)
	if p.kind != kindToolCall {
		dst = appendInt(append(dst, `,"content_index":`...), p.content)
	}
	return dst
}

// close sends the end of part n, and of its item when no other part joins it.
func (a *Answer) close(dst []byte, n int) []byte {
	p := &a.parts[n]
	switch p.kind {
	case kindText:
		dst = a.appendPlace(a.begin(dst, "response.output_text.done"), p)
		dst = append(append(append(dst, `,"text":"`...), p.text...), "\",\"logprobs\":["...)
		dst = append(append(dst, p.logs...), "]}\n\n"...)
	case kindRefusal:
		dst = a.appendPlace(a.begin(dst, "response.refusal.done"), p)
		dst = append(append(append(dst, `,"refusal":"`...), p.text...), "\"}\n\n"...)
	case kindToolCall:
		dst = a.appendPlace(a.begin(dst, "response.function_call_arguments.done"), p)
		dst = append(append(dst, `,"name":"`...), a.source.ToolCalls[p.toolCall].Name...)
		dst = append(append(append(dst, `","arguments":"`...), a.all(p)...), "\"}\n\n"...)
	}
	if p.kind != kindToolCall {
		dst = a.appendPlace(a.begin(dst, "response.content_part.done"), p)
		dst = a.appendContent(append(dst, `,"part":`...), p, p.text, p.logs)
		dst = append(dst, "}\n\n"...)
	}
	if n+1 < len(a.parts) && a.parts[n+1].joins {
		return dst
	}
	first := n
	for a.parts[first].joins {
		first--
	}
	dst = a.begin(dst, "response.output_item.done")
	dst = appendInt(append(dst, `,"output_index":`...), p.item)
	dst = a.appendItem(append(dst, `,"item":`...), first)
	return append(dst, "}\n\n"...)
}
