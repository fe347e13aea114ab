package sim

import "time"

// clientWatch lets an exchange wait for some time, but not longer than its client stays.
type clientWatch struct {
	left     <-chan struct{} // closed when the client has left or we closed the connection
	stop     <-chan struct{} // closed with the engine
	timer    *time.Timer
	stubborn bool // continue without the client: see CancelOnlyStreams
	lost     bool // a write failed or a wait ended because the client left
}

// gone() returns a channel that is closed when waiting is pointless: when the client has left or,
// if departures are ignored, when the engine stops.
func (w *clientWatch) gone() <-chan struct{} {
	if w.stubborn {
		return w.stop
	}
	return w.left
}

func (w *clientWatch) hasLeft() bool {
	select {
	case <-w.gone():
		w.lost = true
		return true
	default:
		return false
	}
}

// pause waits; it returns false if the client left meanwhile.
func (w *clientWatch) pause(d time.Duration) bool {
	if d <= 0 {
		return !w.hasLeft()
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return true
	case <-w.gone():
		w.timer.Stop()
		w.lost = true
		return false
	}
}

func (w *clientWatch) pauseUntil(t time.Time) bool { return w.pause(time.Until(t)) }

// hang waits until the client leaves.
func (w *clientWatch) hang() {
	<-w.left
	w.lost = true
}
