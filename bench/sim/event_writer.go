package sim

import "penstock/bench/sim/wire"

// eventWriter writes the events of a stream into its body.
type eventWriter struct {
	out     *bodyWriter
	form    wire.EventFormat
	unit    []byte // events that share one chunk
	joined  bool
	name    string // name of the current event; most have none
	events  int
	chunk   []byte                   // scratch for the next event
	content func(text string) []byte // returns an event of this stream with the text
}

// emit appends one event; most have no name.
func (w *eventWriter) emit(name string, data []byte) {
	w.events++
	w.unit = w.form.Append(w.unit, w.events, name, data)
	if !w.joined {
		w.release()
	}
}

func (w *eventWriter) release() {
	w.out.put(w.unit)
	w.unit = w.unit[:0]
}

// join makes the following events share one chunk, until join(false).
func (w *eventWriter) join(on bool) {
	if w.joined && !on {
		w.release()
	}
	w.joined = on
}

// comment appends a comment to the stream.
func (w *eventWriter) comment() { w.out.put([]byte(":\n\n")) }
