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
	LimitName string // name of the limit that refused; "" if OK
	Group     string // group whose limit refused; "": the key's limit refused
	// Unavailable is true if the fleet's store cannot be reached and the configuration refuses
	// calls in this case.
	Unavailable bool
	RetryAfter  time.Duration
	Limit       int64
	Quota       *Quota // non-nil if a budget refused
}

// Quota describes a budget that has refused a call. Its strings are token counts or decimal amounts
// of money.
type Quota struct {
	Limit, Used string
	// Remaining is the unused amount, and Needed is the amount that the call may need. If the
	// budget is used up, both are empty.
	Remaining, Needed string
	// part of Remaining that this edge may grant; "": all of it
	Part   string
	Held   bool // whether running calls may return the missing amount
	Renews time.Time
}

var allowed = Decision{OK: true}

// concurrencyRetry is the Retry-After of a call that must wait until another call ends. It is not
// known when that will be.
const concurrencyRetry = time.Second
