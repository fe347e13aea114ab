package answer

import (
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// missingMember is a member that clients need, but that the engine omitted or sent with an unusable
// value.
type missingMember struct {
	target   jsonx.Value // the object that lacks the member or, if replaces is true, the unusable value
	replaces bool
	text     []byte
}

var (
	nullLogprobs    = []byte(`"logprobs":null`)
	assistantRole   = []byte(`"role":"assistant"`)
	nullContent     = []byte(`"content":null`)
	nullRefusal     = []byte(`"refusal":null`)
	indexZero       = []byte(`"index":0`)
	nullFingerprint = []byte(`"system_fingerprint":null`)
)

func (c *ChatCompletion) findMissing(n int, v jsonx.Value, choice *Choice, message *Delta) {
	if !choice.Numbered {
		c.missing = append(c.missing, newMissingIndexMember(v, n))
	}
	called := message.ToolCalls.Index(0).Exists()
	if word := replacementFinish(choice.Finish, called); !choice.Finish.Exists() {
		c.missing = append(c.missing, missingMember{target: v, text: append([]byte(`"finish_reason":`), word...)})
	} else if word != nil {
		c.missing = append(c.missing, missingMember{target: choice.Finish, replaces: true, text: word})
	}
	if !choice.Logprobs.Exists() {
		c.missing = append(c.missing, missingMember{target: v, text: nullLogprobs})
	}
	switch {
	case !message.Role.Exists():
		c.missing = append(c.missing, missingMember{target: choice.Body, text: assistantRole})
	case !message.Role.HasText():
		c.missing = append(c.missing, missingMember{target: message.Role, replaces: true, text: assistantRole[len(`"role":`):]})
	}
	if !message.Content.Exists() {
		c.missing = append(c.missing, missingMember{target: choice.Body, text: nullContent})
	}
	if !message.Refusal.Exists() {
		c.missing = append(c.missing, missingMember{target: choice.Body, text: nullRefusal})
	}
	var p toolcall.ToolCallPiece
	cut := choice.hasTruncatedToolCall()
	for it := message.ToolCalls.Iter(); it.Next(); {
		part, _ := c.readToolCall(n, &p, it.Value())
		c.incompleteToolCalls = c.incompleteToolCalls || part.MakeID || part.NeedType || part.Surplus || p.Args.IsObject() ||
			p.Args.IsString() && toolcall.HasEscapes(p.Args.RawContents()) ||
			hasWrongToolCallIndex(&p, &part) || completeArguments(&p, cut) != nil
	}
}

func newMissingIndexMember(v jsonx.Value, n int) missingMember {
	member := indexZero // correct for nearly every choice, so it avoids an allocation
	if n > 0 {
		member = strconv.AppendInt([]byte(`"index":`), int64(n), 10)
	}
	if at := v.Get("index"); at.Exists() {
		return missingMember{target: at, replaces: true, text: member[len(`"index":`):]}
	}
	return missingMember{target: v, text: member}
}

func (m missingMember) addTo(edits *jsonx.Edits) {
	if m.replaces {
		edits.Set(m.target, m.text)
		return
	}
	edits.Add(m.target, m.text)
}
