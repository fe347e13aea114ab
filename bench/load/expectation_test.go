package load

import (
	"testing"

	"penstock/bench/result"
)

func TestExpectations(t *testing.T) {
	refused := result.ErrorCount{Kind: result.ErrStatus, Status: 429, Code: "capacity_full"}
	for _, c := range []struct {
		text    string
		failure result.ErrorCount
		at      int64 // time of the failure in seconds
		want    bool
	}{
		{"429", refused, 1, true},
		{"capacity_full", refused, 1, true},
		{"status 429 capacity_full", refused, 1, true},
		{"capacity_full 429", refused, 1, true},
		{"503", refused, 1, false},
		{"429 rate_limited", refused, 1, false},
		{"capacity", refused, 1, false},
		{"429@event", refused, 1, false},
		{"429@event", refused, 20, true},
		{"429 @event", refused, 29, true},
		{"429@event", refused, 31, false},
		{"in_stream@event", refused, 20, false},
	} {
		e, err := parseExpectation(c.text)
		if err != nil {
			t.Fatal(err)
		}
		f := &findings{s: &settings{expect: []expectation{e}}, happened: []result.Event{{StartS: 20, EndS: 20.1}, {Error: "the run ended before"}}}
		if got := f.isExpected(c.failure, c.at*1e9); got != c.want {
			t.Errorf("expectation %q: %s at %d s is expected: %v, want %v", c.text, c.failure.Label(), c.at, got, c.want)
		}
	}
	for _, bad := range []string{"", " ", "@event", "status,429", "<b>"} {
		if e, err := parseExpectation(bad); err == nil {
			t.Errorf("parseExpectation(%q) = %+v, want an error", bad, e)
		}
	}
}
