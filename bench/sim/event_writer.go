package sim

import "penstock/bench/sim/wire"

// eventWriter writes the events of a stream into the response body.
type eventWriter struct {
	out           *bodyWriter
	form          wire.EventFormat
	pendingEvents []byte // events that share one chunk
	joined        bool
	name          string // name of the current event, usually empty
	events        int
	chunk         []byte                   // scratch buffer for the next event
	content       func(text string) []byte // returns an event of this stream that contains the given text
}

// appendEvent appends an event. The name may be empty.
func (w *eventWriter) appendEvent(name string, data []byte) {
	w.events++
	w.pendingEvents = w.form.Append(w.pendingEvents, w.events, name, data)
	if !w.joined {
		w.flushEvents()
	}
}

func (w *eventWriter) flushEvents() {
	w.out.appendBody(w.pendingEvents)
	w.pendingEvents = w.pendingEvents[:0]
}

// shareChunk makes all following events share one chunk if on is true, until shareChunk(false) is
// called.
func (w *eventWriter) shareChunk(on bool) {
	if w.joined && !on {
		w.flushEvents()
	}
	w.joined = on
}

func (w *eventWriter) appendComment() { w.out.appendBody([]byte(":\n\n")) }
