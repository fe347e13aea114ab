//go:build testing

package guard

import "sync"

// pendingPanics contains, for each guard, the points that must panic, and how many more times each
// must panic.
var pendingPanics = struct {
	mu    sync.Mutex
	times map[*Guard]map[string]int
}{times: map[*Guard]map[string]int{}}

// Inject makes the next calls to Point for the given point panic.
func (g *Guard) Inject(point string, times int) {
	pendingPanics.mu.Lock()
	defer pendingPanics.mu.Unlock()
	if pendingPanics.times[g] == nil {
		pendingPanics.times[g] = map[string]int{}
	}
	pendingPanics.times[g][point] = times
}

// RemainingInjections returns how many injected panics at a point have not occurred yet.
func (g *Guard) RemainingInjections(point string) int {
	pendingPanics.mu.Lock()
	defer pendingPanics.mu.Unlock()
	return pendingPanics.times[g][point]
}

// Point panics if Inject has armed the given point.
func (g *Guard) Point(point string) {
	if g.consumeInjection(point) {
		panic("injected at " + point)
	}
}

func (g *Guard) consumeInjection(point string) bool {
	pendingPanics.mu.Lock()
	defer pendingPanics.mu.Unlock()
	if pendingPanics.times[g][point] == 0 {
		return false
	}
	pendingPanics.times[g][point]--
	return true
}
