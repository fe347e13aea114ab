package chat

import (
	"bytes"

	"penstock/translate/jsonx"
)

// maxRepeat bounds what is remembered of a chunk, in bytes.
const maxRepeat = 2 << 10

// repeat is the last chunk with a hole in it. The chunks of one stream differ in nothing but the piece of text that
// they bring: id, time and model are the same in all. A chunk that equals the last one up to the opening quote of that
// text, and from the closing quote on, needs no reading: if what lies between is the contents of one JSON string, it is
// as valid as the last one was and means the same, with another text. That leaves two comparisons and the scan of one
// short string, less than a tenth of the work.
type repeat struct {
	head, tail       []byte // of the chunk: head ends with the opening quote, tail begins with the closing one
	outHead, outTail []byte // of the event for the client
	call             bool   // the hole is in the arguments of a call, which counts as generated even if it is empty
	text             jsonx.Doc
	misses           uint8 // chunks learnt since the last match
}

// forget makes match fail until the next chunk is learnt.
func (r *repeat) forget() {
	r.head, r.tail = r.head[:0], r.tail[:0]
}

// match returns the contents of the hole, without quotes, if data is the last chunk with another text.
func (r *repeat) match(data []byte) (text []byte, ok bool) {
	from, to := len(r.head), len(data)-len(r.tail)
	if from == 0 || to < from || !bytes.HasSuffix(data, r.tail) || !bytes.HasPrefix(data, r.head) {
		return nil, false
	}
	if r.text.Parse(data[from-1:to+1], jsonx.Options{MaxDepth: 1, MaxNodes: 1}) != nil || !r.text.Root().IsString() {
		return nil, false
	}
	r.misses = 0
	return data[from:to], true
}

// append appends the event for a chunk with that text.
func (r *repeat) append(dst, text []byte) []byte {
	dst = append(dst, r.outHead...)
	dst = append(dst, text...)
	return append(dst, r.outTail...)
}

// learn remembers a chunk whose hole is the value v. Nothing of the chunk was changed on the way but its model, which
// is now model.
func (r *repeat) learn(data []byte, v, old jsonx.Value, model []byte) {
	start, end := v.Start()+1, v.End()-1
	r.misses++
	if len(data) > maxRepeat+end-start || r.misses > 4 && r.misses%16 != 0 {
		r.forget() // choices that take turns, or counts in every chunk: learning each would be for nothing
		return
	}
	r.head, r.tail = append(r.head[:0], data[:start]...), append(r.tail[:0], data[end:]...)
	r.outHead, r.outTail = append(r.outHead[:0], "data: "...), r.outTail[:0]
	if old.Start() < start {
		r.outHead = splice(r.outHead, data[:start], old.Start(), old.End(), model)
		r.outTail = append(r.outTail, data[end:]...)
	} else {
		r.outHead = append(r.outHead, data[:start]...)
		r.outTail = splice(r.outTail, data[end:], old.Start()-end, old.End()-end, model)
	}
	flatten(r.outHead)
	flatten(r.outTail)
	r.outTail = append(r.outTail, "\n\n"...)
}

// splice appends src with src[from:to] replaced.
func splice(dst, src []byte, from, to int, with []byte) []byte {
	dst = append(dst, src[:from]...)
	dst = append(dst, with...)
	return append(dst, src[to:]...)
}

// hole returns the one text of a delta that the next delta is likely to differ in; absent if there is not exactly one.
func (d *Delta) hole() (v jsonx.Value, call bool) {
	n := 0
	for _, text := range [...]jsonx.Value{d.Content, d.Reasoning, d.Refusal} {
		if HasText(text) {
			v = text
			n++
		}
	}
	if first := d.ToolCalls.Index(0); first.Exists() {
		v, call = first.Get("function").Get("arguments"), true
		n += d.ToolCalls.Len()
	}
	if n != 1 || !v.IsString() {
		return jsonx.Value{}, false
	}
	return v, call
}
