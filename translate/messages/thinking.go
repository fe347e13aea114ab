package messages

import (
	"slices"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/seal"
)

type thinking uint8

const (
	thinkingHidden   thinking = iota // the client did not request thinking
	thinkingShown                    // the client sees the thinking as text
	thinkingOmitted                  // sealed in the signature of an empty block
	thinkingRedacted                 // sealed in a separate block
)

func (t thinking) kind() kind {
	if t == thinkingShown {
		return kindThinking
	}
	return kindSealed
}

// streams reports whether a block of kind k can start before it is complete.
func (t thinking) streams(k kind) bool { return k != kindSealed || t == thinkingOmitted }

// sealed returns the blob for a text. If the text cannot be sealed, it returns the constant
// signature and false.
func sealed(box seal.Box, text []byte) (blob []byte, ok bool) {
	if blob, ok = box.Seal(nil, text); !ok {
		blob = []byte(signature)
	}
	return blob, ok
}

func (t thinking) append(dst, text []byte, box seal.Box) []byte {
	switch t {
	case thinkingHidden:
	case thinkingShown:
		dst = append(append(dst, `{"type":"thinking","thinking":"`...), text...)
		dst = append(dst, `","signature":"`+signature+`"}`...)
	case thinkingOmitted:
		blob, _ := sealed(box, text)
		dst = append(append(dst, `{"type":"thinking","thinking":"","signature":"`...), blob...)
		dst = append(dst, `"}`...)
	case thinkingRedacted:
		if blob, ok := sealed(box, text); ok {
			dst = append(append(dst, `{"type":"redacted_thinking","data":"`...), blob...)
			dst = append(dst, `"}`...)
		}
	}
	return dst
}

// signature is sent instead of the vendor's proof that the vendor generated the thinking. Clients
// send it back without reading it.
const signature = "cGVuc3RvY2s="

// These values of the thinking member have an effect on the edge.
const (
	typeDisabled   = "disabled"
	displayOmitted = "omitted"
)

// The lists of known types and displays. Claude Code 2.1.332 starts each session with the display
// "updates".
var (
	thinkingTypes    = chat.WordList{Words: []string{"enabled", "adaptive", typeDisabled}, Other: "adaptive"}
	thinkingDisplays = chat.WordList{Words: []string{"summarized", displayOmitted}, Other: "summarized"}
)

// thinkingOf returns how to send thinking to the client. If the client did not send kind or
// display, they are empty. A client may request the text even if it uses the beta that redacts
// thinking.
func thinkingOf(kind, display string, redact bool) thinking {
	switch {
	case kind == "" || kind == typeDisabled:
		return thinkingHidden
	case display == displayOmitted:
		return thinkingOmitted
	case redact && display == "":
		return thinkingRedacted
	}
	return thinkingShown
}

type past struct {
	opener chat.Opener // nil if no thinking can be opened
	model  []byte      // the model in the client's spelling
	from   int         // the client has cleared the thinking in messages before this index

	unopened bool // another provider or edge sealed one of the blocks

	cleared cleared
	inTurn  bool // thinking has been cleared from the current turn
}

// user records a user message. A message without tool results starts a new turn.
func (p *past) user(content jsonx.Value) { p.inTurn = p.inTurn && hasResult(content) }

func (p *past) clear(b *block) {
	text := b.fields[fieldData]
	if b.kind == blockThinking {
		if text = b.fields[fieldThinking]; !text.HasText() {
			text = b.fields[fieldSignature]
		}
	}
	if text.IsString() {
		p.cleared.bytes += len(text.Inside())
	}
	if !p.inTurn {
		p.inTurn = true
		p.cleared.turns++
	}
}

func (p *past) has(i int, b *block) bool {
	return i >= p.from && (b.kind == blockThinking || b.kind == blockRedactedThinking)
}

// appendText appends the text of a thinking block. If another service sealed the thinking,
// appendText appends nothing.
func (p *past) appendText(dst []byte, b *block) []byte {
	blob := b.fields[fieldData]
	if b.kind == blockThinking {
		if text := b.fields[fieldThinking]; text.HasText() {
			return append(dst, text.Inside()...)
		}
		blob = b.fields[fieldSignature]
	}
	if !blob.HasText() || blob.EqualText(signature) {
		return dst
	}
	if p.opener == nil {
		p.unopened = true
		return dst
	}
	text, plain := blob.Text()
	if !plain {
		text = blob.AppendText(nil)
	}
	dst, opened := p.opener.Open(dst, p.model, text)
	p.unopened = p.unopened || !opened
	return dst
}

// editHistory opens sealed thinking for an engine's token counter, and removes blocks that engines
// must not see.
func editHistory(edits *jsonx.Edits, root jsonx.Value, n *chat.CountRequest) {
	messages := root.Get("messages")
	if !messages.IsArray() {
		return
	}
	p := past{opener: n.Opener, model: n.Model, from: keepThinkingFrom(root.Get("context_management"), messages)}
	if n.ReasoningHistory == chat.ReasoningLoop {
		p.from = max(p.from, keepThinkingOfLoop(messages))
	}
	for it := messages.Iter(); it.Next(); {
		if content := it.Value().Get("content"); content.IsArray() {
			none := n.ReasoningHistory == chat.ReasoningNone
			p.openBlocks(edits, content, it.Index(), none)
		}
	}
}

// keepThinkingOfLoop returns the index of the message after which the current tool loop starts.
func keepThinkingOfLoop(messages jsonx.Value) (from int) {
	for it := messages.Iter(); it.Next(); {
		if it.Value().Get("role").EqualText("user") && !hasResult(it.Value().Get("content")) {
			from = it.Index()
		}
	}
	return from
}

// openBlocks does the work of editHistory for message i, or for a tool result in message i.
func (p *past) openBlocks(edits *jsonx.Edits, content jsonx.Value, i int, none bool) {
	left := content.Len()
	for it := content.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
			continue
		case b.kind == blockToolResult && b.fields[fieldContent].IsArray():
			p.openBlocks(edits, b.fields[fieldContent], i, none)
			continue
		case b.kind == blockCompaction && b.fields[fieldContent].HasText():
			edits.Set(it.Value(), slices.Concat([]byte(`{"type":"text","text":`), b.fields[fieldContent].Raw(), []byte{'}'}))
			continue
		case (b.kind == blockIgnored || b.kind == blockCompaction) && left > 1:
			edits.Delete(it.Value())
			left--
			continue
		case b.kind == blockIgnored, b.kind == blockCompaction:
			edits.Set(it.Value(), []byte(`{"type":"text","text":""}`)) // a message must have at least one block
			continue
		case b.kind != blockThinking && b.kind != blockRedactedThinking:
			continue
		}
		open := b.kind == blockThinking && b.fields[fieldThinking].HasText()
		var text []byte
		if keeps := !none && p.has(i, &b); keeps && open {
			continue
		} else if keeps {
			text = p.appendText(nil, &b)
		}
		if len(text) == 0 && left > 1 {
			edits.Delete(it.Value())
			left--
			continue
		}
		edits.Set(it.Value(), thinkingShown.append(nil, text, seal.Box{}))
	}
}
