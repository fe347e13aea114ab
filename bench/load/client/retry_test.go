package client

import (
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		"Mon, 23 Nov 2026 08:00:30 GMT": 30 * time.Second, "Mon, 23 Nov 2026 07:00:00 GMT": 0, "Tue, 24 Nov 2026 08:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter([]byte(text), now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
