package listen

import "sync/atomic"

// detachment is what Close does instead of closing a connection. Its functions run one after the
// other: if a function serves the connection again and the server calls Close, the next function
// runs when the first one has returned, so that the stack does not grow with each stream on the
// connection. The Close may also come from another goroutine, because a server hands an upgraded
// connection to a new goroutine.
type detachment struct {
	onClose atomic.Pointer[func()] // runs instead of the next Close; nil if Close closes the connection
	// Function that runs when the running one has returned. It is &noWaitingMarker if there is none, and
	// nil if no function is running.
	waiting atomic.Pointer[func()]
}

var noWaitingMarker = func() {}

// takeOnClose returns the function that Close must run. If another function is running, the result
// is nil, and takeWaiting will return the function. detached is false if Close must close the
// connection.
func (d *detachment) takeOnClose() (then *func(), detached bool) {
	if then = d.onClose.Swap(nil); then == nil {
		return nil, false
	}
	for !d.waiting.CompareAndSwap(nil, &noWaitingMarker) {
		if d.waiting.CompareAndSwap(&noWaitingMarker, then) {
			return nil, true
		}
	}
	return then, true
}

// takeWaiting returns the function to run after the running one has returned, or nil.
func (d *detachment) takeWaiting() (then *func()) {
	if d.waiting.CompareAndSwap(&noWaitingMarker, nil) {
		return nil
	}
	return d.waiting.Swap(&noWaitingMarker)
}
