package call

import "time"

type times struct {
	begun   time.Time     // when the call was admitted, or when its current attempt began
	awaited time.Duration // time spent waiting for earlier attempts and for hooks
	endAt   time.Time     // when a whole answer was ready
}

func (t *times) addAwaited(now time.Time) { t.awaited += now.Sub(t.begun) }

// ended returns when the call ended. If endAt is set, ended does not read the clock, because that
// costs as much as a small step of a call.
func (t *times) ended() time.Time {
	if t.endAt.IsZero() {
		return time.Now()
	}
	return t.endAt
}
