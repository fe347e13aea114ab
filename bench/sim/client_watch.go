package sim

import "time"

// clientWatch lets an exchange wait until a given time or until its client leaves.
type clientWatch struct {
	clientGone <-chan struct{} // closed when the client has left or the engine closed the connection
	stop       <-chan struct{} // closed when the engine stops
	timer      *time.Timer
	stubborn   bool // the engine continues after the client has left; see CancelOnlyStreams
	lost       bool // a write failed, or the client left during a wait
}

// stopSignal returns a channel that is closed when the client has left or, if stubborn is set, when
// the engine has stopped.
func (w *clientWatch) stopSignal() <-chan struct{} {
	if w.stubborn {
		return w.stop
	}
	return w.clientGone
}

func (w *clientWatch) hasLeft() bool {
	select {
	case <-w.stopSignal():
		w.lost = true
		return true
	default:
		return false
	}
}

// pause waits for d. It returns false if the client leaves earlier.
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
	case <-w.stopSignal():
		w.timer.Stop()
		w.lost = true
		return false
	}
}

func (w *clientWatch) pauseUntil(t time.Time) bool { return w.pause(time.Until(t)) }

func (w *clientWatch) waitUntilLeft() {
	<-w.clientGone
	w.lost = true
}
