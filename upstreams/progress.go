package upstreams

import "sync/atomic"

// progress notes whether an engine answers calls while a generation probe waits. Calls that read an
// answer store once per probe; otherwise they load a word that nearly never changes.
type progress struct{ state atomic.Uint32 }

const (
	progressUnwatched uint32 = iota
	progressAwaited
	progressSeen
)

func (p *progress) watch() { p.state.Store(progressAwaited) }

// end ends the watch, and reports whether an answer went on in its time.
func (p *progress) end() bool { return p.state.Swap(progressUnwatched) == progressSeen }

// noteProgress is called when bytes of the body have come. Those of an error do not show that the
// engine does its work.
func (x *Exchange) noteProgress() {
	if p := x.progress; p != nil && p.state.Load() == progressAwaited && x.Status() == 200 {
		p.state.CompareAndSwap(progressAwaited, progressSeen)
	}
}
