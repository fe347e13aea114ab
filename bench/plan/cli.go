package plan

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/load/workload"
	"penstock/bench/result"
	"penstock/config"
)

// Cmd is the command `penstock bench plan`.
type Cmd struct {
	Trace   string   `arg:"" values:"files" help:"Trace: a line {\"timestamp\":MS,\"input_length\":N,\"output_length\":N,\"hash_ids\":[…]} for each request, or recorded sessions; bench/README.md has both forms."`
	Engine  []string `required:"" sep:"none" placeholder:"KIND[@PRICE]" help:"Kind of engine: laptop, l4-8b, a100-70b, h100-8b, or your own as NAME:prefill=N,token=N,batch=D,latency=D,slots=N,kv=N; PRICE is an hour's. Repeatable."`
	Goodput []string `placeholder:"M:MS" help:"Objectives, each of the p99: ttft, tpot, itl, e2el in ms. Looks for the smallest fleet that meets them."`
	Engines int      `placeholder:"N" help:"In place of --goodput: play a fleet of so many engines, and show times to first token and what caches saved."`
	Slow    []string `placeholder:"I=FACTOR" help:"With --engines: the I-th engine takes FACTOR times as long for everything. Repeatable."`
	Policy  []string `placeholder:"NAME,…" help:"Policies of the edge to try (default: all). With --engines also least_conn (nginx), session_hash (HAProxy), and oracle and oracle_x2, which know caches and lengths."`

	TimeScale load.TimeFactor `name:"time-scale" placeholder:"X" help:"Factor on the trace's times, 0.001 to 1000 (default: 1); 0.5 or 1/2 is twice the load."`
	Draws     int             `placeholder:"N" help:"How often the trace is drawn, 1 to 1000: once as it is, then with the times between requests in other orders (default: 20, with --engines 1)."`
	Seed      uint64          `placeholder:"N" help:"Seed of the draws (default: 0)."`
	Format    string          `enum:"text,json" default:"text" help:"Form of the answer: ${enum}. json is one object: trace, draws, seed, and objectives, best and rows, or with --engines the rows of the fleet that was played."`
	Output    string          `short:"o" placeholder:"FILE" help:"Write to FILE instead of the screen."`
}

// policies lists the edge's policies that are compared by default.
var policies = []string{config.PolicyLeastLoaded, config.PolicyRoundRobin}

// Run prints the answer.
func (c *Cmd) Run() error { return c.run(os.Stdout) }

func (c *Cmd) run(out io.Writer) error {
	q, err := c.readInput()
	if err != nil {
		return err
	}
	if c.Engines > 0 {
		a, err := c.simulateFleet(q)
		if err != nil {
			return err
		}
		return c.writeOutput(out, a, a.text)
	}
	a := c.planFleets(q)
	if err := c.writeOutput(out, a, a.text); err != nil || len(a.Best) > 0 {
		return err
	}
	return exit.NewError(exit.CheckFailed, "no fleet of these engines meets the objectives"+a.shortfall())
}

func (c *Cmd) writeOutput(out io.Writer, doc any, text func() string) error {
	return result.WriteTo(c.Output, out, func(w io.Writer) error {
		if c.Format == "json" {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(doc)
		}
		_, err := io.WriteString(w, text())
		return err
	})
}

type planInput struct {
	search   fleetSearch
	kinds    []*EngineKind
	policies []string
}

// readInput checks the flags and reads the trace. Its errors are usage errors.
func (c *Cmd) readInput() (*planInput, error) {
	q := &planInput{policies: c.Policy, search: fleetSearch{seed: c.Seed}}
	known, draws := policies, 20
	switch {
	case c.Engines < 0 || c.Engines > maxEngines:
		return nil, exit.Usagef("--engines %d: want 1 to %d", c.Engines, maxEngines)
	case (c.Engines > 0) == (len(c.Goodput) > 0):
		return nil, exit.Usagef("want --goodput, which looks for the smallest fleet, or --engines, which plays a fleet of that size")
	case c.Engines > 0 && len(c.Engine) > 1:
		return nil, exit.Usagef("--engines plays engines of one kind: leave one --engine; --slow makes some of them slower")
	case c.Engines == 0 && len(c.Slow) > 0:
		return nil, exit.Usagef("--slow needs a fleet of known size: add --engines")
	case c.Engines > 0:
		known, draws = slices.Concat(policies, slices.Sorted(maps.Keys(baselinePolicies))), 1
	}
	var err error
	if q.search.objectives, err = load.ParseObjectives(c.Goodput); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(q.search.objectives, func(o result.Objective) bool { return o.Measure == "error_rate" }) {
		return nil, exit.Usagef("--goodput error_rate: the engines of a plan do not fail: want ttft, tpot, itl or e2el")
	}
	draws = cmp.Or(c.Draws, draws)
	if draws < 1 || draws > 1000 {
		return nil, exit.Usagef("--draws %d: want 1 to 1000", c.Draws)
	}
	if len(q.policies) == 0 {
		q.policies = known
	}
	for _, p := range q.policies {
		if !slices.Contains(known, p) {
			return nil, exit.Usagef("--policy %q: want one of %s", p, strings.Join(known, ", "))
		}
	}
	for _, text := range c.Engine {
		k, err := ParseKind(text)
		if err != nil {
			return nil, exit.Usagef("--engine %s", err)
		}
		q.kinds = append(q.kinds, k)
	}
	trace, err := workload.ReadTrace(c.Trace)
	if err != nil {
		return nil, err
	}
	requests := newRequests(trace, cmp.Or(float64(c.TimeScale), 1))
	for n := range draws {
		q.search.requests = append(q.search.requests, shuffleArrivals(requests, c.Seed, n))
	}
	return q, nil
}

// planFleets searches for the smallest fleet of each kind with each policy.
func (c *Cmd) planFleets(q *planInput) *PlanOutput {
	s := &q.search
	a := newPlanOutput(c, s)
	for _, k := range q.kinds {
		var rows []*Row
		for _, p := range q.policies {
			rows = append(rows, s.resultRow(k, p))
		}
		rankRows(rows)
		if best := rows[0]; best.Engines != nil {
			best.Room = s.loadHeadroom(k, best.Policy, *best.Engines)
			a.Best = append(a.Best, best)
		}
		a.Rows = append(a.Rows, rows...)
	}
	if !slices.ContainsFunc(a.Best, func(r *Row) bool { return r.PriceHour == nil }) {
		slices.SortStableFunc(a.Best, func(x, y *Row) int { return cmp.Compare(*x.PriceHour, *y.PriceHour) })
	}
	for _, best := range a.Best {
		if p := s.bestPools(best, a.Best); p != nil {
			a.Pools = append(a.Pools, p)
		}
	}
	return a
}
