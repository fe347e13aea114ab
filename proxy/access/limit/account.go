package limit

import (
	"time"

	"penstock/config"
)

// Account counts the usage of one key across all edges of a fleet. The limits apply to the fleet
// and may change with each call. Any goroutine may call its methods. Take and Reserve may block.
type Account interface {
	// Take charges one request against the key's requests per minute.
	Take(l config.KeyLimits, now time.Time) Decision
	// GiveBack reverts the last successful Take.
	GiveBack()
	// Reserve acquires a slot of the key's concurrency and holds the estimated tokens of the call.
	// The caller must pass held to Settle.
	Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d Decision)
	// Settle frees the slot and charges the used tokens instead of the held tokens.
	Settle(held, used int64)
	// Charge charges tokens that a running call has used in addition to those that it holds. It
	// returns a refusal once the key has exceeded its tokens per minute.
	Charge(used int64, now time.Time) Decision
	// Levels returns how many requests and tokens are left, as far as this edge knows.
	Levels(l config.KeyLimits, now time.Time) (requests, tokens Level)
}
