package responses

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// The text of reasoning never appears in a response. A client that includes
// reasoning.encrypted_content receives the reasoning sealed, and sends it back with the next
// request.

// includeReasoning is the element of include that requests sealed reasoning.
const includeReasoning = "reasoning.encrypted_content"

// storeUnsealed stores text to be sealed and returns how many bytes it stored. It stores at most
// one byte more than seal.MaxText, which shows that the text is too long.
func (p *outputPart) storeUnsealed(text []byte) int {
	text = text[:min(len(text), seal.MaxText+1-len(p.unsealed))]
	p.unsealed = append(p.unsealed, text...)
	return len(text)
}

// seal replaces the text with its blob. If the text is too long, the blob is empty.
func (p *outputPart) seal(box seal.Box) {
	p.text, _ = box.Seal(p.text[:0], p.unsealed)
	p.unsealed = nil
}

// appendSealed appends the item for a sealed part. If the part has ended, the item contains the
// blob.
func (o *answerOutput) appendSealed(dst []byte, p *outputPart) []byte {
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

// appendReasoning appends the text of a reasoning item. The text is sealed by the edge, or is a
// readable text from another service. If another service sealed the item, appendReasoning returns
// false.
func appendReasoning(dst []byte, i *inputItem, opener chat.ReasoningOpener, model []byte) (out []byte, opened bool) {
	if blob := i.m[fieldEncryptedContentIndex]; blob.HasText() {
		text, plain := blob.Text()
		if !plain {
			text = blob.AppendText(nil)
		}
		if opener == nil {
			return dst, false
		}
		return opener.OpenReasoning(dst, model, text)
	}
	if content := i.m[fieldContentIndex]; content.IsArray() {
		for it := content.Iter(); it.Next(); {
			if text := it.Value().Get("text"); text.IsString() && it.Value().Get("type").EqualText("reasoning_text") {
				dst = append(dst, text.RawContents()...)
			}
		}
	}
	return dst, true
}
