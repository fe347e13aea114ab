package http1

import "sync/atomic"

// AnswerWatch notes whether an engine answers calls during a time, such as that of a generation
// probe. Exchanges that read an answer store once in it; otherwise they load a word that nearly
// never changes. The zero value is ready for use.
type AnswerWatch struct{ state atomic.Uint32 }

const (
	answersUnwatched uint32 = iota
	answersAwaited
	answersSeen
)

// Begin begins the watch.
func (w *AnswerWatch) Begin() { w.state.Store(answersAwaited) }

// End ends the watch, and reports whether an answer went on in its time.
func (w *AnswerWatch) End() bool { return w.state.Swap(answersUnwatched) == answersSeen }

// BodyCame is called when bytes of a reply's body have come. Those of an error do not show that the
// engine does its work.
func (w *AnswerWatch) BodyCame(status int) {
	if w.state.Load() == answersAwaited && status == 200 {
		w.state.CompareAndSwap(answersAwaited, answersSeen)
	}
}
