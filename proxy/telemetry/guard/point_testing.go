//go:build testing

package guard

import "sync"

// injectedPanics contains, for each guard, the points that must panic, and how many more times each
// must panic.
var injectedPanics = struct {
	mu    sync.Mutex
	times map[*Guard]map[string]int
}{times: map[*Guard]map[string]int{}}

// Inject makes the next calls to PanicIfInjected for the given point panic.
func (g *Guard) Inject(point string, times int) {
	injectedPanics.mu.Lock()
	defer injectedPanics.mu.Unlock()
	if injectedPanics.times[g] == nil {
		injectedPanics.times[g] = map[string]int{}
	}
	injectedPanics.times[g][point] = times
}

// RemainingInjectedPanics returns how many injected panics at a point have not occurred yet.
func (g *Guard) RemainingInjectedPanics(point string) int {
	injectedPanics.mu.Lock()
	defer injectedPanics.mu.Unlock()
	return injectedPanics.times[g][point]
}

// PanicIfInjected panics if Inject has armed the given point.
func (g *Guard) PanicIfInjected(point string) {
	if g.consumeInjection(point) {
		panic("injected at " + point)
	}
}

func (g *Guard) consumeInjection(point string) bool {
	injectedPanics.mu.Lock()
	defer injectedPanics.mu.Unlock()
	if injectedPanics.times[g][point] == 0 {
		return false
	}
	injectedPanics.times[g][point]--
	return true
}
