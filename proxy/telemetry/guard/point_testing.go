//go:build testing

package guard

import "sync"

// injected contains, for each guard, the points that must panic, and how many more times each must
// panic.
var injected = struct {
	mu    sync.Mutex
	times map[*Guard]map[string]int
}{times: map[*Guard]map[string]int{}}

// Inject makes the next calls of Point for the given point panic.
func (g *Guard) Inject(point string, times int) {
	injected.mu.Lock()
	defer injected.mu.Unlock()
	if injected.times[g] == nil {
		injected.times[g] = map[string]int{}
	}
	injected.times[g][point] = times
}

// Left returns how many injected panics at a point have not occurred yet.
func (g *Guard) Left(point string) int {
	injected.mu.Lock()
	defer injected.mu.Unlock()
	return injected.times[g][point]
}

// Point panics if Inject has armed the given point.
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
