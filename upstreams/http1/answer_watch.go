package http1

import "sync/atomic"

// AnswerWatch shows by the reads of answers whether an engine works. The zero value is ready for
// use.
//
// Every read of every call tells it, so it is not written by each: its number is odd once there
// have been reads since the last look, and then they only look.
type AnswerWatch struct{ state atomic.Uint64 }

// Looks returns a number that is another one than before if there have been reads since.
func (w *AnswerWatch) Looks() uint64 {
	for {
		s := w.state.Load()
		if s&1 == 0 {
			return s
		}
		if w.state.CompareAndSwap(s, s+1) {
			return s + 1
		}
	}
}

// Came is called with bytes of a reply's body. Those of an error do not show that the engine does
// its work, nor do comments of a stream, with which an engine that has stalled may go on.
func (w *AnswerWatch) Came(status int, p []byte) {
	if status != 200 || p[0] == ':' {
		return
	}
	if s := w.state.Load(); s&1 == 0 {
		w.state.CompareAndSwap(s, s+1) // it fails when another read has been noted
	}
}
