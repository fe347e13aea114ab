//go:build !race

package call

import (
	"bytes"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
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

// TestRateLimitHeadersAllocateNothing checks that writing the rate limit headers does not allocate
// for keys with and without limits.
func TestRateLimitHeadersAllocateNothing(t *testing.T) {
	now := time.Now()
	keys := limit.NewKeyUsages(1, now).Bind([]config.Key{
		{ID: "limited", Limits: config.KeyLimits{RequestsPerMinute: 60, TokensPerMinute: 1_000_000}},
		{ID: "free"},
		{ID: "grouped", Group: "g"},
	}, []config.Group{{ID: "g", Limits: config.GroupLimits{RequestsPerMinute: 60, TokensPerMinute: 1_000_000}}})
	var held limit.Reservation
	for id, names := range map[string]int{"limited": 12, "free": 0, "grouped": 12} {
		lines := make([]byte, 0, 1024)
		tell := func() {
			if lines = lines[:0]; keys[id].HasRateLimit() {
				lines = appendRateLimits(lines, keys[id], &held, 7, true, time.Now())
			}
		}
		tell()
		if n := bytes.Count(lines, []byte("\r\n")); n != names {
			t.Errorf("%s: %d headers, want %d", id, n, names)
		}
		if got := testing.AllocsPerRun(100, tell); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", id, got)
		}
	}
}

// TestSetHeaderLines checks that setting all headers in one step yields the same headers as setting
// them one by one.
func TestSetHeaderLines(t *testing.T) {
	now := time.Now()
	keys := limit.NewKeyUsages(1, now).Bind([]config.Key{
		{ID: "limited", Limits: config.KeyLimits{RequestsPerMinute: 60, TokensPerMinute: 1_000_000}},
	}, nil)
	for _, proxyID := range []string{"", "a-proxy:1"} {
		for _, rates := range []bool{false, true} {
			lines := endpoint.AppendCommonResponseLines(nil, endpoint.AppendNewRequestID(nil), proxyID)
			if rates {
				lines = appendRateLimits(lines, keys["limited"], nil, 0, true, now)
			}
			var once, each fasthttp.ResponseHeader
			for _, h := range []*fasthttp.ResponseHeader{&once, &each} {
				h.SetContentType(jsonType)
				h.Set("X-Client-Request-Id", "before")
			}
			endpoint.SetHeaderLines(&once, lines)
			endpoint.SetHeadersOneByOne(&each, lines)
			for _, h := range []*fasthttp.ResponseHeader{&once, &each} {
				h.Set("X-After", "after")
				h.SetContentLength(7)
			}
			if once.String() != each.String() {
				t.Errorf("proxy %q, rates %v: at once\n%s\none by one\n%s", proxyID, rates, &once, &each)
			}
		}
	}
}
