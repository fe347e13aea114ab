package scheduler

import (
	"sync"
	"time"
)

// PrefillLine is the prefill of an engine that reads one prompt at a time.
type PrefillLine struct {
	mu   sync.Mutex
	free time.Time // when it has read all that it was given
}

// Reserve puts a prompt that takes d at the end of the line and says when it will have been read.
func (r *PrefillLine) Reserve(now time.Time, d time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(d)
	return r.free
}

// Forgo gives back what is left of a reservation of d that was to end at due. Who is in line
// already keeps their time.
func (r *PrefillLine) Forgo(d time.Duration, due time.Time) {
	left := min(d, time.Until(due))
	if left <= 0 {
		return
	}
	r.mu.Lock()
	r.free = r.free.Add(-left)
	r.mu.Unlock()
}
