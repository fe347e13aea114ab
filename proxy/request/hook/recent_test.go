package hook

import (
	"slices"
	"testing"
	"time"

	"penstock/upstreams"
)

// TestRecent checks that a hook's failures and decisions are counted for one minute.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r RecentFailures[Failure]
	start := time.Unix(1_800_000_000, 0)
	for i := range 10 {
		r.CountQuestion("guard", nil, start.Add(time.Duration(i)*time.Second))
	}
	r.CountQuestion("other", nil, start)
	if got := r.FailedHooks(start.Add(10 * time.Second)); len(got) != 0 {
		t.Errorf("got %v, want no hook without a failure", got)
	}
	r.CountQuestion("guard", &Failure{Cause: upstreams.CauseHookTimeout}, start.Add(15*time.Second))
	r.CountQuestion("guard", InvalidAnswer(MistakeNoAction), start.Add(16*time.Second))
	want := []FailureCounts[Failure]{{Hook: "guard", Asked: 12, Failed: 2, Last: *InvalidAnswer(MistakeNoAction)}}
	if got := r.FailedHooks(start.Add(20 * time.Second)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = []FailureCounts[Failure]{{Hook: "guard", Asked: 2, Failed: 2, Last: *InvalidAnswer(MistakeNoAction)}}
	if got := r.FailedHooks(start.Add(65 * time.Second)); !slices.Equal(got, want) {
		t.Errorf("a minute later: got %v, want %v", got, want)
	}
	if got := r.FailedHooks(start.Add(3 * time.Minute)); len(got) != 0 || len(r.rows) != 0 {
		t.Errorf("later: got %v with %d rows, want none", got, len(r.rows))
	}
}
