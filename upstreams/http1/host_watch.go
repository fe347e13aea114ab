package http1

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// ErrHostVanished is the cause of a Failure whose connection was closed because the engine's host
// has vanished: the host accepts no connections, and nothing has been received on this connection
// since then. It wraps ETIMEDOUT, which the kernel would return half a minute later.
var ErrHostVanished error = vanishedError{}

type vanishedError struct{}

func (vanishedError) Error() string { return "the upstream's host has vanished" }
func (vanishedError) Unwrap() error { return syscall.ETIMEDOUT }

// HostWatch tracks every connection of calls and probes to the hosts of one upstream, and whether
// new connections succeed.
//
// A host that has vanished (a cut cable, a power failure) closes no connection. If the host had
// acknowledged everything, no missing acknowledgement reveals the loss either. But connecting to
// the host fails in a distinctive way: the connect times out, or there is no route. From the first
// such failure on, the host's open connections are probed (see socket.ProbeEverySecond). Once the
// upstream is down, EndVanished closes the connections that have received nothing since. Both signs
// are needed. An engine whose accept queue is full leaves connects unanswered as well, but its host
// answers on open connections. A refused connect does not count: a draining engine refuses connects
// and continues its calls.
//
// Requests cost nothing here, and a new connection costs one map entry.
type HostWatch struct {
	doubted atomic.Bool // some host does not accept connections

	// The following fields concern unsolicited bytes; see distrust.
	surplus      atomic.Int64              // times that such bytes were seen
	noReuseUntil atomic.Pointer[time.Time] // nil: never seen
	noReuseFor   time.Duration
	onDistrust   func(reuseEndsFor time.Duration)

	mu    sync.Mutex
	hosts map[string]*host // by dialled address
}

// host is one address of an upstream.
type host struct {
	// silentSince is the time at which connecting first failed after the last success. It is zero
	// while no connect is known to fail.
	silentSince time.Time
	conns       map[*conn]struct{}
}

// NewHostWatch returns a watch for the transports of one upstream. It calls onDistrust, which may
// be nil, when unsolicited bytes end the reuse of connections for some time.
func NewHostWatch(onDistrust func(reuseEndsFor time.Duration)) *HostWatch {
	if onDistrust == nil {
		onDistrust = func(time.Duration) {}
	}
	return &HostWatch{hosts: map[string]*host{}, noReuseFor: noReuseFor, onDistrust: onDistrust}
}

// noReuseFor is the time after the last unsolicited bytes during which each connection is used for
// only one request.
const noReuseFor = time.Minute

// distrust counts unsolicited bytes, and ends the reuse of connections for noReuseFor. An engine
// that has sent a second reply will do so again, and a second reply that arrives after the next
// request cannot be distinguished from the right reply.
func (w *HostWatch) distrust(now time.Time) {
	w.surplus.Add(1)
	until := now.Add(w.noReuseFor)
	if before := w.noReuseUntil.Swap(&until); before == nil || !before.After(now) {
		w.onDistrust(w.noReuseFor)
	}
}

// Surplus returns the number of times that unsolicited bytes were seen.
func (w *HostWatch) Surplus() int64 { return w.surplus.Load() }

// distrusted reports whether each connection is currently used for only one request.
func (w *HostWatch) distrusted(now time.Time) bool {
	until := w.noReuseUntil.Load()
	return until != nil && now.Before(*until)
}

// connected adds a new connection, which shows that the host is there.
func (w *HostWatch) connected(addr string, c *conn) {
	c.watch, c.addr = w, addr
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	if h == nil {
		h = &host{conns: map[*conn]struct{}{}}
		w.hosts[addr] = h
	}
	h.conns[c] = struct{}{}
	w.found(h)
}

// refused records a connect that has failed with err.
func (w *HostWatch) refused(addr string, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	switch {
	case h == nil: // no connection to this host is open
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		w.found(h)
	case h.silentSince.IsZero() && (isTimeout(err) || noRoute(err)): // the errors of a vanished host
		h.silentSince = now
		w.doubted.Store(true)
		for c := range h.conns {
			// Without it, the kernel's own keep-alives detect the silence later.
			_ = c.raw.Control(func(fd uintptr) { _ = socket.ProbeEverySecond(fd) })
		}
	}
}

func noRoute(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// silent reports whether connecting to an address fails in the way that is typical of a vanished
// host.
func (w *HostWatch) silent(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	return h != nil && !h.silentSince.IsZero()
}

// found records that a host accepts connections. The caller holds mu.
func (w *HostWatch) found(h *host) {
	if h.silentSince.IsZero() {
		return
	}
	h.silentSince = time.Time{}
	for _, other := range w.hosts {
		if !other.silentSince.IsZero() {
			return
		}
	}
	w.doubted.Store(false)
}

// closed removes a connection.
func (w *HostWatch) closed(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[c.addr]
	if h == nil {
		return
	}
	delete(h.conns, c)
	if len(h.conns) == 0 {
		w.found(h)
		delete(w.hosts, c.addr)
	}
}

// EndVanished closes connections to hosts that accept no new connections. It closes a connection if
// nothing has been received on it since connecting first failed, although the host owes an answer.
// It returns the number of closed connections. Call it while the upstream is down.
func (w *HostWatch) EndVanished() (ended int) {
	if !w.doubted.Load() {
		return 0
	}
	var gone []*conn
	w.mu.Lock()
	for _, h := range w.hosts {
		if h.silentSince.IsZero() {
			continue
		}
		for c := range h.conns {
			silence, owed := c.ask(socket.SilentFor)
			// The clock is read after the silence. A pause in between makes the last sign of life
			// look later, never earlier.
			if owed && time.Now().Add(-silence).Before(h.silentSince) {
				gone = append(gone, c)
			}
		}
	}
	w.mu.Unlock()
	for _, c := range gone {
		c.vanished.Store(true)
		c.reset() // otherwise the kernel delivers its bytes when the host is back
		c.close()
	}
	return len(gone)
}
