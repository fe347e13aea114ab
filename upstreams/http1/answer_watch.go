package http1

import "sync/atomic"

// AnswerWatch shows whether an engine works, judged by the reads of its answers. The zero value is
// ready for use.
//
// Every read of every call reports to the AnswerWatch, but only the first read after a call of
// Looks writes to it. The state is then odd, and further reads only load it.
type AnswerWatch struct{ state atomic.Uint64 }

// Looks returns a number that differs from the previous call's if there were reads since then.
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

// Came records bytes of a reply's body. It ignores error bodies. It also ignores a stream's
// comments, because a stalled engine may keep sending them.
func (w *AnswerWatch) Came(status int, p []byte) {
	if status != 200 || p[0] == ':' {
		return
	}
	if s := w.state.Load(); s&1 == 0 {
		w.state.CompareAndSwap(s, s+1) // it fails if another read has been recorded
	}
}
