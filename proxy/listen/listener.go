package listen

import (
	"errors"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/guard"
)

// Options bound a Listener.
type Options struct {
	// MaxConns is how many connections may be open at once; 0: no bound. One more is answered with a 503 and closed.
	MaxConns int
	// TLS says that the clients speak TLS: one too many is then closed without the 503, which it could not read.
	TLS bool
	// KeepSocket says that the socket outlives this process, because a service manager holds it: Leave does not touch its
	// queue.
	KeepSocket bool
	// MakeRoom lets one connection too many take the place of the one that has waited longest for a whole request, instead of
	// being turned away: for a port that a few need, and that many may reach. Its server calls Begun when a request has come.
	MakeRoom bool
	// Guard catches panics of what runs in the background, and of reading what clients send; nil: nobody does.
	Guard *guard.Guard
	// RequestID appends a fresh request id, for the answer to one connection too many; nil: that answer has none.
	RequestID func([]byte) []byte
}

// Listener accepts *Conn and watches them. Its methods may be called from any goroutine.
type Listener struct {
	net.Listener
	max        atomic.Int64
	tls        bool
	keepSocket bool
	makeRoom   bool
	requestID  func([]byte) []byte
	guard      *guard.Guard
	leaving    atomic.Bool // Leave has closed the listener
	watch      *watch
	lingering  gate

	mu         sync.Mutex
	conns      map[*Conn]struct{}
	generation uint32

	open         atomic.Int64
	rejected     atomic.Uint64
	acceptErrors atomic.Uint64
}

// New wraps ln, whose connections must be TCP.
func New(ln net.Listener, o Options) (*Listener, error) {
	l := &Listener{Listener: ln, tls: o.TLS, keepSocket: o.KeepSocket, makeRoom: o.MakeRoom, requestID: o.RequestID, guard: o.Guard, conns: map[*Conn]struct{}{}}
	l.SetMax(o.MaxConns)
	var err error
	if l.watch, err = newWatch(l); err != nil {
		return nil, err
	}
	return l, nil
}

// Accept waits for the next connection within the bound. Want of descriptors or memory is waited out instead of being
// returned, because a server ends at an error: the connections that are open live on. It fails when the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	pause := time.Duration(0)
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			l.acceptErrors.Add(1)
			pause = min(max(2*pause, 5*time.Millisecond), 100*time.Millisecond)
			time.Sleep(pause)
			continue
		}
		pause = 0
		tcp, ok := raw.(*net.TCPConn)
		if !ok {
			raw.Close()
			l.acceptErrors.Add(1)
			continue
		}
		if most := l.max.Load(); most > 0 && l.open.Load() >= most && !l.evict() {
			l.reject(tcp)
			continue
		}
		boundUnsent(tcp)
		c := l.adopt(tcp)
		if err := errors.Join(c.stream.Open(tcp), l.watch.add(c)); err != nil {
			l.acceptErrors.Add(1)
			_ = c.Close()
			continue
		}
		return c, nil
	}
}

// evict closes the connection that has waited longest for a whole request, where the listener makes room. It returns false
// when there is none.
func (l *Listener) evict() bool {
	if !l.makeRoom {
		return false
	}
	var oldest *Conn
	least := int64(math.MaxInt64)
	for _, c := range l.snapshot() {
		if since := c.idleSince.Load(); since != 0 && since < least && !c.closed.Load() {
			oldest, least = c, since
		}
	}
	if oldest == nil || !oldest.closed.CompareAndSwap(false, true) {
		return false
	}
	l.rejected.Add(1)
	_ = oldest.release() // it is closed either way
	return true
}

// adopt counts a connection and keeps it for Each.
func (l *Listener) adopt(tcp *net.TCPConn) *Conn {
	c := &Conn{TCPConn: tcp, ln: l, fd: -1}
	c.setIdle(true)
	l.open.Add(1)
	l.mu.Lock()
	l.generation++
	c.generation = l.generation
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c
}

// forget undoes adopt and add.
func (l *Listener) forget(c *Conn) {
	l.watch.remove(c)
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
	l.open.Add(-1)
}

// refusalWrite is long enough for a few bytes into the empty buffer of a new socket.
const refusalWrite = 100 * time.Millisecond

const rejection = `{"error":{"message":"The edge has as many connections as it may. Retry shortly.","type":"api_error","code":"too_many_connections","param":null}}`

// refusal is a whole answer that no server has made, with a status line and such headers as that has of its own. Both names of
// the request id are there, as in every other answer.
func (l *Listener) refusal(head, body string) []byte {
	b := append(make([]byte, 0, 512), head...)
	b = append(b, "Content-Type: application/json\r\nCache-Control: no-store\r\nConnection: close\r\n"...)
	if l.requestID != nil {
		b = append(b, "Request-Id: "...)
		from := len(b)
		b = l.requestID(b)
		id := b[from:]
		b = append(append(b, "\r\nX-Request-Id: "...), id...)
		b = append(b, "\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10)
	return append(append(b, "\r\n\r\n"...), body...)
}

// reject answers and closes a connection beyond the bound. The socket is new, so the few bytes fit its buffer. It is not
// counted as open while it lingers: those who are turned away would keep the others out.
func (l *Listener) reject(c *net.TCPConn) {
	l.rejected.Add(1)
	if !l.tls {
		_ = c.SetWriteDeadline(time.Now().Add(refusalWrite))
		_, _ = c.Write(l.refusal("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n", rejection))
		if l.drain(c, c.Close) {
			return
		}
	}
	_ = c.Close()
}

// Each calls f with the waiter of every connection that has one. f runs under the connection's lock, as ClientGone does.
func (l *Listener) Each(f func(Waiter)) {
	for _, c := range l.snapshot() {
		c.tell(f)
	}
}

// Busy is how many connections are open and neither wait for a request nor for their client to read the last answer.
func (l *Listener) Busy() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for c := range l.conns {
		if c.idleSince.Load() == 0 && !c.closed.Load() {
			n++
		}
	}
	return n
}

// Sever closes at once every connection that is still served: in the midst of a request, or of an answer that nobody reads.
// Those that have been closed and wait for their client to read the answer stay (see Conn.Linger).
func (l *Listener) Sever() {
	for _, c := range l.snapshot() {
		if c.closed.CompareAndSwap(false, true) {
			_ = c.release() // it is closed either way
		}
	}
}

// snapshot returns the connections that are open now.
func (l *Listener) snapshot() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conns := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	return conns
}

// Max returns how many connections may be open at once; 0: no bound.
func (l *Listener) Max() int64 { return l.max.Load() }

// SetMax changes the bound on open connections; 0: none. Those beyond a lower one stay.
func (l *Listener) SetMax(conns int) {
	lingering := int64(lingerConns)
	switch quarter := int64(conns) / 4; { // they take descriptors too
	case conns > 0 && l.makeRoom:
		lingering = min(lingerConns, quarter) // and these cannot be made to leave
	case conns > 0:
		lingering = max(lingerLeast, min(lingerConns, quarter))
	}
	l.max.Store(int64(conns))
	l.lingering.max.Store(lingering)
}

// Open returns the number of open connections.
func (l *Listener) Open() int64 { return l.open.Load() }

// Rejected returns how many connections were turned away, or made to leave, because of the bound.
func (l *Listener) Rejected() uint64 { return l.rejected.Load() }

// AcceptErrors returns how often accepting failed.
func (l *Listener) AcceptErrors() uint64 { return l.acceptErrors.Load() }

// Release ends the watch; the listener itself is closed by Close. Call it when no connection is open any more.
func (l *Listener) Release() error { return l.watch.close() }
