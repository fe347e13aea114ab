package answer

import (
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// heldEvent is an event that is held back from the client: the usage chunk until the end of the
// stream, or the chunk that ends the last choice until the next event or the end of the stream.
//
// The chunk that ends a choice is held back because of llama.cpp, which sends `timings` in that
// chunk, or in the usage chunk if there is one. The edge always asks for usage. If the client did
// not ask for it, the timings move to the last chunk that the client gets.
type heldEvent struct {
	event         []byte
	awaitsTimings bool // event ends the last choice
}

func (h *heldEvent) reset() {
	*h = heldEvent{event: h.event[:0]}
	if cap(h.event) > keepBuffer {
		h.event = nil
	}
}

// awaitTimings holds back the event that ends the last choice.
func (h *heldEvent) awaitTimings(event []byte) {
	h.event, h.awaitsTimings = append(h.event[:0], event...), true
}

// addTimings puts timings into the event.
func (h *heldEvent) addTimings(v jsonx.Value) {
	const tail = "}\n\n"
	n := len(h.event) - len(tail)
	raw := v.Raw()
	if b := BoundNumbers(raw); b != nil {
		raw = b
	}
	h.event = append(append(h.event[:n], `,"timings":`...), raw...)
	sse.Flatten(h.event[n:])
	h.event = append(h.event, tail...)
}

// release appends the event if it has been waiting for timings.
func (h *heldEvent) release(dst []byte) []byte {
	if !h.awaitsTimings {
		return dst
	}
	h.awaitsTimings = false
	dst = append(dst, h.event...)
	h.event = h.event[:0]
	return dst
}
