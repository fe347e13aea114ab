package scheduler

import (
	"sync"
	"time"
)

// PrefillLine models an engine that reads one prompt at a time.
type PrefillLine struct {
	mu   sync.Mutex
	free time.Time // when all reserved prompts will have been read
}

// Reserve appends a prompt that takes d to the line. It returns when the prompt will have been
// read.
func (r *PrefillLine) Reserve(now time.Time, d time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(d)
	return r.free
}

// Forgo returns the unused part of a reservation of length d that ends at due. Later prompts keep
// their reservations.
func (r *PrefillLine) Forgo(d time.Duration, due time.Time) {
	left := min(d, time.Until(due))
	if left <= 0 {
		return
	}
	r.mu.Lock()
	r.free = r.free.Add(-left)
	r.mu.Unlock()
}
