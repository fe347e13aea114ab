package upstreams

import "time"

// Moment is a time as a pick compares it: nanoseconds on the monotonic clock since the program
// began, so that a step of the wall clock holds no breaker open.
type Moment int64

var epoch = time.Now()

// At returns the moment of a time.
func At(t time.Time) Moment { return Moment(t.Sub(epoch)) }

func ticks(t time.Time) int64 { return int64(At(t)) }

// age is the seconds since at, or -1 when it never was.
func age(at, now time.Time) float64 {
	if at.IsZero() {
		return -1
	}
	return now.Sub(at).Seconds()
}
