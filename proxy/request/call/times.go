package call

import "time"

type callTimes struct {
	stepStart   time.Time     // when the call was admitted or when its current attempt began
	earlierWait time.Duration // time that the call has spent on earlier attempts and on hooks
	endAt       time.Time     // when a whole answer was ready
}

func (t *callTimes) addEarlierWait(now time.Time) { t.earlierWait += now.Sub(t.stepStart) }

// endTimeOrNow returns the time at which the call ended. If endAt is set, endTimeOrNow does not
// read the clock, because reading the clock costs as much as a small step of a call.
func (t *callTimes) endTimeOrNow() time.Time {
	if t.endAt.IsZero() {
		return time.Now()
	}
	return t.endAt
}
