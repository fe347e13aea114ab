package limit

import (
	"sync/atomic"
	"time"

	"penstock/config"
)

// The limits of a key, in the words of the messages and metrics.
const (
	RequestsPerMinute = "requests per minute"
	TokensPerMinute   = "tokens per minute"
	Concurrency       = "concurrent requests"
)

// Decision is the answer of a limit.
type Decision struct {
	OK         bool
	What       string        // the limit that refused, one of the constants above; "" when OK
	RetryAfter time.Duration // when refused: the time until it makes sense to try again, above zero
	Limit      int64         // when refused: the number that the limit allows
}

// allowed is the decision of a limit that has room, or is not set.
var allowed = Decision{OK: true}

// concurrencyRetry is what a refused call is told when only the end of another call can help: nobody knows when.
const concurrencyRetry = time.Second

// state is what a key has used. It belongs to the id and outlives every configuration.
type state struct {
	requests meter
	tokens   tokens
	running  atomic.Int64
}

// Key is the state of one key under the limits of one configuration. Its methods may be called from any goroutine.
type Key struct {
	state  *state
	epoch  time.Time
	limits config.KeyLimits
}

// since returns now on the clock that state uses. Both times carry a monotonic reading in the program, so a step of the
// wall clock moves nothing.
func (k *Key) since(now time.Time) int64 { return int64(now.Sub(k.epoch)) }

// Take takes one request of the key's requests per minute. A refused request takes nothing.
func (k *Key) Take(now time.Time) Decision {
	limit := int64(k.limits.RequestsPerMinute)
	if limit == 0 {
		return allowed
	}
	return decide(RequestsPerMinute, k.state.requests.take(k.since(now), limit), limit)
}

// Reserve admits one call of the key: it takes a place in its concurrency and holds estimate of its tokens per minute,
// or neither. On success r holds both until Settle or Cancel. Calls are counted also while the key has no such limit, so
// that a limit that comes with a reload is exact from the start.
//
// r must be idle: fresh, or settled. It does not allocate.
func (k *Key) Reserve(r *Reservation, estimate int64, now time.Time) Decision {
	if d := k.enter(); !d.OK {
		return d
	}
	limit, held := int64(k.limits.TokensPerMinute), int64(0)
	d := allowed
	if limit != 0 {
		held = min(cost(estimate, limit), window)
		if d = decide(TokensPerMinute, k.state.tokens.hold(k.since(now), held), limit); !d.OK {
			k.state.running.Add(-1)
			return d
		}
	}
	r.hold(k, held)
	return d
}

// enter takes a place in the concurrency.
func (k *Key) enter() Decision {
	limit := int64(k.limits.Concurrency)
	if limit == 0 {
		k.state.running.Add(1)
		return allowed
	}
	for {
		n := k.state.running.Load()
		if n >= limit {
			return Decision{What: Concurrency, RetryAfter: concurrencyRetry, Limit: limit}
		}
		if k.state.running.CompareAndSwap(n, n+1) {
			return allowed
		}
	}
}

// decide turns the nanoseconds that a limit makes its caller wait into a decision.
func decide(what string, wait, limit int64) Decision {
	if wait > 0 {
		return Decision{What: what, RetryAfter: time.Duration(wait), Limit: limit}
	}
	return allowed
}
