package listen

import (
	"errors"
	"time"

	"penstock/config/instant"
	"penstock/proxy/telemetry/guard"
)

// A connection that has been idle for parkIdleTime is parked; see doc.go.
const (
	parkIdleTime = time.Second
	parkInterval = time.Second // time between two calls to parkIdleConns
)

// errPark ends the read of a connection that is to be parked.
var errPark = errors.New("the connection is to be parked")

// parkIdleConns makes the goroutines of idle connections park these connections, and closes parked
// connections whose idle time is over.
func (l *Listener) parkIdleConns(now instant.Time) {
	if l.serveAgain == nil || l.isClosing.Load() {
		return
	}
	for _, c := range l.longIdleConns(now) {
		switch {
		case !c.idle.isParked.Load():
			c.interruptRead()
		case c.readDeadline.hasPassed() && c.unpark():
			c.closeUnlessReadable()
		}
	}
}

// longIdleConns returns the connections that have been idle for parkIdleTime. It omits parked
// connections that may stay idle for longer.
func (l *Listener) longIdleConns(now instant.Time) (conns []*Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.isLongIdle(now) && (!c.idle.isParked.Load() || c.readDeadline.hasPassed()) {
			conns = append(conns, c)
		}
	}
	return conns
}

// isLongIdle reports whether a connection has been idle for parkIdleTime. It returns false for a
// connection that has not had a request, because the server limits how long it may stay open.
func (c *Conn) isLongIdle(now instant.Time) bool {
	since := c.idle.idleSince.Load()
	return since != 0 && c.hadRequest.Load() && int64(now)-since >= int64(parkIdleTime)
}

// mayPark reports whether a connection whose read was interrupted may be parked.
func (c *Conn) mayPark(now instant.Time) bool {
	return c.ln.serveAgain != nil && !c.ln.isClosing.Load() && c.isLongIdle(now)
}

// interruptRead makes a read from an idle connection check whether it must continue.
func (c *Conn) interruptRead() {
	c.idle.readInterrupted.Store(true)
	_ = c.rawConn.SetReadDeadline(time.Now()) // if the connection is closed, the read fails
}

// park leaves the connection to the disconnect watch. When it returns, another goroutine may
// already be serving the connection.
func (c *Conn) park() {
	c.readDeadline.setSocketDeadline(c.rawConn, 0)
	c.idle.isParked.Store(true)
	if !c.ln.disconnectWatch.awaitBytes(c) {
		_ = c.Close()
		return
	}
	if c.ln.isClosing.Load() && c.unpark() { // CloseGracefully may have checked c too early
		c.closeUnlessReadable()
	}
}

// unpark takes a parked connection from the disconnect watch. It returns false if the connection is
// not parked, or if the watch has already started to serve it.
func (c *Conn) unpark() bool {
	if !c.idle.isParked.Load() || !c.ln.disconnectWatch.stopAwaiting(c) {
		return false
	}
	c.idle.isParked.Store(false)
	return true
}

// closeUnlessReadable closes a connection that has been unparked. If a request has arrived, the
// request is served first.
func (c *Conn) closeUnlessReadable() {
	if hasUnread(c.rawConn) {
		c.serveParked()
		return
	}
	_ = c.Close()
}

// serveParked serves a connection that is no longer parked.
func (c *Conn) serveParked() {
	c.idle.isParked.Store(false)
	go c.ln.guard.RunWithRecover(guard.PlaceConnection, func() {
		defer c.ln.guard.Catch(guard.PlaceConnection, func() { _ = c.Close() })
		c.ln.guard.PanicIfInjected("unpark")
		left := time.Duration(c.readDeadline.wanted.Load() - int64(instant.Now()))
		c.ResumeHTTP(max(left, parkInterval))
		// serveAgain closes the connection. Its errors have already been reported to the client.
		_ = c.ln.serveAgain(c)
	})
}
