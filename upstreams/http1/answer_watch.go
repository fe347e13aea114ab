package http1

import "sync/atomic"

// AnswerWatch detects whether response bytes arrive from an engine. The zero value is ready to use.
//
// Every read of every call is recorded, but only the first read after a call to ArrivalNumber writes
// the state. That write makes the state odd, and later reads only load the state.
type AnswerWatch struct{ state atomic.Uint64 }

// ArrivalNumber returns a number. Two calls return different numbers if and only if bytes were
// recorded between them.
func (w *AnswerWatch) ArrivalNumber() uint64 {
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

// RecordBytes records bytes of a response body. It ignores error bodies. It also ignores the
// comments in an event stream, because a stalled engine may continue to send them.
func (w *AnswerWatch) RecordBytes(status int, p []byte) {
	if status != 200 || p[0] == ':' {
		return
	}
	if s := w.state.Load(); s&1 == 0 {
		w.state.CompareAndSwap(s, s+1) // fails if another read was recorded first
	}
}
