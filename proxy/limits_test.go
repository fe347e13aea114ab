package proxy

import (
	"testing"

	"penstock/proxy/limit"
)

func TestLimitText(t *testing.T) {
	for want, d := range map[string]limit.Decision{
		"1 concurrent request":   {What: limit.Concurrency, Limit: 1},
		"2 concurrent requests":  {What: limit.Concurrency, Limit: 2},
		"1 request per minute":   {What: limit.RequestsPerMinute, Limit: 1},
		"11 requests per minute": {What: limit.RequestsPerMinute, Limit: 11},
		"1 token per minute":     {What: limit.TokensPerMinute, Limit: 1},
	} {
		if got := limitText(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
