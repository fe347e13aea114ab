package answer

import (
	"bytes"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// A chunk of at most maxPlainChunk bytes cannot exceed the member limit of jsonx.
const maxPlainChunk = 16 << 10

// appendPlain does the same as appendChunk for nearly every chunk: a piece of text, the role or the
// end of one choice, or the usage. It reads the chunk in one pass without a tape. For any other
// chunk it changes nothing and returns false.
func (s *Stream) appendPlain(dst, data []byte) ([]byte, bool) {
	if len(data) == 0 || data[0] != '{' || len(data) > maxPlainChunk || s.handover.pinned || s.options.ContinuousUsage {
		return dst, false
	}
	p := plainChunk{plain: plain{Cursor: jsonx.NewCursor(data), strip: s.options.StripReasoning}}
	p.read(data, &s.head)
	if !p.Done() || !s.takesPlain(&p) {
		return dst, false
	}
	s.identity.noteID(p.id)
	s.identity.noteTime(p.created)
	if p.headEnd > 0 {
		s.head.keep(data[:p.headEnd], &p)
	}
	if !p.hasChoice {
		s.state.usage = s.state.perChoice.addChunk(p.usage, s.state.choicesSeen-s.state.unfinished)
		s.state.usageFinal = s.state.allFinished(0)
		if s.options.IncludeUsage {
			s.held.event = s.appendWithRole(s.held.event[:0], data, &p, false)
		}
		return dst, true
	}
	if p.seen&seenToolCalls != 0 || p.usage.Finish != FinishNone {
		s.template.forget() // as editChoice does
	}
	addRole := s.state.noteDelta(0, p.usage.Finish) && !p.hasRole
	text := data[p.content.at:p.content.end]
	if len(text) > 0 {
		s.state.deltas++
		s.started = true
		if !s.opening.Done {
			s.opening.AddText(text)
		}
	}
	start := len(dst)
	dst = s.appendWithRole(dst, data, &p, addRole)
	switch {
	case !s.options.IncludeUsage && s.state.allFinished(s.options.N):
		s.held.awaitTimings(dst[start:])
		return dst[:start], true
	case len(text) > 0 && p.usage.Finish == FinishNone && s.opening.Done && !addRole:
		s.template.toolCall = false
		moved := len("data: ") + len(s.out.model) - (p.model.end - p.model.at)
		s.template.remember(data, p.content.at, p.content.end, dst[start:], moved+p.content.at)
	}
	return dst, true
}

func (s *Stream) takesPlain(p *plainChunk) bool {
	const (
		needs       = seenID | seenObject | seenCreated | seenModel | seenChoices
		choiceNeeds = seenIndex | seenMessage
	)
	switch {
	case p.seen&needs != needs:
		return false
	case !p.hasChoice: // if the engine counts each choice separately, the usage must be summed
		return p.usage.Known && s.state.perChoice.count == 0
	case p.seen&choiceNeeds != choiceNeeds, p.usage.Known:
		return false
	case s.state.seen[0]&1 == 0 && p.seen&seenRole != 0 && !p.hasRole:
		return false
	case p.usage.Finish != FinishNone && (s.state.hasFinished(0) || s.tools.Any(0)):
		return false
	}
	return !p.escaped || s.opening.Done
}

func (s *Stream) appendWithRole(dst, data []byte, p *plainChunk, addRole bool) []byte {
	dst = append(dst, "data: "...)
	start, from := len(dst), p.model.end
	dst = append(append(dst, data[:p.model.at]...), s.out.model...)
	if addRole {
		dst, from = append(dst, data[from:p.messageEnd]...), p.messageEnd
		if !p.empty {
			dst = append(dst, ',')
		}
		dst = append(dst, assistantRole...)
	}
	dst = append(dst, data[from:]...)
	sse.Flatten(dst[start:])
	return append(dst, "\n\n"...)
}

// chunkHead is the start of a chunk, up to the opening bracket of its choices. It is the same for
// all chunks of a stream, so it is read only once.
type chunkHead struct {
	text  []byte
	seen  seenMembers
	model struct{ at, end int }
}

func (h *chunkHead) reset() { h.text = h.text[:0] }

func (h *chunkHead) keep(text []byte, p *plainChunk) {
	if h.reset(); len(text) <= maxTemplate {
		h.text, h.seen, h.model = append(h.text, text...), p.headSeen, p.model
	}
}

// plainChunk reads a chunk in the usual form and rejects all other chunks.
type plainChunk struct {
	plain              // the message fields refer to the delta
	id, created []byte // both nil if they are part of the known head
	headEnd     int    // end of a head that may be stored, or 0
	headSeen    seenMembers
	hasChoice   bool
	hasRole     bool // the delta has a role that is not empty
	empty       bool
	content     struct{ at, end int } // position of the delta's content, without quotes
	escaped     bool
}

// read reads data. If data starts with the known head, read starts at the end of that head.
func (p *plainChunk) read(data []byte, known *chunkHead) {
	var (
		name []byte
		ok   bool
	)
	if len(known.text) > 0 && bytes.HasPrefix(data, known.text) {
		p.seen, p.model = known.seen, known.model
		p.Jump(len(known.text))
		p.choices()
		name, ok = p.Next()
	} else {
		name, ok = p.First()
	}
	for ; ok; name, ok = p.Next() {
		p.member(data, name)
	}
}

func (p *plainChunk) member(data, name []byte) {
	switch string(name) {
	case "id":
		p.once(seenID)
		p.id = p.text()
	case "object":
		p.once(seenObject)
		p.text()
	case "created":
		p.once(seenCreated)
		p.Peek()
		at := p.At()
		p.Digits()
		p.created = data[at:p.At()]
	case "model":
		p.once(seenModel)
		raw, _ := p.String()
		p.model.end = p.At()
		p.model.at = p.model.end - len(raw)
	case "choices":
		p.once(seenChoices)
		if p.Skip('['); p.seen&seenModel == 0 {
			p.Refuse()
		}
		if p.seen&seenUsage == 0 {
			p.headEnd, p.headSeen = p.At(), p.seen
		}
		p.choices()
	case "usage":
		if p.once(seenUsage); p.Peek() == 'n' {
			p.null()
			return
		}
		p.counts()
		if p.seen&seenPrompt == 0 || p.seen&seenCompletion == 0 {
			p.Refuse()
		}
	case "error", "timings", "prompt_progress":
		p.Refuse()
	default:
		p.other(name)
	}
}

func (p *plainChunk) choices() {
	if p.Peek() == '{' {
		p.hasChoice = true
		p.choice()
	}
	p.Skip(']')
}

func (p *plainChunk) choice() {
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "index":
			p.once(seenIndex)
			if p.Digits() != 0 {
				p.Refuse()
			}
		case "delta":
			p.once(seenMessage)
			p.delta()
		case "finish_reason":
			p.once(seenFinish)
			p.finish()
		case "message":
			p.Refuse()
		default:
			p.other(name)
		}
	}
}

func (p *plainChunk) finish() {
	raw, escaped := p.textOrNull()
	if len(raw) <= 2 {
		return
	}
	finish, known := chatWord(raw[1 : len(raw)-1])
	if !known || escaped {
		p.Refuse()
	}
	p.usage.Finish = finish
}

func (p *plainChunk) delta() {
	p.Peek()
	p.messageEnd, p.empty = p.At()+1, true
	for name, ok := p.First(); ok; name, ok = p.Next() {
		switch string(name) {
		case "role":
			p.once(seenRole)
			raw, _ := p.textOrNull()
			p.hasRole = len(raw) > 2
		case "content":
			p.once(seenContent)
			var raw []byte
			if raw, p.escaped = p.textOrNull(); len(raw) > 2 {
				p.content.at, p.content.end = p.At()-len(raw)+1, p.At()-1
			}
		case "tool_calls":
			p.once(seenToolCalls)
			p.null()
		case "refusal", "reasoning", "reasoning_content":
			if p.null(); p.strip && isReasoning(name) {
				p.Refuse()
			}
		default:
			if p.Value(); p.strip && isReasoning(name) {
				p.Refuse()
			}
		}
		p.messageEnd, p.empty = p.At(), false
	}
}

func (p *plainChunk) null() {
	if string(p.Value()) != "null" {
		p.Refuse()
	}
}
