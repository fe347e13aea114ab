package proxy

import (
	"net/netip"
	"sync"
	"time"
)

// brake slows guesses at the admin token down: an address that has been wrong guessBurst times is not listened to until time has
// given it a try back, one every guessEvery. What it sends meanwhile is not compared, right or wrong, or a brake would slow nothing.
// Tokens are long, so that no pace finds one; this keeps a guesser from costing anything, and shows that there is one.
type brake struct {
	mu    sync.Mutex
	tries map[netip.Addr]tries
}

// tries are what an address has left.
type tries struct {
	left float64
	at   time.Time // when that was so
}

const (
	guessBurst = 20
	guessEvery = 3 * time.Second
	// guessers is how many addresses are remembered. Beyond it one is forgotten that had its tries back, or else any.
	guessers = 4096
)

// guesserOf is what counts as one address: with IPv6 a network, because a host has as many addresses as it likes.
func guesserOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// wait is how long a has to wait until it may try; 0: it may now.
func (b *brake) wait(a netip.Addr, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, known := b.tries[guesserOf(a)]
	if left := t.by(now); known && left < 1 {
		return time.Duration((1 - left) * float64(guessEvery))
	}
	return 0
}

// wrong notes that a has tried and was wrong. It reports whether that was the last try that it had.
func (b *brake) wrong(a netip.Addr, now time.Time) (last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a = guesserOf(a)
	t, known := b.tries[a]
	left := float64(guessBurst)
	if known {
		left = t.by(now)
	} else if len(b.tries) >= guessers {
		b.forget(now)
	}
	if b.tries == nil {
		b.tries = map[netip.Addr]tries{}
	}
	left = max(0, left-1)
	b.tries[a] = tries{left, now}
	return left < 1
}

// by is how many tries are left by now.
func (t tries) by(now time.Time) float64 {
	return min(guessBurst, t.left+float64(now.Sub(t.at))/float64(guessEvery))
}

// forget makes room for an address.
func (b *brake) forget(now time.Time) {
	some := netip.Addr{}
	for a, t := range b.tries {
		if t.by(now) >= guessBurst {
			delete(b.tries, a)
		}
		some = a
	}
	if len(b.tries) >= guessers {
		delete(b.tries, some)
	}
}
