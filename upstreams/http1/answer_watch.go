package http1

import "sync/atomic"

// AnswerWatch counts the reads of answers, by which it shows whether an engine works. The zero
// value is ready for use.
type AnswerWatch struct{ reads atomic.Uint64 }

// Reads returns how many there were.
func (w *AnswerWatch) Reads() uint64 { return w.reads.Load() }

// Came is called with bytes of a reply's body. Those of an error do not show that the engine does
// its work, nor do comments of a stream, with which an engine that has stalled may go on.
func (w *AnswerWatch) Came(status int, p []byte) {
	if status == 200 && p[0] != ':' {
		w.reads.Add(1)
	}
}
