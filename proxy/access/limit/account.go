package limit

import (
	"time"

	"penstock/config"
)

// Account counts the usage of one key together with the other edges of a fleet. The limits apply to
// the fleet, and may change from call to call. Its methods may be called from any goroutine; Take
// and Reserve may block.
type Account interface {
	// Take takes one of the key's requests per minute.
	Take(l config.KeyLimits, now time.Time) Decision
	// GiveBack gives back a request that Take has just taken.
	GiveBack()
	// Reserve takes a place in the key's concurrency and holds an estimate of the call's tokens. The
	// result held is what an allowed call holds.
	Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d Decision)
	// Settle frees the slot, and charges the used tokens instead of the held ones.
	Settle(held, used int64)
	// Levels returns how many requests and tokens are left, as far as this edge knows.
	Levels(l config.KeyLimits, now time.Time) (requests, tokens Level)
}
