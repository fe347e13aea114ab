package answer

import (
	"bytes"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// A chunk of at most maxSimpleChunk bytes cannot exceed the member limit of jsonx.
const maxSimpleChunk = 16 << 10

// appendSimpleChunk does the same as appendChunk for nearly every chunk: a piece of text, the role
// or the end of one choice, or the usage. It reads the chunk in one pass without a tape. For any
// other chunk it changes nothing and returns false.
func (s *Stream) appendSimpleChunk(dst, data []byte) ([]byte, bool) {
	if len(data) == 0 || data[0] != '{' || len(data) > maxSimpleChunk || s.handover.pinned || s.options.ContinuousUsage {
		return dst, false
	}
	p := simpleChunk{simpleAnswer: simpleAnswer{Cursor: jsonx.NewCursor(data), stripReasoning: s.options.StripReasoning}}
	p.read(data, &s.head)
	if !p.IsAccepted() || !s.acceptsSimpleChunk(&p) {
		return dst, false
	}
	s.identity.recordID(p.id)
	s.identity.recordCreated(p.created)
	if p.headEnd > 0 {
		s.head.store(data[:p.headEnd], &p)
	}
	if !p.hasChoice {
		s.state.usage = s.state.getOrCreatePerChoice().addChunk(p.usage, int(s.state.choicesSeen-s.state.unfinished))
		s.state.usageFinal = s.state.allFinished(0)
		s.state.bytesAtUsage = s.state.generatedBytes
		if s.options.IncludeUsage {
			s.held.event = s.appendWithRole(s.held.event[:0], data, &p, false)
		}
		return dst, true
	}
	if p.seen&seenToolCalls != 0 || p.usage.Finish != FinishNone {
		s.template.forget() // as editChoice does
	}
	addRole := s.state.recordDelta(0, p.usage.Finish) && !p.hasRole
	text := data[p.content.at:p.content.end]
	if len(text) > 0 {
		s.state.recordOutput(len(text))
		s.started = true
		if !s.opening.Done {
			s.opening.AddText(text)
		}
	}
	start := len(dst)
	dst = s.appendWithRole(dst, data, &p, addRole)
	switch {
	case !s.options.IncludeUsage && s.state.allFinished(s.options.N):
		s.held.holdForTimings(dst[start:])
		return dst[:start], true
	case len(text) > 0 && p.usage.Finish == FinishNone && s.opening.Done:
		s.storeTemplate(data, &p)
	}
	return dst, true
}

// storeTemplate stores a chunk with text as the template. Later chunks of the choice get no role,
// even if this chunk got one.
func (s *Stream) storeTemplate(data []byte, p *simpleChunk) {
	t := &s.template
	t.toolCall = false
	const around = len("data: \n\n")
	if !t.chunkTemplate.store(data, p.content.at, p.content.end, around+len(s.out.model)+len(data)) {
		return
	}
	t.buf = s.appendWithRole(t.buf, data, p, false)
	t.textAt = int(t.tailEnd) + len("data: ") + len(s.out.model) - (p.model.end - p.model.at) + p.content.at
	t.buf = append(t.buf[:t.textAt], t.buf[t.textAt+p.content.end-p.content.at:]...)
}

func (s *Stream) acceptsSimpleChunk(p *simpleChunk) bool {
	const (
		needs       = seenID | seenObject | seenCreated | seenModel | seenChoices
		choiceNeeds = seenIndex | seenMessage
	)
	switch {
	case p.seen&needs != needs:
		return false
	case !p.hasChoice: // if the engine counts each choice separately, the usage must be summed
		return p.usage.Known && (s.state.perChoice == nil || s.state.perChoice.count == 0)
	case p.seen&choiceNeeds != choiceNeeds, p.usage.Known:
		return false
	case s.state.seenChoices[0]&1 == 0 && p.seen&seenRole != 0 && !p.hasRole:
		return false
	case p.usage.Finish != FinishNone && (s.state.hasFinished(0) || s.tools.HasToolCalls(0)):
		return false
	}
	return !p.escaped || s.opening.Done
}

func (s *Stream) appendWithRole(dst, data []byte, p *simpleChunk, addRole bool) []byte {
	dst = append(dst, "data: "...)
	start, from := len(dst), p.model.end
	dst = append(append(dst, data[:p.model.at]...), s.out.model...)
	if addRole {
		dst, from = append(dst, data[from:p.messageEnd]...), p.messageEnd
		if !p.emptyDelta {
			dst = append(dst, ',')
		}
		dst = append(dst, assistantRole...)
	}
	dst = append(dst, data[from:]...)
	sse.ReplaceLineEnds(dst[start:])
	return append(dst, "\n\n"...)
}

// chunkHead is the start of a chunk, up to the opening bracket of its choices. It is the same for
// all chunks of a stream, so it is read only once.
type chunkHead struct {
	text              []byte
	seen              seenMembers
	modelAt, modelEnd uint16 // at most maxTemplate
}

func (h *chunkHead) reset() { h.text = h.text[:0] }

func (h *chunkHead) store(text []byte, p *simpleChunk) {
	if h.reset(); len(text) <= maxTemplate {
		h.text, h.seen = append(h.text, text...), p.headSeen
		h.modelAt, h.modelEnd = uint16(p.model.at), uint16(p.model.end)
	}
}

// simpleChunk reads a chunk in the usual form and rejects all other chunks.
type simpleChunk struct {
	simpleAnswer        // the message fields refer to the delta
	id, created  []byte // both nil if they are part of the known head
	headEnd      int    // offset at which a head that may be stored ends, or 0
	headSeen     seenMembers
	hasChoice    bool
	hasRole      bool // the delta has a role that is not empty
	emptyDelta   bool
	content      struct{ at, end int } // position of the delta's content, without quotes
	escaped      bool
}

// read reads data. If data starts with the known head, read starts at the end of that head.
func (p *simpleChunk) read(data []byte, known *chunkHead) {
	var (
		name []byte
		ok   bool
	)
	if len(known.text) > 0 && bytes.HasPrefix(data, known.text) {
		p.seen = known.seen
		p.model.at, p.model.end = int(known.modelAt), int(known.modelEnd)
		p.Jump(len(known.text))
		p.readChoices()
		name, ok = p.NextMember()
	} else {
		name, ok = p.FirstMember()
	}
	for ; ok; name, ok = p.NextMember() {
		p.readMember(data, name)
	}
}

func (p *simpleChunk) readMember(data, name []byte) {
	switch string(name) {
	case "id":
		p.markSeen(seenID)
		p.id = p.readNonEmptyString()
	case "object":
		p.markSeen(seenObject)
		p.readNonEmptyString()
	case "created":
		p.markSeen(seenCreated)
		p.Peek()
		at := p.Offset()
		p.ReadUint()
		p.created = data[at:p.Offset()]
	case "model":
		p.markSeen(seenModel)
		raw, _ := p.ReadString()
		p.model.end = p.Offset()
		p.model.at = p.model.end - len(raw)
	case "choices":
		p.markSeen(seenChoices)
		if p.ReadBracket('['); p.seen&seenModel == 0 {
			p.Reject()
		}
		if p.seen&seenUsage == 0 {
			p.headEnd, p.headSeen = p.Offset(), p.seen
		}
		p.readChoices()
	case "usage":
		if p.markSeen(seenUsage); p.Peek() == 'n' {
			p.readNull()
			return
		}
		p.readUsage()
		if p.seen&seenPrompt == 0 || p.seen&seenCompletion == 0 {
			p.Reject()
		}
	case "error", "timings", "prompt_progress":
		p.Reject()
	default:
		p.readPassedMember(name)
	}
}

func (p *simpleChunk) readChoices() {
	if p.Peek() == '{' {
		p.hasChoice = true
		p.readChoice()
	}
	p.ReadBracket(']')
}

func (p *simpleChunk) readChoice() {
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "index":
			p.markSeen(seenIndex)
			if p.ReadUint() != 0 {
				p.Reject()
			}
		case "delta":
			p.markSeen(seenMessage)
			p.readDelta()
		case "finish_reason":
			p.markSeen(seenFinish)
			p.readFinish()
		case "message":
			p.Reject()
		default:
			p.readPassedMember(name)
		}
	}
}

func (p *simpleChunk) readFinish() {
	raw, escaped := p.readStringOrNull()
	if len(raw) <= 2 {
		return
	}
	finish, known := parseChatFinish(raw[1 : len(raw)-1])
	if !known || escaped {
		p.Reject()
	}
	p.usage.Finish = finish
}

func (p *simpleChunk) readDelta() {
	p.Peek()
	p.messageEnd, p.emptyDelta = p.Offset()+1, true
	for name, ok := p.FirstMember(); ok; name, ok = p.NextMember() {
		switch string(name) {
		case "role":
			p.markSeen(seenRole)
			raw, _ := p.readStringOrNull()
			p.hasRole = len(raw) > 2
		case "content":
			p.markSeen(seenContent)
			var raw []byte
			if raw, p.escaped = p.readStringOrNull(); len(raw) > 2 {
				p.content.at, p.content.end = p.Offset()-len(raw)+1, p.Offset()-1
			}
		case "tool_calls":
			p.markSeen(seenToolCalls)
			p.readNull()
		case "refusal", "reasoning", "reasoning_content":
			if p.readNull(); p.stripReasoning && isReasoning(name) {
				p.Reject()
			}
		default:
			if p.ReadValue(); p.stripReasoning && isReasoning(name) {
				p.Reject()
			}
		}
		p.messageEnd, p.emptyDelta = p.Offset(), false
	}
}

func (p *simpleChunk) readNull() {
	if string(p.ReadValue()) != "null" {
		p.Reject()
	}
}
