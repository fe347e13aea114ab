package observe

import "time"

// RingSlot is the time that one slot of a Ring covers.
const RingSlot = 10 * time.Second

// Ring stores counts in time slots. T is the type of a slot's counts.
type Ring[T any] struct{ slots []ringSlot[T] }

type ringSlot[T any] struct {
	at     int64 // the slot's number since 1970; if it differs, the counts are stale
	counts T
}

// NewRing returns a ring of n slots.
func NewRing[T any](n int) Ring[T] { return Ring[T]{make([]ringSlot[T], n)} }

// At returns the counts of the slot that contains now.
func (r *Ring[T]) At(now time.Time) *T {
	at := slotNumber(now)
	slot := &r.slots[at%int64(len(r.slots))]
	if slot.at != at {
		*slot = ringSlot[T]{at: at}
	}
	return &slot.counts
}

// Each calls f with the counts of the slots in the window that ends at now.
func (r *Ring[T]) Each(now time.Time, window time.Duration, f func(*T)) {
	newest := slotNumber(now)
	for i := range r.slots {
		if s := &r.slots[i]; s.at > newest-int64(window/RingSlot) {
			f(&s.counts)
		}
	}
}

func slotNumber(now time.Time) int64 { return now.UnixNano() / int64(RingSlot) }
