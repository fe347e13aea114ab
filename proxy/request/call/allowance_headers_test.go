//go:build !race

package call

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/limit"
)

func TestAppendSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "0.001s", 250 * time.Millisecond: "0.25s", time.Second: "1s", 61500*time.Millisecond - 1: "61.5s", time.Minute: "60s",
		5 * time.Millisecond: "0.005s", 1010 * time.Millisecond: "1.01s", time.Hour + 7*time.Millisecond: "3600.007s",
	} {
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// TestRateHeadersAllocateNothing checks keys with and without limits.
func TestRateHeadersAllocateNothing(t *testing.T) {
	now := time.Now()
	keys := limit.NewKeys(1, now).Bind([]config.Key{
		{ID: "limited", Limits: config.KeyLimits{RequestsPerMinute: 60, TokensPerMinute: 1_000_000}},
		{ID: "free"},
		{ID: "grouped", Group: "g"},
	}, []config.Group{{ID: "g", Limits: config.GroupLimits{RequestsPerMinute: 60, TokensPerMinute: 1_000_000}}})
	var h fasthttp.ResponseHeader
	var held limit.Reservation
	for id, names := range map[string]int{"limited": 12, "free": 0, "grouped": 12} {
		tell := func() {
			h.Reset()
			h.SetNoDefaultContentType(true)
			if keys[id].Limited() {
				setRateHeaders(&h, keys[id], &held, 7, true, time.Now())
			}
		}
		tell()
		if n := h.Len(); n != names {
			t.Errorf("%s: %d headers, want %d", id, n, names)
		}
		if got := testing.AllocsPerRun(100, tell); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", id, got)
		}
	}
}
