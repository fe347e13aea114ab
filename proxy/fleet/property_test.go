package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
)

type world struct {
	now         time.Time
	began       time.Time
	twin        *scriptModel
	edges       []*Fleet
	lines       []*simulatedStore
	keys        []*keyAccount
	limits      config.KeyLimits
	lost        string
	clockOffset time.Duration // how far the store's clock has been set forward
}

func newWorld(edges int, limits config.KeyLimits, lost string) *world {
	now := time.Now()
	w := &world{now: now, began: now, twin: &scriptModel{now: 1e9}, limits: limits, lost: lost}
	w.edges, w.keys = make([]*Fleet, edges), make([]*keyAccount, edges)
	for i := range edges {
		w.lines = append(w.lines, &simulatedStore{twin: w.twin, lose: never, mute: never, repeat: never, delay: never, meanwhile: func() {}})
		w.start(i)
	}
	return w
}

// start starts the process of an edge. The process gets a new id each time.
func (w *world) start(i int) {
	o := Options{Edges: len(w.edges), WhenLost: w.lost, Timeout: 25 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}
	f := newFleet(&o, w.lines[i])
	f.edgeState.epoch, f.edgeState.clock = w.now, func() time.Time { return w.now }
	w.edges[i], w.keys[i] = f, newAccount(&f.edgeState, "a")
}

func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.twin.now = 1e9 + (w.now.Sub(w.began) + w.clockOffset).Milliseconds()
}

func (w *world) advance(d time.Duration) {
	w.tick(d)
	for i, f := range w.edges {
		if !w.lines[i].cut {
			left := maxReportsPerTick
			f.sendDueReports(f.edgeState.now(), &left)
		}
	}
}

func (w *world) messages() (n uint64) {
	for _, f := range w.edges {
		n += f.edgeState.metrics.sent.Get()
	}
	return n
}

// TestShareOfLimitUsed checks that the fleet admits as much of a load as a single edge would, no matter how the
// load is distributed.
func TestShareOfLimitUsed(t *testing.T) {
	for _, edges := range []int{4, 16} {
		for _, perMinute := range []int{60, 600, 6000} {
			for _, share := range []float64{0.3, 1.5} {
				if edges == 16 && perMinute == 6000 {
					continue // slow, and covers no more than 600 per minute
				}
				for name, spread := range map[string]func(n int, r float64, at time.Duration) int{
					"even":   func(n int, r float64, _ time.Duration) int { return int(r * float64(n)) },
					"skew":   func(n int, r float64, _ time.Duration) int { return max(0, int((r*10-9)*float64(n))) },
					"moving": func(n int, _ float64, at time.Duration) int { return int(at/(5*time.Second)) % n },
				} {
					limits := config.KeyLimits{RequestsPerMinute: perMinute}
					w := newWorld(edges, limits, config.StoreLostClosed)
					random := rand.New(rand.NewPCG(1, 2))
					owed, admitted, alone, calls, waited := 0.0, 0, 0, 0, 0
					for at := time.Duration(0); at < 3*time.Minute; {
						gap := time.Duration(random.ExpFloat64() * float64(time.Minute) / (share * float64(perMinute)))
						for left := gap; left > 0; left -= reportInterval {
							w.advance(min(left, reportInterval))
						}
						at, calls = at+gap, calls+1
						owed = max(0, owed-gap.Minutes()*float64(perMinute))
						if owed+1 <= float64(perMinute) {
							owed, alone = owed+1, alone+1
						}
						asked := w.messages()
						if w.keys[spread(edges, random.Float64(), at)].TakeRequest(limits, w.now).OK {
							admitted++
						}
						if w.messages() != asked {
							waited++
						}
					}
					perCall, waits := float64(w.messages())/float64(calls), float64(waited)/float64(calls)
					least := 0.99
					if calls < 300 || edges > 4 {
						least = 0.98
					}
					t.Logf("%2d edges, %4d a minute, %.1f, %-6s: %4d of %4d (%d calls), %.2f messages a call, %.1f %% wait", edges, perMinute, share, name, admitted, alone, calls, perCall, 100*waits)
					if edges == 4 && perMinute >= 600 && share < 1 && (perCall > 1.2 || waits > 0.05) {
						t.Errorf("%d a minute, %.1f of it, %s: %.2f messages a call, %.1f %% wait", perMinute, share, name, perCall, 100*waits)
					}
					if float64(admitted) < least*float64(alone) {
						t.Errorf("%d edges, %d a minute, %.1f of it, %s: %d calls, one edge admits %d", edges, perMinute, share, name, admitted, alone)
					}
				}
			}
		}
	}
}
