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

type waiting struct {
	conn    *Conn
	since   int64      // idleState.waiting at the time of the check
	address netip.Addr // see networkOf
	known   bool       // whether a request on conn has had a valid key
}

// leastNeeded sorts connections so that the least needed one is first. These go first:
//
//   - connections whose client has not sent a valid key
//   - among those, connections from the address that has the most connections
//   - among those, the connection that has waited longest
//
// Once a connection from an address is in the list, the address counts as having one connection
// fewer. Two addresses that have the same number of connections therefore lose connections
// alternately.
func leastNeeded(conns []waiting) {
	slices.SortFunc(conns, func(a, b waiting) int {
		return cmp.Or(compareBool(a.known, b.known), a.address.Compare(b.address), cmp.Compare(b.since, a.since))
	})
	type ranked struct {
		waiting
		// Number of connections from the address, excluding those that have waited longer.
		held int
	}
	all := make([]ranked, 0, len(conns))
	var last ranked
	for _, c := range conns {
		next := ranked{c, 1}
		if last.held > 0 && last.known == c.known && last.address == c.address {
			next.held = last.held + 1
		}
		all = append(all, next)
		last = next
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(compareBool(a.known, b.known), cmp.Compare(b.held, a.held), cmp.Compare(a.since, b.since))
	})
	for i := range all {
		conns[i] = all[i].waiting
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
// batch of connections to close, and a pause follows a check that selects none.
const (
	leastBatch   = 16
	batchShare   = 64 // divisor of the number of open connections
	nothingFound = 20 * time.Millisecond
)

// room contains the connections that may be closed to make room for others.
type room struct {
	mu    sync.Mutex
	next  []waiting // results of the last check, ordered by leastNeeded
	again int64     // instant.Time before which no further check runs
}

// evict closes the least needed waiting connection. It returns false if no connection may be
// closed.
func (l *Listener) evict() bool {
	if !l.makeRoom {
		return false
	}
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	for looked := false; ; {
		// All connections found by the last check may have been used since.
		if len(l.room.next) == 0 {
			if looked {
				return false
			}
			looked = true
			l.lookForRoom()
			continue
		}
		w := l.room.next[0]
		l.room.next = l.room.next[1:]
		c := w.conn
		if c.idle.waiting.Load() != w.since || hasUnread(c.sock) || !c.closed.CompareAndSwap(false, true) {
			continue // a request has started since the check
		}
		l.evicted.Add(1)
		_ = c.closeNow() // even if this fails, the connection ends
		return true
	}
}

// lookForRoom selects connections that may be closed. The caller must hold room.mu.
func (l *Listener) lookForRoom() {
	now := int64(instant.Now())
	if now < l.room.again {
		return
	}
	l.mu.Lock() // also protects the addresses
	count := len(l.conns)
	idle := make([]waiting, 0, count)
	known := 0
	for c := range l.conns {
		if c.known.Load() {
			known++
		}
		if since := c.idle.waiting.Load(); since != 0 && !c.closed.Load() {
			idle = append(idle, waiting{c, since, c.address, c.known.Load()})
		}
	}
	l.mu.Unlock()
	most := l.max.Load()
	crowds := func(address netip.Addr) bool { return address.IsValid() && l.openOf(address) > most/2 }
	found := mayGo(idle, now-int64(l.evictAfter), crowds)
	leastNeeded(found)
	found = found[:min(len(found), leastBatch+count/batchShare)]
	l.room.next = keepHalf(found, known, int(most))
	if len(l.room.next) == 0 {
		l.room.again = now + int64(nothingFound)
	}
}

// mayGo returns the connections that started to wait before spared, which may be closed. If there
// are none, it looks for addresses that have more than half of the allowed connections (crowds),
// and returns those of their connections whose client has not sent a valid key. Otherwise, an
// address could occupy all connections by replacing them repeatedly.
func mayGo(conns []waiting, spared int64, crowds func(netip.Addr) bool) []waiting {
	old := slices.DeleteFunc(slices.Clone(conns), func(w waiting) bool { return w.since > spared })
	if len(old) > 0 {
		return old
	}
	return slices.DeleteFunc(conns, func(w waiting) bool { return w.known || !crowds(w.address) })
}

// keepHalf truncates a list sorted by leastNeeded, so that clients that have sent a valid key keep
// up to half of the allowed connections (most). Clients without a valid key then cannot displace
// them. known is the number of connections whose client has sent a valid key.
func keepHalf(conns []waiting, known, most int) []waiting {
	spare := max(0, known-most/2)
	for i, c := range conns {
		if !c.known {
			continue
		}
		if spare--; spare < 0 {
			return slices.Clone(conns[:i])
		}
	}
	return slices.Clone(conns)
}

// networkOf returns the address under which a connection is counted. For IPv6, it is the /64
// prefix, because one host may own all addresses in it. A peer of a Unix socket has no address.
func networkOf(a net.Addr) netip.Addr {
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
