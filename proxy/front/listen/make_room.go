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

// waiting is a connection that waits for a complete request.
type waiting struct {
	conn    *Conn
	since   int64      // the address that holds it; see networkOf
	address netip.Addr // see networkOf
	known   bool       // a request on conn has presented a key
}

// leastNeeded sorts waiting connections, the least needed first. Connections whose clients have
// presented no key come before the others. In each group, the connections of the address that holds
// the most come first. Among the connections of one address, the one that has waited longest comes
// first. An address that loses a connection holds one fewer, so two addresses with the same number
// lose connections alternately.
func leastNeeded(conns []waiting) {
	slices.SortFunc(conns, func(a, b waiting) int {
		return cmp.Or(compareBool(a.known, b.known), a.address.Compare(b.address), cmp.Compare(b.since, a.since))
	})
	type ranked struct {
		waiting
		held int // connections of the address, without those that have waited longer
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

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// A check costs time in proportion to the number of connections. So one check finds room for a
// batch of new connections, and a check that finds no room is followed by a short pause. Thus a
// flood of connections cannot keep the edge busy with checks.
const (
	leastBatch   = 16
	batchShare   = 64 // the divisor of the open connections
	nothingFound = 20 * time.Millisecond
)

// room holds the connections that may be closed for new ones.
type room struct {
	mu    sync.Mutex
	next  []waiting // the least needed first, in the order of the last check
	again int64     // no check before this instant.Time
}

// evict closes the waiting connection that is needed least. It returns false if each connection
// either serves a request or is spared by mayGo.
func (l *Listener) evict() bool {
	if !l.makeRoom {
		return false
	}
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	for looked := false; ; {
		// true also if all connections found by an earlier check have been in use since
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
			continue // its request has been received since the check, or is about to be read
		}
		l.evicted.Add(1)
		_ = c.closeNow() // an error changes nothing: the connection ends anyway
		return true
	}
}

// lookForRoom finds the connections that are needed least. The caller must hold room.mu.
func (l *Listener) lookForRoom() {
	now := int64(instant.Now())
	if now < l.room.again {
		return
	}
	l.mu.Lock() // l.mu protects the addresses
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

// mayGo returns the connections that may be closed for new ones: those that started to wait at or
// before the time spared. If there are none, mayGo returns connections without a key whose address
// crowds out all other addresses. Such an address could otherwise occupy all connections forever by
// renewing them.
func mayGo(conns []waiting, spared int64, crowds func(netip.Addr) bool) []waiting {
	old := slices.DeleteFunc(slices.Clone(conns), func(w waiting) bool { return w.since > spared })
	if len(old) > 0 {
		return old
	}
	return slices.DeleteFunc(conns, func(w waiting) bool { return w.known || !crowds(w.address) })
}

// keepHalf shortens a list sorted by leastNeeded, so that clients that have presented a key keep up
// to half of the allowed connections (most). A flood of clients without a key cannot take these
// connections. known is how many connections clients with a key have.
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

// networkOf returns the address by which connections are counted. For IPv6 that is the /64 prefix,
// because one host may own all of it. A peer at a Unix socket has no address.
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
