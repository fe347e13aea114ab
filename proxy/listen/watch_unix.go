//go:build unix && !linux

package listen

import (
	"time"

	"golang.org/x/sys/unix"
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
		w.ln.mu.Lock()
		conns := make([]*Conn, 0, len(w.ln.conns))
		for c := range w.ln.conns {
			conns = append(conns, c)
		}
		w.ln.mu.Unlock()
		for _, c := range conns {
			if c.hungUp() {
				c.lost()
			}
		}
	}
}

// hungUp peeks without taking anything out of the socket.
func (c *Conn) hungUp() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == unix.ECONNRESET
	})
	return gone
}

func (w *watch) close() error {
	close(w.stop)
	<-w.done
	return nil
}
