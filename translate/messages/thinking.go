package messages

import (
	"slices"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/seal"
)

type thinkingDisplay uint8

const (
	thinkingHidden   thinkingDisplay = iota // the client did not request thinking
	thinkingShown                           // the client sees the thinking as text
	thinkingOmitted                         // sealed in the signature of an empty block
	thinkingRedacted                        // sealed in a separate block
)

func (t thinkingDisplay) blockContentKind() contentKind {
	if t == thinkingShown {
		return kindThinking
	}
	return kindSealed
}

// canStream reports whether a block of kind k can start before it is complete.
func (t thinkingDisplay) canStream(k contentKind) bool {
	return k != kindSealed || t == thinkingOmitted
}

// sealText returns the blob for a text. If the text cannot be sealed, it returns the constant
// signature and false.
func sealText(box seal.Box, text []byte) (blob []byte, ok bool) {
	if blob, ok = box.Seal(nil, text); !ok {
		blob = []byte(placeholderSignature)
	}
	return blob, ok
}

func (t thinkingDisplay) append(dst, text []byte, box seal.Box) []byte {
	switch t {
	case thinkingHidden:
	case thinkingShown:
		dst = append(append(dst, `{"type":"thinking","thinking":"`...), text...)
		dst = append(dst, `","signature":"`+placeholderSignature+`"}`...)
	case thinkingOmitted:
		blob, _ := sealText(box, text)
		dst = append(append(dst, `{"type":"thinking","thinking":"","signature":"`...), blob...)
		dst = append(dst, `"}`...)
	case thinkingRedacted:
		if blob, ok := sealText(box, text); ok {
			dst = append(append(dst, `{"type":"redacted_thinking","data":"`...), blob...)
			dst = append(dst, `"}`...)
		}
	}
	return dst
}

// placeholderSignature is sent instead of the vendor's proof that the vendor generated the
// thinking. Clients send it back without reading it.
const placeholderSignature = "cGVuc3RvY2s="

// These values of the thinking member have an effect on the edge.
const (
	typeDisabled   = "disabled"
	displayOmitted = "omitted"
)

// The lists of known types and displays. Claude Code 2.1.332 starts each session with the display
// "updates".
var (
	thinkingTypes    = chat.HintWordList{Words: []string{"enabled", "adaptive", typeDisabled}, Other: "adaptive"}
	thinkingDisplays = chat.HintWordList{Words: []string{"summarized", displayOmitted}, Other: "summarized"}
)

// chooseThinking returns how to send thinking to the client. kind and display are empty if the
// client did not send them. A client may request the text even if it uses the beta that redacts
// thinking.
func chooseThinking(kind, display string, redact bool) thinkingDisplay {
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

type thinkingHistory struct {
	opener   chat.ReasoningOpener // nil if no thinking can be opened
	model    []byte               // the model in the client's spelling
	keptFrom int                  // the client has cleared the thinking in all messages before this index

	hasUnopened bool // another provider or edge sealed one of the blocks

	cleared       clearedThinking
	clearedInTurn bool // thinking has been cleared from the current turn
}

// recordUser records a user message. A message without tool results starts a new turn.
func (p *thinkingHistory) recordUser(content jsonx.Value) {
	p.clearedInTurn = p.clearedInTurn && hasToolResult(content)
}

func (p *thinkingHistory) recordCleared(b *contentBlock) {
	text := b.fields[fieldDataIndex]
	if b.kind == blockThinking {
		if text = b.fields[fieldThinkingIndex]; !text.HasText() {
			text = b.fields[fieldSignatureIndex]
		}
	}
	if text.IsString() {
		p.cleared.bytes += len(text.RawContents())
	}
	if !p.clearedInTurn {
		p.clearedInTurn = true
		p.cleared.turns++
	}
}

func (p *thinkingHistory) keepsBlock(i int, b *contentBlock) bool {
	return i >= p.keptFrom && (b.kind == blockThinking || b.kind == blockRedactedThinking)
}

// appendText appends the text of a thinking block. If another service sealed the thinking,
// appendText appends nothing.
func (p *thinkingHistory) appendText(dst []byte, b *contentBlock) []byte {
	blob := b.fields[fieldDataIndex]
	if b.kind == blockThinking {
		if text := b.fields[fieldThinkingIndex]; text.HasText() {
			return append(dst, text.RawContents()...)
		}
		blob = b.fields[fieldSignatureIndex]
	}
	if !blob.HasText() || blob.EqualText(placeholderSignature) {
		return dst
	}
	if p.opener == nil {
		p.hasUnopened = true
		return dst
	}
	text, plain := blob.Text()
	if !plain {
		text = blob.AppendText(nil)
	}
	dst, opened := p.opener.OpenReasoning(dst, p.model, text)
	p.hasUnopened = p.hasUnopened || !opened
	return dst
}

// editHistory opens sealed thinking for an engine's token counter, and removes blocks that engines
// must not see.
func editHistory(edits *jsonx.Edits, root jsonx.Value, n *chat.CountRequest) {
	messages := root.Get("messages")
	if !messages.IsArray() {
		return
	}
	p := thinkingHistory{opener: n.Opener, model: n.Model, keptFrom: firstKeptThinking(root.Get("context_management"), messages)}
	if n.ReasoningHistory == chat.ReasoningHistoryLoop {
		p.keptFrom = max(p.keptFrom, toolLoopStart(messages))
	}
	for it := messages.Iter(); it.Next(); {
		if content := it.Value().Get("content"); content.IsArray() {
			none := n.ReasoningHistory == chat.ReasoningHistoryNone
			p.openBlocks(edits, content, it.Index(), none)
		}
	}
}

// toolLoopStart returns the index of the message after which the current tool loop starts.
func toolLoopStart(messages jsonx.Value) (from int) {
	for it := messages.Iter(); it.Next(); {
		if it.Value().Get("role").EqualText("user") && !hasToolResult(it.Value().Get("content")) {
			from = it.Index()
		}
	}
	return from
}

// openBlocks does the work of editHistory for message i, or for a tool result in message i.
func (p *thinkingHistory) openBlocks(edits *jsonx.Edits, content jsonx.Value, i int, none bool) {
	left := content.Len()
	for it := content.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
			continue
		case b.kind == blockToolResult && b.fields[fieldContentIndex].IsArray():
			p.openBlocks(edits, b.fields[fieldContentIndex], i, none)
			continue
		case b.kind == blockCompaction && b.fields[fieldContentIndex].HasText():
			edits.Set(it.Value(), slices.Concat([]byte(`{"type":"text","text":`), b.fields[fieldContentIndex].Raw(), []byte{'}'}))
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
		open := b.kind == blockThinking && b.fields[fieldThinkingIndex].HasText()
		var text []byte
		if keeps := !none && p.keepsBlock(i, &b); keeps && open {
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
