package answer

import (
	"bytes"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// maxTemplate is the maximum length of a chunk that is remembered, in bytes, without its text.
const maxTemplate = 2 << 10

// template is the last chunk without its text. The chunks of one stream differ only in their piece
// of text, while id, time and model stay the same. A chunk that equals the last one up to the
// opening quote of that text, and from the closing quote on, needs no parsing. If the bytes between
// the quotes are the contents of one JSON string, the chunk is as valid as the last one and differs
// only in its text. This takes two comparisons and the scan of one short string, which is less than
// a tenth of the work.
type template struct {
	head, tail []byte // of the chunk: head ends with the opening quote, tail starts with the closing quote
	toolCall   bool   // the text is arguments of a tool call, which count as generated even when empty
	sinceMatch uint8  // number of chunks remembered since the last match
}

// reset clears t and keeps its memory.
func (t *template) reset() {
	t.forget()
	t.sinceMatch = 0
}

// forget makes textOf fail until another chunk is remembered.
func (t *template) forget() {
	t.head, t.tail = t.head[:0], t.tail[:0]
}

// textOf returns the text in data, without quotes, if data is the last chunk with a different text.
func (t *template) textOf(data []byte) (text []byte, ok bool) {
	from, to := len(t.head), len(data)-len(t.tail)
	if from == 0 || to < from || !bytes.HasSuffix(data, t.tail) || !bytes.HasPrefix(data, t.head) {
		return nil, false
	}
	end, escaped := jsonx.StringEnd(data, from)
	switch {
	case end != to+1:
		return nil, false
	case t.toolCall && escaped && toolcall.HasEscapes(data[from:to]):
		return nil, false // an escape may be cut off here, or be half of a pair
	}
	t.sinceMatch = 0
	return data[from:to], true
}

// remember stores a chunk whose text is data[start:end], and reports whether it did. If chunks do
// not match, because choices alternate or every chunk has counts, it skips most of them.
func (t *template) remember(data []byte, start, end int) bool {
	t.sinceMatch++
	if len(data) > maxTemplate+end-start || t.sinceMatch > 4 && t.sinceMatch%16 != 0 {
		t.forget()
		return false
	}
	t.head, t.tail = append(t.head[:0], data[:start]...), append(t.tail[:0], data[end:]...)
	return true
}

// eventTemplate is a template with the client's event for its chunk.
type eventTemplate struct {
	template
	outHead, outTail []byte // of the event for the client
}

// append appends the event for a chunk with the given text.
func (t *eventTemplate) append(dst, text []byte) []byte {
	dst = append(dst, t.outHead...)
	dst = append(dst, text...)
	return append(dst, t.outTail...)
}

// remember stores a chunk whose text is data[start:end], and the client's event for the chunk. from
// is the offset in the event at which the unchanged text starts. The next chunk must need the same
// changes apart from the text.
func (t *eventTemplate) remember(data []byte, start, end int, event []byte, from int) {
	if !t.template.remember(data, start, end) {
		return
	}
	to := from + end - start
	t.outHead, t.outTail = append(t.outHead[:0], event[:from]...), append(t.outTail[:0], event[to:]...)
}

// onlyText returns the only text of a delta, in which the next delta is likely to differ, and
// whether it belongs to a tool call. The text is absent if there is not exactly one. A piece with a
// name does not count, because the next piece may start another tool call.
func (d *Delta) onlyText() (v jsonx.Value, toolCall bool) {
	n := 0
	for _, text := range [...]jsonx.Value{d.Content, d.Reasoning, d.Refusal} {
		if text.HasText() {
			v = text
			n++
		}
	}
	if first := d.ToolCalls.Index(0); first.Exists() {
		var p toolcall.Piece
		if !p.Read(first) || p.Named() {
			return jsonx.Value{}, false
		}
		v, toolCall = p.Args, true
		n += d.ToolCalls.Len()
	}
	if n != 1 || !v.IsString() {
		return jsonx.Value{}, false
	}
	return v, toolCall
}
