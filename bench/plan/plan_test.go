package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/load/workload"
	"penstock/bench/result"
	"penstock/bench/sim"
	"penstock/config"
	"penstock/config/testkit/golden"
	"penstock/upstreams"
)

func kind(t *testing.T, text string) *EngineKind {
	t.Helper()
	k, err := ParseKind(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKinds(t *testing.T) {
	k := kind(t, "h100-8b:slots=8,batch=1ms@2.5")
	if k.Name != "h100-8b" || k.Price != 2.5 || k.o.Slots != 8 || k.o.BatchCost.Milliseconds() != 1 || k.o.TokenRate != 140 || k.o.KVTokens != 450<<10 {
		t.Errorf("kind = %+v, want h100-8b with its documented numbers", k)
	}
	if k = kind(t, "mine:prefill=9000,token=50,slots=64,kv=100000,latency=0s"); k.o.PrefillRate != 9000 || k.Price != 0 {
		t.Errorf("kind = %+v, want a prefill rate of 9000 and no price", k)
	}
	help, _ := os.ReadFile("cli.go")
	for _, s := range sim.Speeds() {
		if s != "instant" && (kind(t, s).Name != s || !strings.Contains(string(help), s)) {
			t.Errorf("%s is no kind, or not in the help", s)
		}
	}
	for _, bad := range []string{
		"", "instant", "gpu", "mine:prefill=1,token=1,slots=1", "l4-8b:speed=3", "l4-8b:slots=0", "l4-8b:slots", "l4-8b:token=NaN",
		"l4-8b:batch=2h", "l4-8b@", "l4-8b@free", "l4-8b@-1", ":slots=3", "l4-8b:",
	} {
		if k, err := ParseKind(bad); err == nil {
			t.Errorf("ParseKind(%q) = %+v, want an error", bad, k)
		}
	}
}

// TestDraws checks that a draw contains the requests of the trace, in the same order and over the
// same period. Equal seeds must give equal draws.
func TestDraws(t *testing.T) {
	trace := newRequests(testTrace(1, 300, 2), 1)
	again := shuffleArrivals(trace, 5, 3)
	if !slices.EqualFunc(shuffleArrivals(trace, 5, 0), trace, func(a, b request) bool { return a.at == b.at }) {
		t.Error("the first draw is not the trace")
	}
	moved := 0
	for i, r := range shuffleArrivals(trace, 5, 3) {
		if r.at != again[i].at || r.in != trace[i].in || i > 0 && r.at < again[i-1].at {
			t.Fatalf("request %d = %+v, want %+v, in order of time", i, r, again[i])
		}
		if r.at != trace[i].at {
			moved++
		}
	}
	// Shuffling changes arrival times within a group of gaps, but not the time at which a group
	// starts.
	if d := again[2*shuffledGapCount].at - trace[2*shuffledGapCount].at; moved < 200 || d > 1e-6 || d < -1e-6 {
		t.Errorf("%d moved; the end of the second part by %v s", moved, d)
	}
	if other := shuffleArrivals(trace, 6, 3); other[7].at == again[7].at {
		t.Error("another seed is the same draw")
	}
}

// TestFleetKeepsOrder checks that no engine runs more requests than it has slots, that a full fleet
// serves requests in the order of arrival, and that every slot is freed.
func TestFleetKeepsOrder(t *testing.T) {
	for _, policy := range policies {
		f, err := newFleet(slices.Repeat([]*EngineKind{kind(t, "l4-8b:slots=3")}, 3), policy, 1)
		if err != nil {
			t.Fatal(err)
		}
		var trace []workload.TraceCall
		for range 60 {
			trace = append(trace, workload.TraceCall{After: -1, In: 300, Out: 50})
		}
		before := 0.0
		for i, c := range f.playRequests(newRequests(trace, 1), 1) {
			if c.end <= c.firstTokenAt || c.firstTokenAt < before-1 || c.firstTokenAt < 0 {
				t.Errorf("%s: call %d: first token at %v, end %v, the one before at %v", policy, i, c.firstTokenAt, c.end, before)
			}
			before = c.firstTokenAt
		}
		for _, e := range f.engines {
			if e.peak != 3 || len(e.running)+len(e.waiting) > 0 || e.usedRoom > tokenTolerance {
				t.Errorf("%s: peak %d, %d running, %v tokens held", policy, e.peak, len(e.running), e.usedRoom)
			}
		}
		for u := range f.engineByUpstream {
			var l upstreams.Load
			if u.ReadLoad(&l, upstreams.PoolText, upstreams.MomentOf(f.start)); l.Active != 0 {
				t.Errorf("%s: %d leases are out", policy, l.Active)
			}
		}
	}
}

// TestPolicyCounts checks that the edge's routing policy makes a visible difference.
func TestPolicyCounts(t *testing.T) {
	s := &fleetSearch{requests: [][]request{newRequests(testTrace(2, 600, 4), 1)}}
	k := kind(t, "l4-8b")
	affine, spread := s.simulate(k, config.PolicyLeastLoaded, 6, 0, 1), s.simulate(k, config.PolicyRoundRobin, 6, 0, 1)
	if affine.cached < spread.cached+0.15 {
		t.Errorf("cached %.2f with least_loaded, %.2f in turn", affine.cached, spread.cached)
	}
	if affine.imbalance < 1 || spread.imbalance < 1 || spread.imbalance > 1.3 {
		t.Errorf("imbalance %v and %v", affine.imbalance, spread.imbalance)
	}
}

// TestRequiredEngines checks that the computed number of engines meets the objectives and that one
// engine fewer misses them, regardless of the first guess.
func TestRequiredEngines(t *testing.T) {
	s := &fleetSearch{
		requests: [][]request{newRequests(testTrace(4, 200, 8), 1)}, objectives: []result.Objective{{Measure: result.TTFT, Limit: 3500}, {Measure: result.ITL, Limit: 45}},
	}
	k := kind(t, "l4-8b")
	n := s.requiredEngines(k, config.PolicyLeastLoaded, 0, 1)
	if n < 3 || !s.meetsObjectives(s.simulate(k, config.PolicyLeastLoaded, n, 0, 1)) || s.meetsObjectives(s.simulate(k, config.PolicyLeastLoaded, n-1, 0, 1)) {
		t.Errorf("%d engines: %v, one fewer %v", n, s.simulate(k, config.PolicyLeastLoaded, n, 0, 1).p99, s.simulate(k, config.PolicyLeastLoaded, n-1, 0, 1).p99)
	}
	for _, guess := range []int{2, n, n + 1, 40} {
		if got := s.requiredEngines(k, config.PolicyLeastLoaded, 0, guess); got != n {
			t.Errorf("from %d: %d, want %d", guess, got, n)
		}
	}
	if room := s.loadHeadroom(k, config.PolicyLeastLoaded, n); room.Median < 1 || room.Median > 2 {
		t.Errorf("room = %+v, want a median from 1 to 2", room)
	}
	s.objectives[0].Limit = 1
	if got := s.requiredEngines(k, config.PolicyLeastLoaded, 0, 1); got != maxEngines+1 {
		t.Errorf("an objective that nothing meets: %d", got)
	}
}

// TestEdgeLearnsSpeed checks that an edge learns from its calls how fast engines are and how much
// they still have to read. An edge that does needs fewer engines than round-robin. An edge that
// learned nothing would need more.
func TestEdgeLearnsSpeed(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var trace []workload.TraceCall
	at := 0.0
	for range 1500 {
		at += rng.ExpFloat64() * 40
		long := func(median float64) int { return 1 + int(median*math.Exp(0.8*rng.NormFloat64())) }
		trace = append(trace, workload.TraceCall{After: -1, At: time.Duration(at * float64(time.Millisecond)), In: min(4000, long(540)), Out: long(100)})
	}
	s := &fleetSearch{requests: [][]request{newRequests(trace, 1)}, objectives: []result.Objective{{Measure: result.TTFT, Limit: 2000}, {Measure: result.ITL, Limit: 60}}}
	k := kind(t, "l4-8b")
	soonest, turns := s.requiredEngines(k, config.PolicyLeastLoaded, 0, 8), s.requiredEngines(k, config.PolicyRoundRobin, 0, 8)
	t.Logf("%d with least_loaded, %d in turn", soonest, turns)
	if soonest >= turns {
		t.Errorf("%d engines with least_loaded, %d in turn", soonest, turns)
	}
}

// TestAreTied checks that rows are not ranked if the draws cannot distinguish them.
func TestAreTied(t *testing.T) {
	row := func(policy string, needs ...int) *Row {
		sorted := slices.Sorted(slices.Values(needs))
		return &Row{Policy: policy, needs: needs, Engines: &sorted[minPassingDraws(len(needs))-1], Least: sorted[0], Most: sorted[len(sorted)-1]}
	}
	usual := row("usual", 6, 9, 7, 8, 13, 9, 9, 8)
	for _, c := range []struct {
		name  string
		other *Row
		tied  bool
	}{
		{"as many", row("other", 6, 9, 7, 8, 13, 9, 9, 8), true},
		{"now more, now fewer", row("other", 7, 8, 8, 8, 12, 9, 10, 8), true},
		{"fewer in five of five", row("other", 5, 8, 6, 7, 12, 9, 9, 8), true},
		{"fewer in six of six", row("other", 5, 8, 6, 7, 12, 8, 9, 8), false},
		{"more in all but one", row("other", 7, 10, 8, 9, 12, 10, 10, 9), true},
		{"more in all", row("other", 7, 10, 8, 9, 14, 10, 10, 9), false},
		{"none", &Row{Policy: "other"}, false},
	} {
		if areTied(usual, c.other) != c.tied || areTied(c.other, usual) != c.tied {
			t.Errorf("%s: tied is not %t", c.name, c.tied)
		}
	}
	if few := row("few", 6, 9); !areTied(few, row("as few", 6, 9)) || areTied(few, row("fewer", 5, 9)) {
		t.Error("of too few draws equal numbers are tied, and no others")
	}
	fewer := row("fewer in the most", 6, 9, 7, 8, 12, 9, 9, 8)
	much := row("many more", 16, 19, 17, 18, 23, 19, 19, 18)
	rows := []*Row{much, usual, fewer}
	rankRows(rows)
	if rows[0] != usual || rows[1] != fewer || rows[2] != much || !rows[0].Tied || !rows[1].Tied || rows[2].Tied {
		t.Errorf("ranked as %s, %s, %s", rows[0].Policy, rows[1].Policy, rows[2].Policy)
	}
}

func traceFile(t *testing.T, trace []workload.TraceCall) string {
	t.Helper()
	var b bytes.Buffer
	for _, c := range trace {
		blocks, _ := json.Marshal(c.Blocks)
		fmt.Fprintf(&b, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":%d,\"hash_ids\":%s}\n", c.At.Milliseconds(), c.In, c.Out, blocks)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPlanOutput checks the text and the JSON of the answer, which is deterministic.
func TestPlanOutput(t *testing.T) {
	trace := append(testTrace(5, 200, 6), workload.TraceCall{After: -1, In: 60_000, Out: 10})
	trace[200].At = trace[199].At
	c := Cmd{Trace: traceFile(t, trace), Engine: []string{"l4-8b@0.8", "a100-70b@4.5"}, Goodput: []string{"ttft:3000", "itl:60"}, Draws: 4, Format: "text", TimeScale: 0.5, Policy: []string{config.PolicyRoundRobin}}
	var text, again, doc bytes.Buffer
	if err := c.run(&text); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/answer.txt", text.Bytes())
	if err := c.run(&again); err != nil || again.String() != text.String() {
		t.Errorf("%v; the same question has another answer:\n%s", err, again.String())
	}
	c.Format, c.Policy, c.Draws = "json", nil, 2
	if err := c.run(&doc); err != nil {
		t.Fatal(err)
	}
	var a PlanOutput
	if err := json.Unmarshal(doc.Bytes(), &a); err != nil || len(a.Rows) != 4 || len(a.Best) != 2 || a.Best[0].Engine != "l4-8b" || a.Rows[0].TooLong != 1 {
		t.Errorf("answer: %v, want 4 rows and 2 best ones: %s", err, doc.String())
	}
	for _, best := range a.Best {
		if best.Room == nil || best.Room.Low > best.Room.High || best.Least > *best.Engines || best.Most < *best.Engines {
			t.Errorf("best = %+v, want a room and bounds around its number of engines", best)
		}
	}
	c.Format, c.Engine, c.Policy = "text", c.Engine[:1], policies[:1]
	c.Goodput, c.Output = []string{"ttft:1"}, filepath.Join(t.TempDir(), "a.txt")
	if err := c.run(&doc); benchtest.ExitCode(err) != exit.CheckFailed {
		t.Errorf("what cannot be: %v", err)
	}
	if b, err := os.ReadFile(c.Output); err != nil || !strings.Contains(string(b), "512 do not") {
		t.Errorf("the file = %s, %v; want 512 do not in it", b, err)
	}
}

// TestSimulateFleet checks the table for a fleet of a given size, and the load that the fleet could
// serve with each policy.
func TestSimulateFleet(t *testing.T) {
	c := Cmd{Trace: traceFile(t, testTrace(5, 300, 3)), Engine: []string{"l4-8b"}, Engines: 4, Slow: []string{"2=3"}, Format: "text"}
	var text, doc bytes.Buffer
	if err := c.run(&text); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/fixed.txt", text.Bytes())
	c.Format, c.Draws = "json", 2
	if err := c.run(&doc); err != nil {
		t.Fatal(err)
	}
	var a FleetResult
	if err := json.Unmarshal(doc.Bytes(), &a); err != nil || len(a.Rows) != len(policies)+len(baselinePolicies) || a.Draws != 2 {
		t.Fatalf("answer: %v, want %d rows and 2 draws: %s", err, len(policies)+len(baselinePolicies), doc.String())
	}
	rows := map[string]*PolicyResult{}
	for _, p := range a.Rows {
		rows[p.Policy] = p
		sum := 0
		for _, n := range p.Calls {
			sum += n
		}
		if sum != 300 || p.TTFT["p50"].Median > p.TTFT["p99"].Median {
			t.Errorf("policy = %+v, want 300 requests and quantiles in order", p)
		}
	}
	if o, n := rows[oracle], rows[leastConn]; o.TTFT["p90"].Median >= n.TTFT["p90"].Median || o.CachedShare.Median <= n.CachedShare.Median ||
		o.ExpectedShare == nil || n.ExpectedShare != nil || o.Calls[1] >= o.Calls[0] {
		t.Errorf("the oracle: %+v, least connections %+v", o, n)
	}
}

// TestSessionsFollow checks that a call that follows another call arrives once the earlier response
// is complete and the pause is over. This must hold even if a call between the two is omitted.
func TestSessionsFollow(t *testing.T) {
	k := kind(t, "l4-8b")
	trace := []workload.TraceCall{
		{At: time.Second, After: -1, In: 600, Out: 30},
		{After: 0, Think: 2 * time.Second, In: 60_000, Out: 30},
		{After: 1, Think: 3 * time.Second, In: 700, Out: 30},
		{At: 2 * time.Second, After: -1, In: 60_000, Out: 30},
		{After: 3, Think: time.Second, In: 700, Out: 30},
	}
	f, err := newFleet([]*EngineKind{k}, config.PolicyLeastLoaded, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := f.playRequests(filterServable(k, newRequests(trace, 2)), 1)
	if len(calls) != 3 || math.Abs(calls[1].at-calls[0].end-6) > 1e-9 || calls[2].at != 4 {
		t.Errorf("%d calls; the second comes %v s after the first's end, the third at %v", len(calls), calls[1].at-calls[0].end, calls[2].at)
	}
}

func TestRefusals(t *testing.T) {
	path := traceFile(t, testTrace(1, 3, 1))
	good := Cmd{Trace: path, Engine: []string{"l4-8b"}, Goodput: []string{"ttft:500"}, Draws: 1}
	for want, change := range map[string]func(*Cmd){
		"no such file":      func(c *Cmd) { c.Trace = path + "x" },
		"--draws -1":        func(c *Cmd) { c.Draws = -1 },
		"--policy \"best\"": func(c *Cmd) { c.Policy = []string{"best"} },
		"error_rate":        func(c *Cmd) { c.Goodput = []string{"error_rate:0.1"} },
		"MEASURE:LIMIT":     func(c *Cmd) { c.Goodput = []string{"fast"} },
		"--engine \"gpu\"":  func(c *Cmd) { c.Engine = []string{"gpu"} },
		"or --engines":      func(c *Cmd) { c.Engines = 2 },
		"want --goodput":    func(c *Cmd) { c.Goodput = nil },
		"--engines 513":     func(c *Cmd) { c.Engines = 513 },
		"--slow needs":      func(c *Cmd) { c.Slow = []string{"1=2"} },
		"leave one --engine": func(c *Cmd) {
			c.Goodput, c.Engines, c.Engine = nil, 2, []string{"l4-8b", "laptop"}
		},
		"--policy \"oracle\"": func(c *Cmd) { c.Policy = []string{oracle} },
	} {
		c := good
		change(&c)
		if _, err := c.readInput(); benchtest.ExitCode(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, slow := range []string{"0=2", "3=2", "1", "1=x", "1=0"} {
		c := good
		c.Goodput, c.Engines, c.Slow = nil, 2, []string{slow}
		if err := c.run(io.Discard); benchtest.ExitCode(err) != exit.Usage || !strings.Contains(err.Error(), "--slow") {
			t.Errorf("--slow %s: %v, want a usage error about --slow", slow, err)
		}
	}
	if _, err := good.readInput(); err != nil {
		t.Error(err)
	}
}
