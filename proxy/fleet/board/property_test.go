package board

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/proxy/fleet/sign"
	"penstock/upstreams"
)

// edge is an edge in a fleet with virtual time. It implements Upstreams and Poison for its board.
type edge struct {
	board     *Board
	line      *simulatedStore
	ups       []*upstreams.Upstream
	calls     []int
	down      []bool
	elsewhere *upstreams.OtherEdgesWork
	// Number of edges among which the slots are divided; 0 if they are not divided.
	slotDivisor int
	seed        string
	lost        map[uint64][]*upstreams.Upstream
}

func (e *edge) LocalWork(dst []upstreams.LocalWork) []upstreams.LocalWork {
	for i, u := range e.ups {
		h := upstreams.LocalWork{ID: u.ID(), Upstream: u, Work: upstreams.EdgeWork{Down: e.down[i]}}
		h.Work.InFlight[0] = e.calls[i]
		dst = append(dst, h)
	}
	return dst
}

func (e *edge) SetOtherEdges(s *upstreams.OtherEdgesWork) { e.elsewhere, e.slotDivisor = s, 0 }

func (e *edge) DivideSlots(edges int)                                { e.elsewhere, e.slotDivisor = nil, edges }
func (e *edge) SetSeed(seed string)                                  { e.seed = seed }
func (e *edge) SetLostEngines(lost map[uint64][]*upstreams.Upstream) { e.lost = lost }

func (l *simulatedStore) Available() bool { return !l.cut }

func (l *simulatedStore) EdgeCount() int { return l.edges }

func (l *simulatedStore) RunScript(context.Context, *valkey.Lua, string, []string) ([]valkey.ValkeyMessage, error) {
	panic("the board has an exchange of its own")
}

type world struct {
	secrets    []string
	began, now time.Time
	twin       *scriptModel
	edges      []*edge
	started    int
}

func never() bool { return false }

func newWorld(t require, edges, ups int) *world {
	now := time.Now()
	w := &world{began: now, now: now, twin: &scriptModel{now: 1e12}, secrets: []string{"the secret"}}
	for range edges {
		w.add(t, ups)
	}
	return w
}

type require interface{ Fatal(...any) }

func (w *world) add(t require, n int) *edge {
	set, err := upstreams.NewSet(upstreams.Options{Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{line: &simulatedStore{twin: w.twin, lose: never, mute: never, repeat: never}, calls: make([]int, n), down: make([]bool, n)}
	specs := make([]config.Upstream, n)
	for i := range specs {
		specs[i] = config.Upstream{Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://127.0.0.1:", i+1), Engine: "openai"}
	}
	plan, err := set.PlanChanges(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range specs {
		e.ups = append(e.ups, plan.Upstream(specs[i].Name)[0])
	}
	w.started++
	e.board = New(Options{Edge: fmt.Sprint("edge-", w.started), Link: e.line, Upstreams: e, Poison: e, Signer: sign.New("ps", w.secrets), Log: zap.NewNop(), Metrics: metrics.NewSet()})
	e.board.clock, e.board.exchange = func() time.Time { return w.now }, e.line.exchange
	w.edges = append(w.edges, e)
	return e
}

func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	w.twin.now = 1e12 + w.now.Sub(w.began).Milliseconds()
}

func (w *world) exchangeAll() {
	for _, e := range w.edges {
		e.board.exchangeOnce(context.Background())
	}
}

// checkViews compares each edge's view of the other edges with their actual state.
func (w *world) checkViews(t interface{ Fatalf(string, ...any) }) {
	for i, e := range w.edges {
		if e.elsewhere == nil || e.elsewhere.Edges != len(w.edges) {
			t.Fatalf("edge %d knows of %+v, of %d edges", i, e.elsewhere, len(w.edges))
		}
		for k, u := range e.ups {
			want := upstreams.EdgeWork{}
			for _, other := range w.edges {
				if other != e {
					want.InFlight[0] += other.calls[k]
					want.Down = want.Down || other.down[k]
				}
			}
			if got := e.elsewhere.Works[u.ID()]; got != want {
				t.Fatalf("edge %d knows of %+v at upstream %d, it is %+v", i, got, k, want)
			}
		}
	}
}

// TestBoard loses, repeats and reorders messages, kills edges, and empties the store. Two rounds
// later, every edge must know the exact work of the other edges, all modes, and which upstreams
// each body has crashed.
func TestBoard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ups = 3
		w := newWorld(t, rapid.IntRange(1, 4).Draw(t, "edges"), ups)
		chance := rapid.IntRange(0, 40).Draw(t, "faults in a hundred")
		fault := func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
		faulty := func(e *edge) { e.line.lose, e.line.mute, e.line.repeat = fault, fault, fault }
		for _, e := range w.edges {
			faulty(e)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, u := rapid.IntRange(0, len(w.edges)-1).Draw(t, "edge"), rapid.IntRange(0, ups-1).Draw(t, "upstream")
			e := w.edges[i]
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				w.advance(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			case 1:
				for _, late := range e.line.late {
					late()
				}
				e.line.late = nil
			case 2:
				e.calls[u] = rapid.IntRange(0, 9).Draw(t, "calls")
			case 3:
				e.down[u] = rapid.Bool().Draw(t, "down")
			case 4:
				m := rapid.SampledFrom([]upstreams.OperatorMode{upstreams.ModeReady, upstreams.ModeDrain, upstreams.ModeMaintenance}).Draw(t, "mode")
				e.ups[u].SetMode(m)
				e.board.PublishMode(e.ups[u], m, "ann", w.now)
			case 5:
				e.board.ReportLostEngine(uint64(1+u), e.ups[u].ID(), time.Minute)
			case 6:
				e.board.ReportClearedBody(uint64(1 + u))
			case 7:
				if rapid.IntRange(0, 5).Draw(t, "who") == 0 {
					w.edges = append(w.edges[:i], w.edges[i+1:]...)
					faulty(w.add(t, ups))
				}
			case 8:
				e.line.cut = !e.line.cut
			default:
				e.board.exchangeOnce(context.Background())
			}
		}
		for _, e := range w.edges { // delayed messages arrive now or never
			for _, late := range e.line.late {
				late()
			}
			e.line.lose, e.line.mute, e.line.repeat, e.line.late, e.line.cut = never, never, never, nil, false
		}
		w.exchangeAll()
		for range 4 { // the leases of dead edges expire
			w.advance(workLeaseDuration / 3)
			w.exchangeAll()
		}
		w.exchangeAll()
		w.checkViews(t)
		first := w.edges[0]
		for i, e := range w.edges {
			if !reflect.DeepEqual(e.board.facts, first.board.facts) || len(e.board.pending) > 0 || e.seed != first.seed {
				t.Fatalf("edge %d knows %v, the first %v", i, e.board.facts, first.board.facts)
			}
			for k, u := range e.ups {
				if got, want := u.Mode(), first.ups[k].Mode(); got != want {
					t.Fatalf("edge %d has upstream %d in mode %s, the first in %s", i, k, got, want)
				}
			}
			if len(e.lost) != len(first.lost) {
				t.Fatalf("edge %d knows of %d lethal bodies, the first of %d", i, len(e.lost), len(first.lost))
			}
		}
	})
}

// TestDeadEdge checks that the work of a dead edge is dropped when its lease expires. After two
// seconds, a disconnected edge must ignore the other edges' work. It must use only its share of the
// slots, based on the number of edges that it last saw.
func TestDeadEdge(t *testing.T) {
	w := newWorld(t, 2, 1)
	one, two := w.edges[0], w.edges[1]
	one.calls[0], two.calls[0] = 3, 5
	w.exchangeAll()
	w.exchangeAll()
	w.checkViews(t)
	two.line.cut, two.line.edges = true, 3
	for passed := time.Duration(0); passed <= workLeaseDuration+busyExchangePeriod; passed += busyExchangePeriod {
		w.advance(busyExchangePeriod)
		w.exchangeAll()
		if fresh := passed+busyExchangePeriod < answerFreshTime; (two.elsewhere != nil) != fresh {
			t.Fatalf("after %s the edge that is cut off knows %v", passed, two.elsewhere)
		} else if fresh != (two.slotDivisor == 0) || !fresh && two.slotDivisor != 3 {
			t.Fatalf("after %s the edge that is cut off has one part of %d", passed, two.slotDivisor)
		}
	}
	if got := one.elsewhere; got.Edges != 1 || got.Works[one.ups[0].ID()] != (upstreams.EdgeWork{}) {
		t.Errorf("the dead edge is still counted: %+v", got)
	}
}

// TestFacts checks that a mode reaches every edge, even one that starts later, and that it survives
// when the store loses its data. After a minute, the edges must forget the engines that a body has
// crashed.
func TestFacts(t *testing.T) {
	w := newWorld(t, 2, 2)
	one, two := w.edges[0], w.edges[1]
	w.exchangeAll()
	one.ups[1].SetMode(upstreams.ModeDrain)
	one.board.PublishMode(one.ups[1], upstreams.ModeDrain, "ann", w.now)
	two.board.ReportLostEngine(77, two.ups[0].ID(), time.Minute)
	w.exchangeAll()
	w.exchangeAll()
	if two.ups[1].Mode() != upstreams.ModeDrain || two.ups[0].Mode() != upstreams.ModeReady || len(one.lost[77]) != 1 {
		t.Fatalf("the other edge's mode = %s, lost = %v; want %s and one loss of 77", two.ups[1].Mode(), one.lost, upstreams.ModeDrain)
	}
	if s, ok := two.board.OperatorMode(two.ups[1].ID()); !ok || s.Who != "ann" || s.When != w.now.Unix() {
		t.Errorf("Mode = %+v, want it set by ann at %d", s, w.now.Unix())
	}
	w.twin.forget()
	w.exchangeAll()
	w.exchangeAll()
	late := w.add(t, 2)
	w.exchangeAll()
	if late.ups[1].Mode() != upstreams.ModeDrain {
		t.Error("an edge that starts late does not know the mode")
	}
	two.board.ReportLostEngine(78, two.ups[0].ID(), time.Minute)
	w.exchangeAll()
	w.exchangeAll()
	if len(one.lost) != 1 || len(one.lost[78]) != 1 || one.seed != two.seed {
		t.Fatalf("lost = %v, want one loss of 78 only, and equal seeds", one.lost)
	}
	for range 61 {
		w.advance(time.Second)
		w.exchangeAll()
	}
	w.exchangeAll()
	if len(one.lost) != 0 || len(two.lost) != 0 {
		t.Errorf("lost = %v and %v after a minute, want none", one.lost, two.lost)
	}
	late.ups[1].SetMode(upstreams.ModeReady)
	late.board.PublishMode(late.ups[1], upstreams.ModeReady, "bob", w.now)
	w.exchangeAll()
	w.exchangeAll()
	if one.ups[1].Mode() != upstreams.ModeReady {
		t.Error("the upstream stays drained")
	}
}

// TestRetention checks that the store receives only numbers and hashes of ids.
func TestRetention(t *testing.T) {
	w := newWorld(t, 1, 2)
	e := w.edges[0]
	e.calls[0] = 1
	e.board.ReportLostEngine(77, e.ups[0].ID(), time.Minute)
	own := ownWork(e.LocalWork(nil))
	m := e.board.buildMessage(own.String(), w.now)
	for _, word := range m.scriptArgs() {
		for _, u := range e.ups {
			if word == string(u.ID()) || word == u.Name() {
				t.Errorf("an upstream's name is sent: %q", word)
			}
		}
	}
	if len(UpstreamKey(e.ups[0].ID())) != 16 || UpstreamKey(e.ups[0].ID()) == UpstreamKey(e.ups[1].ID()) {
		t.Error(UpstreamKey(e.ups[0].ID()))
	}
}
