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
// connection since connection attempts began to fail. ErrHostVanished wraps ETIMEDOUT, which the
// kernel would return half a minute later.
var ErrHostVanished error = vanishedError{}

type vanishedError struct{}

func (vanishedError) Error() string { return "the upstream's host has vanished" }
func (vanishedError) Unwrap() error { return syscall.ETIMEDOUT }

// HostWatch tracks all connections of calls and probes to an upstream's hosts, and whether new
// connection attempts succeed.
//
// A host that disappears, for example after a power failure, closes no connections. If the host had
// acknowledged all bytes, no acknowledgement is missing either. However, a new connection attempt
// times out or finds no route. From the first such failure on, the kernel probes the host's open
// connections (socket.ProbeEverySecond). Once the upstream is down, CloseConnsToLostHosts closes
// the connections on which nothing has arrived since that failure. A failed attempt alone is not
// enough: an engine with a full accept queue does not answer connection attempts either, but its
// host still responds on open connections. A refused attempt does not count, because a draining
// engine refuses connections but finishes its calls.
//
// A HostWatch costs nothing per request, and one map entry per connection.
type HostWatch struct {
	hasSilentHost atomic.Bool // at least one host does not accept connections

	// surplusCount and noReuseUntil record unsolicited bytes; see stopReuse.
	surplusCount   atomic.Int64              // number of times that unsolicited bytes have arrived
	noReuseUntil   atomic.Pointer[time.Time] // nil if never
	noReuseFor     time.Duration
	onReuseStopped func(reuseEndsFor time.Duration)

	mu    sync.Mutex
	hosts map[string]*hostAddresses // by dialled address
}

type hostAddresses struct {
	// silentSince is when a connection attempt first failed after the last successful attempt. It
	// is zero if the last attempt succeeded.
	silentSince time.Time
	conns       map[*conn]struct{}
}

// NewHostWatch returns a watch for the transports of an upstream. It calls onDistrust when
// unsolicited bytes stop the reuse of connections. onDistrust may be nil.
func NewHostWatch(onDistrust func(reuseEndsFor time.Duration)) *HostWatch {
	if onDistrust == nil {
		onDistrust = func(time.Duration) {}
	}
	return &HostWatch{hosts: map[string]*hostAddresses{}, noReuseFor: reuseStopTime, onReuseStopped: onDistrust}
}

// reuseStopTime is how long each connection is used for only one request after unsolicited bytes
// have arrived.
const reuseStopTime = time.Minute

// stopReuse records unsolicited bytes, and stops the reuse of connections for reuseStopTime. An
// engine that has sent a surplus response will do so again. If such a response arrives after the
// next request, it cannot be distinguished from the correct response.
func (w *HostWatch) stopReuse(now time.Time) {
	w.surplusCount.Add(1)
	until := now.Add(w.noReuseFor)
	if before := w.noReuseUntil.Swap(&until); before == nil || !before.After(now) {
		w.onReuseStopped(w.noReuseFor)
	}
}

// UnsolicitedCount returns the number of times that unsolicited bytes have arrived.
func (w *HostWatch) UnsolicitedCount() int64 { return w.surplusCount.Load() }

// isReuseStopped reports whether each connection is currently used for only one request.
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
		h = &hostAddresses{conns: map[*conn]struct{}{}}
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
			// If this fails, the ordinary TCP keep-alives detect the silence later.
			_ = c.raw.Control(func(fd uintptr) { _ = socket.ProbeEverySecond(fd) })
		}
	}
}

func isNoRoute(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// isSilent reports whether connection attempts to an address currently time out or find no route.
func (w *HostWatch) isSilent(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[addr]
	return h != nil && !h.silentSince.IsZero()
}

// markReachable records that a host accepts connections. The caller must hold mu.
func (w *HostWatch) markReachable(h *hostAddresses) {
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

// CloseConnsToLostHosts closes connections to hosts that accept no new connections. It closes a
// connection if the host owes an acknowledgement and nothing has arrived on the connection since
// connection attempts began to fail. It returns the number of closed connections. Call it only
// while the upstream is down.
func (w *HostWatch) CloseConnsToLostHosts() (ended int) {
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
			silence, owed := c.measureSilence(socket.SilentMillis)
			// The clock is read after measureSilence. A pause between the two calls can therefore
			// only make the last sign of life look later.
			if owed && time.Now().Add(-silence).Before(h.silentSince) {
				gone = append(gone, c)
			}
		}
	}
	w.mu.Unlock()
	for _, c := range gone {
		c.hostVanished.Store(true)
		c.resetOnClose() // otherwise the kernel would deliver unsent bytes once the host is back
		c.close()
	}
	return len(gone)
}
