package call

import (
	"testing"

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
