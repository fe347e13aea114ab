package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"penstock/bench/result"
	"penstock/bench/sim"
)

// Trace describes the trace that was played.
type Trace struct {
	File         string  `json:"file"`
	Requests     int     `json:"requests"`
	Seconds      float64 `json:"seconds"`   // scaled time until the last request that has a time
	Following    int     `json:"following"` // number of requests that follow the response to another request
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
}

func describeTrace(file string, requests []request) (t Trace) {
	t.File, t.Requests = file, len(requests)
	for i := range requests {
		if t.Seconds = max(t.Seconds, requests[i].at); requests[i].after >= 0 {
			t.Following++
		}
		t.InputTokens += int64(requests[i].in)
		t.OutputTokens += int64(requests[i].out)
	}
	return t
}

func (t *Trace) text() string {
	n, when := float64(t.Requests), "in "+result.NumberText(t.Seconds)+" s"
	if t.Following > 0 {
		when = fmt.Sprintf("of sessions, %d of them after the answer to another", t.Following)
	}
	return fmt.Sprintf("Trace: %d requests %s, %s tokens in and %s out each.\n", t.Requests, when,
		result.NumberText(float64(t.InputTokens)/n), result.NumberText(float64(t.OutputTokens)/n))
}

// PlanOutput is the output of `bench plan --format json`.
type PlanOutput struct {
	Trace      Trace              `json:"trace"`
	Objectives []result.Objective `json:"objectives"`
	Draws      int                `json:"draws"`
	Seed       uint64             `json:"seed"`
	// Best contains, for each kind of engine that meets the objectives, the row with the best
	// policy. The rows are ordered by price if all kinds have a price, and otherwise in the order
	// of the flags.
	Best []*Row `json:"best"`
	// Pools compares each row in Best with two pools that are divided by prompt length. A row has
	// no entry if no two pools meet the objectives.
	Pools []*Pools `json:"pools"`
	// Rows contains a row for each combination of kind and policy.
	Rows []*Row `json:"rows"`
}

func newPlanOutput(c *Cmd, s *fleetSearch) *PlanOutput {
	return &PlanOutput{
		Trace: describeTrace(c.Trace, s.requests[0]), Objectives: s.objectives, Draws: len(s.requests), Seed: c.Seed, Best: []*Row{}, Pools: []*Pools{},
	}
}

func (a *PlanOutput) text() string {
	var b strings.Builder
	b.WriteString(a.Trace.text())
	var bounds []string
	for _, o := range a.Objectives {
		bounds = append(bounds, o.Measure+" "+result.NumberText(o.Limit)+" ms")
	}
	fmt.Fprintf(&b, "Objectives, of the p99: %s. ", strings.Join(bounds, ", "))
	if a.Draws == 1 {
		b.WriteString("The trace as it is, without further draws.\n\n")
	} else {
		fmt.Fprintf(&b, "%d draws of the arrivals; in brackets 90 %% of them.\n\n", a.Draws)
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "engine\tpolicy\tengines\tover draws\tcached %\timbalance")
	for _, o := range a.Objectives {
		fmt.Fprintf(w, "\t%s p99 ms", o.Measure)
	}
	fmt.Fprintln(w, "\tprice/h")
	for _, r := range a.Rows {
		if r.Engines == nil {
			fmt.Fprintf(w, "%s\t%s\tnone\t%d do not\t\t", r.Engine, r.Policy, maxEngines)
			for _, o := range a.Objectives {
				fmt.Fprintf(w, "\t%s", r.P99[o.Measure].text(1))
			}
			fmt.Fprintln(w, "\t")
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d to %d\t%s\t%s", r.Engine, r.Policy, *r.Engines, r.Least, r.Most,
			r.CachedShare.text(100), r.Imbalance.text(1))
		for _, o := range a.Objectives {
			fmt.Fprintf(w, "\t%s", r.P99[o.Measure].text(1))
		}
		price := "–"
		if r.PriceHour != nil {
			price = result.NumberText(*r.PriceHour)
		}
		fmt.Fprintf(w, "\t%s\n", price)
	}
	_ = w.Flush()
	b.WriteByte('\n')
	for _, r := range a.Best {
		enough := fmt.Sprintf("enough in %d of %d draws", minPassingDraws(a.Draws), a.Draws)
		if a.Draws == 1 {
			enough = "enough for the trace as it is"
		}
		fmt.Fprintf(&b, "%d %s with policy %s: %s. They take %s times this load.\n",
			*r.Engines, r.Engine, r.Policy, enough, r.Room.text(1))
		b.WriteString(a.tiedPoliciesText(r))
	}
	for _, p := range a.Pools {
		b.WriteString(p.text())
	}
	if len(a.Pools) > 0 {
		b.WriteString(poolAssumptions)
	}
	for i, r := range a.Rows {
		if r.TooLong > 0 && !slices.ContainsFunc(a.Rows[:i], func(o *Row) bool { return o.Engine == r.Engine }) {
			fmt.Fprintf(&b, "%s has no room for %d of the requests: they are left out.\n", r.Engine, r.TooLong)
		}
	}
	if slices.ContainsFunc(a.Rows, func(r *Row) bool { return slices.Contains(sim.Speeds(), r.Engine) }) {
		b.WriteString("Speeds with a name of the simulator are round numbers that nobody measured: give those of your engines.\n")
	}
	return b.String()
}

// tiedPoliciesText lists the policies that the draws cannot distinguish from the policy in best.
func (a *PlanOutput) tiedPoliciesText(best *Row) string {
	var names []string
	others := 0
	for _, r := range a.Rows {
		if r == best || r.Engine != best.Engine {
			continue
		}
		if others++; r.Tied {
			names = append(names, fmt.Sprintf("%s (%d)", r.Policy, *r.Engines))
		}
	}
	if names == nil && a.Draws < minDraws && others > 0 {
		return fmt.Sprintf("Fewer than %d draws do not show which policy needs fewer engines.\n", minDraws)
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("Not distinguishable from %s in the number of engines: %s. The trace and its draws are too short, or the policy does not matter here.\n",
		best.Policy, strings.Join(names, ", "))
}

// shortfall describes by how much the largest fleet of the first kind misses the objectives, and
// suggests a remedy.
func (a *PlanOutput) shortfall() string {
	for _, r := range a.Rows {
		for _, o := range a.Objectives {
			if v, ok := r.P99[o.Measure]; ok && v.Median > o.Limit {
				return fmt.Sprintf(": %s of %d %s is %s ms, the objective %s ms: raise --goodput, or name a faster --engine",
					o.Measure, maxEngines, r.Engine, v.text(1), result.NumberText(o.Limit))
			}
		}
	}
	return ": the trace has requests that are longer than what their KV caches hold: give --engine a larger kv"
}

// text formats the median. If the interval is wider, text also formats its bounds.
func (i Interval) text(factor float64) string {
	short := func(v float64) string {
		if v *= factor; math.Abs(v) >= 100 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.3g", v)
	}
	if short(i.Low) == short(i.High) {
		return short(i.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(i.Median), short(i.Low), short(i.High))
}
