package messages

import (
	"strconv"

	"penstock/translate/seal"
)

type contentKind uint8

const (
	kindThinking contentKind = iota
	kindSealed               // thinking that the client must not read
	kindText
	kindToolCall
)

type streamBlock struct {
	kind     contentKind
	open     bool
	toolCall int    // for kindToolCall: its position in the reader's ToolCalls
	text     []byte // for kindSealed: the whole text; for other kinds: the unsent text
}

// storeText stores a text. For thinking to be sealed, it stores at most one byte more than
// seal.MaxText, which shows that the text is too long.
func (b *streamBlock) storeText(text []byte) {
	if b.kind == kindSealed {
		text = text[:min(len(text), seal.MaxText+1-len(b.text))]
	}
	b.text = append(b.text, text...)
}

// blockQueue lists the blocks that have not ended. Only the first block may be open. The other
// blocks are held back until the first block ends.
type blockQueue []streamBlock

func (q *blockQueue) push(k contentKind) *streamBlock {
	n := len(*q)
	if n < cap(*q) {
		*q = (*q)[:n+1]
		(*q)[n] = streamBlock{kind: k, text: (*q)[n].text[:0]}
	} else {
		*q = append(*q, streamBlock{kind: k})
	}
	return &(*q)[n]
}

// pop removes the first block. It moves the block's memory to the end, so that push can reuse it.
func (q *blockQueue) pop() {
	s := *q
	first := s[0]
	copy(s, s[1:])
	if cap(first.text) > maxKeptBytes {
		first.text = nil
	}
	s[len(s)-1] = first
	*q = s[:len(s)-1]
}

func (q blockQueue) bufferedBytes() (n int) {
	if len(q) > 1 || len(q) == 1 && q[0].kind == kindSealed {
		for i := range q {
			n += cap(q[i].text)
		}
	}
	return n
}

const maxKeptBlocks = 16

func (q *blockQueue) reset() {
	s := (*q)[:cap(*q)]
	if len(s) > maxKeptBlocks {
		s = nil
	}
	for i := range s {
		if cap(s[i].text) > maxKeptBytes {
			s[i].text = nil
		}
	}
	*q = s[:0]
}

type blockWriter struct {
	index       int
	deltaPrefix []byte // the start of a delta event
}

// startBlock appends content_block_start. It also prepares the start of the block's deltas, up to
// the text.
func (w *blockWriter) startBlock(dst []byte, b *streamBlock, delta string) []byte {
	b.open = true
	w.deltaPrefix = append(w.deltaPrefix[:0], "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	w.deltaPrefix = strconv.AppendInt(w.deltaPrefix, int64(w.index), 10)
	w.deltaPrefix = append(w.deltaPrefix, delta...)
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	return strconv.AppendInt(dst, int64(w.index), 10)
}

func (w *blockWriter) beginTextBlock(dst []byte, b *streamBlock) []byte {
	if b.kind <= kindSealed {
		dst = w.startBlock(dst, b, `,"delta":{"type":"thinking_delta","thinking":"`)
		return append(dst, ",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"...)
	}
	dst = w.startBlock(dst, b, `,"delta":{"type":"text_delta","text":"`)
	return append(dst, ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"...)
}

func (w *blockWriter) beginToolCall(dst []byte, b *streamBlock, id, name []byte) []byte {
	dst = w.startBlock(dst, b, `,"delta":{"type":"input_json_delta","partial_json":"`)
	dst = append(append(dst, `,"content_block":{"type":"tool_use","id":"`...), id...)
	dst = append(append(dst, `","name":"`...), name...)
	return append(dst, "\",\"input\":{}}}\n\n"...)
}

// appendDelta appends content_block_delta. text is the contents of a JSON string.
func (w *blockWriter) appendDelta(dst, text []byte) []byte {
	dst = append(append(dst, w.deltaPrefix...), text...)
	return append(dst, "\"}}\n\n"...)
}

func (w *blockWriter) appendSignature(dst, signature []byte) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	dst = append(append(dst, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\""...), signature...)
	return append(dst, "\"}}\n\n"...)
}

// appendRedacted appends content_block_start for thinking that consists only of its blob.
func (w *blockWriter) appendRedacted(dst, blob []byte) []byte {
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	dst = append(append(dst, ",\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\""...), blob...)
	return append(dst, "\"}}\n\n"...)
}

// endSealed appends the end of thinking that the client must not read. If the thinking is too long
// to be sealed, the client receives an empty block or no block.
func (w *blockWriter) endSealed(dst []byte, b *streamBlock, how thinkingDisplay, box seal.Box) []byte {
	blob, ok := sealText(box, b.text)
	switch {
	case how == thinkingOmitted:
		if !b.open {
			dst = w.beginTextBlock(dst, b)
		}
		return w.endBlock(w.appendSignature(dst, blob))
	case ok:
		return w.endBlock(w.appendRedacted(dst, blob))
	}
	return dst
}

func (w *blockWriter) endBlock(dst []byte) []byte {
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(w.index), 10)
	w.index++
	return append(dst, "}\n\n"...)
}
