package responses

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/answer"
	"penstock/translate/chat/toolcall"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream writes the answer to one request: the events of a stream, or the whole response object.
// Fill RequestInfo by Request.Decode, call Reset, then either Append for each event of the
// engine and in the end Finish or Fail, or AppendWhole once.
//
// The zero value is ready. A Stream belongs to one call at a time and is meant to be pooled. It
// keeps the text that it has sent, because the last events repeat it: at most translate.MaxAnswer bytes.
// Beyond the growth of that, an event costs no allocation.
type Stream struct {
	RequestInfo RequestInfo

	identity dialects.Identity
	reader   answer.Reader

	phase phase
	seq   int    // of the next event
	parts []part // in the order of their first appearance
	head  int    // the part that is open, or the next one to be
	// A delta event of the open part: event, sequence_number, lead, the text, tail.
	event, tail string
	lead        []byte
}

var _ translate.Stream = (*Stream)(nil)

// phase is how far a stream has come.
type phase uint8

const (
	phaseIdle    phase = iota // nothing has been sent
	phaseStarted              // response.created has
	phaseEnded                // [DONE] has
)

// kind is what a part is.
type kind uint8

const (
	kindText kind = iota
	kindRefusal
	kindToolCall
)

// part is a piece of the answer that streams by itself: a text or a refusal in a message, or a tool
// call.
type part struct {
	kind     kind
	joins    bool // it is in the same message as the part before it
	item     int  // output_index
	content  int  // content_index, within a message
	toolCall int  // position in reader.ToolCalls
	state    state
	text     []byte // of a text or a refusal, so far: contents of a JSON string
	sent     int    // how much of the text or of the arguments has been sent
	logs     []byte // log probabilities of a text so far, elements with commas
	logSent  int    // how much of them has been sent
}

// state is how far a part has been sent.
type state uint8

const (
	stateHeld state = iota // nothing: an earlier part is not complete yet
	stateOpen
	stateDone
	stateCut // ended before it was complete; only the last part of an answer
)

// Reset makes s ready for a call, whose RequestInfo stays as it is.
func (s *Stream) Reset(i *dialects.Identity) {
	s.reader.Reset(i.ID, i.PromptTokens)
	parts := s.parts[:cap(s.parts)]
	if len(parts) > keepParts {
		parts = nil
	}
	for n := range parts {
		text := parts[n].text[:0]
		if cap(text) > keepBuffer/keepParts {
			text = nil
		}
		parts[n] = part{text: text} // log probabilities are rare: their memory is not kept
	}
	*s = Stream{
		RequestInfo: s.RequestInfo, identity: *i, reader: s.reader, parts: parts[:0], lead: s.lead[:0],
	}
}

// keepParts is the number of parts whose memory is kept.
const keepParts = 16

// Release lets go of the last call's data, for a pool.
func (s *Stream) Release() {
	s.RequestInfo.reset()
	s.Reset(&dialects.Identity{})
}

// Logprobs reports whether the answer has the log probabilities of its text.
func (s *Stream) Logprobs() bool { return s.RequestInfo.logprobs }

// Held is about how many bytes s keeps of the stream so far: all of its text and tool calls.
func (s *Stream) Held() int { return s.reader.TextSize() }

// Markup returns the word of a model's markup that the text begins with.
func (s *Stream) Markup() translate.Markup { return s.reader.Markup() }

// Usage returns the engine's counts so far; an estimate if it sent none.
func (s *Stream) Usage() translate.Usage { return s.reader.Usage() }

// take adds the contents of the reader's last event to the parts. The error is a *translate.BadAnswer.
func (s *Stream) take() error {
	if text := s.reader.Content; len(text) > 0 {
		p := s.textPart(kindText)
		p.text = append(p.text, text...)
		if s.RequestInfo.logprobs && len(s.reader.Logprobs) > 0 {
			if len(p.logs) > 0 {
				p.logs = append(p.logs, ',')
			}
			p.logs = append(p.logs, s.reader.Logprobs...)
			sse.Flatten(p.logs[len(p.logs)-len(s.reader.Logprobs):])
		}
	}
	if text := s.reader.Refusal; len(text) > 0 {
		p := s.textPart(kindRefusal)
		p.text = append(p.text, text...)
	}
	for _, i := range s.reader.ToolCalls.Touched {
		if err := s.touchToolCall(i); err != nil {
			return err
		}
	}
	return nil
}

// textPart returns the part that a piece of text belongs to: the last one, or a new one. The last
// part is never done.
func (s *Stream) textPart(k kind) *part {
	if n := len(s.parts); n > 0 && s.parts[n-1].kind == k {
		return &s.parts[n-1]
	}
	return s.add(k)
}

// touchToolCall finds or adds the part of tool call i, which has got a piece.
func (s *Stream) touchToolCall(i int) error {
	for n := len(s.parts) - 1; n >= 0; n-- {
		p := &s.parts[n]
		if p.kind != kindToolCall || p.toolCall != i {
			continue
		}
		if p.state == stateDone {
			return s.late(p)
		}
		return nil
	}
	s.add(kindToolCall).toolCall = i
	return nil
}

// late drops a piece of a tool call whose end the client already has. Only space is allowed there.
func (s *Stream) late(p *part) error {
	c := &s.reader.ToolCalls.List[p.toolCall]
	more := c.Args[p.sent:]
	c.Args = c.Args[:p.sent]
	if !toolcall.Blank(more) {
		return &translate.BadAnswer{Reason: "a call that goes on behind its end"}
	}
	return nil
}

// add makes a part.
func (s *Stream) add(k kind) *part {
	n := len(s.parts)
	if n < cap(s.parts) {
		s.parts = s.parts[:n+1]
	} else {
		s.parts = append(s.parts, part{})
	}
	p := &s.parts[n]
	p.kind = k
	if n > 0 {
		before := &s.parts[n-1]
		p.item = before.item + 1
		if k != kindToolCall && before.kind != kindToolCall {
			p.joins, p.item, p.content = true, before.item, before.content+1
		}
	}
	return p
}

// all returns what p says: contents of a JSON string.
func (s *Stream) all(p *part) []byte {
	if p.kind == kindToolCall {
		return s.reader.ToolCalls.List[p.toolCall].Args
	}
	return p.text
}

// complete reports whether nothing can be missing of p although the engine goes on.
func (s *Stream) complete(p *part) bool {
	return p.kind != kindToolCall || s.reader.ToolCalls.Complete(p.toolCall)
}

// reason returns why the answer is incomplete, or nothing.
func (s *Stream) reason() string {
	switch s.reader.Finish {
	case answer.FinishLength:
		return "max_output_tokens"
	case answer.FinishContentFilter:
		return "content_filter"
	default:
		return ""
	}
}

// ending returns the state in which part n ends with the answer. Only the last item of an answer
// may be incomplete, and a tool call whose arguments are complete is complete in any case.
func (s *Stream) ending(n int) state {
	p := &s.parts[n]
	if s.reason() == "" || n < len(s.parts)-1 || p.kind == kindToolCall && s.complete(p) {
		return stateDone
	}
	return stateCut
}

// AppendWhole appends the response object for a whole completion, which has been parsed. The error
// is a *translate.BadAnswer.
func (s *Stream) AppendWhole(dst []byte, c *answer.Completion) ([]byte, error) {
	if err := s.reader.ReadWhole(c); err != nil {
		return dst, err
	}
	if err := s.take(); err != nil {
		return dst, err
	}
	for n := range s.parts {
		s.end(n)
	}
	return s.appendResponse(dst, s.status(), nil), nil
}

// end ends part n with the answer.
func (s *Stream) end(n int) {
	p := &s.parts[n]
	p.state = s.ending(n)
	if p.kind == kindToolCall && p.state == stateDone && len(s.all(p)) == 0 {
		// Clients read the arguments as JSON, which nothing at all is not.
		c := &s.reader.ToolCalls.List[p.toolCall]
		c.Args = append(c.Args, "{}"...)
	}
}

// status returns the status of a response that the engine has ended.
func (s *Stream) status() string {
	if s.reason() != "" {
		return statusIncomplete
	}
	return statusCompleted
}

const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// appendResponse appends the response object. e is why it failed, or nil.
func (s *Stream) appendResponse(dst []byte, status string, e *apierr.Error) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, s.identity.ID...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = appendInt(dst, int(s.identity.Created))
	dst = append(dst, `,"completed_at":`...)
	if status == statusCompleted {
		dst = appendInt(dst, int(s.identity.Now()))
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","incomplete_details":`...)
	if status == statusIncomplete {
		dst = append(append(append(dst, `{"reason":"`...), s.reason()...), `"}`...)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"error":`...)
	if e != nil {
		dst = append(append(append(dst, `{"code":"`...), streamCode(e)...), `","message":`...)
		dst = append(jsonx.AppendStringS(dst, e.Message), '}')
	} else {
		dst = append(dst, `null`...)
	}
	dst = jsonx.AppendStringS(append(dst, `,"model":`...), s.identity.Model)
	dst = append(dst, `,"output":[`...)
	dst = s.appendOutput(dst)
	dst = append(dst, `],"usage":`...)
	if u := s.reader.Usage(); status != statusInProgress && (e == nil || u.Known) {
		dst = appendUsage(dst, u)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, s.RequestInfo.members...)
	return append(dst, '}')
}

// appendOutput appends the items that have been shown to the client.
func (s *Stream) appendOutput(dst []byte) []byte {
	for n := range s.parts {
		p := &s.parts[n]
		if p.state == stateHeld {
			break
		}
		if p.joins {
			continue
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = s.appendItem(dst, n)
	}
	return dst
}

// itemEnd returns the position behind the last part of the item that begins with part n, as far as
// it has been shown.
func (s *Stream) itemEnd(n int) int {
	for n++; n < len(s.parts) && s.parts[n].joins && s.parts[n].state != stateHeld; n++ {
	}
	return n
}

// appendItem appends the item that begins with part n as it is now.
func (s *Stream) appendItem(dst []byte, n int) []byte {
	p, end := &s.parts[n], s.itemEnd(n)
	status := statusCompleted
	if s.parts[end-1].state != stateDone {
		status = statusIncomplete
	}
	if p.kind == kindToolCall {
		return s.appendToolCall(dst, p, s.all(p), status)
	}
	dst = append(dst, `{"id":"`...)
	dst = s.appendItemID(dst, p)
	dst = append(append(append(dst, `","type":"message","status":"`...), status...), `","role":"assistant","content":[`...)
	for i := n; i < end; i++ {
		if i > n {
			dst = append(dst, ',')
		}
		dst = s.appendContent(dst, &s.parts[i], s.parts[i].text, s.parts[i].logs)
	}
	return append(dst, `]}`...)
}

// appendContent appends the part of a message with that text and those log probabilities.
func (s *Stream) appendContent(dst []byte, p *part, text, logs []byte) []byte {
	if p.kind == kindRefusal {
		dst = append(append(dst, `{"type":"refusal","refusal":"`...), text...)
		return append(dst, `"}`...)
	}
	dst = append(append(dst, `{"type":"output_text","text":"`...), text...)
	dst = append(append(dst, `","annotations":[],"logprobs":[`...), logs...)
	return append(dst, `]}`...)
}

// appendToolCall appends the item of a tool call with those arguments.
func (s *Stream) appendToolCall(dst []byte, p *part, args []byte, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = s.appendItemID(dst, p)
	dst = append(dst, `","type":"function_call","status":"`...)
	dst = append(append(dst, status...), `","call_id":"`...)
	dst = append(append(dst, s.reader.ToolCalls.ID(p.toolCall)...), `","name":"`...)
	dst = append(append(dst, s.reader.ToolCalls.List[p.toolCall].Name...), `","arguments":"`...)
	return append(append(dst, args...), `"}`...)
}

// appendItemID appends the id of the item that p is in.
func (s *Stream) appendItemID(dst []byte, p *part) []byte {
	prefix := "msg_"
	if p.kind == kindToolCall {
		prefix = "fc_"
	}
	dst = append(append(append(dst, prefix...), s.identity.ID...), '_')
	return appendInt(dst, p.item)
}

func appendUsage(dst []byte, u translate.Usage) []byte {
	dst = appendInt(append(dst, `{"input_tokens":`...), u.Prompt)
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached)
	dst = appendInt(append(dst, `},"output_tokens":`...), u.Completion)
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning)
	dst = appendInt(append(dst, `},"total_tokens":`...), u.Total)
	return append(dst, '}')
}
