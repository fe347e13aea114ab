package limit

import (
	"net/netip"
	"sync"
	"time"
)

// Guesses limits how often an address may guess a secret. An address has guessBurst tries and gets
// one more every guessEvery. While an address has no tries left, the caller must not check its
// secret. The secrets are too long to be guessed anyway. The limit keeps guesses cheap for the edge
// and makes them visible to operators. The zero value is ready for use, and any goroutine may use
// it.
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
	// guessers is the maximum number of remembered addresses. If the maximum is reached, a new
	// address replaces all addresses that have regained all of their tries. If no address has, it
	// replaces an arbitrary one.
	guessers = 4096
)

// guesserOf returns the address under which a is counted. An IPv6 address counts as its /64
// network, because a host can use any address in that network.
func guesserOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// Wait returns how long an address must wait for its next try, or 0 if it need not wait.
func (g *Guesses) Wait(a netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, known := g.tries[guesserOf(a)]
	if left := t.by(now); known && left < 1 {
		return time.Duration((1 - left) * float64(guessEvery))
	}
	return 0
}

// Wrong records a wrong guess. It reports whether the address has used its last try.
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
