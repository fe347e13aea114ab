package messages

import (
	"slices"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/seal"
)

// thinking is the way in which the client gets the model's reasoning.
type thinking uint8

const (
	thinkingHidden   thinking = iota // not at all: the client did not ask
	thinkingShown                    // as text
	thinkingOmitted                  // sealed, in the signature of an empty block
	thinkingRedacted                 // sealed, in a separate block
)

// kind returns the kind of the blocks that contain the thinking.
func (t thinking) kind() kind {
	if t == thinkingShown {
		return kindThinking
	}
	return kindSealed
}

// streams reports whether a block of kind k can start before it is complete.
func (t thinking) streams(k kind) bool { return k != kindSealed || t == thinkingOmitted }

// sealed returns the blob for a text, or a signature without meaning.
func sealed(box seal.Box, text []byte) (blob []byte, ok bool) {
	if blob, ok = box.Seal(nil, text); !ok {
		blob = []byte(signature)
	}
	return blob, ok
}

// append appends the thinking block of a whole answer.
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

// signature replaces the vendor's proof that it made the thinking, unless the thinking itself is
// sealed in the signature. Clients return the signature unread.
const signature = "cGVuc3RvY2s="

// The words in the member thinking that have an effect here.
const (
	typeDisabled   = "disabled"
	displayOmitted = "omitted"
)

// The words that the member thinking may have. Claude Code 2.1.332 starts each session with the
// display "updates".
var (
	thinkingTypes    = chat.WordList{Words: []string{"enabled", "adaptive", typeDisabled}, Other: "adaptive"}
	thinkingDisplays = chat.WordList{Words: []string{"summarized", displayOmitted}, Other: "summarized"}
)

// thinkingOf returns how a client that sends the given type and display gets the reasoning. If kind
// or display is empty, the client did not send it. A client whose beta redacts thinking may still
// ask for the text.
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

// past reads the thinking in a history.
type past struct {
	opener chat.Opener // nil: no thinking can be opened
	model  []byte      // as the client wrote it
	from   int         // the client has cleared the thinking of messages before this one

	unopened bool // a block was sealed by another provider or edge

	cleared cleared
	inTurn  bool // thinking has been cleared from the current turn
}

// user records a user message, which starts a turn unless it has tool results.
func (p *past) user(content jsonx.Value) { p.inTurn = p.inTurn && hasResult(content) }

// clear records a thinking block that the client has cleared.
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

// has reports whether block b of message i is thinking that has not been cleared.
func (p *past) has(i int, b *block) bool {
	return i >= p.from && (b.kind == blockThinking || b.kind == blockRedactedThinking)
}

// appendText appends the text of a thinking block, as the contents of a JSON string. If another
// service sealed the thinking, it appends nothing.
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

// editHistory records the changes that make the history readable for an engine's counter. It opens
// sealed thinking, and removes what engines must not see.
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

// keepThinkingOfLoop returns the index after which the running tool loop starts.
func keepThinkingOfLoop(messages jsonx.Value) (from int) {
	for it := messages.Iter(); it.Next(); {
		if it.Value().Get("role").EqualText("user") && !hasResult(it.Value().Get("content")) {
			from = it.Index()
		}
	}
	return from
}

// openBlocks is editHistory for message i, or for a tool's result in it.
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
			edits.Set(it.Value(), []byte(`{"type":"text","text":""}`)) // a message must keep at least one block
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
