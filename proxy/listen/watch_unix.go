//go:build unix && !linux

package listen

import "time"

// watch polls, on systems without epoll, the connections that have a call.
type watch struct {
	ln   *Listener
	stop chan struct{}
	done chan struct{}
}

// pollEvery is how long a client that left may go unnoticed here.
const pollEvery = 100 * time.Millisecond

func newWatch(l *Listener) (*watch, error) {
	w := &watch{ln: l, stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w, nil
}

func (w *watch) add(*Conn) error { return nil }

func (w *watch) remove(*Conn) {}

func (w *watch) run() {
	defer close(w.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		for _, c := range w.ln.snapshot() {
			if c.waits() && c.hungUp() {
				c.lost()
			}
		}
	}
}

func (w *watch) close() error {
	close(w.stop)
	<-w.done
	return nil
}
