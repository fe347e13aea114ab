package answer

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// Facts contains the properties of an answer that the edge needs.
type Facts struct {
	Usage  translate.Usage
	Markup translate.Markup // at the start of the first choice's text
}

// AppendSimpleAnswer appends the client's answer for a body in the usual form: one choice with text
// and a finish_reason, and token counts. AppendSimpleAnswer writes the same bytes as Completion's
// Parse and Append, but in one pass and without a tape. For any other body it appends nothing and
// returns false.
func AppendSimpleAnswer(dst, body []byte, o *WriteOptions) ([]byte, Facts, bool) {
	if len(body) > translate.MaxAnswerBytes {
		return dst, Facts{}, false
	}
	p := simpleAnswer{Cursor: jsonx.NewCursor(body), stripReasoning: o.StripReasoning}
	p.readAnswer()
	if !p.IsAccepted() || p.seen&requiredMembers != requiredMembers {
		return dst, Facts{}, false
	}
	from := 0
	if p.model.at < p.choiceEnd {
		dst, from = jsonx.AppendStringS(append(dst, body[:p.model.at]...), o.Model), p.model.end
	}
	if p.seen&(seenContent|seenRefusal) != seenContent|seenRefusal {
		dst, from = append(dst, body[from:p.messageEnd]...), p.messageEnd
		if p.seen&seenContent == 0 {
			dst = append(append(dst, ','), nullContent...)
		}
		if p.seen&seenRefusal == 0 {
			dst = append(append(dst, ','), nullRefusal...)
		}
	}
	if p.seen&seenLogprobs == 0 {
		dst, from = append(dst, body[from:p.choiceEnd]...), p.choiceEnd
		dst = append(append(dst, ','), nullLogprobs...)
	}
	if p.model.at > p.choiceEnd {
		dst, from = jsonx.AppendStringS(append(dst, body[from:p.model.at]...), o.Model), p.model.end
	}
	if p.seen&seenFingerprint == 0 {
		dst, from = append(dst, body[from:p.topEnd]...), p.topEnd
		dst = append(append(dst, ','), nullFingerprint...)
	}
	return append(dst, body[from:]...), Facts{p.usage, p.opening.Markup}, true
}

// simpleAnswer reads an answer in the usual form and rejects all other answers.
type simpleAnswer struct {
	jsonx.Cursor
	stripReasoning bool
	seen           seenMembers
	model          struct{ at, end int }
	usage          translate.Usage
	opening        translate.MarkupDetector
	// Offsets at the end of the last member of the message, the choice and the answer.
	messageEnd, choiceEnd, topEnd int
}

type seenMembers uint32

const (
	seenID seenMembers = 1 << iota
	seenObject
	seenCreated
	seenModel
	seenChoices
	seenUsage
	seenFingerprint
	seenIndex
	seenMessage
	seenFinish
	seenLogprobs
	seenRole
	seenContent
	seenRefusal
	seenToolCalls
	seenPrompt
	seenCompletion
	seenTotal
	seenDetails

	requiredMembers = seenID | seenObject | seenCreated | seenModel | seenChoices | seenUsage | seenIndex | seenMessage |
		seenFinish | seenRole | seenPrompt | seenCompletion
)

func (p *simpleAnswer) markSeen(m seenMembers) {
	if p.seen&m != 0 {
		p.Reject()
	}
	p.seen |= m
}

func (p *simpleAnswer) readAnswer() {
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "id":
			p.markSeen(seenID)
			p.readNonEmptyString()
		case "object":
			p.markSeen(seenObject)
			p.readNonEmptyString()
		case "created":
			p.markSeen(seenCreated)
			p.ReadUint()
		case "model":
			p.markSeen(seenModel)
			raw, _ := p.ReadString()
			p.model.end = p.Offset()
			p.model.at = p.model.end - len(raw)
		case "choices":
			p.markSeen(seenChoices)
			p.ReadBracket('[')
			p.readChoice()
			p.ReadBracket(']')
		case "usage":
			p.markSeen(seenUsage)
			p.readUsage()
		case "system_fingerprint":
			p.seen |= seenFingerprint
			p.ReadValue()
		case "error", "timings":
			p.Reject()
		default:
			p.readPassedMember(name)
		}
		p.topEnd = p.Offset()
	}
}

func (p *simpleAnswer) readNonEmptyString() []byte {
	raw, _ := p.ReadString()
	if len(raw) <= 2 {
		p.Reject()
	}
	return raw
}

func (p *simpleAnswer) readStringOrNull() (raw []byte, escaped bool) {
	if p.Peek() == 'n' {
		p.ReadValue()
		return nil, false
	}
	return p.ReadString()
}

func (p *simpleAnswer) scanTextOpening(raw []byte, escaped bool) {
	text := raw
	if len(raw) > 0 {
		text = raw[1 : len(raw)-1]
	}
	for escaped && len(text) > 0 { // skips white space before markup
		switch {
		case text[0] == ' ':
			text = text[1:]
		case text[0] == '\\' && (text[1] == 'n' || text[1] == 't' || text[1] == 'r'):
			text = text[2:]
		case text[0] == '\\' || text[0] == '<' || text[0] == '[': // the next characters may also be escaped
			p.Reject()
			return
		default:
			return
		}
	}
	p.opening.AddText(text)
}

// readPassedMember reads a member that the edge passes on unchanged.
func (p *simpleAnswer) readPassedMember(name []byte) {
	if raw := p.ReadValue(); isPrivate(name) && string(raw) != "null" {
		p.Reject()
	}
}

func (p *simpleAnswer) readChoice() {
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "index":
			p.markSeen(seenIndex)
			if p.ReadUint() != 0 {
				p.Reject()
			}
		case "message":
			p.markSeen(seenMessage)
			p.readMessage()
		case "finish_reason":
			p.markSeen(seenFinish)
			raw, escaped := p.ReadString()
			finish, known := FinishNone, false
			if len(raw) > 2 && !escaped {
				finish, known = parseChatFinish(raw[1 : len(raw)-1])
			}
			if !known {
				p.Reject()
			}
			p.usage.Finish = finish
		case "logprobs":
			p.seen |= seenLogprobs
			p.ReadValue()
		case "delta":
			p.Reject()
		default:
			p.readPassedMember(name)
		}
		p.choiceEnd = p.Offset()
	}
}

func (p *simpleAnswer) readMessage() {
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "role":
			p.markSeen(seenRole)
			p.readNonEmptyString()
		case "content":
			p.markSeen(seenContent)
			p.scanTextOpening(p.readStringOrNull())
		case "refusal":
			p.markSeen(seenRefusal)
			p.readStringOrNull()
		case "tool_calls":
			p.markSeen(seenToolCalls)
			if raw := p.ReadValue(); string(raw) != "[]" && string(raw) != "null" {
				p.Reject()
			}
		default:
			if p.stripReasoning && isReasoning(name) {
				p.Reject()
			}
			p.ReadValue()
		}
		p.messageEnd = p.Offset()
	}
}

func (p *simpleAnswer) readUsage() {
	u := &p.usage
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "prompt_tokens":
			p.markSeen(seenPrompt)
			u.Prompt, _ = p.readRequiredCount()
		case "completion_tokens":
			p.markSeen(seenCompletion)
			if u.Completion, _ = p.readRequiredCount(); u.Completion == 0 {
				p.Reject()
			}
		case "total_tokens":
			p.markSeen(seenTotal)
			u.Total, _ = p.readCount()
		case "reasoning_tokens":
			u.Reasoning, _ = p.readCount()
		case "prompt_tokens_details":
			u.Cached, _ = p.readDetail("cached_tokens")
		case "completion_tokens_details":
			if n, ok := p.readDetail("reasoning_tokens"); ok {
				u.Reasoning = n
			}
		default:
			p.readCount()
		}
	}
	u.Known = true
	u.Reconcile()
}

func (p *simpleAnswer) readRequiredCount() (int, bool) {
	n, ok := p.readCount()
	if !ok {
		p.Reject()
	}
	return n, ok
}

// readCount reads null or a number within all limits. ok is false for null.
func (p *simpleAnswer) readCount() (n int, ok bool) {
	if p.Peek() == 'n' {
		p.ReadValue()
		return 0, false
	}
	if n = p.ReadUint(); n >= 1e9 {
		p.Reject()
	}
	return n, true
}

// readDetail reads null or an object with counts, and returns the first count with the given name.
func (p *simpleAnswer) readDetail(of string) (n int, ok bool) {
	if p.Peek() != '{' {
		if string(p.ReadValue()) != "null" {
			p.Reject()
		}
		return 0, false
	}
	found := false
	for name, more := p.FirstMember(); more; name, more = p.NextMember() {
		count, counted := p.readCount()
		if string(name) == of && !found {
			n, ok, found = count, counted, true
		}
	}
	return n, ok
}
