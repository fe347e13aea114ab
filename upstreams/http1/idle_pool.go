package http1

import (
	"sync"
	"time"
)

type idlePool struct {
	maxConns    int           // maximum number of connections
	idleTimeout time.Duration // maximum idle time
	hosts       *HostWatch
	guard       Guard

	mu             sync.Mutex
	conns          []*conn // ordered by last use; the last one is reused first
	rejectsConns   bool
	sweeper        *time.Timer
	sweepScheduled bool // the sweeper timer is set
}

// maxReuseTime is how long a connection is reused after its first exchange. Without this limit, a
// busy connection would be reused forever, and the edge would not detect that the engine's name
// resolves to a new address.
const maxReuseTime = 5 * time.Minute

// takeConn removes and returns the most recently used connection. It returns nil if the pool is empty
// or that connection is too old. The caller must check the connection (conn.isStale).
func (p *idlePool) takeConn(now time.Time) *conn {
	for {
		p.mu.Lock()
		n := len(p.conns)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.conns[n-1]
		p.conns[n-1] = nil
		p.conns = p.conns[:n-1]
		p.mu.Unlock()

		if now.Before(c.idleUntil) && !c.hostVanished.Load() && !p.hosts.isReuseStopped(now) {
			return c
		}
		c.close()
	}
}

// putConn adds c to the pool. keep is the idle timeout that the engine announced, or zero. keep
// applies only if it is shorter than the pool's idle timeout.
func (p *idlePool) putConn(c *conn, keep time.Duration, now time.Time) {
	if keep == 0 || keep > p.idleTimeout {
		keep = p.idleTimeout
	}
	if c.reuseUntil.IsZero() {
		c.reuseUntil = now.Add(maxReuseTime)
	}
	c.poll.idleSince, c.idleUntil = now, now.Add(keep)
	if c.reuseUntil.Before(c.idleUntil) {
		c.idleUntil = c.reuseUntil
	}

	p.mu.Lock()
	if p.rejectsConns || !now.Before(c.idleUntil) || len(p.conns) >= p.maxConns || p.hosts.isReuseStopped(now) {
		p.mu.Unlock()
		c.close()
		return
	}
	p.conns = append(p.conns, c)
	if !p.sweepScheduled {
		p.sweepScheduled = true
		if p.sweeper == nil {
			p.sweeper = time.AfterFunc(keep, p.sweep)
		} else {
			p.sweeper.Reset(keep)
		}
	}
	p.mu.Unlock()
}

// sweep closes connections that have been idle for too long. A transport has no other timer. Under
// load, the timer fires once per idle timeout, rather than once per exchange.
func (p *idlePool) sweep() {
	defer p.guard.Catch(guardEngines, nil)
	for _, c := range p.removeExpired(time.Now()) {
		c.close()
	}
}

// removeExpired removes and returns the connections that have been idle for too long, and sets the
// timer for the remaining connections.
func (p *idlePool) removeExpired(now time.Time) (old []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepScheduled = false // so that the next putConn sets the timer again, even after a panic
	p.guard.PanicIfInjected(guardEngines)
	kept, next := p.conns[:0], p.idleTimeout
	for _, c := range p.conns {
		left := c.idleUntil.Sub(now)
		if left <= 0 {
			old = append(old, c)
			continue
		}
		kept = append(kept, c)
		next = min(next, left)
	}
	clear(p.conns[len(kept):])
	p.conns = kept
	if p.sweepScheduled = len(kept) > 0 && !p.rejectsConns; p.sweepScheduled {
		p.sweeper.Reset(next)
	}
	return old
}

func (p *idlePool) closeAll() {
	p.mu.Lock()
	idle := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// close empties the pool and makes it reject connections.
func (p *idlePool) close() {
	p.mu.Lock()
	p.rejectsConns = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	p.closeAll()
}

func (p *idlePool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rejectsConns
}
