//go:build testing

package guard

import "sync"

// injected are the points that are to panic, and how many times each.
type injected struct {
	mu    sync.Mutex
	times map[string]int
}

// Inject makes the next times that Point is reached with this name panic.
func (g *Guard) Inject(point string, times int) {
	g.injected.mu.Lock()
	defer g.injected.mu.Unlock()
	if g.injected.times == nil {
		g.injected.times = map[string]int{}
	}
	g.injected.times[point] = times
}

// Left returns how many panics of Inject a point has still to come.
func (g *Guard) Left(point string) int {
	g.injected.mu.Lock()
	defer g.injected.mu.Unlock()
	return g.injected.times[point]
}

// Point panics when Inject has asked for it.
func (g *Guard) Point(point string) {
	if g == nil {
		return
	}
	g.injected.mu.Lock()
	left := g.injected.times[point]
	if left > 0 {
		g.injected.times[point] = left - 1
	}
	g.injected.mu.Unlock()
	if left > 0 {
		panic("injected at " + point)
	}
}
