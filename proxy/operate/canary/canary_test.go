package canary

import (
	"math"
	"math/rand/v2"
	"testing"

	"penstock/proxy/telemetry/observe"
)

// simulatedArm returns the counts of an arm after n simulated calls. The arguments are the median
// TTFT and speed of the calls, and the share of failed calls.
func simulatedArm(rng *rand.Rand, n int, ttft, speed, failed float64) *observe.ArmCounts {
	a := &observe.ArmCounts{Calls: uint64(n)}
	first, tokens, length := map[uint64]uint64{}, map[uint64]uint64{}, map[uint64]uint64{}
	for range n {
		if rng.Float64() < failed {
			a.Failed++
			continue
		}
		first[observe.BucketOf(ttft*math.Exp(0.6*rng.NormFloat64()))]++
		tokens[observe.BucketOf(speed*math.Exp(0.3*rng.NormFloat64()))]++
		length[observe.BucketOf(200*math.Exp(rng.NormFloat64()))]++
	}
	for to, from := range map[*observe.Distribution]map[uint64]uint64{&a.TTFT: first, &a.Speed: tokens, &a.Length: length} {
		for bucket, count := range from {
			*to = append(*to, [2]uint64{bucket, count})
		}
	}
	return a
}

func verdicts(seeds, rest, arm int, ttft, speed, failed float64) map[Verdict]int {
	got := map[Verdict]int{}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		got[Compare("m", simulatedArm(rng, rest, 0.2, 50, 0.01), simulatedArm(rng, arm, ttft, speed, failed)).Verdict]++
	}
	return got
}

// TestEqualArms checks that at most one in a thousand comparisons of equal arms yields "worse". If
// there are enough calls, most comparisons must yield "not worse".
func TestEqualArms(t *testing.T) {
	for _, n := range []int{60, 300} {
		got := verdicts(1000, 5*n, n, 0.2, 50, 0.01)
		t.Logf("%d calls: %v", n, got)
		if got[VerdictWorse] > 2 {
			t.Errorf("with %d calls equal arms are worse %d times of 1000", n, got[VerdictWorse])
		}
	}
	if got := verdicts(20, 10_000, 5000, 0.2, 50, 0.01); got[VerdictNotWorse] < 18 {
		t.Errorf("with 5000 calls: %v", got)
	}
}

// TestWorseArms checks that a worse arm is detected, and is never judged "not worse".
func TestWorseArms(t *testing.T) {
	for name, c := range map[string]struct{ ttft, speed, failed float64 }{
		"first tokens 30 % later":  {0.26, 50, 0.01},
		"30 % fewer tokens/s":      {0.2, 35, 0.01},
		"one of twenty calls more": {0.2, 50, 0.06},
	} {
		got := verdicts(50, 6000, 1500, c.ttft, c.speed, c.failed)
		if got[VerdictWorse] < 48 || got[VerdictNotWorse] > 0 {
			t.Errorf("%s: verdicts %v of 50, want worse in 48 or more and not worse in none", name, got)
		}
		if got := verdicts(50, 400, 20, c.ttft, c.speed, c.failed); got[VerdictUnknown] != 50 {
			t.Errorf("%s, 20 calls: verdicts %v, want 50 unknown", name, got)
		}
		if got := verdicts(200, 500, 100, c.ttft, c.speed, c.failed); got[VerdictNotWorse] > 0 {
			t.Errorf("%s, 100 calls: verdicts %v, want not worse in none", name, got)
		}
	}
}

// TestIntervals checks that the intervals contain the true value as often as their confidence level
// requires.
func TestIntervals(t *testing.T) {
	const seeds = 500
	missed := 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := Compare("m", simulatedArm(rng, 1000, 0.2, 50, 0), simulatedArm(rng, 300, 0.26, 50, 0))
		if r := c.Rows[0]; *r.Low > 0.3 || *r.High < 0.3 {
			missed++
		}
	}
	if missed > seeds*8/100 {
		t.Errorf("%d of %d intervals miss the truth", missed, seeds)
	}
}

// TestWithoutStreams checks that a model without streams is judged by the measures that do not need
// streams. If there are no values about speed at all, the verdict must be "not yet known".
func TestWithoutStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	rest, arm := simulatedArm(rng, 40_000, 0.2, 50, 0), simulatedArm(rng, 20_000, 0.2, 50, 0)
	rest.TTFT, arm.TTFT = nil, nil
	if got := Compare("m", rest, arm); got.Verdict != VerdictNotWorse {
		t.Errorf("Compare = %+v, want %v", got, VerdictNotWorse)
	}
	rest.Speed, arm.Speed = nil, nil
	if got := Compare("m", rest, arm); got.Verdict != VerdictUnknown {
		t.Errorf("Compare = %+v, want %v", got, VerdictUnknown)
	}
	if got := Compare("m", &observe.ArmCounts{}, &observe.ArmCounts{}); got.Verdict != VerdictUnknown {
		t.Errorf("Compare of two empty arms = %+v, want %v", got, VerdictUnknown)
	}
}
