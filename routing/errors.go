package routing

import (
	"errors"
	"fmt"
	"time"

	"penstock/upstreams"
)

// ErrNoUpstream means that no target of the route may get the call now. Each target is down,
// retiring, behind an open breaker, or excluded by the query.
var ErrNoUpstream = errors.New("no healthy upstream")

// ErrEngineStarting is the ErrNoUpstream of a route that has an engine that is waking up or can be
// woken. The call should wait for that engine.
var ErrEngineStarting = fmt.Errorf("%w: an engine is to be woken", ErrNoUpstream)

// FullError means that all eligible targets are at their limits. It contains the capacity at that
// moment, for the refusal's metadata.
type FullError struct {
	Pool     upstreams.SlotPool
	Capacity Capacity
	Silent   int // number of busy upstreams, which do not answer their probes
	// NextSlot is the expected time until a slot becomes free, or 0 if no call has ended yet.
	NextSlot time.Duration
}

// maxRetryAfter is the longest delay after which a refused call should be tried again because of
// the calls that are running. The durations of calls vary, so a longer delay would often leave
// slots idle.
const maxRetryAfter = 30 * time.Second

// RetryAfter returns how long a client should wait before it repeats a refused call. waiting is the
// number of calls that will get a slot first. The result is never shorter than the parameter least.
func (e *FullError) RetryAfter(least time.Duration, waiting int) time.Duration {
	return max(least, min(e.NextSlot*time.Duration(waiting+1), maxRetryAfter))
}

func isFullError(err error) bool {
	if err == nil {
		return false
	}
	var full *FullError
	return errors.As(err, &full)
}

// Error implements error.
func (e *FullError) Error() string {
	if e.Silent > 0 {
		return fmt.Sprintf("no slot of %d is free, and %d upstreams do not answer their probes", e.Capacity.Total, e.Silent)
	}
	return fmt.Sprintf("all %d slots are in use", e.Capacity.Total)
}
