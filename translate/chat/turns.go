package chat

import "penstock/translate/jsonx"

// The chat templates of Gemma, Mistral and other models reject two consecutive messages with the
// same role. The Messages API defines such messages as one turn. Clients of other APIs also send
// such messages: Codex starts with two developer and two user messages. The edge joins them into
// one message that contains all their parts.

type turnRole uint8

const (
	turnUnjoinable turnRole = iota // never joined
	turnSystem
	turnUser
	turnAssistant // assistant, without tool calls
)

// joinableRole returns the role of a message that may be joined with its neighbours, or
// turnUnjoinable. These messages are never joined:
//   - messages with tool calls or tool results,
//   - messages with a name, because the neighbour has a different name or no name,
//   - messages with reasoning, because the reasoning belongs to this message's text,
//   - messages with media outside their content.
func joinableRole(role string, m *[messageMemberCount]jsonx.Value) turnRole {
	if hasElements(m[messageToolCallsIndex]) || IsGiven(m[messageToolCallIDIndex]) || IsGiven(m[messageNameIndex]) ||
		m[messageReasoningContentIndex].HasText() || m[messageReasoningIndex].HasText() {
		return turnUnjoinable
	}
	for _, v := range m[messageMediaIndex:] {
		if IsGiven(v) {
			return turnUnjoinable
		}
	}
	return textTurnRole(role)
}

// textTurnRole returns the role under which a message that contains only text may be joined.
func textTurnRole(role string) turnRole {
	switch role {
	case "user":
		return turnUser
	case "assistant":
		return turnAssistant
	case "system", "developer":
		return turnSystem
	}
	return turnUnjoinable
}

func hasElements(v jsonx.Value) bool { return v.IsArray() && v.Index(0).Exists() }

// MustJoinTurns reports whether the edge must join messages of the request.
func MustJoinTurns(r *Request, format *EngineFormat) bool {
	return r.Prompt.hasAdjacentTurns && (r.TurnsAreOne || format.JoinTurns)
}

// HasAdjacentTurns reports whether the request has consecutive messages that may be joined.
func HasAdjacentTurns(r *Request) bool { return r.Prompt.hasAdjacentTurns }

// EffortWord returns the effort word for an engine with the given format, or "".
func EffortWord(r *Request, format *EngineFormat) string {
	how := format.Reasoning
	if how == nil {
		how = &standardReasoningFormat
	}
	return how.effortWord(&r.Reasoning)
}

type turnMessage struct {
	role                        turnRole
	message, roleValue, content jsonx.Value // name is the name of the role, exactly as the client sent it
}

// partsRange returns the range of the parts in a message's content. If text is true, the content
// is a string, and joinRun must write a text part around it. If there is no content, end is 0.
func (j *turnMessage) partsRange() (start, end int, text bool) {
	switch v := j.content; {
	case v.IsString() && textLength(v) > 0:
		return v.Start(), v.End(), true
	case hasElements(v):
		return v.Index(0).Start(), v.Index(v.Len() - 1).End(), false
	}
	return 0, 0, false
}

// joinTurns joins consecutive messages. It retains the bytes of the contents and replaces the bytes
// between them. A message without content is removed.
func joinTurns(p *requestPatch, messages jsonx.Value, developerAsSystem bool) {
	var run []turnMessage
	end := func() {
		if len(run) > 1 {
			joinRun(p, run, developerAsSystem)
		}
		run = run[:0]
	}
	for it := messages.Iter(); it.Next(); {
		var m [messageMemberCount]jsonx.Value
		_ = ReadFields(it.Value(), messageMemberNames, m[:]) // decode has already checked the message
		role := joinableRole(roleOf(m[messageRoleIndex]), &m)
		if role == turnUnjoinable || len(run) > 0 && run[0].role != role {
			end()
		}
		if role != turnUnjoinable {
			run = append(run, turnMessage{role, it.Value(), m[messageRoleIndex], m[messageContentIndex]})
		}
	}
	end()
}

// joinRun joins a run into one message. If no message in the run has content, the result has an
// empty content.
func joinRun(p *requestPatch, run []turnMessage, developerAsSystem bool) {
	role := run[0].roleValue.Raw()
	if developerAsSystem && run[0].role == turnSystem {
		role = jsonSystem
	}
	at, pieces, open := run[0].message.Start(), 0, false
	for i := range run {
		start, end, text := run[i].partsRange()
		if end == 0 {
			continue
		}
		n := len(p.newText)
		if pieces == 0 {
			p.newText = append(append(append(p.newText, `{"role":`...), role...), `,"content":[`...)
		} else {
			p.newText = append(closePart(p.newText, open), ',')
		}
		if text {
			p.newText = append(p.newText, textPartBegin...)
		}
		p.edits.Replace(at, start, p.newTextFrom(n))
		at, open = end, text
		pieces++
	}
	n := len(p.newText)
	if pieces == 0 {
		p.newText = append(append(append(p.newText, `{"role":`...), role...), `,"content":""}`...)
	} else {
		p.newText = append(closePart(p.newText, open), `]}`...)
	}
	p.edits.Replace(at, run[len(run)-1].message.End(), p.newTextFrom(n))
}

func closePart(dst []byte, open bool) []byte {
	if open {
		return append(dst, '}')
	}
	return dst
}
