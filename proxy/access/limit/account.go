package limit

import (
	"time"

	"penstock/config"
)

// KeyAccount counts the usage of one key, or one group, across all edges of a fleet. The limits
// apply to the fleet and may change with each call. Its methods may be called by multiple
// goroutines. TakeRequest and Reserve may block.
type KeyAccount interface {
	// TakeRequest charges one request against the key's requests per minute.
	TakeRequest(l config.KeyLimits, now time.Time) Decision
	// RefundRequest reverts the last successful TakeRequest.
	RefundRequest()
	// Reserve acquires a slot of the key's concurrency limit and reserves the estimated tokens of
	// the call. The caller must pass held to Settle.
	Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d Decision)
	// Settle releases the slot, and charges the used tokens instead of the reserved ones.
	Settle(held, used int64)
	// Charge charges tokens that a running call used in addition to those that it has reserved. It
	// returns a refusal once the key has exceeded its limit of tokens per minute.
	Charge(used int64, now time.Time) Decision
	// Levels returns how many requests and tokens remain, as far as this edge knows.
	Levels(l config.KeyLimits, now time.Time) (requests, tokens LimitLevel)
}
