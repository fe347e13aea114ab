package responses

type eventWriter struct {
	seq int
	// A delta event of the open part consists of eventPrefix, the sequence number, deltaPrefix, the
	// text, and deltaSuffix.
	eventPrefix, deltaSuffix string
	deltaPrefix              []byte
}

func (w *eventWriter) begin(dst []byte, name string) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	return w.appendSequence(append(dst, `","sequence_number":`...))
}

func (w *eventWriter) appendSequence(dst []byte) []byte {
	dst = appendInt(dst, w.seq)
	w.seq++
	return dst
}

// deltaEvents contains, for the frequent events, the text that eventWriter.begin would append
// before the sequence number.
var deltaEvents = [...]string{
	kindText:    "event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","sequence_number":`,
	kindRefusal: "event: response.refusal.delta\ndata: " + `{"type":"response.refusal.delta","sequence_number":`,
	kindToolCall: "event: response.function_call_arguments.delta\ndata: " +
		`{"type":"response.function_call_arguments.delta","sequence_number":`,
}

const customDelta = "event: response.custom_tool_call_input.delta\ndata: " +
	`{"type":"response.custom_tool_call_input.delta","sequence_number":`

// openPart appends the start of p, and prepares its deltas.
func (w *eventWriter) openPart(dst []byte, o *answerOutput, p *outputPart) []byte {
	p.state = partStateOpen
	if !p.continuesMessage {
		dst = w.begin(dst, "response.output_item.added")
		dst = appendInt(append(dst, `,"output_index":`...), p.outputIndex)
		dst = append(dst, `,"item":`...)
		switch p.kind {
		case kindToolCall:
			dst = o.appendToolCall(dst, p, nil, statusInProgress)
		case kindReasoning, kindCompaction:
			dst = o.appendSealed(dst, p)
		case kindText, kindRefusal:
			dst = o.appendItemID(append(dst, `{"id":"`...), p)
			dst = append(dst, `","type":"message","status":"in_progress","role":"assistant","content":[]}`...)
		}
		dst = append(dst, "}\n\n"...)
	}
	if p.kind.isSealed() {
		return dst
	}
	if p.kind.inMessage() {
		dst = w.begin(dst, "response.content_part.added")
		dst = o.appendPosition(dst, p)
		dst = appendContent(append(dst, `,"part":`...), p, nil, nil)
		dst = append(dst, "}\n\n"...)
	}
	w.deltaPrefix = append(o.appendPosition(w.deltaPrefix[:0], p), `,"delta":"`...)
	w.eventPrefix, w.deltaSuffix = deltaEvents[p.kind], "\"}\n\n"
	switch {
	case p.kind == kindText:
		w.deltaSuffix = "\",\"logprobs\":[]}\n\n"
	case p.isCustom():
		w.eventPrefix = customDelta
	}
	return dst
}

func (w *eventWriter) appendDelta(dst []byte, p *outputPart, all []byte) []byte {
	if len(all) <= p.sent {
		return dst
	}
	dst = w.appendSequence(append(dst, w.eventPrefix...))
	dst = append(append(dst, w.deltaPrefix...), all[p.sent:]...)
	p.sent = len(all)
	if p.sentLogprobs < len(p.logprobs) {
		more := p.logprobs[p.sentLogprobs:]
		if p.sentLogprobs > 0 {
			more = more[1:] // skips the comma
		}
		p.sentLogprobs = len(p.logprobs)
		dst = append(append(dst, "\",\"logprobs\":["...), more...)
		return append(dst, "]}\n\n"...)
	}
	return append(dst, w.deltaSuffix...)
}

func (w *eventWriter) appendEmptyDelta(dst []byte) []byte {
	dst = w.appendSequence(append(dst, w.eventPrefix...))
	return append(append(dst, w.deltaPrefix...), w.deltaSuffix...)
}

// closePart appends the end of part n. If it is the last part of its item, closePart also appends
// the end of the item.
func (w *eventWriter) closePart(dst []byte, o *answerOutput, n int) []byte {
	p := &o.parts[n]
	switch p.kind {
	case kindText:
		dst = o.appendPosition(w.begin(dst, "response.output_text.done"), p)
		dst = append(append(append(dst, `,"text":"`...), p.text...), "\",\"logprobs\":["...)
		dst = append(append(dst, p.logprobs...), "]}\n\n"...)
	case kindRefusal:
		dst = o.appendPosition(w.begin(dst, "response.refusal.done"), p)
		dst = append(append(append(dst, `,"refusal":"`...), p.text...), "\"}\n\n"...)
	case kindToolCall:
		if p.isCustom() {
			dst = o.appendPosition(w.begin(dst, "response.custom_tool_call_input.done"), p)
			dst = append(append(append(dst, `,"input":"`...), p.text...), "\"}\n\n"...)
			break
		}
		dst = o.appendPosition(w.begin(dst, "response.function_call_arguments.done"), p)
		dst = o.appendName(append(dst, `,"name":`...), p)
		dst = append(append(append(dst, `,"arguments":"`...), o.textOf(p)...), "\"}\n\n"...)
	case kindReasoning, kindCompaction:
	}
	if p.kind.inMessage() {
		dst = o.appendPosition(w.begin(dst, "response.content_part.done"), p)
		dst = appendContent(append(dst, `,"part":`...), p, p.text, p.logprobs)
		dst = append(dst, "}\n\n"...)
	}
	if n+1 < len(o.parts) && o.parts[n+1].continuesMessage {
		return dst
	}
	first := n
	for o.parts[first].continuesMessage {
		first--
	}
	dst = w.begin(dst, "response.output_item.done")
	dst = appendInt(append(dst, `,"output_index":`...), p.outputIndex)
	dst = o.appendItem(append(dst, `,"item":`...), first)
	return append(dst, "}\n\n"...)
}
