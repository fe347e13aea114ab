package call

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"penstock/proxy/access/auth"
	"penstock/proxy/access/limit"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
)

// callLimits contains the key of a call and what the call has reserved from the key's limits.
type callLimits struct {
	key         *auth.Key         // nil if no key is required
	keyLimits   *limit.KeyLimiter // nil if no key is required
	reservation limit.Reservation // a slot of the key's concurrency limit, and estimated tokens
}

func (a *callLimits) chargeRequest(of *snapshot.Credentials, now time.Time) limit.Decision {
	if a.key == nil {
		return limit.Decision{OK: true}
	}
	a.keyLimits = of.KeyLimiter(a.key)
	return a.keyLimits.TakeRequest(now)
}

// ChargeRejectedRequest charges the key for a request that is rejected before it becomes a call. It
// returns an error if the key has no requests per minute left.
func ChargeRejectedRequest(s *snapshot.Snapshot, key *auth.Key, now time.Time) *apierr.Error {
	if key == nil {
		return nil
	}
	limits := s.KeyLimiter(key)
	if limits == nil { // nil if a reload removed the key
		return nil
	}
	if d := limits.TakeRequest(now); !d.OK {
		return limitError(d)
	}
	return nil
}

// AdmitWaitingMessage counts a WebSocket message that is waiting to become a call. It returns an
// error if the key has too many waiting messages. If AdmitWaitingMessage returns a key, the caller
// must later call StopWaiting on that key.
func AdmitWaitingMessage(s *snapshot.Snapshot, key *auth.Key) (*limit.KeyLimiter, *apierr.Error) {
	limits := s.KeyLimiter(key)
	if limits == nil { // nil if a reload removed the key
		return nil, nil
	}
	if d := limits.StartWaiting(); !d.OK {
		return nil, limitError(d)
	}
	return limits, nil
}

// IncompleteBodyCounter returns the counter of bytes in the key's incomplete bodies, or nil if
// these bytes are not counted.
func IncompleteBodyCounter(s *snapshot.Snapshot, key *auth.Key) *atomic.Int64 {
	if limits := limiterIfMemoryShared(s, key); limits != nil {
		return limits.IncompleteBodyCounter()
	}
	return nil
}

// ConversationByteCounter returns the counter of bytes in the key's WebSocket conversations, or nil
// if these bytes are not counted.
func ConversationByteCounter(s *snapshot.Snapshot, key *auth.Key) *atomic.Int64 {
	if limits := limiterIfMemoryShared(s, key); limits != nil {
		return limits.ConversationByteCounter()
	}
	return nil
}

// limiterIfMemoryShared returns the limits of a key that shares the memory budgets with other keys.
// It returns nil if no other key exists, or if a reload removed the key.
func limiterIfMemoryShared(s *snapshot.Snapshot, key *auth.Key) *limit.KeyLimiter {
	if key == nil || len(s.KeyLimits) < 2 {
		return nil
	}
	return s.KeyLimiter(key)
}

func (a *callLimits) reserve(expected, least limit.Cost, now time.Time) limit.Decision {
	if a.key == nil {
		return limit.Decision{OK: true}
	}
	return a.keyLimits.Reserve(&a.reservation, expected, least, now)
}

func limitError(d limit.Decision) *apierr.Error {
	if d.Unavailable {
		return apierr.LimitsUnavailable(d.RetryAfter)
	}
	if q := d.Quota; q != nil {
		return apierr.QuotaExceeded(apierr.ExceededBudget{
			Group: d.Group, Name: d.LimitName, Limit: q.Limit, Used: q.Used,
			Remaining: q.Remaining, Needed: q.Needed, Grantable: q.Grantable, OnlyReserved: q.OnlyReserved, Renews: q.Renews,
		}, d.RetryAfter)
	}
	return apierr.RateLimited(describeLimit(d), d.RetryAfter)
}

// describeLimit describes a limit: "60 requests per minute", "1 concurrent request of the group
// team-a".
func describeLimit(d limit.Decision) string {
	what := d.LimitName
	if d.Limit == 1 {
		what = strings.Replace(strings.Replace(what, "requests", "request", 1), "tokens", "token", 1)
	}
	if d.Group != "" {
		what += " of the group " + d.Group
	}
	return strconv.FormatInt(d.Limit, 10) + " " + what
}

var limitLabels = map[string]string{
	limit.RequestsPerMinute: "requests_per_minute",
	limit.TokensPerMinute:   "tokens_per_minute",
	limit.Concurrency:       "concurrency",
	limit.TokensPerDay:      "tokens_per_day",
	limit.TokensPerMonth:    "tokens_per_month",
	limit.SpendPerDay:       "spend_per_day",
	limit.SpendPerMonth:     "spend_per_month",
}

var groupLimitLabels = func() map[string]string {
	labels := make(map[string]string, len(limitLabels))
	for name, label := range limitLabels {
		labels[name] = "group_" + label
	}
	return labels
}()
