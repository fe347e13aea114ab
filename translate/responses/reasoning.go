package responses

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// The text of reasoning is never in a byte of a response. A client that includes
// reasoning.encrypted_content carries it sealed from one request to the next.

// includeReasoning is the element of include that asks for sealed reasoning.
const includeReasoning = "reasoning.encrypted_content"

// keep takes a piece of what p is made of and is sealed: no more than shows that it is too long for
// that. It returns how many bytes it has kept.
func (p *part) keep(text []byte) int {
	text = text[:min(len(text), seal.MaxText+1-len(p.unsealed))]
	p.unsealed = append(p.unsealed, text...)
	return len(text)
}

// seal puts the blob in the place of the text. Where that is too long there is none.
func (p *part) seal(box seal.Box) {
	p.text, _ = box.Seal(p.text[:0], p.unsealed)
	p.unsealed = nil
}

// appendSealed appends the item of a part that is sealed. It has a blob once it has ended.
func (o *output) appendSealed(dst []byte, p *part) []byte {
	dst = o.appendItemID(append(dst, `{"id":"`...), p)
	if p.kind == kindReasoning {
		dst = append(dst, `","type":"reasoning","summary":[],"encrypted_content":`...)
	} else {
		dst = append(dst, `","type":"compaction","encrypted_content":`...)
	}
	if len(p.text) == 0 {
		return append(dst, "null}"...)
	}
	return append(append(append(dst, '"'), p.text...), `"}`...)
}

// reasoningOf appends the text of an item of reasoning: what is sealed in it, or what another
// service has shown the client; the contents of a JSON string. It reports false, and appends
// nothing, for what was sealed elsewhere.
func reasoningOf(dst []byte, i *item, opener chat.Opener, model []byte) (out []byte, opened bool) {
	if blob := i.m[fieldEncryptedContent]; blob.HasText() {
		text, plain := blob.Text()
		if !plain {
			text = blob.AppendText(nil)
		}
		if opener == nil {
			return dst, false
		}
		return opener.Open(dst, model, text)
	}
	if content := i.m[fieldContent]; content.IsArray() {
		for it := content.Iter(); it.Next(); {
			if text := it.Value().Get("text"); text.IsString() && it.Value().Get("type").EqualText("reasoning_text") {
				dst = append(dst, text.Inside()...)
			}
		}
	}
	return dst, true
}
