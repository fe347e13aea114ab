package limit

import (
	"time"

	"penstock/config"
)

// Account counts the usage of one key at all edges of a fleet. The limits apply to the whole fleet,
// and may change from call to call. Its methods may be called from any goroutine; Take and Reserve
// may block.
type Account interface {
	// Take takes one of the key's requests per minute.
	Take(l config.KeyLimits, now time.Time) Decision
	// GiveBack gives back a request that Take has just taken.
	GiveBack()
	// Reserve takes a slot of the key's concurrency and holds an estimate of the call's tokens.
	// held is the amount that an allowed call holds.
	Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d Decision)
	// Settle frees the slot, and charges the used tokens in place of the held tokens.
	Settle(held, used int64)
	// Charge charges tokens that a running call has used in addition to those that it holds. It
	// returns a refusal once the key has exceeded its tokens per minute.
	Charge(used int64, now time.Time) Decision
	// Levels returns how many requests and tokens are left, as far as this edge knows.
	Levels(l config.KeyLimits, now time.Time) (requests, tokens Level)
}
