package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"penstock/bench/exit"
	"penstock/bench/result"
)

// FleetResult is the output of `bench plan --engines N --format json`.
type FleetResult struct {
	Trace   Trace  `json:"trace"`
	Engines int    `json:"engines"`
	Draws   int    `json:"draws"`
	Seed    uint64 `json:"seed"`
	// number of requests that are omitted because they do not fit into any engine
	TooLong int             `json:"too_long"`
	Rows    []*PolicyResult `json:"rows"`
}

// PolicyResult is the result for a fleet with one policy.
type PolicyResult struct {
	Policy string `json:"policy"`
	// TTFT contains the p50, p90 and p99 of the time to first token in seconds.
	TTFT map[string]Interval `json:"ttft_s"`
	// CachedShare is the fraction of prompt tokens that the engines had cached. ExpectedShare is
	// the fraction that the policy expected to be cached, or null if the policy does not estimate
	// it.
	CachedShare   Interval  `json:"cached_share"`
	ExpectedShare *Interval `json:"expected_share"`
	// Calls contains the number of calls that each engine received from the unchanged trace. Spread
	// is the coefficient of variation of the numbers of calls, over all draws.
	Calls  []int    `json:"calls"`
	Spread Interval `json:"spread"`
}

var reportedQuantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}

func (c *Cmd) applySlowFlags(k *EngineKind) ([]*EngineKind, error) {
	kinds := slices.Repeat([]*EngineKind{k}, c.Engines)
	for _, text := range c.Slow {
		which, by, _ := strings.Cut(text, "=")
		i, err := strconv.Atoi(which)
		factor, err2 := strconv.ParseFloat(by, 64)
		if err != nil || err2 != nil || i < 1 || i > c.Engines || !(factor >= 0.01 && factor <= 100) {
			return nil, exit.Usagef("--slow %q: want I=FACTOR: an engine from 1 to %d, and 0.01 to 100", text, c.Engines)
		}
		kinds[i-1] = k.withSlowdown(factor)
	}
	return kinds, nil
}

// simulateFleet plays each draw on the fleet with each policy.
func (c *Cmd) simulateFleet(q *planInput) (*FleetResult, error) {
	k, s := q.kinds[0], &q.search
	kinds, err := c.applySlowFlags(k)
	if err != nil {
		return nil, err
	}
	a := &FleetResult{Trace: describeTrace(c.Trace, s.requests[0]), Engines: c.Engines, Draws: len(s.requests), Seed: c.Seed}
	a.TooLong = len(s.requests[0]) - len(filterServable(k, s.requests[0]))
	if a.TooLong == len(s.requests[0]) {
		return nil, exit.Usagef("%s: no request fits into the KV cache of an engine: give --engine a larger kv", c.Trace)
	}
	for _, policy := range q.policies {
		draws := make([]drawResult, len(s.requests))
		s.forEachDraw(func(n int) {
			draws[n] = simulateDraw(kinds, policy, s.seed+uint64(n), filterServable(k, s.requests[n]))
		})
		a.Rows = append(a.Rows, newPolicyResult(policy, draws))
	}
	return a, nil
}

type drawResult struct {
	ttft             []float64 // in seconds, sorted
	cached, expected float64   // as fractions of all input tokens
	calls            []int
}

func simulateDraw(kinds []*EngineKind, policy string, draw uint64, requests []request) (d drawResult) {
	f, err := newFleet(kinds, policy, draw)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var in float64
	for _, c := range f.playRequests(requests, 1) {
		in += float64(c.in)
		d.cached += float64(c.cached)
		d.expected += float64(c.expected)
		d.ttft = append(d.ttft, c.firstTokenAt-c.at)
	}
	slices.Sort(d.ttft)
	d.cached, d.expected = d.cached/in, d.expected/in
	for _, e := range f.engines {
		d.calls = append(d.calls, e.calls)
	}
	return d
}

func callCountDeviation(calls []int) float64 {
	var sum, squares float64
	for _, n := range calls {
		sum += float64(n)
	}
	mean := sum / float64(len(calls))
	for _, n := range calls {
		squares += (float64(n) - mean) * (float64(n) - mean)
	}
	return math.Sqrt(squares/float64(len(calls))) / mean
}

func newPolicyResult(policy string, draws []drawResult) *PolicyResult {
	column := func(of func(*drawResult) float64) Interval {
		var values []float64
		for i := range draws {
			values = append(values, of(&draws[i]))
		}
		return medianInterval(values)
	}
	p := &PolicyResult{Policy: policy, TTFT: map[string]Interval{}, Calls: draws[0].calls}
	for _, q := range reportedQuantiles {
		p.TTFT[q.name] = column(func(d *drawResult) float64 {
			return d.ttft[int(math.Ceil(q.q*float64(len(d.ttft))))-1]
		})
	}
	p.CachedShare = column(func(d *drawResult) float64 { return d.cached })
	if slices.ContainsFunc(draws, func(d drawResult) bool { return d.expected > 0 }) {
		p.ExpectedShare = new(column(func(d *drawResult) float64 { return d.expected }))
	}
	p.Spread = column(func(d *drawResult) float64 { return callCountDeviation(d.calls) })
	return p
}

func (a *FleetResult) text() string {
	var b strings.Builder
	b.WriteString(a.Trace.text())
	fmt.Fprintf(&b, "%d engines", a.Engines)
	if a.Draws > 1 {
		fmt.Fprintf(&b, ", %d draws of the arrivals; in brackets 90 %% of them", a.Draws)
	}
	b.WriteString(".\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "policy\tttft p50 s\tp90 s\tp99 s\tcached %\texpected %\tspread\tcalls by engine")
	for _, p := range a.Rows {
		expected := "–"
		if p.ExpectedShare != nil {
			expected = p.ExpectedShare.text(100)
		}
		fmt.Fprintf(w, "%s", p.Policy)
		for _, q := range reportedQuantiles {
			fmt.Fprintf(w, "\t%s", p.TTFT[q.name].text(1))
		}
		fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\n", p.CachedShare.text(100), expected, p.Spread.text(1), strings.Trim(fmt.Sprint(p.Calls), "[]"))
	}
	_ = w.Flush()
	if a.TooLong > 0 {
		fmt.Fprintf(&b, "\nThe engines have no room for %s of the requests: they are left out.\n", result.NumberText(float64(a.TooLong)))
	}
	return b.String()
}
