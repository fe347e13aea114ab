package http1

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	dnsFresh         = 30 * time.Second // how long a result is fresh; used longer if not renewed
	dnsMinInterval   = time.Second      // minimum interval between the starts of two look-ups
	dnsTimeout       = 10 * time.Second // timeout of a look-up
	addrDemotionTime = 5 * time.Minute  // how long an unreachable address is tried last
)

// dnsCache resolves an upstream's host to the addresses to dial. It keeps the last successful
// result until a newer one arrives, so only the first requests wait for the resolver.
type dnsCache struct {
	host, port string
	fixedAddrs []string // addresses for an IP literal or localhost, which need no resolver
	guard      Guard
	lookup     func(ctx context.Context, network, host string) ([]netip.Addr, error)
	ctx        context.Context // cancels look-ups when the transport is closed

	mu          sync.Mutex
	knownAddrs  []string             // last known addresses; replaced, never modified
	unreachable map[string]time.Time // time of each address's last failure
	resolvedAt  time.Time            // time of the last successful look-up
	lastLookup  time.Time            // start of the last look-up
	lastErr     error                // why the last look-up failed, or nil
	lookupDone  chan struct{}
}

func newDNSCache(life context.Context, host, port string, g Guard) *dnsCache {
	n := &dnsCache{host: host, port: port, ctx: life, guard: g, lookup: net.DefaultResolver.LookupNetIP}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		n.fixedAddrs = []string{net.JoinHostPort(ip.String(), port)}
	case host == "localhost":
		// RFC 6761, 6.3: localhost is always the loopback. An engine may listen on either address
		// family.
		n.fixedAddrs = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return n
}

// addresses returns the addresses to dial, in order of preference. The slice is shared and must not
// be modified.
func (n *dnsCache) addresses(ctx context.Context) ([]string, error) {
	if n.fixedAddrs != nil {
		return n.fixedAddrs, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.lookupDone == nil && now.Sub(n.resolvedAt) > dnsFresh && now.Sub(n.lastLookup) > dnsMinInterval {
		n.lastLookup, n.lookupDone = now, make(chan struct{})
		done := n.lookupDone
		go n.guard.RunWithRecover(guardDNS, func() { n.resolve(done) })
	}
	if pending := n.lookupDone; n.knownAddrs == nil && pending != nil {
		n.mu.Unlock()
		select {
		case <-pending:
		case <-ctx.Done():
		}
		n.mu.Lock()
	}
	switch {
	case n.knownAddrs != nil:
		return n.knownAddrs, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, n.lastErr
}

// demote moves an unreachable address behind the others. Otherwise every dial would first wait for
// that address, for example for one second if there is no IPv6 route.
func (n *dnsCache) demote(addr string) {
	if n.fixedAddrs != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unreachable == nil {
		n.unreachable = map[string]time.Time{}
	}
	n.unreachable[addr] = time.Now()
	n.knownAddrs = n.sortByReachability(slices.Clone(n.knownAddrs))
}

// sortByReachability returns the reachable addresses in the resolver's order, followed by the
// unreachable addresses, ordered by the time of their failure. The caller must hold mu.
func (n *dnsCache) sortByReachability(addrs []string) []string {
	for addr, at := range n.unreachable {
		if time.Since(at) > addrDemotionTime {
			delete(n.unreachable, addr)
		}
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return n.unreachable[a].Compare(n.unreachable[b]) })
	return addrs
}

// expire makes the next dial look up the name again, because none of the known addresses was
// reachable.
func (n *dnsCache) expire() {
	if n.fixedAddrs != nil {
		return
	}
	n.mu.Lock()
	n.resolvedAt = time.Time{}
	n.mu.Unlock()
}

// errLookupPanicked is the error that is stored when a look-up panics.
var errLookupPanicked = errors.New("the look-up failed")

// resolve looks up the name, stores the result and wakes the dials that are waiting for the result.
func (n *dnsCache) resolve(done chan struct{}) {
	ctx, cancel := context.WithTimeout(n.ctx, dnsTimeout)
	defer cancel()
	addrs, err := []string(nil), errLookupPanicked
	defer func() {
		defer close(done)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lookupDone, n.lastErr = nil, err
		if err == nil {
			n.knownAddrs, n.resolvedAt = n.sortByReachability(addrs), time.Now()
		}
	}()
	n.guard.PanicIfInjected(guardDNS)
	ips, found := n.lookup(ctx, "ip", n.host)
	if found == nil && len(ips) == 0 {
		found = errors.New("the name has no address")
	}
	for _, ip := range ips {
		addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), n.port))
	}
	err = found
}
