package limit

import "time"

// The names of limits in messages and metrics.
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
	LimitName string // the limit that refused, one of the constants above; "" if OK
	Group     string // the group whose limit refused; "": the key's own
	// Unavailable means that no decision is possible: the fleet's store is lost, and the configuration
	// says to refuse calls.
	Unavailable bool
	RetryAfter  time.Duration // if refused: the time until a retry makes sense, above zero
	Limit       int64         // if refused: the number that the limit allows; 0 for money
	Quota       *Quota        // if a budget refused
}

// Quota describes what is left of a budget that has refused a call, as numbers of tokens or decimal
// amounts.
type Quota struct {
	Limit, Used string
	// What is left, and how much the call may need; empty if the budget is used up.
	Remaining, Needed string
	Part              string    // what this edge may give of Remaining for now; empty: all of it
	Held              bool      // running calls may give back the missing amount at any moment
	Renews            time.Time // when the next period begins
}

// allowed is the decision of a limit that has room, or of a limit that is not set.
var allowed = Decision{OK: true}

// concurrencyRetry is the Retry-After for a call that must wait until another one ends, at an
// unknown time.
const concurrencyRetry = time.Second
