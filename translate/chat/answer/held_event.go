package answer

import (
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// heldEvent is an event that the stream holds back. The usage chunk is held back until the end of
// the stream. The chunk that ends the last choice is held back until the next event.
//
// llama.cpp sends `timings` in the usage chunk if there is one, and otherwise in the chunk that
// ends the choice. The edge always requests usage. If the client did not request usage, the edge
// moves the timings to the last chunk that the client receives.
type heldEvent struct {
	event         []byte
	awaitsTimings bool
}

func (h *heldEvent) reset() {
	*h = heldEvent{event: h.event[:0]}
	if cap(h.event) > maxKeptBuffer {
		h.event = nil
	}
}

func (h *heldEvent) holdForTimings(event []byte) {
	h.event, h.awaitsTimings = append(h.event[:0], event...), true
}

func (h *heldEvent) addTimings(v jsonx.Value) {
	const tail = "}\n\n"
	n := len(h.event) - len(tail)
	raw := v.Raw()
	if b := BoundNumbers(raw); b != nil {
		raw = b
	}
	h.event = append(append(h.event[:n], `,"timings":`...), raw...)
	sse.ReplaceLineEnds(h.event[n:])
	h.event = append(h.event, tail...)
}

func (h *heldEvent) appendHeld(dst []byte) []byte {
	if !h.awaitsTimings {
		return dst
	}
	h.awaitsTimings = false
	dst = append(dst, h.event...)
	h.event = h.event[:0]
	return dst
}
