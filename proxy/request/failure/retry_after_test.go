package failure

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock/translate/engineerror"
)

// FuzzRetryAfter checks that the value parsed from a header is neither negative nor longer than the
// header states. It also checks that the failure's Retry-After is at most one minute.
func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"", "3", " 7 ", "-1", "0", "99999999999999999999", "1.5", "Sat, 21 Nov 2026 12:00:30 GMT", "Sat, 21 Nov 2020 12:00:30 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "+5", "0x10"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		d := ParseRetryAfter(value, now)
		if d < 0 {
			t.Fatalf("Retry-After %q: got %v, want at least 0", value, d)
		}
		at, err := http.ParseTime(strings.TrimSpace(string(value)))
		if isDate := err == nil; d > retryMax && (!isDate || d > max(at.Sub(now), 0)) {
			t.Fatalf("Retry-After %q: got %v, want at most %v or the date", value, d, retryMax)
		}
		e := FromStatus(503, &engineerror.Error{}, d).API
		if n := e.RetryAfterSeconds(); n < 1 || n > 60 {
			t.Fatalf("%q: Retry-After %d", value, n)
		}
	})
}

// TestRetryAfter checks that a number of seconds that is too large yields the maximum rather than
// zero.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "99999999999999999999": retryMax, "600": retryMax, "-99999999999999999999": 0, "1.5": 0, "soon": 0,
	} {
		if got := ParseRetryAfter([]byte(value), time.Now()); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
