package answer

import (
	"bytes"
	"slices"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// maxTemplate is the maximum length of a stored chunk in bytes, without its text.
const maxTemplate = 2 << 10

// chunkTemplate is an earlier chunk without its text. The chunks of one stream usually differ only
// in their text. A chunk needs no parsing under two conditions: it equals the stored chunk before
// and after the text, and the text is the contents of one JSON string. This check takes less than a
// tenth of the parsing time.
type chunkTemplate struct {
	// The chunk around the text: buf[:headEnd] ends with the opening quote, buf[headEnd:tailEnd]
	// starts with the closing quote. One buffer takes less memory than one for each part.
	buf              []byte
	headEnd, tailEnd uint16 // at most maxTemplate
	toolCall         bool   // the text is tool call arguments, which count as generated even if empty
	sinceMatch       uint8
}

func (t *chunkTemplate) reset() {
	t.forget()
	t.sinceMatch = 0
}

// forget discards the stored chunk, so matchText fails until another chunk is stored.
func (t *chunkTemplate) forget() {
	t.buf, t.headEnd, t.tailEnd = t.buf[:0], 0, 0
}

// matchText returns the text of a chunk. It returns false if data differs from the stored chunk in
// anything other than the text.
func (t *chunkTemplate) matchText(data []byte) (text []byte, ok bool) {
	head, tail := t.buf[:t.headEnd], t.buf[t.headEnd:t.tailEnd]
	from, to := len(head), len(data)-len(tail)
	if from == 0 || to < from || !bytes.HasSuffix(data, tail) || !bytes.HasPrefix(data, head) {
		return nil, false
	}
	end, escaped := jsonx.ValidateString(data, from)
	switch {
	case end != to+1:
		return nil, false
	case t.toolCall && escaped && toolcall.HasEscapes(data[from:to]):
		return nil, false // an escape may be truncated at the end of the text, or be half of a pair
	}
	t.sinceMatch = 0
	return data[from:to], true
}

// store stores a chunk whose text is data[start:end], and reports whether the chunk was stored. If
// the chunks of a stream do not match, store skips most of them to save time. After the chunk, the
// buffer has space for more bytes.
func (t *chunkTemplate) store(data []byte, start, end, more int) bool {
	t.sinceMatch++
	if len(data) > maxTemplate+end-start || t.sinceMatch > 4 && t.sinceMatch%16 != 0 {
		t.forget()
		return false
	}
	t.headEnd, t.tailEnd = uint16(start), uint16(start+len(data)-end)
	t.buf = append(slices.Grow(t.buf[:0], int(t.tailEnd)+more), data[:start]...)
	t.buf = append(t.buf, data[end:]...)
	return true
}

// eventTemplate is a chunkTemplate with the client's event for the chunk. The buffer contains the
// event after the chunk, also without the text.
type eventTemplate struct {
	chunkTemplate
	textAt int // offset in buf at which the event's text belongs
}

func (t *eventTemplate) append(dst, text []byte) []byte {
	dst = append(dst, t.buf[t.tailEnd:t.textAt]...)
	dst = append(dst, text...)
	return append(dst, t.buf[t.textAt:]...)
}

// store stores a chunk whose text is data[start:end], and the client's event for the chunk. from is
// the offset in the event at which the unchanged text starts.
func (t *eventTemplate) store(data []byte, start, end int, event []byte, from int) {
	to := from + end - start
	if !t.chunkTemplate.store(data, start, end, from+len(event)-to) {
		return
	}
	t.textAt = len(t.buf) + from
	t.buf = append(append(t.buf, event[:from]...), event[to:]...)
}

// findOnlyText returns the only text of a delta, and whether it belongs to a tool call. The next delta
// is likely to differ only in this text. findOnlyText ignores a tool call piece with a name, because
// the next piece may start another tool call.
func (d *Delta) findOnlyText() (v jsonx.Value, toolCall bool) {
	n := 0
	for _, text := range [...]jsonx.Value{d.Content, d.Reasoning, d.Refusal} {
		if text.HasText() {
			v = text
			n++
		}
	}
	if first := d.ToolCalls.Index(0); first.Exists() {
		var p toolcall.ToolCallPiece
		if !p.Read(first) || p.HasName() {
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
