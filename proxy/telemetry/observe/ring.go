package observe

import "time"

// TimeRingSlot is the time that one slot of a TimeRing covers.
const TimeRingSlot = 10 * time.Second

// TimeRing stores counts in time slots. T is the type of a slot's counts.
type TimeRing[T any] struct{ slots []timeSlot[T] }

type timeSlot[T any] struct {
	// The slot's number since 1970. If it is not the expected number, the counts are stale.
	at     int64
	counts T
}

// NewTimeRing returns a ring of n slots.
func NewTimeRing[T any](n int) TimeRing[T] { return TimeRing[T]{make([]timeSlot[T], n)} }

// SlotAt returns the counts of the slot that contains now.
func (r *TimeRing[T]) SlotAt(now time.Time) *T {
	at := ringSlotNumber(now)
	slot := &r.slots[at%int64(len(r.slots))]
	if slot.at != at {
		*slot = timeSlot[T]{at: at}
	}
	return &slot.counts
}

// EachSlot calls f with the counts of the slots in the window that ends at now.
func (r *TimeRing[T]) EachSlot(now time.Time, window time.Duration, f func(*T)) {
	newest := ringSlotNumber(now)
	for i := range r.slots {
		if s := &r.slots[i]; s.at > newest-int64(window/TimeRingSlot) {
			f(&s.counts)
		}
	}
}

func ringSlotNumber(now time.Time) int64 { return now.UnixNano() / int64(TimeRingSlot) }
