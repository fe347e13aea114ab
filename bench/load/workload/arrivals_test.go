package workload

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// firstArrivals returns the first n arrival times of a pacer, or fewer if the pacer ends.
func firstArrivals(p Pacer, n int) []time.Duration {
	var out []time.Duration
	for at, ok := p.Next(); ok && len(out) < n; at, ok = p.Next() {
		out = append(out, at)
	}
	return out
}

func TestGammaPacer(t *testing.T) {
	const rate, n = 100.0, 20000
	for _, shape := range []float64{0.25, 1, 4, math.Inf(1)} {
		times := firstArrivals(NewGammaPacer(1, rate, shape, n), n+1)
		if len(times) != n {
			t.Fatalf("shape %v: %d arrivals", shape, len(times))
		}
		if last := times[n-1].Seconds(); math.Abs(last-n/rate) > 1e-3 {
			t.Errorf("shape %v: last arrival at %v s, want %v", shape, last, n/rate)
		}
		// The coefficient of variation of the gaps is 1/sqrt(shape).
		var sum, square float64
		before := time.Duration(0)
		for _, at := range times {
			gap := (at - before).Seconds()
			before = at
			sum += gap
			square += gap * gap
		}
		mean := sum / n
		variation := math.Sqrt(max(0, square/n-mean*mean)) / mean
		if want := 1 / math.Sqrt(shape); math.Abs(variation-want) > 0.05*want+0.001 {
			t.Errorf("shape %v: variation of gaps %v, want %v", shape, variation, want)
		}
	}
	if times := firstArrivals(NewGammaPacer(1, math.Inf(1), 1, 5), 10); len(times) != 5 || times[4] != 0 {
		t.Errorf("infinite rate: %v", times)
	}
}

func TestRampPacer(t *testing.T) {
	p := &RampPacer{Rng: rand.New(rand.NewPCG(1, 1)), Shape: math.Inf(1), From: 10, To: 100, Over: 20, Left: -1}
	times := firstArrivals(p, 3000)
	in := func(from, to float64) (n float64) {
		for _, at := range times {
			if s := at.Seconds(); s >= from && s < to {
				n++
			}
		}
		return n / (to - from)
	}
	for _, c := range []struct{ from, to, want float64 }{{0, 1, 11}, {9.5, 10.5, 55}, {20, 25, 100}} {
		if got := in(c.from, c.to); math.Abs(got-c.want) > 2 {
			t.Errorf("second %v to %v: rate %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestTracePacer(t *testing.T) {
	times := []time.Duration{0, time.Second, 5 * time.Second}
	if got := firstArrivals(&ReplayPacer{times}, 9); len(got) != 3 || got[2] != times[2] {
		t.Errorf("arrivals = %v, want the 3 of the trace", got)
	}
}
