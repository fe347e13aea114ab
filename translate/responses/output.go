package responses

import (
	"slices"

	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/chat/toolcall"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
	"penstock/translate/seal"
	"penstock/translate/sse"
)

type partKind uint8

const (
	kindText partKind = iota
	kindRefusal
	kindToolCall
	kindReasoning  // sealed for the client
	kindCompaction // the engine's summary of a conversation, sealed for the client
)

func (k partKind) inMessage() bool { return k == kindText || k == kindRefusal }

func (k partKind) isSealed() bool { return k == kindReasoning || k == kindCompaction }

// outputPart is a piece of the answer that is streamed separately.
type outputPart struct {
	kind             partKind
	continuesMessage bool // the part belongs to the same message as the previous part
	outputIndex      int  // output_index
	contentIndex     int  // content_index, within a message
	toolCall         int  // position in reader.ToolCalls
	state            partState
	text             []byte // text or refusal so far, as contents of a JSON string
	sent             int    // number of bytes of text or arguments that have been sent
	hasName          bool
	tool             *clientTool  // nil if the tool has the same form for client and engine
	input            *customInput // for a custom tool; text contains the input so far
	logprobs         []byte       // log probabilities of the text so far, as comma-separated elements
	sentLogprobs     int          // number of bytes of logprobs that have been sent

	unsealed []byte // sealed kinds: the text until it is sealed; then the field text has the blob
}

type partState uint8

const (
	partStateHeld partState = iota // not sent, because an earlier part is incomplete
	partStateOpen
	partStateDone
	partStateTruncated // only the last part of an answer can be truncated
)

// answerOutput is the answer so far. It consists of parts, which form items.
type answerOutput struct {
	reader            answer.Reader
	id                string // the response's id, without prefix
	logprobs          bool
	tools             clientTools
	includesReasoning bool // the answer includes reasoning
	isSummary         bool // the answer's text is a summary to be sealed
	box               seal.Box
	storedBytes       int          // number of bytes of custom tool input and of text to be sealed
	parts             []outputPart // in order of first appearance
}

const maxKeptParts = 16

func (o *answerOutput) reset(i *dialects.AnswerIdentity, info *RequestInfo) {
	o.reader.Reset(i.ID, i.PromptTokens)
	o.reader.SetTools(i.Tools, i.SingleCall)
	parts := o.parts[:cap(o.parts)]
	if len(parts) > maxKeptParts {
		parts = nil
	}
	for n := range parts {
		text := parts[n].text[:0]
		if cap(text) > maxKeptBuffer/maxKeptParts {
			text = nil
		}
		parts[n] = outputPart{text: text} // releases the memory for log probabilities, which are rare
	}
	*o = answerOutput{
		reader: o.reader, id: i.ID, logprobs: info.logprobs, tools: info.tools, includesReasoning: info.includesReasoning,
		isSummary: info.isSummary, box: i.Seal,
		parts: parts[:0],
	}
}

// addEvent adds the content of the latest event to the parts. The error is a *translate.BadAnswerError.
func (o *answerOutput) addEvent() error {
	if text := o.reader.Reasoning; o.includesReasoning && len(text) > 0 {
		o.storedBytes += o.lastPart(kindReasoning).storeUnsealed(text)
	}
	if text := o.reader.Content; o.isSummary && len(text) > 0 {
		o.storedBytes += o.lastPart(kindCompaction).storeUnsealed(text)
	} else if len(text) > 0 {
		p := o.lastPart(kindText)
		p.text = append(p.text, text...)
		if o.logprobs && len(o.reader.Logprobs) > 0 {
			if len(p.logprobs) > 0 {
				p.logprobs = append(p.logprobs, ',')
			}
			p.logprobs = append(p.logprobs, o.reader.Logprobs...)
			sse.ReplaceLineEnds(p.logprobs[len(p.logprobs)-len(o.reader.Logprobs):])
		}
	}
	if text := o.reader.Refusal; len(text) > 0 {
		p := o.lastPart(kindRefusal)
		p.text = append(p.text, text...)
	}
	for _, i := range o.reader.ToolCalls.Touched {
		if err := o.updateToolCall(i); err != nil {
			return err
		}
	}
	return nil
}

// lastPart returns the last part. If the last part has a different kind, it adds and returns a new
// part.
func (o *answerOutput) lastPart(k partKind) *outputPart {
	if n := len(o.parts); n > 0 && o.parts[n-1].kind == k {
		return &o.parts[n-1]
	}
	return o.addPart(k)
}

func (o *answerOutput) updateToolCall(i int) error {
	for n := len(o.parts) - 1; n >= 0; n-- {
		p := &o.parts[n]
		if p.kind != kindToolCall || p.toolCall != i {
			continue
		}
		if p.state == partStateDone {
			return o.checkLatePiece(p)
		}
		o.readInput(p)
		return nil
	}
	p := o.addPart(kindToolCall)
	p.toolCall = i
	o.readInput(p)
	return nil
}

// readInput looks up the tool when its name arrives. For a custom tool, it also reads the input
// that has arrived so far.
func (o *answerOutput) readInput(p *outputPart) {
	c := &o.reader.ToolCalls.List[p.toolCall]
	if !p.hasName && len(c.Name) > 0 {
		p.hasName, p.tool = true, o.tools.find(c.Name)
		if p.tool != nil && p.tool.custom {
			p.input = &customInput{tool: p.tool.name, fence: fenceRemover{enabled: p.tool.grammar}}
		}
	}
	if p.isCustom() {
		before := len(p.text)
		p.text = p.input.add(p.text, c.Args[p.input.read:])
		o.storedBytes += len(p.text) - before
	}
}

func (p *outputPart) isNameless() bool { return p.kind == kindToolCall && !p.hasName }

func (p *outputPart) isCustom() bool { return p.input != nil }

// checkLatePiece handles a piece of a tool call whose end has already been sent. It drops
// whitespace, and returns an error for any other text.
func (o *answerOutput) checkLatePiece(p *outputPart) error {
	c := &o.reader.ToolCalls.List[p.toolCall]
	known := p.sent
	if p.isCustom() {
		known = p.input.read
	}
	more := c.Args[known:]
	c.Args = c.Args[:known]
	if !toolcall.IsBlank(more) {
		return &translate.BadAnswerError{Reason: "a call that goes on behind its end"}
	}
	return nil
}

func (o *answerOutput) addPart(k partKind) *outputPart {
	n := len(o.parts)
	if n < cap(o.parts) {
		o.parts = o.parts[:n+1]
	} else {
		o.parts = append(o.parts, outputPart{})
	}
	p := &o.parts[n]
	p.kind = k
	if n > 0 {
		before := &o.parts[n-1]
		p.outputIndex = before.outputIndex + 1
		if k.inMessage() && before.kind.inMessage() {
			p.continuesMessage, p.outputIndex, p.contentIndex = true, before.outputIndex, before.contentIndex+1
		}
	}
	return p
}

// textOf returns the text of p, as the contents of a JSON string. A sealed part has no text.
func (o *answerOutput) textOf(p *outputPart) []byte {
	if p.kind.isSealed() {
		return nil
	}
	if p.kind == kindToolCall && !p.isCustom() {
		return o.reader.ToolCalls.List[p.toolCall].Args
	}
	return p.text
}

// isPartComplete reports whether p is complete, even if the engine continues.
func (o *answerOutput) isPartComplete(p *outputPart) bool {
	return p.kind != kindToolCall || o.reader.ToolCalls.IsComplete(p.toolCall)
}

// checkComplete returns an error if a tool call has no name, or if a summary is incomplete. If the
// engine truncated the last tool call before its name, the tool call stays held and there is no
// error.
func (o *answerOutput) checkComplete() error {
	n := slices.IndexFunc(o.parts, func(p outputPart) bool { return p.isNameless() })
	if n >= 0 && (n < len(o.parts)-1 || o.incompleteReason() == "") {
		return &translate.BadAnswerError{Reason: "a tool call without a name"}
	}
	return o.checkSummary()
}

func (o *answerOutput) incompleteReason() string {
	switch o.reader.Finish {
	case answer.FinishLength:
		return "max_output_tokens"
	case answer.FinishContentFilter:
		return "content_filter"
	default:
		return ""
	}
}

const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

func (o *answerOutput) status() string {
	if o.incompleteReason() != "" {
		return statusIncomplete
	}
	return statusCompleted
}

// endPart sets the final state of part n. Only the last item of an answer may be incomplete. A tool
// call with complete arguments is never incomplete.
func (o *answerOutput) endPart(n int) {
	p := &o.parts[n]
	p.state = partStateDone
	if o.incompleteReason() != "" && n == len(o.parts)-1 && !(p.kind == kindToolCall && o.isPartComplete(p)) {
		p.state = partStateTruncated
	}
	switch p.kind {
	case kindReasoning:
		p.seal(o.box)
	case kindCompaction:
		p.seal(compactionBox(o.box))
	case kindText, kindRefusal, kindToolCall:
	}
	if p.isCustom() {
		p.text = p.input.finish(p.text)
		return
	}
	if p.kind == kindToolCall && p.state == partStateDone && toolcall.IsBlank(o.textOf(p)) {
		// Clients parse the arguments as JSON, so blank arguments become {}.
		c := &o.reader.ToolCalls.List[p.toolCall]
		c.Args = append(c.Args, "{}"...)
	}
}

func (o *answerOutput) appendItems(dst []byte) []byte {
	for n := range o.parts {
		p := &o.parts[n]
		if p.state == partStateHeld {
			break
		}
		if p.continuesMessage {
			continue
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = o.appendItem(dst, n)
	}
	return dst
}

func (o *answerOutput) bufferedBytes() (n int) {
	for i := range o.parts {
		p := &o.parts[i]
		if p.state == partStateHeld {
			break
		}
		n += max(len(o.textOf(p)), len(p.text)) + len(p.logprobs)
	}
	return n
}

// itemEndIndex returns the index after the last sent part of the item that starts with part n.
func (o *answerOutput) itemEndIndex(n int) int {
	for n++; n < len(o.parts) && o.parts[n].continuesMessage && o.parts[n].state != partStateHeld; n++ {
	}
	return n
}

func (o *answerOutput) appendItem(dst []byte, n int) []byte {
	p, end := &o.parts[n], o.itemEndIndex(n)
	if p.kind.isSealed() {
		return o.appendSealed(dst, p)
	}
	status := statusCompleted
	if o.parts[end-1].state != partStateDone {
		status = statusIncomplete
	}
	if p.kind == kindToolCall {
		return o.appendToolCall(dst, p, o.textOf(p), status)
	}
	dst = append(dst, `{"id":"`...)
	dst = o.appendItemID(dst, p)
	dst = append(append(append(dst, `","type":"message","status":"`...), status...), `","role":"assistant","content":[`...)
	for i := n; i < end; i++ {
		if i > n {
			dst = append(dst, ',')
		}
		dst = appendContent(dst, &o.parts[i], o.parts[i].text, o.parts[i].logprobs)
	}
	return append(dst, `]}`...)
}

func appendContent(dst []byte, p *outputPart, text, logs []byte) []byte {
	if p.kind == kindRefusal {
		dst = append(append(dst, `{"type":"refusal","refusal":"`...), text...)
		return append(dst, `"}`...)
	}
	dst = append(append(dst, `{"type":"output_text","text":"`...), text...)
	dst = append(append(dst, `","annotations":[],"logprobs":[`...), logs...)
	return append(dst, `]}`...)
}

func (o *answerOutput) appendToolCall(dst []byte, p *outputPart, args []byte, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = o.appendItemID(dst, p)
	kind, member := `","type":"function_call","status":"`, `,"arguments":"`
	if p.isCustom() {
		kind, member = `","type":"custom_tool_call","status":"`, `,"input":"`
	}
	dst = append(append(append(dst, kind...), status...), `","call_id":"`...)
	dst = append(append(dst, o.reader.ToolCalls.ID(p.toolCall)...), `","name":`...)
	dst = o.appendName(dst, p)
	if p.tool != nil && p.tool.namespace != "" {
		dst = jsonx.AppendStringS(append(dst, `,"namespace":`...), p.tool.namespace)
	}
	return append(append(append(dst, member...), args...), `"}`...)
}

func (o *answerOutput) appendName(dst []byte, p *outputPart) []byte {
	name := o.reader.ToolCalls.List[p.toolCall].Name
	if p.tool != nil {
		return jsonx.AppendStringS(dst, p.tool.name)
	}
	return append(append(append(dst, '"'), name...), '"')
}

func (o *answerOutput) appendItemID(dst []byte, p *outputPart) []byte {
	prefix := "msg_"
	switch {
	case p.isCustom():
		prefix = "ctc_"
	case p.kind == kindToolCall:
		prefix = "fc_"
	case p.kind == kindReasoning:
		prefix = "rs_"
	case p.kind == kindCompaction:
		prefix = "cmp_"
	}
	dst = append(append(append(dst, prefix...), o.id...), '_')
	return appendInt(dst, p.outputIndex)
}

func (o *answerOutput) appendPosition(dst []byte, p *outputPart) []byte {
	dst = o.appendItemID(append(dst, `,"item_id":"`...), p)
	dst = appendInt(append(dst, `","output_index":`...), p.outputIndex)
	if p.kind.inMessage() {
		dst = appendInt(append(dst, `,"content_index":`...), p.contentIndex)
	}
	return dst
}
