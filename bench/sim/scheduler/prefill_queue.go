package scheduler

import (
	"sync"
	"time"
)

// PrefillQueue models an engine that reads one prompt at a time.
type PrefillQueue struct {
	mu     sync.Mutex
	freeAt time.Time // when all reserved prompts will have been read
}

// Reserve appends a prompt to the queue. Reading it takes d. Reserve returns the time at which the
// prompt will have been read.
func (r *PrefillQueue) Reserve(now time.Time, d time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freeAt.Before(now) {
		r.freeAt = now
	}
	r.freeAt = r.freeAt.Add(d)
	return r.freeAt
}

// ReturnUnusedTime returns the unused part of a reservation of length d that ends at due. Later prompts
// keep their reservations.
func (r *PrefillQueue) ReturnUnusedTime(d time.Duration, due time.Time) {
	left := min(d, time.Until(due))
	if left <= 0 {
		return
	}
	r.mu.Lock()
	r.freeAt = r.freeAt.Add(-left)
	r.mu.Unlock()
}
