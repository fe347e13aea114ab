package call

import "time"

// times records when a call's steps happened.
type times struct {
	asked   time.Time     // when the running attempt started
	awaited time.Duration // waits for engines by earlier attempts, and for hooks
	endAt   time.Time     // when a whole answer was ready; the call waits for nothing after that
}

// ask records when an attempt starts.
func (t *times) ask(now time.Time) { t.asked = now }

// askAgain records that a new attempt replaces one that has waited.
func (t *times) askAgain(now time.Time) {
	t.addAwaited(now)
	t.asked = now
}

// addAwaited adds the time that the running attempt has waited.
func (t *times) addAwaited(now time.Time) { t.awaited += now.Sub(t.asked) }

// ended returns when the call ended, for the records that are made last. After a whole answer it
// does not read the clock again: each read costs as much as a small step of a call, and all reads
// would return the same time.
func (t *times) ended() time.Time {
	if t.endAt.IsZero() {
		return time.Now()
	}
	return t.endAt
}
