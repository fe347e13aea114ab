package routing

import (
	"errors"
	"fmt"

	"penstock/upstreams"
)

// ErrNoUpstream means that no target of the route may get the call now. Each target is down,
// retiring, behind an open breaker, or excluded by the query.
var ErrNoUpstream = errors.New("no healthy upstream")

// ErrStarting is the ErrNoUpstream of a route that has an engine that is waking up or can be woken.
// The call should wait for that engine.
var ErrStarting = fmt.Errorf("%w: an engine is to be woken", ErrNoUpstream)

// FullError means that all eligible targets are at their limits. It contains the capacity at that
// moment, for the refusal's metadata.
type FullError struct {
	Pool     upstreams.Pool
	Capacity Capacity
	Silent   int // number of busy upstreams, which do not answer their probes
}

func isFull(err error) bool {
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
