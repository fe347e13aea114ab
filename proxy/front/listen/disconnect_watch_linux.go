package listen

import (
	"time"

	"penstock/config/instant"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/http1/socket"
)

// disconnectWatch detects clients that disconnect.
type disconnectWatch struct {
	ln          *Listener
	hangUps     socket.HangUpWatch
	ackInterval time.Duration
	stop, done  chan struct{}
}

// hangUpHandle is the registration of a connection in the disconnectWatch.
type hangUpHandle = socket.HangUpHandle

func newDisconnectWatch(l *Listener) (*disconnectWatch, error) {
	return newDisconnectWatchEvery(l, ackCheckInterval)
}

func newDisconnectWatchEvery(l *Listener, every time.Duration) (*disconnectWatch, error) {
	w := &disconnectWatch{ln: l, ackInterval: every, stop: make(chan struct{}), done: make(chan struct{})}
	if err := w.hangUps.Open(w.startGuarded); err != nil {
		return nil, err
	}
	go l.guard.Loop(w.done, guard.PlaceClients, w.run)
	return w, nil
}

func (w *disconnectWatch) startGuarded(run func()) {
	go w.ln.guard.RunWithRecover(guard.PlaceClients, run)
}

func (w *disconnectWatch) add(c *Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return w.hangUps.Add(&c.hangUp, raw, w.startGuarded, c.onHangUp)
}

// onHangUp is called by the goroutine that watches all connections.
func (c *Conn) onHangUp() {
	defer c.ln.guard.Catch(guard.PlaceClients, nil)
	c.client.markGone(c.ln.guard)
}

// remove must be called before the descriptor of c is closed.
func (w *disconnectWatch) remove(c *Conn) { w.hangUps.Remove(&c.hangUp) }

// awaitBytes makes the watch call c.serveParked when bytes arrive or the client hangs up. It returns
// false if c is closed.
func (w *disconnectWatch) awaitBytes(c *Conn) bool {
	raw, err := c.SyscallConn()
	return err == nil && w.hangUps.AwaitBytes(&c.hangUp, raw, c.serveParked) == nil
}

// stopAwaiting undoes awaitBytes. It returns false if c.serveParked has been called or will be called.
func (w *disconnectWatch) stopAwaiting(c *Conn) bool { return w.hangUps.StopAwaitingBytes(&c.hangUp) }

func (w *disconnectWatch) run() {
	tick, parkTick := time.NewTicker(w.ackInterval), time.NewTicker(parkInterval)
	defer tick.Stop()
	defer parkTick.Stop()
	for {
		select {
		case <-w.stop:
			close(w.done)
			return
		case <-tick.C:
			w.checkAcks(w.ackInterval)
		case <-parkTick.C:
			w.ln.parkIdleConns(instant.Now())
		}
	}
}

func (w *disconnectWatch) close() error {
	close(w.stop)
	<-w.done
	w.hangUps.Close()
	return nil
}
