package observe

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestArmsCount checks that a call counts for the arm to which it was assigned, and that only
// answers to first attempts are measured.
func TestArmsCount(t *testing.T) {
	failed := []FailedAttempt{{Upstream: "a", Arm: "new"}}
	rejected := []FailedAttempt{{Upstream: "a", Arm: "new", Rejected: true}}
	for name, c := range map[string]struct {
		change func(r *Record)
		// Counts of the arm: calls, failed, refused, left; number of TTFT, speed and length values.
		want string
	}{
		"an answer":                {func(*Record) {}, "1 0 0 0, 1 1 1"},
		"whole":                    {func(r *Record) { r.Stream, r.UpstreamTTFT = false, 0 }, "1 0 0 0, 0 1 1"},
		"one token":                {func(r *Record) { r.CompletionTokens = 1 }, "1 0 0 0, 1 0 1"},
		"of the rest":              {func(r *Record) { r.Arm = NoArm }, "0 0 0 0, 0 0 0"},
		"of the rest, here":        {func(r *Record) { r.MissedArm = NoArm }, "0 0 0 0, 0 0 0"},
		"no room here":             {func(r *Record) { r.Arm, r.MissedArm = NoArm, "new" }, "1 0 1 0, 0 0 0"},
		"no room anywhere":         {func(r *Record) { r.Outcome, r.Attempts = OutcomeLimited, 0 }, "1 0 1 0, 0 0 0"},
		"no upstream anywhere":     {func(r *Record) { r.Outcome, r.Attempts = OutcomeNoRoute, 0 }, "1 0 1 0, 0 0 0"},
		"no room, of the rest":     {func(r *Record) { r.Outcome, r.Attempts, r.Arm = OutcomeLimited, 0, NoArm }, "0 0 0 0, 0 0 0"},
		"failed, answered by rest": {func(r *Record) { r.Arm, r.MissedArm, r.Failed = NoArm, "new", failed }, "1 1 0 0, 0 0 0"},
		"failed, answered here":    {func(r *Record) { r.Failed = failed }, "1 1 0 0, 0 0 0"},
		"failed":                   {func(r *Record) { r.Outcome, r.Failed = OutcomeUpstreamFail, failed }, "1 1 0 0, 0 0 0"},
		"broken off":               {func(r *Record) { r.Outcome, r.Committed = OutcomeStreamBroken, true }, "1 1 0 0, 0 0 0"},
		"failed at the rest":       {func(r *Record) { r.Outcome, r.Arm, r.MissedArm = OutcomeTimeout, NoArm, "new" }, "1 0 1 0, 0 0 0"},
		"the client left":          {func(r *Record) { r.Outcome = OutcomeClientGone }, "1 0 0 1, 0 0 0"},
		"the client's fault":       {func(r *Record) { r.Outcome = OutcomeClientError }, "1 0 0 0, 0 0 0"},
		"refused by the engine":    {func(r *Record) { r.Outcome, r.Failed = OutcomeClientError, rejected }, "1 0 0 0, 0 0 0"},
		"refused by both arms":     {func(r *Record) { r.Outcome, r.Arm, r.MissedArm, r.Failed = OutcomeClientError, NoArm, "new", rejected }, "1 0 0 0, 0 0 0"},
		"refused here alone":       {func(r *Record) { r.Arm, r.MissedArm, r.Failed = NoArm, "new", rejected }, "1 1 0 0, 0 0 0"},
		"answered in another form": {func(r *Record) { r.Failed = rejected }, "1 0 0 0, 1 1 1"},
		"refused, then failed":     {func(r *Record) { r.Outcome, r.Failed = OutcomeUpstreamFail, append(rejected, failed...) }, "1 1 0 0, 0 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			calls, _ := newTestCalls(t)
			before := calls.ArmCounts("m", "new").Arms[1]
			r := successfulRecord("m", "a")
			r.Arm, r.Finish = "new", "length"
			c.change(r)
			finish(calls, r)
			all := calls.ArmCounts("m", "new")
			a := all.Arms[1].Since(&before)
			got := fmt.Sprintf("%d %d %d %d, %d %d %d", a.Calls, a.Failed, a.Refused, a.ClientGone, a.TTFT.Count(), a.Speed.Count(), a.Length.Count())
			if all.Arms[0].Name != NoArm || got != c.want || a.Finish["length"] != a.Length.Count() {
				t.Errorf("%s, %v, want %s", got, a.Finish, c.want)
			}
			if ended, _, _ := calls.ArmCallTotals("m", r.Arm); ended != int64(min(r.Attempts, 1)) {
				t.Errorf("%d calls ended at %s", ended, r.Arm)
			}
			if again := all.Arms[1].Since(&all.Arms[1]); again.TTFT.Count() != 0 || again.Calls != 0 {
				t.Errorf("since itself there is %+v", again)
			}
		})
	}
}

// TestBuckets checks that the middle of a bucket is within 2.3 % of every value in the bucket.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := math.Exp2(rapid.Float64Range(lowestOctave, 19.9).Draw(rt, "octave"))
		if got := BucketMiddle(BucketOf(v)); math.Abs(math.Log(got/v)) > LogBucketWidth/2+1e-9 {
			rt.Errorf("%v is taken for %v", v, got)
		}
	})
	for _, v := range []float64{1e-9, 1e12} {
		if b := BucketOf(v); b != 0 && b != bucketCount-1 {
			t.Errorf("%v is in bucket %d", v, b)
		}
	}
}

// TestArmsCostNothing checks that a call to a model without arms creates no arm statistics, and
// that counting a call for an arm does not allocate.
func TestArmsCostNothing(t *testing.T) {
	calls, _ := newTestCalls(t)
	r, now := successfulRecord("m", "a"), time.Now()
	calls.countCall(r, now)
	if len(calls.series.arms.all()) != 0 {
		t.Error("there are arms of a model without any")
	}
	r.Arm = NoArm
	calls.countCall(r, now)
	if n := testing.AllocsPerRun(100, func() { calls.countCall(r, now) }); n != 0 {
		t.Errorf("count allocates %v times, want 0", n)
	}
}
