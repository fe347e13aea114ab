package failure

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"penstock/proxy/running/snapshot"
	"penstock/upstreams"
)

// ShortRetryAfter and longRetryAfter are the values of Retry-After if an engine does not send one.
// retryMax is the maximum value.
const (
	ShortRetryAfter = time.Second
	longRetryAfter  = 5 * time.Second
	retryMax        = time.Minute
)

// httpDate is the format of dates in headers (RFC 9110, 5.6.7). time.RFC1123 would accept any
// three-letter time zone.
const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

// ParseRetryAfter parses a Retry-After header, which is a number of seconds or a date. It returns 0
// if the header is empty or malformed.
func ParseRetryAfter(b []byte, now time.Time) time.Duration {
	if len(b) == 0 {
		return 0
	}
	// If the number is out of range, Atoi returns the nearest number that is in range.
	if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(n, 0), int(retryMax/time.Second))) * time.Second
	}
	if t, err := time.Parse(httpDate, string(bytes.TrimSpace(b))); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// PoolRetryAfter returns the Retry-After for a full pool of a model. If isMinimum is true, the
// caller should increase after if calls take longer than that.
func PoolRetryAfter(m *snapshot.Model, p upstreams.SlotPool) (after time.Duration, isMinimum bool) {
	if v := m.Config.Vision; p == upstreams.PoolVision && v != nil && v.RetryAfterSeconds > 0 {
		return time.Duration(v.RetryAfterSeconds) * time.Second, false
	}
	return ShortRetryAfter, true
}

// formatSeconds formats a delay. It rounds up, like the Retry-After header.
func formatSeconds(d time.Duration) string {
	n := int((d + time.Second - 1) / time.Second)
	if n <= 1 {
		return "1 second"
	}
	return strconv.Itoa(n) + " seconds"
}
