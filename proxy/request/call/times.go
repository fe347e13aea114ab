package call

import "time"

// times are when the steps of a call were.
type times struct {
	asked   time.Time     // when the running attempt began
	awaited time.Duration // what earlier attempts waited for their engines
	endAt   time.Time     // when a whole answer was ready: from there on the call waits for nothing
}

// ask notes that an attempt begins.
func (t *times) ask(now time.Time) { t.asked = now }

// askAgain notes that an attempt begins in place of one that has waited.
func (t *times) askAgain(now time.Time) {
	t.addAwaited(now)
	t.asked = now
}

// addAwaited adds what the running attempt has waited.
func (t *times) addAwaited(now time.Time) { t.awaited += now.Sub(t.asked) }

// ended is the time at which the call ends, for what is still to be noted. Reading the clock costs
// as much as a small step of a call, and behind a whole answer each step would read the same.
func (t *times) ended() time.Time {
	if t.endAt.IsZero() {
		return time.Now()
	}
	return t.endAt
}
