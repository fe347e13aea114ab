package progress

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// balancedEngines simulates engines behind a balancer. Each read of the counters goes to the next
// engine.
type balancedEngines struct {
	counts []float64
	step   float64 // progress of a working engine per second; 0 means 1
	reads  int
}

// seconds simulates n seconds in which some of the engines work, and reads the counters every other
// second.
func (b *balancedEngines) seconds(p *simulation, n int, moving ...int) (stalledAt int) {
	for i := range n {
		for _, e := range moving {
			b.counts[e] += max(1, b.step)
		}
		var shown *float64
		if i%2 == 0 {
			shown = &b.counts[b.reads%len(b.counts)]
			b.reads++
		}
		if p.seconds(1, false, shown) != 0 {
			return i + 1
		}
	}
	return 0
}

// TestSeveralEngines simulates engines behind one address, where each read may return the counters
// of a different engine. The engines have stalled only if none of them makes progress. A change
// from one engine's counters to another engine's counters is not progress.
func TestSeveralEngines(t *testing.T) {
	for name, c := range map[string]struct {
		counts      []float64
		moving      []int
		least, most int // bounds for the second in which the engines stall; 0 means never
	}{
		"two stand still":                     {[]float64{1000, 5}, nil, 10, 15},
		"two of one number":                   {[]float64{7, 7}, nil, 10, 15},
		"five stand still, never read before": {[]float64{1000, 5, 400, 30, 600}, nil, 10, 45},
		"the higher one moves":                {[]float64{1000, 5}, []int{0}, 0, 0},
		"the lower one moves":                 {[]float64{1000, 5}, []int{1}, 0, 0},
		"both move":                           {[]float64{1000, 5}, []int{0, 1}, 0, 0},
		"one of three moves":                  {[]float64{1000, 5, 400}, []int{2}, 0, 0},
		"one moves past another, and back":    {[]float64{40, 5}, []int{1}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := balancedEngines{counts: c.counts}, warmSimulation()
			if at := b.seconds(p, 300, c.moving...); at < c.least || at > c.most {
				t.Errorf("stalled at second %d, want %d to %d", at, c.least, c.most)
			}
		})
	}
}

// TestSeveralEnginesFall restarts one of two engines while the other makes no progress. For 10 s,
// the restart counts neither as progress nor as a stall. After that, the restarted engine works.
func TestSeveralEnginesFall(t *testing.T) {
	b, p := balancedEngines{counts: []float64{1000, 500}}, warmSimulation()
	if b.seconds(p, 8) != 0 {
		t.Fatal("too early")
	}
	since := p.m.stillSince
	b.counts[0] = 0
	if at := b.seconds(p, 8); at != 0 || p.m.stillSince != since {
		t.Errorf("stalled at second %d, moved %v", at, p.m.stillSince != since)
	}
	if at := b.seconds(p, 300, 0); at != 0 || !p.m.lastMove.After(since) {
		t.Errorf("stalled at second %d", at)
	}
}

// TestSeveralEnginesBack checks that stalled engines stay out of service while reads only alternate
// between their counters, and return once one of the engines makes progress.
func TestSeveralEnginesBack(t *testing.T) {
	b, p := balancedEngines{counts: []float64{1000, 5, 400}}, warmSimulation()
	if b.seconds(p, 60) == 0 {
		t.Fatal("not stalled")
	}
	p.m.outOfService = true
	p.s.Held, p.s.Waiting = 0, 0
	for range 100 {
		if b.seconds(p, 1) != 1 {
			t.Fatal("a jump has brought them back")
		}
	}
	b.counts[1]++
	for i := range 10 {
		if b.seconds(p, 1) == 0 {
			return
		}
		if i == 9 {
			t.Error("a move has not brought them back")
		}
	}
}

// TestNumbersReturn checks a restarted engine whose counters reach their earlier values again. The
// edge mistakes this engine for two engines, but only for a short time.
func TestNumbersReturn(t *testing.T) {
	var n sumHistory
	now := time.Unix(1000, 0)
	var got []sumChange
	for _, number := range []float64{0, 12, 50, 0, 12, 30, 50, 60, 5} {
		got = append(got, n.record(number, now))
		now = now.Add(40 * time.Second)
	}
	if want := []sumChange{sumUnchanged, sumRose, sumRose, sumFell, sumRose, sumRose, sumUnchanged, sumRose, sumFell}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n.hasSeveralEngines(now.Add(severalEnginesTime)) || len(n.sums) > maxDistinguishedEngines {
		t.Error("it is taken for several engines for ever")
	}
}

// TestSeveralEnginesOnly checks that up to four engines do not stall while one of them works. If
// none of them works, they stall, and reading a different engine's counters does not end the stall.
func TestSeveralEnginesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := balancedEngines{counts: rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 4).Draw(t, "counts")}
		for i := range b.counts {
			b.counts[i] = float64(int(b.counts[i]))
		}
		p := warmSimulation()
		for phase := range rapid.IntRange(0, 20).Draw(t, "phases") {
			b.step = rapid.Float64Range(1, 1000).Draw(t, "step")
			moving := rapid.SliceOfNDistinct(rapid.IntRange(0, len(b.counts)-1), 1, -1, rapid.ID).Draw(t, "moving")
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				b.counts[moving[0]] = float64(phase+1) / 100 // no value occurs twice
			}
			if at := b.seconds(p, rapid.IntRange(1, 40).Draw(t, "seconds"), moving...); at != 0 {
				t.Fatalf("stalled while %v of %v move", moving, b.counts)
			}
		}
		if at := b.seconds(p, 60); at == 0 {
			t.Fatalf("%v stand still and have not stalled", b.counts)
		}
		p.m.outOfService = true
		for range 100 {
			if b.seconds(p, 1) != 1 {
				t.Fatalf("%v stand still and are back", b.counts)
			}
		}
	})
}

// TestPartialReports checks reports that cover only one of two engines and therefore do not contain
// all running calls. If all calls at the other engine are waiting, for example behind a long
// prompt, none of these calls counts as lost.
func TestPartialReports(t *testing.T) {
	for name, c := range map[string]struct {
		before int // number of seconds in which no call is waiting
		want   bool
	}{"seen before": {30, false}, "one engine": {0, true}} {
		t.Run(name, func(t *testing.T) {
			p := newSimulation()
			p.s.Held = 8
			p.seconds(5, true, nil)
			play := func(seconds int) (lost bool) {
				silent := p.now
				for i := range seconds {
					p.seconds(1, true, nil)
					if i%2 == 0 {
						p.m.recordReport(p.now, 4, 8)
					}
					lost = lost || p.m.isLost(silent, p.s.Waiting, p.now)
				}
				return lost
			}
			if play(c.before) {
				t.Error("a call is lost that moves")
			}
			p.s.Waiting = 4
			if lost := play(14); lost != c.want {
				t.Errorf("lost %v, want %v", lost, c.want)
			}
		})
	}
}
