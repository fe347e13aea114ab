package upstreams

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
	namesFresh = 30 * time.Second // after this an answer is renewed, behind the back of the requests that use it
	namesPause = time.Second      // between two lookups of a name
	namesLimit = 10 * time.Second // for one lookup
	namesShun  = 5 * time.Minute  // how long an address that could not be reached comes after the others
)

// names turns the host of an upstream into addresses to dial. The last good answer is kept for as long as there is no
// newer one: a request waits for the resolver only when there has never been an answer.
type names struct {
	host, port string
	fixed      []string // for literals and localhost, which need no resolver
	guard      Guard
	lookup     func(ctx context.Context, network, host string) ([]netip.Addr, error)
	life       context.Context // ends the lookups under way when the transport is closed

	mu      sync.Mutex
	known   []string             // replaced as a whole
	shunned map[string]time.Time // when addresses could not be reached
	since   time.Time            // when known was learnt
	last    time.Time            // when the last lookup began
	lastErr error                // of the last lookup
	pending chan struct{}
}

func newNames(life context.Context, host, port string, g Guard) *names {
	n := &names{host: host, port: port, life: life, guard: g, lookup: net.DefaultResolver.LookupNetIP}
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		n.fixed = []string{net.JoinHostPort(ip.String(), port)}
	case host == "localhost":
		// RFC 6761, 6.3: always the loopback. Engines listen on either family.
		n.fixed = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return n
}

// addresses returns what to dial, in order of preference. The slice is shared and must not be changed.
func (n *names) addresses(ctx context.Context) ([]string, error) {
	if n.fixed != nil {
		return n.fixed, nil
	}
	n.mu.Lock()
	now := time.Now()
	if n.pending == nil && now.Sub(n.since) > namesFresh && now.Sub(n.last) > namesPause {
		n.last, n.pending = now, make(chan struct{})
		done := n.pending
		go n.guard.Once(guardNames, func() { n.resolve(done) })
	}
	known, err, pending := n.known, n.lastErr, n.pending
	n.mu.Unlock()

	if known != nil {
		return known, nil
	}
	if pending == nil {
		return nil, err
	}
	select {
	case <-pending:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known != nil {
		return n.known, nil
	}
	return nil, n.lastErr
}

// shun puts an address that could not be reached behind the others. Otherwise each new connection would first spend its share of
// the time on it, as long as the resolver names it first: a name with an IPv6 address that leads nowhere would cost every dial a
// second.
func (n *names) shun(addr string) {
	if n.fixed != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shunned == nil {
		n.shunned = map[string]time.Time{}
	}
	n.shunned[addr] = time.Now()
	n.known = n.ordered(slices.Clone(n.known))
}

// ordered sorts addrs by when they were shunned, the others first and in the resolver's order. It is called under mu.
func (n *names) ordered(addrs []string) []string {
	for addr, at := range n.shunned {
		if time.Since(at) > namesShun {
			delete(n.shunned, addr)
		}
	}
	slices.SortStableFunc(addrs, func(a, b string) int { return n.shunned[a].Compare(n.shunned[b]) })
	return addrs
}

// doubt makes the next dial renew the answer: none of its addresses could be reached.
func (n *names) doubt() {
	if n.fixed != nil {
		return
	}
	n.mu.Lock()
	n.since = time.Time{}
	n.mu.Unlock()
}

func (n *names) resolve(done chan struct{}) {
	ctx, cancel := context.WithTimeout(n.life, namesLimit)
	defer cancel()
	addrs, err := []string(nil), errLookup
	defer func() { n.resolved(addrs, err, done) }()
	n.guard.Point(guardNames)
	ips, found := n.lookup(ctx, "ip", n.host)
	if found == nil && len(ips) == 0 {
		found = errors.New("the name has no address")
	}
	for _, ip := range ips {
		addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), n.port))
	}
	err = found
}

// errLookup is the answer of a look-up that has panicked.
var errLookup = errors.New("the look-up failed")

// resolved takes an answer over and lets those go on who wait for it.
func (n *names) resolved(addrs []string, err error, done chan struct{}) {
	defer close(done)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending, n.lastErr = nil, err
	if err == nil {
		n.known, n.since = n.ordered(addrs), time.Now()
	}
}
