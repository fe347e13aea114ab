package observe

import (
	"fmt"
	"testing"
	"time"
)

// TestRefusalsCountAll checks that each refusal in a flood is counted, and that rare refusals stay
// visible.
func TestRefusalsCountAll(t *testing.T) {
	var r RecentCalls
	now := time.Unix(1_700_000_000, 0)
	refuse := func(code, key string, at time.Time) {
		r.add(&Record{Code: code, Status: 429, Model: "m", Key: key, Outcome: OutcomeLimited}, at)
	}
	refuse("invalid_api_key", "", now)
	for i := range 20_000 {
		refuse("capacity_full", "team-b", now.Add(time.Duration(i)*time.Millisecond))
	}
	now = now.Add(20 * time.Second)
	got := r.Refusals.Counts(now)
	if len(got) != 2 || got[0].Code != "capacity_full" || got[0].Count != 20_000 || got[1].Code != "invalid_api_key" || got[1].Count != 1 {
		t.Fatalf("counts = %+v, want 20000 of capacity_full and 1 of invalid_api_key", got)
	}
	if got = r.Refusals.Counts(now.Add(ReasonWindow)); len(got) != 0 {
		t.Errorf("after the window: %+v", got)
	}
	if got := r.calls.newest(); len(got) != 0 {
		t.Errorf("refusals among the calls: %d", len(got))
	}
}

// TestRefusalsAreBounded checks that reasons beyond the maximum number share a row, and that the
// rows of old refusals are reused.
func TestRefusalsAreBounded(t *testing.T) {
	var r FailureReasons
	now := time.Unix(1_700_000_000, 0)
	for i := range 3 * maxReasonRows {
		r.add(FailureReason{Code: "rate_limited", Key: fmt.Sprint("key-", i)}, now)
	}
	got := r.Counts(now)
	if len(r.rows) > maxReasonRows+1 || got[0].Code != "rate_limited" || got[0].Key != OtherKeys || got[0].Count != 2*maxReasonRows {
		t.Errorf("%d rows, the first %+v", len(r.rows), got[0])
	}
	now = now.Add(2 * ReasonWindow)
	r.add(FailureReason{Code: "rate_limited", Key: "late"}, now)
	if got = r.Counts(now); len(got) != 1 || got[0].Key != "late" || len(r.rows) != 1 {
		t.Errorf("%d rows: %+v; want the late one alone", len(r.rows), got)
	}
}
