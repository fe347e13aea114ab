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
// has disappeared. Such a host accepts no new connections, and nothing has arrived on this
// connection since connects began to fail. It wraps ETIMEDOUT, which the kernel would return half a
// minute later.
var ErrHostVanished error = vanishedError{}

type vanishedError struct{}

func (vanishedError) Error() string { return "the upstream's host has vanished" }
func (vanishedError) Unwrap() error { return syscall.ETIMEDOUT }

// HostWatch tracks all connections of calls and probes to an upstream's hosts, and whether new
// connects succeed.
//
// A host that disappears, for example after a power failure, closes no connections. If the host had
// acknowledged everything, no acknowledgement is missing either. However, a new connect times out
// or finds no route. From the first such failure on, the kernel probes the host's open connections
// (socket.ProbeEverySecond). Once the upstream is down, CloseVanished closes the connections that
// have received nothing since that failure. It requires both a failed connect and a silent
// connection. An engine with a full accept queue also leaves connects unanswered, but its host
// still responds on open connections. A refused connect does not count, because a draining engine
// refuses connects but finishes its calls.
//
// The watch costs nothing per request, and one map entry per connection.
type HostWatch struct {
	hasSilentHost atomic.Bool // some host does not accept connections

	// surplusCount and noReuseUntil record unsolicited bytes; see distrust.
	surplusCount   atomic.Int64              // how often unsolicited bytes have arrived
	noReuseUntil   atomic.Pointer[time.Time] // nil if never
	noReuseFor     time.Duration
	onReuseStopped func(reuseEndsFor time.Duration)

	mu    sync.Mutex
	hosts map[string]*host // by dialled address
}

type host struct {
	// silentSince is when the first connect failed after the last success. It is zero if the last
	// connect succeeded.
	silentSince time.Time
	conns       map[*conn]struct{}
}

// NewHostWatch returns a watch for the transports of an upstream. It calls onReuseStopped when
// unsolicited bytes stop the reuse of connections. onReuseStopped may be nil.
func NewHostWatch(onDistrust func(reuseEndsFor time.Duration)) *HostWatch {
	if onDistrust == nil {
		onDistrust = func(time.Duration) {}
	}
	return &HostWatch{hosts: map[string]*host{}, noReuseFor: reuseStopTime, onReuseStopped: onDistrust}
}

// reuseStopTime is how long each connection carries only one request after unsolicited bytes have
// arrived.
const reuseStopTime = time.Minute

// stopReuse records unsolicited bytes, and stops the reuse of connections for reuseStopTime. An engine
// that has sent a surplus response will do so again. If such a response arrives after the next
// request, it cannot be distinguished from the correct response.
func (w *HostWatch) stopReuse(now time.Time) {
	w.surplusCount.Add(1)
	until := now.Add(w.noReuseFor)
	if before := w.noReuseUntil.Swap(&until); before == nil || !before.After(now) {
		w.onReuseStopped(w.noReuseFor)
	}
}

// SurplusCount returns how often unsolicited bytes have arrived.
func (w *HostWatch) SurplusCount() int64 { return w.surplusCount.Load() }

// isReuseStopped reports whether each connection currently carries only one request.
func (w *HostWatch) isReuseStopped(now time.Time) bool {
	until := w.noReuseUntil.Load()
	return until != nil && now.Before(*until)
}

// addConn adds a new connection, which proves that the host is reachable.
func (w *HostWatch) addConn(addr string, c *conn) {
	c.watch, c.addr = w, addr
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	if h == nil {
		h = &host{conns: map[*conn]struct{}{}}
		w.hosts[addr] = h
	}
	h.conns[c] = struct{}{}
	w.markReachable(h)
}

func (w *HostWatch) recordDialError(addr string, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	switch {
	case h == nil: // no open connections to this host
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		w.markReachable(h)
	case h.silentSince.IsZero() && (isTimeout(err) || isNoRoute(err)): // the errors of a host that has disappeared
		h.silentSince = now
		w.hasSilentHost.Store(true)
		for c := range h.conns {
			// if this fails, the ordinary TCP keep-alives detect the silence later
			_ = c.raw.Control(func(fd uintptr) { _ = socket.ProbeEverySecond(fd) })
		}
	}
}

func isNoRoute(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// isSilent reports whether connects to an address currently time out or find no route.
func (w *HostWatch) isSilent(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	return h != nil && !h.silentSince.IsZero()
}

// markReachable records that a host accepts connections. The caller holds mu.
func (w *HostWatch) markReachable(h *host) {
	if h.silentSince.IsZero() {
		return
	}
	h.silentSince = time.Time{}
	for _, other := range w.hosts {
		if !other.silentSince.IsZero() {
			return
		}
	}
	w.hasSilentHost.Store(false)
}

func (w *HostWatch) removeConn(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[c.addr]
	if h == nil {
		return
	}
	delete(h.conns, c)
	if len(h.conns) == 0 {
		w.markReachable(h)
		delete(w.hosts, c.addr)
	}
}

// CloseVanished closes connections to hosts that accept no new connections. It closes a connection if
// the host owes an acknowledgement and nothing has arrived on the connection since connects began
// to fail. It returns the number of closed connections. Call it only while the upstream is down.
func (w *HostWatch) CloseVanished() (ended int) {
	if !w.hasSilentHost.Load() {
		return 0
	}
	var gone []*conn
	w.mu.Lock()
	for _, h := range w.hosts {
		if h.silentSince.IsZero() {
			continue
		}
		for c := range h.conns {
			silence, owed := c.querySocket(socket.SilentMillis)
			// The clock is read after ask. A pause between the two can therefore only make the last
			// sign of life look later.
			if owed && time.Now().Add(-silence).Before(h.silentSince) {
				gone = append(gone, c)
			}
		}
	}
	w.mu.Unlock()
	for _, c := range gone {
		c.hostVanished.Store(true)
		c.reset() // otherwise the kernel would deliver unsent bytes when the host is back
		c.close()
	}
	return len(gone)
}
