//go:build testing

package guard

import "sync"

// injected holds the points that must panic, with the remaining number of panics, by guard.
var injected = struct {
	mu    sync.Mutex
	times map[*Guard]map[string]int
}{times: map[*Guard]map[string]int{}}

// Inject makes the next calls of Point with this name panic. The parameter times is their number.
func (g *Guard) Inject(point string, times int) {
	injected.mu.Lock()
	defer injected.mu.Unlock()
	if injected.times[g] == nil {
		injected.times[g] = map[string]int{}
	}
	injected.times[g][point] = times
}

// Left returns the number of injected panics that a point has still to raise.
func (g *Guard) Left(point string) int {
	injected.mu.Lock()
	defer injected.mu.Unlock()
	return injected.times[g][point]
}

// Point panics if Inject has armed it.
func (g *Guard) Point(point string) {
	if g.take(point) {
		panic("injected at " + point)
	}
}

func (g *Guard) take(point string) bool {
	injected.mu.Lock()
	defer injected.mu.Unlock()
	if injected.times[g][point] == 0 {
		return false
	}
	injected.times[g][point]--
	return true
}
