package listen

import "sync"

// detachment is what Close does instead of closing a connection. Its functions run one after the
// other: if a function serves the connection again and the server calls Close, the next function
// runs when the first one has returned, so that the stack does not grow with each stream on the
// connection. The Close may also come from another goroutine, because a server hands an upgraded
// connection to a new goroutine.
type detachment struct {
	mu        sync.Mutex
	onClose   func() // runs instead of the next Close; nil if Close closes the connection
	waiting   func() // runs when the running function has returned; nil if there is none
	isRunning bool
}

func (d *detachment) setOnClose(then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onClose = then
}

// takeOnClose returns the function that Close must run. If another function is running, the result
// is nil, and takeWaiting will return the function. detached is false if Close must close the
// connection.
func (d *detachment) takeOnClose() (then func(), detached bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	then, d.onClose = d.onClose, nil
	switch {
	case then == nil:
		return nil, false
	case d.isRunning:
		d.waiting = then
		return nil, true
	}
	d.isRunning = true
	return then, true
}

// takeWaiting returns the function to run after the running one has returned, or nil.
func (d *detachment) takeWaiting() (then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	then, d.waiting = d.waiting, nil
	d.isRunning = then != nil
	return then
}
