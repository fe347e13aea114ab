package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"penstock/config"
)

// world is a fleet in virtual time.
type world struct {
	now    time.Time
	began  time.Time
	twin   *twin
	edges  []*Fleet
	lines  []*line
	keys   []*account
	limits config.KeyLimits
}

func newWorld(edges int, limits config.KeyLimits, lost string) *world {
	now := time.Now()
	w := &world{now: now, began: now, twin: &twin{now: 1e6}, limits: limits}
	for range edges {
		l := &line{twin: w.twin, lose: never, mute: never, repeat: never}
		f := newFleet(&Options{Edges: edges, WhenLost: lost, Timeout: 25 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}, l)
		f.terms.epoch, f.terms.clock = w.now, func() time.Time { return w.now }
		w.edges, w.lines = append(w.edges, f), append(w.lines, l)
		w.keys = append(w.keys, newAccount(&f.terms, "a"))
	}
	return w
}

// pass lets time pass, and the edges report.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.twin.now = 1e6 + w.now.Sub(w.began).Milliseconds()
	for i, f := range w.edges {
		if !w.lines[i].cut {
			left := reportsMost
			f.reportDue(f.terms.now(), &left)
		}
	}
}

// exact is one account of all that the fleet admits: what is owed, what is held and what runs.
type exact struct {
	at      time.Time
	owed    [cells]float64
	held    int64
	running int
	limits  config.KeyLimits
}

func (e *exact) pay(now time.Time) {
	passed := now.Sub(e.at).Minutes()
	e.at = now
	for i, l := range [...]int{e.limits.RequestsPerMinute, e.limits.TokensPerMinute} {
		e.owed[i] = max(0, e.owed[i]-passed*float64(l))
	}
}

// Whatever is lost, repeated or overtaken, and however calls of several edges interleave: the fleet
// never admits a request, a token or a call at once more than one edge with the whole limit would.
func TestNeverMoreThanOneEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.KeyLimits{
			RequestsPerMinute: rapid.SampledFrom([]int{0, 3, 60, 6000}).Draw(t, "requests"),
			TokensPerMinute:   rapid.SampledFrom([]int{0, 500, 36_000}).Draw(t, "tokens"),
			Concurrency:       rapid.SampledFrom([]int{0, 1, 4, 200}).Draw(t, "concurrency"),
		}
		w := newWorld(rapid.IntRange(1, 5).Draw(t, "edges"), limits, config.LostClosed)
		chance := rapid.IntRange(0, 30).Draw(t, "faults in a hundred")
		fault := func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
		for _, l := range w.lines {
			l.lose, l.mute, l.repeat = fault, fault, fault
		}
		e := exact{at: w.now, limits: limits}
		type running struct {
			edge int
			held int64
		}
		var calls []running
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			e.pay(w.now)
			i := rapid.IntRange(0, len(w.keys)-1).Draw(t, "edge")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				w.pass(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				for _, late := range w.lines[i].late {
					late()
				}
				w.lines[i].late = nil
			case 2, 3:
				if len(calls) > 0 {
					n := rapid.IntRange(0, len(calls)-1).Draw(t, "call")
					c := calls[n]
					calls = append(calls[:n], calls[n+1:]...)
					used := rapid.Int64Range(0, c.held).Draw(t, "used")
					w.keys[c.edge].Settle(c.held, used)
					e.held, e.running = e.held-c.held, e.running-1
					e.owed[tokens] += float64(used)
				}
			default:
				if !w.keys[i].Take(limits, w.now).OK {
					continue
				}
				if e.owed[requests]++; limits.RequestsPerMinute > 0 && e.owed[requests] > float64(limits.RequestsPerMinute)+1e-3 {
					t.Fatalf("%v requests are owed", e.owed[requests])
				}
				held, d := w.keys[i].Reserve(limits, rapid.Int64Range(1, 400).Draw(t, "estimate"), w.now)
				if !d.OK {
					continue
				}
				calls = append(calls, running{i, held})
				e.held, e.running = e.held+held, e.running+1
				if sum := e.owed[tokens] + float64(e.held); limits.TokensPerMinute > 0 && sum > float64(limits.TokensPerMinute)+1e-3 {
					t.Fatalf("%v tokens are owed or held", sum)
				}
				if limits.Concurrency > 0 && e.running > limits.Concurrency {
					t.Fatalf("%d calls at once", e.running)
				}
			}
		}
	})
}

// TestUse: what the fleet admits of a load is what one edge would admit, however the load is
// spread.
func TestUse(t *testing.T) {
	for _, edges := range []int{4, 16} {
		for _, perMinute := range []int{60, 600, 6000} {
			for _, share := range []float64{0.3, 1.5} {
				if edges == 16 && perMinute == 6000 {
					continue // long, and no other than 600
				}
				for name, spread := range map[string]func(n int, r float64, at time.Duration) int{
					"even":   func(n int, r float64, _ time.Duration) int { return int(r * float64(n)) },
					"skew":   func(n int, r float64, _ time.Duration) int { return max(0, int((r*10-9)*float64(n))) },
					"moving": func(n int, _ float64, at time.Duration) int { return int(at/(5*time.Second)) % n },
				} {
					limits := config.KeyLimits{RequestsPerMinute: perMinute}
					w := newWorld(edges, limits, config.LostClosed)
					random := rand.New(rand.NewPCG(1, 2))
					owed, admitted, alone, calls := 0.0, 0, 0, 0
					for at := time.Duration(0); at < 3*time.Minute; {
						gap := time.Duration(random.ExpFloat64() * float64(time.Minute) / (share * float64(perMinute)))
						for left := gap; left > 0; left -= reportTick {
							w.pass(min(left, reportTick))
						}
						at, calls = at+gap, calls+1
						owed = max(0, owed-gap.Minutes()*float64(perMinute))
						if owed+1 <= float64(perMinute) {
							owed, alone = owed+1, alone+1
						}
						if w.keys[spread(edges, random.Float64(), at)].Take(limits, w.now).OK {
							admitted++
						}
					}
					messages := uint64(0)
					for _, f := range w.edges {
						messages += f.terms.metrics.sent.Get()
					}
					least := 0.99
					if calls < 300 || edges > 4 {
						least = 0.98
					}
					t.Logf("%2d edges, %4d a minute, %.1f, %-6s: %4d of %4d (%d calls), %.2f messages a call", edges, perMinute, share, name, admitted, alone, calls, float64(messages)/float64(calls))
					if float64(admitted) < least*float64(alone) {
						t.Errorf("%d edges, %d a minute, %.1f of it, %s: %d calls, one edge admits %d", edges, perMinute, share, name, admitted, alone)
					}
				}
			}
		}
	}
}
