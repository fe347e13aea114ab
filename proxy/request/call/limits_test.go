package call

import (
	"strings"
	"testing"
	"time"

	"penstock/proxy/access/limit"
)

func TestLimitText(t *testing.T) {
	for want, d := range map[string]limit.Decision{
		"1 concurrent request":   {LimitName: limit.Concurrency, Limit: 1},
		"2 concurrent requests":  {LimitName: limit.Concurrency, Limit: 2},
		"1 request per minute":   {LimitName: limit.RequestsPerMinute, Limit: 1},
		"11 requests per minute": {LimitName: limit.RequestsPerMinute, Limit: 11},
		"1 token per minute":     {LimitName: limit.TokensPerMinute, Limit: 1},
	} {
		if got := describeLimit(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLimitError checks the status, code and text of the error for each kind of limit.
func TestLimitError(t *testing.T) {
	for _, c := range []struct {
		name   string
		of     limit.Decision
		status int
		code   string
		has    string
	}{
		{"rate", limit.Decision{LimitName: limit.RequestsPerMinute, Limit: 60, RetryAfter: 7 * time.Second}, 429, "rate_limited", "60 requests per minute"},
		{"of a group", limit.Decision{LimitName: limit.Concurrency, Limit: 2, Group: "team"}, 429, "rate_limited", "of the group team"},
		{"budget", limit.Decision{LimitName: limit.TokensPerDay, Quota: &limit.Quota{Limit: "100", Used: "90", Remaining: "10"}, RetryAfter: time.Hour}, 429, "quota_exceeded", "100"},
		{"unavailable", limit.Decision{Unavailable: true, RetryAfter: time.Second}, 503, "limits_unavailable", "limits"},
	} {
		e := limitError(c.of)
		if e.Status != c.status || e.Code != c.code || !strings.Contains(e.Message, c.has) || e.RetryAfter != c.of.RetryAfter {
			t.Errorf("%s: got %+v, want %d %s with %q", c.name, e, c.status, c.code, c.has)
		}
	}
}
