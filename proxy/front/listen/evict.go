package listen

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"penstock/config/instant"
)

type waitingConn struct {
	conn         *Conn
	waitingSince int64      // idleState.waitingSince at the time of the check
	address      netip.Addr // see connCountAddress
	hasValidKey  bool       // whether a request on the connection had a valid key
}

// sortLeastNeeded sorts connections so that the least needed connection is first. The order is:
//
//   - connections whose client has not sent a valid key
//   - among those, connections from the address that has the most connections
//   - among those, the connection that has waited longest
//
// Once a connection from an address is in the list, the address counts as having one connection
// fewer. Two addresses that have the same number of connections therefore lose connections
// alternately.
func sortLeastNeeded(conns []waitingConn) {
	slices.SortFunc(conns, func(a, b waitingConn) int {
		return cmp.Or(compareBool(a.hasValidKey, b.hasValidKey), a.address.Compare(b.address), cmp.Compare(b.waitingSince, a.waitingSince))
	})
	type ranked struct {
		waitingConn
		// Number of connections from the address, excluding connections that have waited longer.
		held int
	}
	all := make([]ranked, 0, len(conns))
	var last ranked
	for _, c := range conns {
		next := ranked{c, 1}
		if last.held > 0 && last.hasValidKey == c.hasValidKey && last.address == c.address {
			next.held = last.held + 1
		}
		all = append(all, next)
		last = next
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(compareBool(a.hasValidKey, b.hasValidKey), cmp.Compare(b.held, a.held), cmp.Compare(a.waitingSince, b.waitingSince))
	})
	for i := range all {
		conns[i] = all[i].waitingConn
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// The cost of a check is proportional to the number of connections. Each check therefore selects a
// batch of connections to close. If it finds no such connection, the next check is delayed.
const (
	minEvictionBatch     = 16
	evictionBatchDivisor = 64 // divisor of the number of open connections
	emptyEvictionPause   = 20 * time.Millisecond
)

// evictionList contains the connections that may be closed to make room for new connections.
type evictionList struct {
	mu          sync.Mutex
	candidates  []waitingConn // results of the last check, ordered by sortLeastNeeded
	nextCheckAt int64         // instant.Time before which no further check runs
}

// evictConn closes the least needed waiting connection. It returns false if no connection may be
// closed.
func (l *Listener) evictConn() bool {
	if !l.evictsWhenFull {
		return false
	}
	l.evictions.mu.Lock()
	defer l.evictions.mu.Unlock()
	for looked := false; ; {
		// All connections found by the last check may have received requests since then.
		if len(l.evictions.candidates) == 0 {
			if looked {
				return false
			}
			looked = true
			l.findCandidates()
			continue
		}
		w := l.evictions.candidates[0]
		l.evictions.candidates = l.evictions.candidates[1:]
		c := w.conn
		if c.idle.waitingSince.Load() != w.waitingSince || hasUnread(c.rawConn) || !c.isClosed.CompareAndSwap(false, true) {
			continue // a request has started since the check
		}
		l.evictedCount.Add(1)
		_ = c.closeNow() // even if this fails, the connection ends
		return true
	}
}

// findCandidates selects connections that may be closed. The caller must hold evictions.mu.
func (l *Listener) findCandidates() {
	now := int64(instant.Now())
	if now < l.evictions.nextCheckAt {
		return
	}
	l.mu.Lock() // also guards connsByAddress
	count := len(l.conns)
	idle := make([]waitingConn, 0, count)
	known := 0
	for c := range l.conns {
		if c.hasValidKey.Load() {
			known++
		}
		if since := c.idle.waitingSince.Load(); since != 0 && !c.isClosed.Load() {
			idle = append(idle, waitingConn{c, since, c.address, c.hasValidKey.Load()})
		}
	}
	l.mu.Unlock()
	most := l.maxConns.Load()
	crowds := func(address netip.Addr) bool { return address.IsValid() && l.addressConnCount(address) > most/2 }
	found := evictableConns(idle, now-int64(l.evictAfter), crowds)
	sortLeastNeeded(found)
	found = found[:min(len(found), minEvictionBatch+count/evictionBatchDivisor)]
	l.evictions.candidates = protectKnownClients(found, known, int(most))
	if len(l.evictions.candidates) == 0 {
		l.evictions.nextCheckAt = now + int64(emptyEvictionPause)
	}
}

// evictableConns returns the connections that may be closed, which are those that started to wait
// before spared. If there are none, it returns connections from addresses that have more than half
// of the allowed connections (crowds). Among these, it omits connections whose client has sent a
// valid key. Without the second rule, one address could occupy all connections by always replacing
// them before they may be closed.
func evictableConns(conns []waitingConn, spared int64, crowds func(netip.Addr) bool) []waitingConn {
	old := slices.DeleteFunc(slices.Clone(conns), func(w waitingConn) bool { return w.waitingSince > spared })
	if len(old) > 0 {
		return old
	}
	return slices.DeleteFunc(conns, func(w waitingConn) bool { return w.hasValidKey || !crowds(w.address) })
}

// protectKnownClients truncates a list sorted by sortLeastNeeded, so that clients that have sent a
// valid key keep up to half of the allowed connections (most). Clients without a valid key then
// cannot displace them. known is the number of connections whose client has sent a valid key.
func protectKnownClients(conns []waitingConn, known, most int) []waitingConn {
	spare := max(0, known-most/2)
	for i, c := range conns {
		if !c.hasValidKey {
			continue
		}
		if spare--; spare < 0 {
			return slices.Clone(conns[:i])
		}
	}
	return slices.Clone(conns)
}

// connCountAddress returns the address under which a connection is counted. For IPv6, it is the /64
// prefix, because one host may own all addresses in it. A peer of a Unix socket has no address.
func connCountAddress(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if net64, err := ip.Prefix(64); ip.Is6() && err == nil {
		return net64.Addr()
	}
	return ip
}
