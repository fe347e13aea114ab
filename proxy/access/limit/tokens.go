package limit

import "sync"

// tokenAccount is the token account of a key. All amounts are in nanoseconds; see cost.
type tokenAccount struct {
	mu   sync.Mutex
	tat  int64 // theoretical arrival time: when all charges will be paid off
	held int64 // the sum of the estimates of running calls
}

// hold reserves c and returns zero. c is at most a window. If there is no room, hold returns the
// time until there is room, assuming that the running calls end now and have used their estimates.
func (t *tokenAccount) hold(now, c int64) (wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := max(t.tat-now, 0) + t.held
	if used+c > window {
		return used + c - window
	}
	t.held += c
	return 0
}

// used returns the unpaid charges and the estimates of running calls.
func (t *tokenAccount) used(now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.tat-now, 0) + t.held
}

// over returns the time until the unpaid charges fit into a window, which is positive only if they
// exceed it.
func (t *tokenAccount) over(now int64) (wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tat - now - window
}

// charge releases a held estimate and charges c in its place.
func (t *tokenAccount) charge(now, held, c int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held -= held
	if c > 0 {
		t.tat = min(max(t.tat, now)+c, now+maxCost)
	}
}
