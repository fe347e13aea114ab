//go:build unix && !linux

package listen

import (
	"time"

	"penstock/proxy/guard"
)

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
	go l.guard.Loop(w.done, guard.Clients, w.run)
	return w, nil
}

func (w *watch) add(*Conn) error { return nil }

func (w *watch) remove(*Conn) {}

func (w *watch) run() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			close(w.done)
			return
		case <-tick.C:
		}
		for _, c := range w.ln.snapshot() {
			w.ln.guard.Once(guard.Clients, func() {
				if c.waits() && c.hungUp() {
					c.lost()
				}
			})
		}
	}
}

func (w *watch) close() error {
	close(w.stop)
	<-w.done
	return nil
}
