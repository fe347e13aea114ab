package limit

import "sync"

// tokenAccount counts a key's tokens. It converts tokens to nanoseconds (see costNanos).
type tokenAccount struct {
	mu       sync.Mutex
	tat      int64 // theoretical arrival time, when the effect of all charges ends
	reserved int64 // sum of the estimates for running calls
}

// reserve reserves c, which is at most ratePeriod, and returns 0. If the limit does not allow this
// now, reserve returns how long to wait. The wait assumes that the running calls end now and use
// exactly their estimates.
func (t *tokenAccount) reserve(now, c int64) (wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := max(t.tat-now, 0) + t.reserved
	if used+c > ratePeriod {
		return used + c - ratePeriod
	}
	t.reserved += c
	return 0
}

func (t *tokenAccount) used(now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.tat-now, 0) + t.reserved
}

// excessWait returns the time until the charges fit into a ratePeriod. It is positive only if they
// currently exceed a ratePeriod.
func (t *tokenAccount) excessWait(now int64) (wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tat - now - ratePeriod
}

func (t *tokenAccount) charge(now, held, c int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved -= held
	if c > 0 {
		t.tat = min(max(t.tat, now)+c, now+maxCost)
	}
}
