package chat

import (
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// gap is a member that clients count on and that the engine left out, or gave as a null that they cannot read.
type gap struct {
	at   jsonx.Value // the object that lacks it, or the null
	null bool
	text []byte // the member, or what comes in place of the null
}

var (
	stopped       = []byte(`"finish_reason":"stop"`)
	called        = []byte(`"finish_reason":"tool_calls"`)
	noLogprobs    = []byte(`"logprobs":null`)
	assistantRole = []byte(`"role":"assistant"`)
	noContent     = []byte(`"content":null`)
	noRefusal     = []byte(`"refusal":null`)
	firstIndex    = []byte(`"index":0`)
	noFingerprint = []byte(`"system_fingerprint":null`)
)

// look notes the gaps of choice number n, which is at v, and of its message.
func (c *Completion) look(n int, v jsonx.Value, choice *Choice, message *Delta) {
	if !choice.Numbered {
		c.gaps = append(c.gaps, numbering(v, n))
	}
	if !choice.Finish.Exists() {
		finish := stopped
		if message.ToolCalls.Index(0).Exists() {
			finish = called
		}
		c.gaps = append(c.gaps, gap{at: v, text: finish})
	}
	if !choice.Logprobs.Exists() {
		c.gaps = append(c.gaps, gap{at: v, text: noLogprobs})
	}
	if !message.Role.Exists() {
		c.gaps = append(c.gaps, gap{at: choice.Body, text: assistantRole})
	}
	if !message.Content.Exists() {
		c.gaps = append(c.gaps, gap{at: choice.Body, text: noContent})
	}
	if !message.Refusal.Exists() {
		c.gaps = append(c.gaps, gap{at: choice.Body, text: noRefusal})
	}
	var p toolcall.Piece
	for it := message.ToolCalls.Iter(); it.Next(); {
		part, _ := c.readToolCall(n, &p, it.Value())
		c.lacking = c.lacking || part.MakeID || part.NeedType || p.Args.IsObject() || p.Args.IsString() && hasEscapes(inside(p.Args))
	}
}

// numbering is the gap of the choice at v, which has no index or a null, and is number n.
func numbering(v jsonx.Value, n int) gap {
	member := firstIndex // of nearly every choice, and streams must not allocate
	if n > 0 {
		member = strconv.AppendInt([]byte(`"index":`), int64(n), 10)
	}
	if at := v.Get("index"); at.Exists() {
		return gap{at: at, null: true, text: member[len(`"index":`):]}
	}
	return gap{at: v, text: member}
}

// fill notes in edits what closes the gap.
func (g gap) fill(edits *jsonx.Edits) {
	if g.null {
		edits.Set(g.at, g.text)
		return
	}
	edits.Add(g.at, g.text)
}
