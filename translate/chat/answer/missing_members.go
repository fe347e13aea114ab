package answer

import (
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// missingMember is a member that clients need, but that the engine omitted or sent with an unusable
// value.
type missingMember struct {
	at   jsonx.Value // the object that lacks the member or, if set is true, the unusable value
	set  bool
	text []byte
}

var (
	nullLogprobs    = []byte(`"logprobs":null`)
	assistantRole   = []byte(`"role":"assistant"`)
	nullContent     = []byte(`"content":null`)
	nullRefusal     = []byte(`"refusal":null`)
	indexZero       = []byte(`"index":0`)
	nullFingerprint = []byte(`"system_fingerprint":null`)
)

func (c *Completion) findMissing(n int, v jsonx.Value, choice *Choice, message *Delta) {
	if !choice.Numbered {
		c.missing = append(c.missing, missingIndex(v, n))
	}
	called := message.ToolCalls.Index(0).Exists()
	if word := endWord(choice.Finish, called); !choice.Finish.Exists() {
		c.missing = append(c.missing, missingMember{at: v, text: append([]byte(`"finish_reason":`), word...)})
	} else if word != nil {
		c.missing = append(c.missing, missingMember{at: choice.Finish, set: true, text: word})
	}
	if !choice.Logprobs.Exists() {
		c.missing = append(c.missing, missingMember{at: v, text: nullLogprobs})
	}
	switch {
	case !message.Role.Exists():
		c.missing = append(c.missing, missingMember{at: choice.Body, text: assistantRole})
	case !message.Role.HasText():
		c.missing = append(c.missing, missingMember{at: message.Role, set: true, text: assistantRole[len(`"role":`):]})
	}
	if !message.Content.Exists() {
		c.missing = append(c.missing, missingMember{at: choice.Body, text: nullContent})
	}
	if !message.Refusal.Exists() {
		c.missing = append(c.missing, missingMember{at: choice.Body, text: nullRefusal})
	}
	var p toolcall.Piece
	cut := choice.cut()
	for it := message.ToolCalls.Iter(); it.Next(); {
		part, _ := c.readToolCall(n, &p, it.Value())
		c.incompleteToolCalls = c.incompleteToolCalls || part.MakeID || part.NeedType || part.Surplus || p.Args.IsObject() ||
			p.Args.IsString() && toolcall.HasEscapes(p.Args.Inside()) ||
			wrongIndex(&p, &part) || completeArguments(&p, cut) != nil
	}
}

func missingIndex(v jsonx.Value, n int) missingMember {
	member := indexZero // correct for nearly every choice, so it avoids an allocation
	if n > 0 {
		member = strconv.AppendInt([]byte(`"index":`), int64(n), 10)
	}
	if at := v.Get("index"); at.Exists() {
		return missingMember{at: at, set: true, text: member[len(`"index":`):]}
	}
	return missingMember{at: v, text: member}
}

func (m missingMember) addTo(edits *jsonx.Edits) {
	if m.set {
		edits.Set(m.at, m.text)
		return
	}
	edits.Add(m.at, m.text)
}
