package chat

import (
	"bytes"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// maxRepeat bounds what is remembered of a chunk, in bytes.
const maxRepeat = 2 << 10

// hole is the last chunk with a hole in it. The chunks of one stream differ in nothing but the piece of text that they
// bring: id, time and model are the same in all. A chunk that equals the last one up to the opening quote of that text,
// and from the closing quote on, needs no reading: if what lies between is the contents of one JSON string, it is as valid
// as the last one was and means the same, with another text. That leaves two comparisons and the scan of one short
// string, less than a tenth of the work.
type hole struct {
	head, tail []byte // of the chunk: head ends with the opening quote, tail begins with the closing one
	text       jsonx.Doc
	toolCall   bool  // the hole is in the arguments of a tool call, which counts as generated even if it is empty
	misses     uint8 // chunks learnt since the last match
}

// reset makes h as new, but for its memory.
func (h *hole) reset() {
	h.forget()
	h.misses = 0
	h.text.Reset()
}

// forget makes match fail until the next chunk is learnt.
func (h *hole) forget() {
	h.head, h.tail = h.head[:0], h.tail[:0]
}

// match returns the contents of the hole, without quotes, if data is the last chunk with another text.
func (h *hole) match(data []byte) (text []byte, ok bool) {
	from, to := len(h.head), len(data)-len(h.tail)
	if from == 0 || to < from || !bytes.HasSuffix(data, h.tail) || !bytes.HasPrefix(data, h.head) {
		return nil, false
	}
	if h.text.Parse(data[from-1:to+1], jsonx.Options{MaxDepth: 1, MaxNodes: 1, Paired: true}) != nil || !h.text.Root().IsString() {
		return nil, false
	}
	if h.toolCall {
		if _, plain := h.text.Root().Text(); !plain && hasEscapes(data[from:to]) { // which may be cut, or half of a pair
			return nil, false
		}
	}
	h.misses = 0
	return data[from:to], true
}

// learn remembers a chunk whose hole is the value v, and reports whether it was worth it: where choices take turns, or
// counts are in every chunk, learning each would be for nothing.
func (h *hole) learn(data []byte, v jsonx.Value) bool {
	start, end := v.Start()+1, v.End()-1
	h.misses++
	if len(data) > maxRepeat+end-start || h.misses > 4 && h.misses%16 != 0 {
		h.forget()
		return false
	}
	h.head, h.tail = append(h.head[:0], data[:start]...), append(h.tail[:0], data[end:]...)
	return true
}

// repeat is a hole, and what the client was given for the chunk.
type repeat struct {
	hole
	outHead, outTail []byte // of the event for the client
}

// append appends the event for a chunk with that text.
func (r *repeat) append(dst, text []byte) []byte {
	dst = append(dst, r.outHead...)
	dst = append(dst, text...)
	return append(dst, r.outTail...)
}

// learn remembers a chunk whose hole is the value v, and the event that it became, where the hole's contents begin at from and are
// as they were. Whatever else was changed on the way would be changed in the same way again.
func (r *repeat) learn(data []byte, v jsonx.Value, event []byte, from int) {
	if !r.hole.learn(data, v) {
		return
	}
	to := from + v.End() - v.Start() - 2
	r.outHead, r.outTail = append(r.outHead[:0], event[:from]...), append(r.outTail[:0], event[to:]...)
}

// hole returns the one text of a delta that the next delta is likely to differ in, and whether it is in a tool call; absent if there
// is not exactly one. A piece with a name has none, since the next one may begin another tool call.
func (d *Delta) hole() (v jsonx.Value, toolCall bool) {
	n := 0
	for _, text := range [...]jsonx.Value{d.Content, d.Reasoning, d.Refusal} {
		if HasText(text) {
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
