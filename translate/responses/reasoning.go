package responses

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// The text of reasoning never appears in a response. A client that includes
// reasoning.encrypted_content gets the reasoning sealed, and sends it back with the next request.

// includeReasoning is the element of include that asks for sealed reasoning.
const includeReasoning = "reasoning.encrypted_content"

// keep stores a piece of a part to be sealed. Beyond the limit it stores only enough to show that
// the text is too long. It returns the number of bytes that it stored.
func (p *part) keep(text []byte) int {
	text = text[:min(len(text), seal.MaxText+1-len(p.unsealed))]
	p.unsealed = append(p.unsealed, text...)
	return len(text)
}

// seal replaces the text with its blob. If the text is too long there is no blob.
func (p *part) seal(box seal.Box) {
	p.text, _ = box.Seal(p.text[:0], p.unsealed)
	p.unsealed = nil
}

// appendSealed appends the item for a sealed part. The item has a blob once the part has ended.
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

// reasoningOf appends the text of a reasoning item, as the contents of a JSON string. It is the
// sealed text, or the text that another service has shown the client. If the item was sealed
// elsewhere, reasoningOf appends nothing and returns false.
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
