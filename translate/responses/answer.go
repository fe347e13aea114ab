package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Answer writes the answer to one request: the events of a stream, or the whole response object.
// Fill Echo by Request.Translate, call Reset, then either Append for each event of the engine and
// in the end Finish or Fail, or AppendWhole once.
//
// The zero value is ready. An Answer belongs to one call at a time and is meant to be pooled. It
// keeps the text that it has sent, because the last events repeat it: at most chat.MaxAnswer bytes.
// Beyond the growth of that, an event costs no allocation.
type Answer struct {
	Echo Echo

	source  chat.Source
	model   []byte // in quotes
	id      string
	created int64
	now     func() int64

	phase phase
	seq   int    // of the next event
	parts []part // in the order of their first appearance
	head  int    // the part that is open, or the next one to be
	// A delta event of the open part: event, sequence_number, lead, the text, tail.
	event, tail string
	lead        []byte
}

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
	toolCall int  // position in source.ToolCalls
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

// Identity is what the edge knows about an answer.
type Identity struct {
	Model   string       // public id
	ID      string       // unique, without a prefix; letters, digits and underscores
	Created int64        // Unix seconds
	Now     func() int64 // Unix seconds, asked when the answer is complete

	PromptTokens int // our estimate of the prompt, told where the engine counts nothing
}

// Reset makes a ready for a call, whose Echo stays as it is.
func (a *Answer) Reset(i *Identity) {
	a.source.Reset(i.ID)
	a.source.Guess(i.PromptTokens)
	parts := a.parts[:cap(a.parts)]
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
	*a = Answer{
		Echo: a.Echo, source: a.source, model: jsonx.AppendStringS(a.model[:0], i.Model),
		id: i.ID, created: i.Created, now: i.Now,
		parts: parts[:0], lead: a.lead[:0],
	}
}

// keepParts is the number of parts whose memory is kept.
const keepParts = 16

// Release lets go of what the last call has left, for a pool.
func (a *Answer) Release() {
	a.Echo.reset()
	a.Reset(&Identity{})
}

// Logprobs reports whether the answer tells the log probabilities of its text.
func (a *Answer) Logprobs() bool { return a.Echo.logprobs }

// Held is about how many bytes a keeps of the stream so far: all of its text and tool calls.
func (a *Answer) Held() int { return a.source.Told() }

// Markup returns the word of a model's markup that the text begins with.
func (a *Answer) Markup() chat.Markup { return a.source.Markup() }

// Usage returns the engine's counts so far; an estimate when it told none.
func (a *Answer) Usage() chat.Usage { return a.source.Usage() }

// take adds what the last event of the source brought to the parts. The error is a *chat.BadAnswer.
func (a *Answer) take() error {
	if text := a.source.Content; len(text) > 0 {
		p := a.said(kindText)
		p.text = append(p.text, text...)
		if a.Echo.logprobs && len(a.source.Logprobs) > 0 {
			if len(p.logs) > 0 {
				p.logs = append(p.logs, ',')
			}
			p.logs = append(p.logs, a.source.Logprobs...)
			sse.Flatten(p.logs[len(p.logs)-len(a.source.Logprobs):])
		}
	}
	if text := a.source.Refusal; len(text) > 0 {
		p := a.said(kindRefusal)
		p.text = append(p.text, text...)
	}
	for _, i := range a.source.Touched {
		if err := a.touchToolCall(i); err != nil {
			return err
		}
	}
	return nil
}

// said returns the part that a piece of text belongs to: the last one, or a new one. The last part
// is never done.
func (a *Answer) said(k kind) *part {
	if n := len(a.parts); n > 0 && a.parts[n-1].kind == k {
		return &a.parts[n-1]
	}
	return a.add(k)
}

// touchToolCall finds or adds the part of tool call i, which has got a piece.
func (a *Answer) touchToolCall(i int) error {
	for n := len(a.parts) - 1; n >= 0; n-- {
		p := &a.parts[n]
		if p.kind != kindToolCall || p.toolCall != i {
			continue
		}
		if p.state == stateDone {
			return a.late(p)
		}
		return nil
	}
	a.add(kindToolCall).toolCall = i
	return nil
}

// late drops a piece of a tool call whose end the client already has. Only space is allowed there.
func (a *Answer) late(p *part) error {
	c := &a.source.ToolCalls[p.toolCall]
	more := c.Args[p.sent:]
	c.Args = c.Args[:p.sent]
	if !chat.Blank(more) {
		return &chat.BadAnswer{Reason: "a call that goes on behind its end"}
	}
	return nil
}

// add makes a part.
func (a *Answer) add(k kind) *part {
	n := len(a.parts)
	if n < cap(a.parts) {
		a.parts = a.parts[:n+1]
	} else {
		a.parts = append(a.parts, part{})
	}
	p := &a.parts[n]
	p.kind = k
	if n > 0 {
		before := &a.parts[n-1]
		p.item = before.item + 1
		if k != kindToolCall && before.kind != kindToolCall {
			p.joins, p.item, p.content = true, before.item, before.content+1
		}
	}
	return p
}

// all returns what p says: contents of a JSON string.
func (a *Answer) all(p *part) []byte {
	if p.kind == kindToolCall {
		return a.source.ToolCalls[p.toolCall].Args
	}
	return p.text
}

// complete reports whether nothing can be missing of p although the engine goes on.
func (a *Answer) complete(p *part) bool {
	return p.kind != kindToolCall || a.source.Complete(p.toolCall)
}

// reason returns why the answer is incomplete, or nothing.
func (a *Answer) reason() string {
	switch a.source.Finish {
	case chat.FinishLength:
		return "max_output_tokens"
	case chat.FinishContentFilter:
		return "content_filter"
	default:
		return ""
	}
}

// ending returns the state in which part n ends with the answer. Only the last item of an answer
// may be incomplete, and a tool call whose arguments are complete is complete in any case.
func (a *Answer) ending(n int) state {
	p := &a.parts[n]
	if a.reason() == "" || n < len(a.parts)-1 || p.kind == kindToolCall && a.complete(p) {
		return stateDone
	}
	return stateCut
}

// AppendWhole appends the response object for a whole completion, which has been parsed. The error
// is a *chat.BadAnswer.
func (a *Answer) AppendWhole(dst []byte, c *chat.Completion) ([]byte, error) {
	if err := a.source.ReadWhole(c); err != nil {
		return dst, err
	}
	if err := a.take(); err != nil {
		return dst, err
	}
	for n := range a.parts {
		a.end(n)
	}
	return a.appendResponse(dst, a.status(), nil), nil
}

// end ends part n with the answer.
func (a *Answer) end(n int) {
	p := &a.parts[n]
	p.state = a.ending(n)
	if p.kind == kindToolCall && p.state == stateDone && len(a.all(p)) == 0 {
		// Clients read the arguments as JSON, which nothing at all is not.
		c := &a.source.ToolCalls[p.toolCall]
		c.Args = append(c.Args, "{}"...)
	}
}

// status returns the status of a response that the engine has ended.
func (a *Answer) status() string {
	if a.reason() != "" {
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
func (a *Answer) appendResponse(dst []byte, status string, e *apierr.Error) []byte {
	dst = append(dst, `{"id":"resp_`...)
	dst = append(dst, a.id...)
	dst = append(dst, `","object":"response","created_at":`...)
	dst = appendInt(dst, int(a.created))
	dst = append(dst, `,"completed_at":`...)
	if status == statusCompleted {
		dst = appendInt(dst, int(a.now()))
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","incomplete_details":`...)
	if status == statusIncomplete {
		dst = append(append(append(dst, `{"reason":"`...), a.reason()...), `"}`...)
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
	dst = append(append(dst, `,"model":`...), a.model...)
	dst = append(dst, `,"output":[`...)
	dst = a.appendOutput(dst)
	dst = append(dst, `],"usage":`...)
	if u := a.source.Usage(); status != statusInProgress && (e == nil || u.Known) {
		dst = appendUsage(dst, u)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, a.Echo.members...)
	return append(dst, '}')
}

// appendOutput appends the items that have been shown to the client.
func (a *Answer) appendOutput(dst []byte) []byte {
	for n := range a.parts {
		p := &a.parts[n]
		if p.state == stateHeld {
			break
		}
		if p.joins {
			continue
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendItem(dst, n)
	}
	return dst
}

// itemEnd returns the position behind the last part of the item that begins with part n, as far as
// it has been shown.
func (a *Answer) itemEnd(n int) int {
	for n++; n < len(a.parts) && a.parts[n].joins && a.parts[n].state != stateHeld; n++ {
	}
	return n
}

// appendItem appends the item that begins with part n as it is now.
func (a *Answer) appendItem(dst []byte, n int) []byte {
	p, end := &a.parts[n], a.itemEnd(n)
	status := statusCompleted
	if a.parts[end-1].state != stateDone {
		status = statusIncomplete
	}
	if p.kind == kindToolCall {
		return a.appendToolCall(dst, p, a.all(p), status)
	}
	dst = append(dst, `{"id":"`...)
	dst = a.appendItemID(dst, p)
	dst = append(append(append(dst, `","type":"message","status":"`...), status...), `","role":"assistant","content":[`...)
	for i := n; i < end; i++ {
		if i > n {
			dst = append(dst, ',')
		}
		dst = a.appendContent(dst, &a.parts[i], a.parts[i].text, a.parts[i].logs)
	}
	return append(dst, `]}`...)
}

// appendContent appends the part of a message with that text and those log probabilities.
func (a *Answer) appendContent(dst []byte, p *part, text, logs []byte) []byte {
	if p.kind == kindRefusal {
		dst = append(append(dst, `{"type":"refusal","refusal":"`...), text...)
		return append(dst, `"}`...)
	}
	dst = append(append(dst, `{"type":"output_text","text":"`...), text...)
	dst = append(append(dst, `","annotations":[],"logprobs":[`...), logs...)
	return append(dst, `]}`...)
}

// appendToolCall appends the item of a tool call with those arguments.
func (a *Answer) appendToolCall(dst []byte, p *part, args []byte, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = a.appendItemID(dst, p)
	dst = append(dst, `","type":"function_call","status":"`...)
	dst = append(append(dst, status...), `","call_id":"`...)
	dst = append(append(dst, a.source.ToolCallID(p.toolCall)...), `","name":"`...)
	dst = append(append(dst, a.source.ToolCalls[p.toolCall].Name...), `","arguments":"`...)
	return append(append(dst, args...), `"}`...)
}

// appendItemID appends the id of the item that p is in.
func (a *Answer) appendItemID(dst []byte, p *part) []byte {
	prefix := "msg_"
	if p.kind == kindToolCall {
		prefix = "fc_"
	}
	dst = append(append(append(dst, prefix...), a.id...), '_')
	return appendInt(dst, p.item)
}

func appendUsage(dst []byte, u chat.Usage) []byte {
	dst = appendInt(append(dst, `{"input_tokens":`...), u.Prompt)
	dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached)
	dst = appendInt(append(dst, `},"output_tokens":`...), u.Completion)
	dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning)
	dst = appendInt(append(dst, `},"total_tokens":`...), u.Total)
	return append(dst, '}')
}
