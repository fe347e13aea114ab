package listen

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/telemetry/guard"
)

// Options configure a Listener.
type Options struct {
	// MaxConns is the maximum number of open connections; 0 means no maximum. Connections above it
	// get a 503 and are closed.
	//
	// MaxPerAddress is the maximum number of open connections from one address; 0 means no maximum.
	// All addresses of an IPv6 /64 count as one address, because one host may own all of them. The
	// maximum does not apply to Unix sockets, whose peers have no address.
	MaxConns, MaxPerAddress int
	// TLS is true if clients use TLS. Connections above the maximum are then closed without a 503,
	// because the client could not read the response.
	TLS bool
	// KeepSocket is true if the socket belongs to a service manager and outlives this process.
	// CloseGracefully then leaves the accept queue to the next process.
	KeepSocket bool
	// MakeRoom makes the listener close a waiting connection rather than reject a new one. It
	// considers connections that have waited for a complete request for at least EvictAfter, and
	// closes the least needed of them (see sortLeastNeeded). The server must call
	// MarkHeadersReceived for each request.
	MakeRoom   bool
	EvictAfter time.Duration
	// ServeAgain serves a connection that was parked (park.go), and closes it. If it is nil, no
	// connection is parked.
	ServeAgain func(net.Conn) error
	// Guard catches panics in background goroutines and parsers. If nil, panics are not caught.
	Guard *guard.Guard
	// RequestID appends a new request id to the response for a rejected connection. If nil, the
	// response has no id.
	RequestID func([]byte) []byte
}

// Listener accepts connections as *Conn and watches them. Its methods may be called by multiple
// goroutines.
type Listener struct {
	net.Listener
	maxConns        atomic.Int64
	maxPerAddress   atomic.Int64 // maximum for a single address
	usesTLS         bool
	keepSocket      bool
	evictsWhenFull  bool
	evictAfter      time.Duration
	requestID       func([]byte) []byte
	serveAgain      func(net.Conn) error // nil if no connection is parked
	guard           *guard.Guard
	isClosing       atomic.Bool
	disconnectWatch *disconnectWatch
	lingerSlots     lingerSemaphore
	lingerTime      time.Duration // the constant lingerTime, except in tests

	mu             sync.Mutex
	conns          map[*Conn]struct{}
	connsByAddress map[netip.Addr]int

	evictions  evictionList
	proxyState proxyHeaderState

	openConns     atomic.Int64
	rejectedCount atomic.Uint64
	evictedCount  atomic.Uint64
	acceptErrors  atomic.Uint64
}

// New returns a Listener that wraps ln, which must be a TCP or Unix listener.
func New(ln net.Listener, o Options) (*Listener, error) {
	l := &Listener{
		Listener: ln, usesTLS: o.TLS, keepSocket: o.KeepSocket, evictsWhenFull: o.MakeRoom, evictAfter: o.EvictAfter,
		requestID: o.RequestID, guard: o.Guard, lingerTime: lingerTime, conns: map[*Conn]struct{}{}, connsByAddress: map[netip.Addr]int{},
	}
	if !o.TLS {
		l.serveAgain = o.ServeAgain
	}
	l.SetMaxConns(o.MaxConns, o.MaxPerAddress)
	var err error
	if l.disconnectWatch, err = newDisconnectWatch(l); err != nil {
		return nil, err
	}
	return l, nil
}

// Accept accepts the next connection. It rejects connections above the maximum. If the process has
// run out of descriptors or memory, Accept waits and tries again, because an error would stop the
// server. It returns an error only once the listener has been closed.
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
		socket, ok := raw.(rawConn)
		if !ok {
			raw.Close()
			l.acceptErrors.Add(1)
			continue
		}
		address, header := connCountAddress(socket.RemoteAddr()), l.expectedProxyHeader(socket.RemoteAddr())
		// countForClient later counts the connection for the client behind the proxy.
		fromProxy := header != nil && header.isRequired
		if most := l.maxPerAddress.Load(); most > 0 && !fromProxy && address.IsValid() && l.addressConnCount(address) >= most {
			l.rejectConn(socket, tooManyPerAddressBody)
			continue
		}
		if most := l.maxConns.Load(); most > 0 && l.openConns.Load() >= most && !l.evictConn() {
			l.rejectConn(socket, tooManyConnsBody)
			continue
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			limitSendBuffer(tcp)
		}
		c := l.register(socket, address)
		c.proxyHeader, c.fromListedProxy = header, fromProxy
		if err := errors.Join(c.stream.Attach(socket), l.disconnectWatch.add(c)); err != nil {
			l.acceptErrors.Add(1)
			_ = c.Close()
			continue
		}
		return c, nil
	}
}

func (l *Listener) register(s rawConn, address netip.Addr) *Conn {
	c := &Conn{rawConn: s, ln: l, address: address}
	c.idle.markIdle()
	l.openConns.Add(1)
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.connsByAddress[address]++
	l.mu.Unlock()
	return c
}

func (l *Listener) unregister(c *Conn) {
	l.disconnectWatch.remove(c)
	l.mu.Lock()
	delete(l.conns, c)
	l.decrementAddress(c.address)
	l.mu.Unlock()
	l.openConns.Add(-1)
}

func (l *Listener) addressConnCount(address netip.Addr) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.connsByAddress[address])
}

// refusalTimeout is the timeout for writing a short response to a new socket.
const refusalTimeout = 100 * time.Millisecond

const (
	tooManyConnsBody      = `{"error":{"message":"The edge has reached its limit of connections. Retry shortly.","type":"api_error","code":"too_many_connections","param":null}}`
	tooManyPerAddressBody = `{"error":{"message":"This address has reached its limit of connections to the edge. Close some, or reuse them.","type":"api_error","code":"too_many_connections","param":null}}`
)

// refusalResponse returns a response that is sent without using the server. head consists of the
// status line and the headers that the status requires.
func (l *Listener) refusalResponse(head, body string) []byte {
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

// rejectConn responds to a connection above the maximum, and closes it. The response fits into the
// socket's empty send buffer. The connection does not count as open while it lingers; otherwise,
// rejected clients would block other clients.
func (l *Listener) rejectConn(c rawConn, body string) {
	l.rejectedCount.Add(1)
	if !l.usesTLS {
		_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = c.Write(l.refusalResponse("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n", body))
		if l.lingerThenClose(c, c.Close) {
			return
		}
	}
	_ = c.Close()
}

// EachWaiter calls f with the registered waiter of each connection, while holding the connection's
// lock.
func (l *Listener) EachWaiter(f func(DisconnectWaiter)) {
	for _, c := range l.copyConns() {
		c.client.callWithWaiter(f)
	}
}

// BusyConnCount returns the number of connections that are neither waiting for a request nor lingering.
func (l *Listener) BusyConnCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for c := range l.conns {
		if c.idle.idleSince.Load() == 0 && !c.isClosed.Load() {
			n++
		}
	}
	return n
}

// CloseConns closes all connections that are still being served, even in the middle of a request or
// response. Lingering connections stay open (see Conn.LingerOnClose).
func (l *Listener) CloseConns() {
	for _, c := range l.copyConns() {
		if c.isClosed.CompareAndSwap(false, true) {
			_ = c.closeNow() // even if this fails, the connection ends
		}
	}
}

func (l *Listener) copyConns() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns))
}

// MaxConns returns the maximum number of open connections; 0 means no maximum.
func (l *Listener) MaxConns() int64 { return l.maxConns.Load() }

// SetMaxConns sets the maximum number of open connections: conns in total, and ofOne per address. 0
// means no maximum. Connections that are already open stay open.
func (l *Listener) SetMaxConns(conns, ofOne int) {
	lingering := int64(defaultLingerConns)
	switch quarter := int64(conns) / 4; { // lingering connections need descriptors too
	case conns > 0 && l.evictsWhenFull && l.evictAfter == 0:
		lingering = min(defaultLingerConns, quarter) // evictConn does not close lingering connections
	case conns > 0:
		lingering = max(minLingerConns, min(int64(lingerConnLimit(conns, descriptorLimit())), quarter))
	}
	l.maxConns.Store(int64(conns))
	l.maxPerAddress.Store(int64(ofOne))
	l.lingerSlots.max.Store(lingering)
}

// OpenConnCount returns the number of open connections.
func (l *Listener) OpenConnCount() int64 { return l.openConns.Load() }

// RejectedCount returns how many connections were rejected because of a maximum.
func (l *Listener) RejectedCount() uint64 { return l.rejectedCount.Load() }

// EvictedCount returns how many connections were closed to make room for new connections.
func (l *Listener) EvictedCount() uint64 { return l.evictedCount.Load() }

// AcceptErrorCount returns how many times accepting a connection failed.
func (l *Listener) AcceptErrorCount() uint64 { return l.acceptErrors.Load() }

// StopDisconnectWatch stops the watch. It must be called after Close, when no connection is open any
// more.
func (l *Listener) StopDisconnectWatch() error { return l.disconnectWatch.close() }

// checkFraming passes the result of a read to f, and returns the bytes after the end of the
// request. Because f parses untrusted bytes, a panic in f ends only this connection.
func (l *Listener) checkFraming(f *framingChecker, p []byte, err error) (rest []byte) {
	defer l.guard.Catch(guard.PlaceConnection, func() { f.err = ErrFraming })
	l.guard.PanicIfInjected("framing")
	rest = f.checkBytes(p)
	if err != nil {
		f.recordReadError(err)
	}
	return rest
}
