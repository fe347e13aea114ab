package limit

import (
	"net/netip"
	"sync"
	"time"
)

// GuessLimiter limits how many times an address may guess a secret. An address has guessBurst
// tries, and gets another try every guessInterval. While an address has no tries left, the caller
// must not check the secrets that the address sends. The secrets are too long to be guessed anyway.
// The purpose of the limit is to make guesses cheap for the edge and visible to operators. The zero
// value is ready for use, and may be used by multiple goroutines.
type GuessLimiter struct {
	mu        sync.Mutex
	triesLeft map[netip.Addr]guessBalance
}

// guessBalance is the number of tries that an address had left at a given time.
type guessBalance struct {
	left      float64
	updatedAt time.Time
}

const (
	guessBurst    = 20
	guessInterval = 3 * time.Second
	// maxGuessers is the maximum number of addresses in the table. When the table is full, a new
	// address replaces all addresses that have regained all their tries. If no address has regained
	// all its tries, the new address replaces an arbitrary one.
	maxGuessers = 4096
)

// guesserAddr returns the address under which a is counted. An IPv6 address counts as its /64
// network, because a host can use every address in that network.
func guesserAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// WaitTime returns how long an address must wait before its next try. If no wait is needed, it
// returns 0.
func (g *GuessLimiter) WaitTime(a netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, known := g.triesLeft[guesserAddr(a)]
	if left := t.leftAt(now); known && left < 1 {
		return time.Duration((1 - left) * float64(guessInterval))
	}
	return 0
}

// RecordWrong records a wrong guess. It reports whether this was the address's last try.
func (g *GuessLimiter) RecordWrong(a netip.Addr, now time.Time) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a = guesserAddr(a)
	t, known := g.triesLeft[a]
	left := float64(guessBurst)
	if known {
		left = t.leftAt(now)
	} else if len(g.triesLeft) >= maxGuessers {
		g.evict(now)
	}
	if g.triesLeft == nil {
		g.triesLeft = map[netip.Addr]guessBalance{}
	}
	left = max(0, left-1)
	g.triesLeft[a] = guessBalance{left, now}
	return left < 1
}

func (t guessBalance) leftAt(now time.Time) float64 {
	return min(guessBurst, t.left+float64(now.Sub(t.updatedAt))/float64(guessInterval))
}

func (g *GuessLimiter) evict(now time.Time) {
	some := netip.Addr{}
	for a, t := range g.triesLeft {
		if t.leftAt(now) >= guessBurst {
			delete(g.triesLeft, a)
		}
		some = a
	}
	if len(g.triesLeft) >= maxGuessers {
		delete(g.triesLeft, some)
	}
}
