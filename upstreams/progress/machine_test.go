package progress

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// simulation simulates an engine with calls, second by second.
type simulation struct {
	m   progressMachine
	now time.Time
	s   Sample
}

func newSimulation() *simulation { return &simulation{now: time.Unix(1000, 0)} }

// seconds simulates n seconds. moves sets whether responses make progress. sum is the counter sum,
// or nil if the engine has no counters. seconds returns the second in which the engine stalls, or
// 0.
func (p *simulation) seconds(n int, moves bool, sum *float64) (stalledAt int) {
	for i := range n {
		p.now = p.now.Add(time.Second)
		p.s.At = p.now
		if moves {
			p.s.Reads++
		}
		p.m.recordSample(p.s)
		if sum != nil && i%2 == 0 {
			p.m.recordCount(p.now, *sum)
		}
		if p.m.isStalled(p.now) {
			return i + 1
		}
	}
	return 0
}

// warmSimulation returns a simulation whose engine has worked on one call for some seconds.
func warmSimulation() *simulation {
	p := newSimulation()
	p.seconds(1, false, nil)
	p.s.Held = 1
	p.seconds(10, true, nil)
	p.s.Waiting = 1 // from now on, the engine is silent
	return p
}

// TestSlowChunks simulates an engine on a slow and busy machine. The steps of a long prompt take
// longer and longer, and the last step never ends.
func TestSlowChunks(t *testing.T) {
	p, sum := newSimulation(), 100.0
	p.seconds(1, false, &sum)
	p.s.Held, p.s.Waiting, p.s.Unread = 1, 1, 30_000
	for gap := 10; gap <= 300; gap += gap / 2 {
		if at := p.seconds(gap, false, &sum); at != 0 {
			t.Fatalf("stalled after %d s of a step of %d s", at, gap)
		}
		sum++
		p.seconds(2, false, &sum)
	}
	if at := p.seconds(1200, false, &sum); at == 0 || at > 1000 {
		t.Errorf("stalled after %d s of a step that does not come", at)
	}
}

func TestStall(t *testing.T) {
	fixed := 100.0
	for name, c := range map[string]struct {
		play func() int
		want int // second in which the engine stalls; 0 means never
	}{
		"known step": {func() int { return warmSimulation().seconds(60, false, nil) }, 10},
		"unknown step": {func() int {
			p := newSimulation()
			p.s.Held, p.s.Waiting = 1, 1
			return p.seconds(60, false, nil)
		}, 31},
		"counters stand still": {func() int { return warmSimulation().seconds(60, false, &fixed) }, 10},
		"counters move": {func() int {
			p, sum := warmSimulation(), 100.0
			for range 100 {
				sum++
				if at := p.seconds(4, false, &sum); at != 0 {
					return at
				}
			}
			return 0
		}, 0},
		"counters move at the end of a chunk of 20 s": {func() int {
			p, sum := warmSimulation(), 100.0
			p.s.Unread = 30000
			for range 20 {
				if at := p.seconds(20, false, &sum); at != 0 {
					return at
				}
				sum += 2048
			}
			return 0
		}, 0},
		"a prompt of 3,000 tokens": {func() int {
			p := warmSimulation()
			p.s.Unread = 3000
			return p.seconds(100, false, nil)
		}, 40},
		"the same, read fast before": {func() int {
			p := warmSimulation()
			p.m.recordFirstToken(time.Second, 1000)
			p.s.Unread = 3000
			return p.seconds(100, false, nil)
		}, 19},
		"30,000 tokens, of which a chunk counts": {func() int {
			p := warmSimulation()
			p.m.recordFirstToken(time.Second, 1000)
			p.s.Unread = 30000
			return p.seconds(100, false, &fixed)
		}, 35},
		"slow steps": {func() int {
			p := warmSimulation()
			for range 5 {
				p.s.Waiting = 0
				p.seconds(9, false, nil)
				p.seconds(1, true, nil)
			}
			p.s.Waiting = 1
			return p.seconds(100, false, nil)
		}, 30},
		"nobody waits": {func() int {
			p := warmSimulation()
			p.s.Waiting = 0 // no call is waiting for the engine, because a slow client delays the response
			return p.seconds(100, false, nil)
		}, 0},
		"no work": {func() int {
			p := warmSimulation()
			p.s.Held, p.s.Waiting = 0, 0
			return p.seconds(100, false, nil)
		}, 0},
		"a call that is held back": {func() int {
			p := warmSimulation()
			p.s.Buffers = 1
			return p.seconds(1000, false, nil)
		}, 900},
		"a call that is held back, by an engine that counts": {func() int {
			p := warmSimulation()
			p.s.Buffers = 1
			return p.seconds(100, false, &fixed)
		}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.play(); got != c.want {
				t.Errorf("stalled at second %d, want %d", got, c.want)
			}
		})
	}
}

// TestRestart checks that decreasing counters are not progress, but prevent a stall for 10 s.
func TestRestart(t *testing.T) {
	p, high, low := warmSimulation(), 100.0, 1.0
	if p.seconds(8, false, &high) != 0 {
		t.Fatal("too early")
	}
	since := p.m.stillSince
	// The counters are read in the first second.
	if at := p.seconds(20, false, &low); at != 11 || p.m.stillSince != since {
		t.Errorf("stalled at second %d, moved %v", at, p.m.stillSince != since)
	}
}

// TestOldCount checks that the first sum read after progress does not count as progress, because it
// may count work from before the stall.
func TestOldCount(t *testing.T) {
	p, sum := newSimulation(), 100.0
	p.seconds(2, false, &sum)
	p.s.Held = 1
	p.seconds(10, true, nil)
	p.s.Waiting = 1
	p.seconds(5, false, nil)
	sum = 900
	if at := p.seconds(20, false, &sum); at != 5 {
		t.Errorf("stalled at second %d, want 5", at)
	}
}

// TestBack checks that only progress ends a stall, and that a stall does not change the usual step.
func TestBack(t *testing.T) {
	p := warmSimulation()
	p.seconds(10, false, nil)
	p.m.outOfService = true
	p.s.Held, p.s.Waiting = 0, 0
	if p.seconds(100, false, nil) != 1 {
		t.Error("it is back without a sign of work")
	}
	p.m.recordMove(p.now, 0)
	if p.m.isStalled(p.now) || p.m.usualStep > 2*time.Second {
		t.Errorf("stalled %v, step %v", p.m.isStalled(p.now), p.m.usualStep)
	}
}

// TestLost checks that waiting calls count as lost if the engine reports only the calls that make
// progress.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		requests, held, waiting, young int
		moves                          bool
		want                           bool
	}{
		"one of several engines":            {4, 8, 1, 0, true, false},
		"one of eight":                      {7, 8, 1, 0, true, true},
		"all are there":                     {8, 8, 1, 0, true, false},
		"others' work hides it":             {9, 8, 1, 0, true, false},
		"two wait, one is missing":          {7, 8, 2, 0, true, false},
		"two wait and are missing":          {6, 8, 2, 0, true, true},
		"one is on its way":                 {7, 8, 1, 1, true, false},
		"nothing moves: a stall, no loss":   {0, 8, 8, 0, false, false},
		"the only one, on an idle engine":   {0, 1, 1, 0, true, true},
		"it shows in one report only":       {7, 8, 1, -1, true, false},
		"two that wait, all others on them": {2, 2, 2, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSimulation()
			p.s.Held = c.held
			p.seconds(5, true, nil)
			silent := p.now
			p.s.Waiting = c.waiting
			lost := false
			for i := range 14 {
				if c.young > 0 {
					p.s.Ended += uint64(c.young) // one call ends and another starts
				}
				p.seconds(1, c.moves, nil)
				if i%2 == 0 {
					requests := c.requests
					if c.young < 0 && i == 8 {
						requests = c.held
					}
					p.m.recordReport(p.now, requests, c.held)
				}
				if at := p.m.isLost(silent, c.waiting, p.now); at && i < 10 {
					t.Errorf("lost after %d s", i+1)
				} else {
					lost = at
				}
			}
			if lost != c.want {
				t.Errorf("lost %v, want %v", lost, c.want)
			}
			if p.m.isLost(p.now, c.waiting, p.now) {
				t.Error("a call that has just moved is lost")
			}
		})
	}
}

// TestNeverStalledWhileMoving checks that an engine never stalls if it makes progress every nine
// seconds or has no work.
func TestNeverStalledWhileMoving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, quiet, sum := newSimulation(), 0, 0.0
		for range rapid.IntRange(1, 300).Draw(t, "seconds") {
			p.s.Held = rapid.IntRange(0, 3).Draw(t, "held")
			p.s.Waiting = rapid.IntRange(0, p.s.Held).Draw(t, "waiting")
			p.s.Unread = rapid.Int64Range(0, 50000).Draw(t, "unread")
			if rapid.Bool().Draw(t, "falls") && sum > 0 {
				sum = 0
			}
			moves := quiet >= 8 || rapid.Bool().Draw(t, "moves")
			if quiet++; moves {
				quiet = 0
			}
			if p.seconds(1, moves, &sum) != 0 {
				t.Fatal("stalled")
			}
		}
	})
}
