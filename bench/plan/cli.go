package plan

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/load/workload"
	"penstock/bench/result"
	"penstock/config"
)

// Cmd is `penstock bench plan`.
type Cmd struct {
	Trace   string   `arg:"" values:"files" help:"Trace: a line {\"timestamp\":MS,\"input_length\":N,\"output_length\":N,\"hash_ids\":[…]} for each request."`
	Engine  []string `required:"" sep:"none" placeholder:"KIND[@PRICE]" help:"Kind of engine: laptop, l4-8b, a100-70b, h100-8b, or your own as NAME:prefill=N,token=N,batch=D,latency=D,slots=N,kv=N; PRICE is an hour's. Repeatable."`
	Goodput []string `required:"" placeholder:"M:MS" help:"Objectives, each of the p99: ttft, tpot, itl, e2el in ms."`
	Policy  []string `placeholder:"NAME" help:"Policies of the edge to try (default: all four)."`

	TimeScale load.Factor `name:"time-scale" placeholder:"X" help:"Factor on the trace's times, 0.001 to 1000 (default: 1); 0.5 is twice the load."`
	Draws     int         `default:"20" help:"How often the trace is drawn, 1 to 1000: once as it is, then with the times between requests in other orders."`
	Seed      uint64      `placeholder:"N" help:"Of the draws (default: 0)."`
	Format    string      `enum:"text,json" default:"text" help:"Form of the answer: ${enum}."`
	Output    string      `short:"o" placeholder:"FILE" help:"Write there instead of to the screen."`
}

// policies are those of an edge.
var policies = []string{
	config.PolicyLeastLoaded, config.PolicyTwoChoices, config.PolicyRoundRobin, config.PolicyPrefixAffinity,
}

// Run answers.
func (c *Cmd) Run() error { return c.run(os.Stdout) }

func (c *Cmd) run(out io.Writer) error {
	a, err := c.answer()
	if err != nil {
		return err
	}
	err = result.WriteTo(c.Output, out, func(w io.Writer) error {
		if c.Format == "json" {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(a)
		}
		_, err := io.WriteString(w, a.text())
		return err
	})
	if err == nil && len(a.Best) == 0 {
		return exit.With(exit.Threshold, "no fleet of these engines meets the objectives"+a.shortfall())
	}
	return err
}

// answer plans for every kind and policy.
func (c *Cmd) answer() (*Answer, error) {
	objectives, err := load.ParseObjectives(c.Goodput)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(objectives, func(o result.Objective) bool { return o.Measure == "error_rate" }) {
		return nil, exit.Usagef("--goodput error_rate: the engines of a plan do not fail: want ttft, tpot, itl or e2el")
	}
	if c.Draws < 1 || c.Draws > 1000 {
		return nil, exit.Usagef("--draws %d: want 1 to 1000", c.Draws)
	}
	tried := c.Policy
	if len(tried) == 0 {
		tried = policies
	}
	for _, p := range tried {
		if !slices.Contains(policies, p) {
			return nil, exit.Usagef("--policy %q: want one of %s", p, strings.Join(policies, ", "))
		}
	}
	var kinds []*Kind
	for _, text := range c.Engine {
		k, err := ParseKind(text)
		if err != nil {
			return nil, exit.Usagef("--engine %s", err)
		}
		kinds = append(kinds, k)
	}
	trace, err := workload.ReadTrace(c.Trace)
	if err != nil {
		return nil, err
	}
	requests := newRequests(trace, cmp.Or(float64(c.TimeScale), 1))
	s := &search{objectives: objectives, seed: c.Seed}
	for n := range c.Draws {
		s.requests = append(s.requests, draw(requests, c.Seed, n))
	}
	a := newAnswer(c, requests, objectives)
	for _, k := range kinds {
		var rows []*Row
		for _, p := range tried {
			rows = append(rows, s.row(k, p))
		}
		rank(rows)
		if best := rows[0]; best.Engines != nil {
			best.Room = s.room(k, best.Policy, *best.Engines)
			a.Best = append(a.Best, best)
		}
		a.Rows = append(a.Rows, rows...)
	}
	// The cheapest is first, where all have a price.
	if !slices.ContainsFunc(a.Best, func(r *Row) bool { return r.PriceHour == nil }) {
		slices.SortStableFunc(a.Best, func(x, y *Row) int { return cmp.Compare(*x.PriceHour, *y.PriceHour) })
	}
	return a, nil
}
