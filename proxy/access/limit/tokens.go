package limit

import "sync"

// tokenAccount counts a key's tokens. It converts them to nanoseconds (see cost).
type tokenAccount struct {
	mu   sync.Mutex
	tat  int64 // theoretical arrival time: when the effect of all charges ends
	held int64 // sum of the estimates of running calls
}

// hold adds c to the held amount and returns 0. c is at most window. If the limit does not allow
// this now, hold returns how long to wait. It assumes that the running calls end now and have used
// their estimates.
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
