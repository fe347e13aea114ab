package limit

import "sync"

// tokens is the token account of a key. All amounts are in nanoseconds, see cost.
type tokens struct {
	mu   sync.Mutex
	paid int64 // when all that was charged will have been paid for
	held int64 // the estimates of the calls that run
}

// hold reserves c, at most a window. wait is zero when it was reserved; otherwise it is the time after which it can be if
// the calls that run ended now and had used what they hold.
func (t *tokens) hold(now, c int64) (wait int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	used := max(t.paid-now, 0) + t.held
	if used+c > window {
		return used + c - window
	}
	t.held += c
	return 0
}

// used is what has been charged and not been paid for, and what the calls that run hold.
func (t *tokens) used(now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.paid-now, 0) + t.held
}

// settle gives back a hold of held and charges c instead.
func (t *tokens) settle(now, held, c int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held -= held
	if c > 0 {
		t.paid = min(max(t.paid, now)+c, now+maxCost)
	}
}
