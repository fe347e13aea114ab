//go:build unix && !linux

package listen

import (
	"time"

	"penstock/proxy/telemetry/guard"
)

// disconnectWatch is used on systems without epoll. It polls the connections that have a call.
type disconnectWatch struct {
	ln   *Listener
	stop chan struct{}
	done chan struct{}
}

// hangUpHandle is empty, because connections are not registered.
type hangUpHandle struct{}

const pollInterval = 100 * time.Millisecond

func newDisconnectWatch(l *Listener) (*disconnectWatch, error) {
	w := &disconnectWatch{ln: l, stop: make(chan struct{}), done: make(chan struct{})}
	go l.guard.Loop(w.done, guard.PlaceClients, w.run)
	return w, nil
}

func (w *disconnectWatch) add(*Conn) error { return nil }

func (w *disconnectWatch) remove(*Conn) {}

// awaitBytes returns false, because connections are only parked on Linux.
func (w *disconnectWatch) awaitBytes(*Conn) bool { return false }

func (w *disconnectWatch) stopAwaiting(*Conn) bool { return false }

func (w *disconnectWatch) run() {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			close(w.done)
			return
		case <-tick.C:
		}
		for _, c := range w.ln.copyConns() {
			w.ln.guard.RunWithRecover(guard.PlaceClients, func() {
				if c.client.hasWaiter() && isHungUp(c.rawConn) {
					c.client.markGone(w.ln.guard)
				}
			})
		}
	}
}

func (w *disconnectWatch) close() error {
	close(w.stop)
	<-w.done
	return nil
}
