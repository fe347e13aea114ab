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
	Group     string // the group whose limit refused; "": the key's own limit
	// Unavailable means that no decision is possible: the fleet's store is lost, and the configuration
	// says to refuse calls.
	Unavailable bool
	RetryAfter  time.Duration // if refused: the time after which a retry makes sense, above zero
	Limit       int64         // if refused: the configured limit; 0 for money
	Quota       *Quota        // set if a budget refused
}

// Quota describes a budget that has refused a call. Its texts are numbers of tokens or decimal
// amounts of money.
type Quota struct {
	Limit, Used string
	// Remaining is the unused amount, and Needed is how much the call may need. Both are empty if
	// the budget is used up.
	Remaining, Needed string
	// the share of Remaining that this edge may grant now; empty: all of it
	Part   string
	Held   bool      // running calls may give back the missing amount at any time
	Renews time.Time // when the next period starts
}

// allowed is the decision if a limit has room or is not set.
var allowed = Decision{OK: true}

// concurrencyRetry is the Retry-After for a call that must wait until another call ends, because
// nobody knows when that will be.
const concurrencyRetry = time.Second
