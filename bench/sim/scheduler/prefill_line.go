package scheduler

import (
	"sync"
	"time"
)

// PrefillLine models an engine that reads one prompt at a time.
type PrefillLine struct {
	mu   sync.Mutex
	free time.Time // when it will have read all its prompts
}

// Reserve puts a prompt that takes d at the end of the line and returns the time at which the
// prompt will have been read.
func (r *PrefillLine) Reserve(now time.Time, d time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(d)
	return r.free
}

// Forgo gives back the unused time of a reservation of length d that ends at due. Prompts already
// in line keep their reservations.
func (r *PrefillLine) Forgo(d time.Duration, due time.Time) {
	left := min(d, time.Until(due))
	if left <= 0 {
		return
	}
	r.mu.Lock()
	r.free = r.free.Add(-left)
	r.mu.Unlock()
}
