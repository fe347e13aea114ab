package limit

import "time"

// These are the names of limits in messages and metrics.
const (
	RequestsPerMinute = "requests per minute"
	TokensPerMinute   = "tokens per minute" //nolint:gosec // tokens of text
	Concurrency       = "concurrent requests"
	TokensPerDay      = "tokens per day"   //nolint:gosec // tokens of text
	TokensPerMonth    = "tokens per month" //nolint:gosec // tokens of text
	SpendPerDay       = "spend per day"
	SpendPerMonth     = "spend per month"
)

// Decision is the result of checking a limit.
type Decision struct {
	OK        bool
	LimitName string // name of the limit that rejects the call; empty if OK is true
	// Group whose limit rejects the call. If empty, the key's limit rejects it.
	Group string
	// Unavailable is true if the fleet's store cannot be reached and the configuration rejects
	// calls in this case.
	Unavailable bool
	RetryAfter  time.Duration
	Limit       int64
	Quota       *Quota // not nil if a budget rejects
}

// Quota describes a budget that rejects a call. Its strings are numbers of tokens or decimal
// amounts of money.
type Quota struct {
	Limit, Used string
	// Remaining is the unused amount, and Needed is the amount that the call may need. If the
	// budget is used up, both are empty.
	Remaining, Needed string
	// Grantable is the part of Remaining that this edge may grant. If empty, it may grant all of
	// Remaining.
	Grantable string
	// OnlyReserved is true if the missing amount is only reserved by running calls. They may use
	// less, so the amount may become free.
	OnlyReserved bool
	Renews       time.Time
}

var decisionAllowed = Decision{OK: true}

// concurrencyRetry is the Retry-After for a call that must wait until another call ends, which may
// be at any time.
const concurrencyRetry = time.Second
