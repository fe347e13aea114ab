package messages

import (
	"strconv"

	"penstock/translate/seal"
)

// kind is a kind of content block.
type kind uint8

const (
	kindThinking kind = iota
	kindSealed        // thinking that the client may not read
	kindText
	kindToolCall
)

// streamBlock is a content block of a stream.
type streamBlock struct {
	kind     kind
	open     bool
	toolCall int    // for kindToolCall: its position in the reader's ToolCalls
	text     []byte // for other kinds: text not sent yet; for kindSealed: all text
}

// keep stores a piece that is not sent yet. If a text to be sealed is too long, keep stores only
// enough to show that.
func (b *streamBlock) keep(text []byte) {
	if b.kind == kindSealed {
		text = text[:min(len(text), seal.MaxText+1-len(b.text))]
	}
	b.text = append(b.text, text...)
}

// blockQueue holds the blocks that are not completely sent. Only the first block may be open; the
// others wait until it ends.
type blockQueue []streamBlock

// push adds a block, reusing the memory of an older one if possible.
func (q *blockQueue) push(k kind) *streamBlock {
	n := len(*q)
	if n < cap(*q) {
		*q = (*q)[:n+1]
		(*q)[n] = streamBlock{kind: k, text: (*q)[n].text[:0]}
	} else {
		*q = append(*q, streamBlock{kind: k})
	}
	return &(*q)[n]
}

// pop removes the first block. Its memory moves to the end, for push.
func (q *blockQueue) pop() {
	s := *q
	first := s[0]
	copy(s, s[1:])
	if cap(first.text) > keepInput {
		first.text = nil
	}
	s[len(s)-1] = first
	*q = s[:len(s)-1]
}

// held returns roughly how many bytes of text wait.
func (q blockQueue) held() (n int) {
	if len(q) > 1 || len(q) == 1 && q[0].kind == kindSealed {
		for i := range q {
			n += cap(q[i].text)
		}
	}
	return n
}

// keepBlocks is the number of blocks for which memory is kept.
const keepBlocks = 16

func (q *blockQueue) reset() {
	s := (*q)[:cap(*q)]
	if len(s) > keepBlocks {
		s = nil
	}
	for i := range s {
		if cap(s[i].text) > keepInput {
			s[i].text = nil
		}
	}
	*q = s[:0]
}

// blockWriter writes the events of the open block.
type blockWriter struct {
	index int    // index of the open block, or of the next one
	lead  []byte // start of a delta
}

// start appends the start of content_block_start, and prepares the start of a delta, up to the
// text.
func (w *blockWriter) start(dst []byte, b *streamBlock, delta string) []byte {
	b.open = true
	w.lead = append(w.lead[:0], "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	w.lead = strconv.AppendInt(w.lead, int64(w.index), 10)
	w.lead = append(w.lead, delta...)
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	return strconv.AppendInt(dst, int64(w.index), 10)
}

// begin appends content_block_start for thinking or text.
func (w *blockWriter) begin(dst []byte, b *streamBlock) []byte {
	if b.kind <= kindSealed {
		dst = w.start(dst, b, `,"delta":{"type":"thinking_delta","thinking":"`)
		return append(dst, ",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"...)
	}
	dst = w.start(dst, b, `,"delta":{"type":"text_delta","text":"`)
	return append(dst, ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"...)
}

// beginToolCall is begin for a tool call.
func (w *blockWriter) beginToolCall(dst []byte, b *streamBlock, id, name []byte) []byte {
	dst = w.start(dst, b, `,"delta":{"type":"input_json_delta","partial_json":"`)
	dst = append(append(dst, `,"content_block":{"type":"tool_use","id":"`...), id...)
	dst = append(append(dst, `","name":"`...), name...)
	return append(dst, "\",\"input\":{}}}\n\n"...)
}

// delta appends content_block_delta. text is the contents of a JSON string.
func (w *blockWriter) delta(dst, text []byte) []byte {
	dst = append(append(dst, w.lead...), text...)
	return append(dst, "\"}}\n\n"...)
}

// sign appends the signature of thinking.
func (w *blockWriter) sign(dst, signature []byte) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	dst = append(append(dst, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\""...), signature...)
	return append(dst, "\"}}\n\n"...)
}

// redacted appends content_block_start for thinking that consists only of its blob.
func (w *blockWriter) redacted(dst, blob []byte) []byte {
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	dst = append(append(dst, ",\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\""...), blob...)
	return append(dst, "\"}}\n\n"...)
}

// endSealed appends the rest of thinking that the client may not read. If the thinking is too long
// to be sealed, the client gets an empty block, or none.
func (w *blockWriter) endSealed(dst []byte, b *streamBlock, how thinking, box seal.Box) []byte {
	blob, ok := sealed(box, b.text)
	switch {
	case how == thinkingOmitted:
		if !b.open {
			dst = w.begin(dst, b)
		}
		return w.end(w.sign(dst, blob))
	case ok:
		return w.end(w.redacted(dst, blob))
	}
	return dst
}

// end appends content_block_stop.
func (w *blockWriter) end(dst []byte) []byte {
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	w.index++
	return append(dst, "}\n\n"...)
}
