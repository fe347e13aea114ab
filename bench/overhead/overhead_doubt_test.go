package overhead

import (
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/result"
)

func TestOverheadDoubts(t *testing.T) {
	for name, c := range map[string]struct {
		timed, valid bool
		failed       int
		want         string
	}{
		"good":                  {true, true, 0, ""},
		"late":                  {true, false, 0, "the client was late"},
		"late, only CPU counts": {false, false, 0, ""},
		"failed":                {false, true, 2, "2 of 500 requests failed: 2 x status 502 upstream_unreachable"},
	} {
		r := benchtest.SampleResult()
		r.NumPrompts, r.Failed = 500, c.failed
		r.Penstock.Total.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 502, Code: "upstream_unreachable", Count: c.failed}}
		r.Penstock.Verdict = result.Verdict{Valid: c.valid}
		if !c.valid {
			r.Penstock.Verdict.Reasons = []result.Reason{{Text: "the client was late", Invalidates: true}, {Text: "a note"}}
		}
		if got := (&measurement{timed: c.timed}).distrustReason(&targetResult{result: r}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
