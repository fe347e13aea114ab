package batch

import (
	"context"
	"sync"
	"time"
)

// slotGate limits the number of concurrent requests to the number of free slots at the edge.
type slotGate struct {
	maxRunning int

	mu      sync.Mutex
	changed chan struct{} // closed when another request may start
	running int
	limit   float64
	// everRefused is true once a request has been refused. From then on, limit grows slowly.
	everRefused bool
	notBefore   time.Time // no request may start before this time
}

const initialConcurrency = 4

func newGate(ceiling int) *slotGate {
	return &slotGate{maxRunning: ceiling, changed: make(chan struct{}), limit: float64(min(initialConcurrency, ceiling))}
}

func (g *slotGate) enter(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		g.mu.Lock()
		wait := time.Until(g.notBefore)
		if wait <= 0 && g.running < int(g.limit) {
			g.running++
			g.mu.Unlock()
			return nil
		}
		changed := g.changed
		g.mu.Unlock()
		if wait <= 0 {
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (g *slotGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	more := 1.0
	if g.everRefused {
		more = 1 / g.limit
	}
	g.limit = min(g.limit+more, float64(g.maxRunning))
	g.endRequestLocked()
}

// leaveRefused is called when a request was refused because there was no free slot or no engine.
// after is how long to wait before the next attempt.
func (g *slotGate) leaveRefused(after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.everRefused = true
	if g.running == 1 {
		g.notBefore = time.Now().Add(after)
	}
	g.limit = float64(max(1, g.running-1))
	g.endRequestLocked()
}

// endRequestLocked counts a request as ended. The caller must hold mu.
func (g *slotGate) endRequestLocked() {
	g.running--
	close(g.changed)
	g.changed = make(chan struct{})
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *slotGate) runningCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running
}
