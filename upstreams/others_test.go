package upstreams_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

// fleet simulates edges in front of the same engines, in virtual time. Unless the edges report
// their calls to each other, an edge learns of the other edges' calls only from the engines'
// reports, every two seconds.
type fleet struct {
	t       testing.TB
	chance  *rand.Rand
	now     time.Time
	events  fleetEvents
	engines []fleetEngine
	edges   []*routing.Route
	sets    []*upstreams.Set
	board   map[*upstreams.Set][]upstreams.LocalWork // last report of each edge; nil if the edges do not report
	join    func(*upstreams.Set)                     // makes an edge share its reports
	anyEdge bool                                     // each call goes to a random edge

	calls, misplaced int // misplaced: calls sent to a full engine while another engine had a free slot
	refused          int // calls that were refused while an engine had a free slot
}

type fleetEngine struct {
	slots   int      // number of slots that the edges assume
	places  int      // number of calls that the engine runs concurrently
	inside  int      // number of running and waiting calls
	waiting []func() // functions that start the waiting calls
	calls   int
}

type fleetEvent struct {
	at time.Time
	do func()
}

type fleetEvents []fleetEvent

func (e fleetEvents) Len() int           { return len(e) }
func (e fleetEvents) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e fleetEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *fleetEvents) Push(x any)        { *e = append(*e, x.(fleetEvent)) }
func (e *fleetEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const (
	fleetCall  = 8 * time.Second // average duration of a call
	fleetProbe = 2 * time.Second
)

func newFleet(t testing.TB, edges, engines, slots int, seed uint64) *fleet {
	return newFleetOf(t, edges, slices.Repeat([]fleetEngine{{slots: slots, places: slots}}, engines), seed)
}

func newFleetOf(t testing.TB, edges int, engines []fleetEngine, seed uint64) *fleet {
	f := &fleet{t: t, chance: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), engines: engines}
	for range edges {
		f.addEdge(config.PolicyLeastLoaded)
	}
	return f
}

func (f *fleet) addEdge(policy string) {
	t := f.t
	set, err := upstreams.NewSet(upstreams.Options{Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	m := config.Model{ID: "m", Policy: policy}
	specs := make([]config.Upstream, len(f.engines))
	for i := range specs {
		specs[i] = config.Upstream{Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://127.0.0.1:", i+1), Engine: "openai", Concurrency: config.Concurrency{Shared: f.engines[i].slots}}
		m.Deployments = append(m.Deployments, config.Deployment{Upstream: specs[i].Name})
	}
	plan, err := set.PlanChanges(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := config.File{Models: []config.Model{m}}
	file.Fleet.Store.URL = "redis://store"
	table, err := routing.BuildTable(&file, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Routes()[0]
	plan.Adopt()
	f.edges, f.sets = append(f.edges, r), append(f.sets, set)
	for i, target := range r.Targets() {
		target.Upstream.SetState(upstreams.StateUp)
		f.probe(&f.engines[i], target.Upstream, time.Duration(f.chance.Float64()*float64(fleetProbe)))
	}
}

// fleetBoard is the interval at which each edge reports its calls.
const fleetBoard = 50 * time.Millisecond

// share makes the edges report their calls to each other. Each edge reports at a different time.
func (f *fleet) share() {
	f.board = map[*upstreams.Set][]upstreams.LocalWork{}
	var tell func(s *upstreams.Set)
	tell = func(s *upstreams.Set) {
		if !slices.Contains(f.sets, s) { // the edge was restarted
			return
		}
		f.board[s] = s.LocalWork(nil)
		e := upstreams.OtherEdgesWork{Edges: len(f.sets), Works: map[upstreams.ID]upstreams.EdgeWork{}, Placed: map[upstreams.ID]int64{}}
		for _, h := range f.board[s] {
			e.Placed[h.ID] = h.Placed
		}
		for _, other := range f.sets {
			if other == s {
				continue
			}
			for _, h := range f.board[other] {
				w := e.Works[h.ID]
				for p, n := range h.Work.InFlight {
					w.InFlight[p] += n
				}
				e.Works[h.ID] = w
			}
		}
		s.SetOtherEdges(&e)
		f.in(fleetBoard, func() { tell(s) })
	}
	f.join = func(s *upstreams.Set) {
		f.in(time.Duration(f.chance.Float64()*float64(fleetBoard)), func() { tell(s) })
	}
	for _, s := range f.sets {
		f.join(s)
	}
}

func (f *fleet) in(d time.Duration, do func()) { heap.Push(&f.events, fleetEvent{f.now.Add(d), do}) }

// probe records an engine's load at an edge, at regular intervals.
func (f *fleet) probe(e *fleetEngine, u *upstreams.Upstream, in time.Duration) {
	f.in(in, func() {
		u.RecordLoad(min(e.inside, e.places), max(0, e.inside-e.places), f.now)
		f.probe(e, u, fleetProbe)
	})
}

// arrivals sends calls at a rate that occupies the given share of the engines' places.
func (f *fleet) arrivals(busy float64) {
	places := 0
	for i := range f.engines {
		places += f.engines[i].places
	}
	between := float64(fleetCall) / (busy * float64(places))
	f.in(time.Duration(f.chance.ExpFloat64()*between), func() {
		f.call()
		f.arrivals(busy)
	})
}

func (f *fleet) call() {
	edge := f.calls % len(f.edges)
	if f.anyEdge {
		edge = f.chance.IntN(len(f.edges))
	}
	r := f.edges[edge]
	lease, target, err := r.Acquire(&routing.Query{Now: f.now, Rand: f.chance.Uint64()})
	if err != nil {
		f.refuse(err)
		return
	}
	f.begin(r, lease, target, func() {})
}

// begin starts a call at the engine of its target, and returns the engine's index.
func (f *fleet) begin(r *routing.Route, lease *upstreams.Lease, target *routing.Target, ended func()) (at int) {
	free := false
	for i := range f.engines {
		if r.Targets()[i].Upstream == target.Upstream {
			at = i
		}
		free = free || f.engines[i].inside < f.engines[i].places
	}
	e := &f.engines[at]
	f.calls++
	e.calls++
	if free && e.inside >= e.places {
		f.misplaced++
	}
	e.inside++
	took := time.Duration(math.Exp(f.chance.NormFloat64()-0.5) * float64(fleetCall)) // lognormal
	begin := func() {
		f.in(took/20, func() { lease.RecordFirstToken(took / 20) }) // the prefill takes a twentieth of the time
		f.in(took, func() {
			lease.ReleaseAt(upstreams.OutcomeOK, f.now)
			e.inside--
			ended()
			if len(e.waiting) > 0 {
				next := e.waiting[0]
				e.waiting = e.waiting[1:]
				next()
			}
		})
	}
	if e.inside > e.places {
		e.waiting = append(e.waiting, begin)
	} else {
		begin()
	}
	return at
}

// refuse counts a call refused by an edge.
func (f *fleet) refuse(err error) {
	f.t.Helper()
	if f.board == nil {
		f.t.Fatal(err)
	}
	f.calls++
	for i := range f.engines {
		if f.engines[i].inside < f.engines[i].places {
			f.refused++
			return
		}
	}
}

func (f *fleet) run(d time.Duration) {
	for end := f.now.Add(d); f.now.Before(end); {
		next := heap.Pop(&f.events).(fleetEvent)
		f.now = next.at
		next.do()
	}
}

// TestEdgesDoNotHerd checks that the edges do not all send their calls to the engine that looked
// idle in the newest report.
func TestEdgesDoNotHerd(t *testing.T) {
	for _, c := range []struct {
		edges   int
		busy    float64
		anyEdge bool
		most    float64
	}{
		{2, 0.9, false, 0.01},
		{4, 0.9, false, 0.03},
		{16, 0.9, false, 0.095},
		{2, 0.9, true, 0.02},
		{4, 0.9, true, 0.045},
		{16, 0.9, true, 0.12},
		{4, 0.6, true, 0.001},
	} {
		t.Run(fmt.Sprintf("%d edges, %g, by chance %t", c.edges, c.busy, c.anyEdge), func(t *testing.T) {
			f := newFleet(t, c.edges, 8, 32, 7)
			f.anyEdge = c.anyEdge
			f.arrivals(c.busy)
			f.run(2 * time.Minute) // lets the engines reach the given load
			f.calls, f.misplaced = 0, 0
			f.run(15 * time.Minute)
			share := float64(f.misplaced) / float64(f.calls)
			t.Logf("%d calls, %.1f %% misplaced", f.calls, 100*share)
			if share > c.most {
				t.Errorf("%.1f %% of the calls went to a full engine while another had a free slot, want %.1f %% at most", 100*share, 100*c.most)
			}
		})
	}
}

// TestEdgesShare checks that edges that report their calls to each other rarely send a call to a
// full engine while another engine has a free slot (goals 10 and 14 of the fleet).
func TestEdgesShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		edges, engines, slots int
		busy, most            float64
	}{
		{2, 8, 32, 0.9, 0.02}, {4, 8, 32, 0.9, 0.02}, {16, 8, 32, 0.9, 0.04}, {4, 8, 4, 0.8, 0.04}, {4, 8, 32, 0.6, 0.001},
	} {
		t.Run(fmt.Sprintf("%d edges, %d x %d, %g", c.edges, c.engines, c.slots, c.busy), func(t *testing.T) {
			f := newFleet(t, c.edges, c.engines, c.slots, 7)
			f.anyEdge = true
			f.share()
			f.arrivals(c.busy)
			f.run(2 * time.Minute)
			f.calls, f.misplaced, f.refused = 0, 0, 0
			f.run(8 * time.Minute)
			share, refused := float64(f.misplaced)/float64(f.calls), float64(f.refused)/float64(f.calls)
			t.Logf("%d calls, %.2f %% misplaced, %.2f %% refused beside a free slot", f.calls, 100*share, 100*refused)
			if share > c.most {
				t.Errorf("%.1f %% of the calls went to a full engine while another had a free slot, want %.1f %% at most", 100*share, 100*c.most)
			}
		})
	}
}

// TestLowEngineConcurrency checks an engine that runs fewer calls than the edges assume and reports its
// queue. It gets no more calls than it can run, and no call waits there while another engine has a
// free slot.
func TestLowEngineConcurrency(t *testing.T) {
	for _, c := range []struct {
		edges int
		busy  float64
		most  float64
	}{{1, 0.5, 0.02}, {1, 0.8, 0.01}, {4, 0.8, 0.12}} {
		t.Run(fmt.Sprintf("%d edges, %g", c.edges, c.busy), func(t *testing.T) {
			f := newFleetOf(t, c.edges, []fleetEngine{{slots: 64, places: 4}, {slots: 16, places: 16}}, 7)
			f.anyEdge = true
			f.arrivals(c.busy)
			f.run(time.Minute)
			f.calls, f.misplaced, f.engines[0].calls = 0, 0, 0
			f.run(30 * time.Minute)
			misplaced, part := float64(f.misplaced)/float64(f.calls), float64(f.engines[0].calls)/float64(f.calls)
			t.Logf("%d calls, %.2f %% misplaced, %.1f %% at the engine with 4 places of 20", f.calls, 100*misplaced, 100*part)
			if misplaced > c.most {
				t.Errorf("%.1f %% of the calls went to a full engine while the other had room, want %.1f %% at most", 100*misplaced, 100*c.most)
			}
			if part < 0.15 || part > 0.25 {
				t.Errorf("the engine with a fifth of the places got %.0f %% of the calls", 100*part)
			}
		})
	}
}

// TestOthersThatStay checks that the continuous work of other clients eventually counts in full.
func TestOthersThatStay(t *testing.T) {
	f := newFleet(t, 1, 2, 32, 1)
	busy, idle := f.edges[0].Targets()[0].Upstream, f.edges[0].Targets()[1].Upstream
	f.engines[0].inside = 12 // calls of a client that does not use this edge
	f.run(2 * time.Minute)
	for range 8 {
		l, _, err := f.edges[0].Acquire(&routing.Query{Now: f.now, Rand: f.chance.Uint64()})
		if err != nil {
			t.Fatal(err)
		}
		if l.Upstream() == busy {
			t.Fatal("the engine that others use got the call")
		}
	}
	if n := idle.Load(upstreams.PoolText, f.now).Active; n != 8 {
		t.Errorf("%d calls at the idle engine", n)
	}
}
