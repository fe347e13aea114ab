package limit

import (
	"net/netip"
	"sync"
	"time"
)

// Guesses limits how many times an address may guess a secret. An address has guessBurst tries, and
// gets another one every guessEvery. While an address has no tries left, the caller must not check
// the secrets that it sends. The secrets are too long to be guessed anyway. The limit makes guesses
// cheap for the edge and visible to operators. The zero value is ready for use, and may be used by
// multiple goroutines.
type Guesses struct {
	mu    sync.Mutex
	tries map[netip.Addr]tries
}

// tries is the number of tries that an address had left at a given time.
type tries struct {
	left float64
	at   time.Time
}

const (
	guessBurst = 20
	guessEvery = 3 * time.Second
	// guessers is the maximum number of addresses in the table. When the table is full, a new
	// address replaces all addresses that have regained all their tries. If there are none, it
	// replaces an arbitrary address.
	guessers = 4096
)

// guesserOf returns the address under which a is counted. An IPv6 address counts as its /64
// network, because a host can use every address in that network.
func guesserOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// Wait returns how long an address must wait before its next try. If no wait is needed, it returns
// 0.
func (g *Guesses) Wait(a netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, known := g.tries[guesserOf(a)]
	if left := t.by(now); known && left < 1 {
		return time.Duration((1 - left) * float64(guessEvery))
	}
	return 0
}

// Wrong records a wrong guess. It reports whether this was the address's last try.
func (g *Guesses) Wrong(a netip.Addr, now time.Time) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a = guesserOf(a)
	t, known := g.tries[a]
	left := float64(guessBurst)
	if known {
		left = t.by(now)
	} else if len(g.tries) >= guessers {
		g.forget(now)
	}
	if g.tries == nil {
		g.tries = map[netip.Addr]tries{}
	}
	left = max(0, left-1)
	g.tries[a] = tries{left, now}
	return left < 1
}

func (t tries) by(now time.Time) float64 {
	return min(guessBurst, t.left+float64(now.Sub(t.at))/float64(guessEvery))
}

func (g *Guesses) forget(now time.Time) {
	some := netip.Addr{}
	for a, t := range g.tries {
		if t.by(now) >= guessBurst {
			delete(g.tries, a)
		}
		some = a
	}
	if len(g.tries) >= guessers {
		delete(g.tries, some)
	}
}
