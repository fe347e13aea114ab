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

// AppendPlain appends the client's answer for a body in the usual form: one choice with text and a
// finish_reason, and token counts. AppendPlain writes the same bytes as Completion's Parse and
// Append, but in one pass and without a tape. For any other body it appends nothing and returns
// false.
func AppendPlain(dst, body []byte, o *Options) ([]byte, Facts, bool) {
	if len(body) > translate.MaxAnswer {
		return dst, Facts{}, false
	}
	p := plain{Cursor: jsonx.NewCursor(body), strip: o.StripReasoning}
	p.answer()
	if !p.Done() || p.seen&plainNeeds != plainNeeds {
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

// plain reads an answer in the usual form and rejects all other answers.
type plain struct {
	jsonx.Cursor
	strip   bool
	seen    seenMembers
	model   struct{ at, end int }
	usage   translate.Usage
	opening translate.Opening
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

	plainNeeds = seenID | seenObject | seenCreated | seenModel | seenChoices | seenUsage | seenIndex | seenMessage |
		seenFinish | seenRole | seenPrompt | seenCompletion
)

func (p *plain) once(m seenMembers) {
	if p.seen&m != 0 {
		p.Refuse()
	}
	p.seen |= m
}

func (p *plain) answer() {
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "id":
			p.once(seenID)
			p.text()
		case "object":
			p.once(seenObject)
			p.text()
		case "created":
			p.once(seenCreated)
			p.Digits()
		case "model":
			p.once(seenModel)
			raw, _ := p.String()
			p.model.end = p.At()
			p.model.at = p.model.end - len(raw)
		case "choices":
			p.once(seenChoices)
			p.Skip('[')
			p.choice()
			p.Skip(']')
		case "usage":
			p.once(seenUsage)
			p.counts()
		case "system_fingerprint":
			p.seen |= seenFingerprint
			p.Value()
		case "error", "timings":
			p.Refuse()
		default:
			p.other(name)
		}
		p.topEnd = p.At()
	}
}

func (p *plain) text() []byte {
	raw, _ := p.String()
	if len(raw) <= 2 {
		p.Refuse()
	}
	return raw
}

func (p *plain) textOrNull() (raw []byte, escaped bool) {
	if p.Peek() == 'n' {
		p.Value()
		return nil, false
	}
	return p.String()
}

func (p *plain) opens(raw []byte, escaped bool) {
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
			p.Refuse()
			return
		default:
			return
		}
	}
	p.opening.AddText(text)
}

// other reads a member that the edge passes on unchanged.
func (p *plain) other(name []byte) {
	if raw := p.Value(); isPrivate(name) && string(raw) != "null" {
		p.Refuse()
	}
}

func (p *plain) choice() {
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "index":
			p.once(seenIndex)
			if p.Digits() != 0 {
				p.Refuse()
			}
		case "message":
			p.once(seenMessage)
			p.message()
		case "finish_reason":
			p.once(seenFinish)
			raw, escaped := p.String()
			finish, known := FinishNone, false
			if len(raw) > 2 && !escaped {
				finish, known = chatWord(raw[1 : len(raw)-1])
			}
			if !known {
				p.Refuse()
			}
			p.usage.Finish = finish
		case "logprobs":
			p.seen |= seenLogprobs
			p.Value()
		case "delta":
			p.Refuse()
		default:
			p.other(name)
		}
		p.choiceEnd = p.At()
	}
}

func (p *plain) message() {
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "role":
			p.once(seenRole)
			p.text()
		case "content":
			p.once(seenContent)
			p.opens(p.textOrNull())
		case "refusal":
			p.once(seenRefusal)
			p.textOrNull()
		case "tool_calls":
			p.once(seenToolCalls)
			if raw := p.Value(); string(raw) != "[]" && string(raw) != "null" {
				p.Refuse()
			}
		default:
			if p.strip && isReasoning(name) {
				p.Refuse()
			}
			p.Value()
		}
		p.messageEnd = p.At()
	}
}

func (p *plain) counts() {
	u := &p.usage
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "prompt_tokens":
			p.once(seenPrompt)
			u.Prompt, _ = p.needCount()
		case "completion_tokens":
			p.once(seenCompletion)
			u.Completion, _ = p.needCount()
		case "total_tokens":
			p.once(seenTotal)
			u.Total, _ = p.count()
		case "reasoning_tokens":
			u.Reasoning, _ = p.count()
		case "prompt_tokens_details":
			u.Cached, _ = p.detail("cached_tokens")
		case "completion_tokens_details":
			if n, ok := p.detail("reasoning_tokens"); ok {
				u.Reasoning = n
			}
		default:
			p.count()
		}
	}
	u.Known = true
	u.Reconcile()
}

func (p *plain) needCount() (int, bool) {
	n, ok := p.count()
	if !ok {
		p.Refuse()
	}
	return n, ok
}

// count reads null or a number within all limits. ok is false for null.
func (p *plain) count() (n int, ok bool) {
	if p.Peek() == 'n' {
		p.Value()
		return 0, false
	}
	if n = p.Digits(); n >= 1e9 {
		p.Refuse()
	}
	return n, true
}

// detail reads null or an object with counts, and returns the first count with the given name.
func (p *plain) detail(of string) (n int, ok bool) {
	if p.Peek() != '{' {
		if string(p.Value()) != "null" {
			p.Refuse()
		}
		return 0, false
	}
	found := false
	for name, more := p.First(); more; name, more = p.Next() {
		count, counted := p.count()
		if string(name) == of && !found {
			n, ok, found = count, counted, true
		}
	}
	return n, ok
}
