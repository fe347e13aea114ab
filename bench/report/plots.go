package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"penstock/bench/result"
)

// plot is one chart of the HTML report: columns over a common x. The page's script knows nothing of what they mean.
type plot struct {
	Group  string    `json:"group"` // load, time, spread or engine: the section it stands in
	Title  string    `json:"title"`
	Note   string    `json:"note"`
	XUnit  string    `json:"x_unit"`
	YUnit  string    `json:"y_unit"`
	XLog   bool      `json:"x_log"`
	YLog   bool      `json:"y_log"`
	Points bool      `json:"points"`
	X      []float64 `json:"x"`
	Lines  []line    `json:"lines"`
	Marks  []mark    `json:"marks"` // vertical lines: events, ends of stages
	YMax   *float64  `json:"y_max"`
}

// line is one column. Tone 1 to 3 are shades of one colour, for percentiles; 4 is the second colour, 5 is that of failure.
type line struct {
	Label  string     `json:"label"`
	Tone   int        `json:"tone"`
	Dashed bool       `json:"dashed"`
	Fill   bool       `json:"fill"`
	Y      []*float64 `json:"y"`
}

type mark struct {
	X     float64 `json:"x"`
	Label string  `json:"label"`
}

// shades are the percentiles that plots show.
var shades = []struct {
	key  string
	tone int
}{{"50", 1}, {"90", 2}, {"99", 3}}

// plots are all charts that the result has data for.
func plots(p *result.Penstock) []plot {
	out := loadPlots(p)
	out = append(out, timePlots(p)...)
	out = append(out, spreadPlots(p)...)
	out = append(out, enginePlots(p)...)
	for i := range out { // null would stop the script
		if out[i].Marks == nil {
			out[i].Marks = []mark{}
		}
	}
	return out
}

// loadPlots are latency and throughput over load: only where there are several stages. Load is the rate that was sent, so that the
// closed loops of a sweep stand on one axis with its rates; only where all stages are closed loops it is their concurrency.
func loadPlots(p *result.Penstock) []plot {
	stages := slices.Clone(p.Stages)
	unit := "requests/s"
	load := func(s *result.Stage) float64 {
		switch {
		case s.AchievedRate != nil:
			return *s.AchievedRate
		case s.Rate != nil:
			return *s.Rate
		}
		return math.NaN()
	}
	if !slices.ContainsFunc(stages, func(s result.Stage) bool { return s.Rate != nil || s.Concurrency == nil }) {
		unit = "requests at once"
		load = func(s *result.Stage) float64 {
			if s.Concurrency == nil {
				return math.NaN()
			}
			return float64(*s.Concurrency)
		}
	}
	stages = slices.DeleteFunc(stages, func(s result.Stage) bool { return math.IsNaN(load(&s)) || s.Completed == 0 })
	if len(stages) < 2 {
		return nil
	}
	slices.SortStableFunc(stages, func(a, b result.Stage) int {
		return int(math.Copysign(1, load(&a)-load(&b)))
	})
	var x []float64
	var throughput, good []*float64
	for i := range stages {
		x = append(x, load(&stages[i]))
		throughput = append(throughput, stages[i].OutputThroughput)
		good = append(good, stages[i].GoodShare)
	}
	var out []plot
	for _, m := range []string{result.TTFT, result.ITL, result.E2EL} {
		c := plot{Group: "load", Title: measureWords[m].label, XUnit: unit, YUnit: "ms", X: x, Points: true}
		for _, sh := range shades {
			var y []*float64
			for i := range stages {
				y = append(y, value(stages[i].Latency[m], sh.key))
			}
			c.Lines = append(c.Lines, line{Label: "p" + sh.key, Tone: sh.tone, Y: y})
		}
		for _, o := range p.Objectives {
			if o.Measure == m {
				c.Lines = append(c.Lines, line{Label: "objective", Tone: 5, Dashed: true, Y: constant(o.Limit, len(x))})
			}
		}
		out = append(out, c)
	}
	out = append(out, plot{Group: "load", Title: "Output tokens per second", XUnit: unit, YUnit: "tok/s", X: x, Points: true, Lines: []line{{Label: "output", Tone: 3, Fill: true, Y: throughput}}})
	if len(p.Objectives) > 0 {
		one := 1.0
		out = append(out, plot{Group: "load", Title: "Share of requests within all objectives", XUnit: unit, X: x, Points: true, YMax: &one, Lines: []line{{Label: "within", Tone: 3, Fill: true, Y: good}}})
	}
	return withData(out)
}

func value(d *result.Distribution, p string) *float64 {
	if d == nil || d.Count == 0 {
		return nil
	}
	v, ok := d.Percentiles[p]
	if !ok {
		return nil
	}
	return &v
}

func constant(v float64, n int) []*float64 {
	out := make([]*float64, n)
	for i := range out {
		out[i] = &v
	}
	return out
}

// timePlots are the run over time.
func timePlots(p *result.Penstock) []plot {
	s := &p.Series
	if len(s.TS) < 2 || s.IntervalS <= 0 {
		return nil
	}
	marks := marksOf(p)
	per := func(column []int) []*float64 {
		out := make([]*float64, len(column))
		for i, n := range column {
			v := float64(n) / s.IntervalS
			out[i] = &v
		}
		return out
	}
	whole := func(column []int) []*float64 {
		out := make([]*float64, len(column))
		for i, n := range column {
			v := float64(n)
			out[i] = &v
		}
		return out
	}
	tokens := make([]*float64, len(s.OutputTokens))
	for i, n := range s.OutputTokens {
		v := n / s.IntervalS
		tokens[i] = &v
	}
	requests := plot{Group: "time", Title: "Requests per second", XUnit: "s", X: s.TS, Marks: marks, Lines: []line{
		{Label: "scheduled", Tone: 1, Dashed: true, Y: per(s.Scheduled)}, {Label: "completed", Tone: 3, Y: per(s.Completed)},
	}}
	if sum(s.Failed) > 0 {
		requests.Lines = append(requests.Lines, line{Label: "failed", Tone: 5, Y: per(s.Failed)})
	}
	if sum(s.Left) > 0 {
		requests.Lines = append(requests.Lines, line{Label: "left", Tone: 4, Y: per(s.Left)})
	}
	out := []plot{
		requests,
		{Group: "time", Title: "Requests in flight", XUnit: "s", X: s.TS, Marks: marks, Lines: []line{{Label: "most", Tone: 3, Fill: true, Y: whole(s.InFlight)}}},
		{Group: "time", Title: "Output tokens per second", XUnit: "s", YUnit: "tok/s", X: s.TS, Marks: marks, Lines: []line{{Label: "output", Tone: 3, Fill: true, Y: tokens}}},
	}
	for _, m := range []string{result.TTFT, result.TTFTFromSchedule, result.ITL, result.E2EL} {
		if m == result.TTFTFromSchedule && p.Load.Mode == "closed" {
			continue
		}
		c := plot{Group: "time", Title: measureWords[m].label, XUnit: "s", YUnit: "ms", X: s.TS, Marks: marks}
		for _, sh := range shades {
			if y := s.Latency[m][sh.key]; len(y) == len(s.TS) {
				c.Lines = append(c.Lines, line{Label: "p" + sh.key, Tone: sh.tone, Y: y})
			}
		}
		c.YLog = wide(c.Lines)
		out = append(out, c)
	}
	return withData(out)
}

// marksOf are the events, and where one stage ends and the next begins.
func marksOf(p *result.Penstock) []mark {
	marks := []mark{}
	for i := range p.Events {
		marks = append(marks, mark{p.Events[i].StartS, eventText(&p.Events[i])})
	}
	if len(p.Stages) > 1 {
		for i := range p.Stages {
			marks = append(marks, mark{p.Stages[i].StartS, p.Stages[i].Name})
		}
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.X, b.X) })
	return marks
}

// wide says that lines span so much that a linear axis would hide the lower part.
func wide(lines []line) bool {
	low, high := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			if v != nil && *v > 0 {
				low, high = min(low, *v), max(high, *v)
			}
		}
	}
	return high > 100*low
}

func sum(v []int) int {
	n := 0
	for _, x := range v {
		n += x
	}
	return n
}

// spreadLine is one measure of a plot of distributions.
type spreadLine struct {
	name, label string
	tone        int
}

// spreadPlots are the distributions: which share of samples was at most so long.
func spreadPlots(p *result.Penstock) []plot {
	one := 1.0
	var out []plot
	for _, m := range []struct {
		title string
		parts []spreadLine
	}{
		{"Time to first token", []spreadLine{{result.TTFT, "from send", 3}, {result.TTFTFromSchedule, "from schedule", 4}}},
		{"Time between tokens", []spreadLine{{result.ITL, "gaps", 3}}},
		{"End to end", []spreadLine{{result.E2EL, "from send", 3}, {result.E2ELFromSchedule, "from schedule", 4}}},
	} {
		c := plot{Group: "spread", Title: m.title, XUnit: "ms", XLog: true, YMax: &one}
		xs := map[float64]bool{}
		for _, part := range m.parts {
			for _, b := range quantiles(p.Total.Latency[part.name]) {
				xs[b[0]] = true
			}
		}
		for x := range xs {
			if x > 0 {
				c.X = append(c.X, x)
			}
		}
		slices.Sort(c.X)
		for _, part := range m.parts {
			d := p.Total.Latency[part.name]
			if part.name != m.parts[0].name && p.Load.Mode == "closed" || d == nil || d.Count == 0 {
				continue
			}
			c.Lines = append(c.Lines, line{Label: part.label, Tone: part.tone, Dashed: part.tone == 4, Y: shares(d, c.X)})
		}
		if second := p.Compare; second != nil && second.Total.Latency[m.parts[0].name] != nil {
			d := second.Total.Latency[m.parts[0].name]
			c.Lines = append(c.Lines, line{Label: "second target", Tone: 5, Y: shares(d, c.X)})
		}
		out = append(out, c)
	}
	return withData(out)
}

// quantiles are at most about 200 buckets of a distribution, dense where samples are: [value, count].
func quantiles(d *result.Distribution) [][2]float64 {
	if d == nil || d.Count == 0 {
		return nil
	}
	step := float64(d.Count) / 200
	var out [][2]float64
	have, next := 0.0, 0.0
	for i, b := range d.Buckets {
		have += b[1]
		if have >= next || i == len(d.Buckets)-1 {
			out = append(out, b)
			next = have + step
		}
	}
	return out
}

// shares are the shares of samples up to each x.
func shares(d *result.Distribution, xs []float64) []*float64 {
	out := make([]*float64, len(xs))
	have, i := 0.0, 0
	for j, x := range xs {
		for i < len(d.Buckets) && d.Buckets[i][0] <= x {
			have += d.Buckets[i][1]
			i++
		}
		v := have / float64(d.Count)
		out[j] = &v
	}
	return out
}

// telemetry are the metrics that are drawn, by the end of their name.
var telemetry = []struct{ title, unit, ends string }{
	{"Running and waiting requests", "", "num_requests_running num_requests_waiting num_running_reqs num_queue_reqs requests_processing requests_deferred penstock_inflight"},
	{"Use of the KV cache", "", "kv_cache_usage_perc gpu_cache_usage_perc token_usage kv_cache_usage_ratio"},
}

// enginePlots are what engine and edge say of themselves.
func enginePlots(p *result.Penstock) []plot {
	var out []plot
	for _, t := range p.Telemetry {
		for _, want := range telemetry {
			c := plot{Group: "engine", Title: want.title, Note: t.Source + " " + t.URL, XUnit: "s", YUnit: want.unit, X: t.TS, Marks: marksOf(p)}
			for _, end := range strings.Fields(want.ends) {
				for _, name := range sortedKeys(t.Metrics) {
					base, _, _ := strings.Cut(name, "{")
					if strings.HasSuffix(base, end) && len(t.Metrics[name]) == len(t.TS) {
						c.Lines = append(c.Lines, line{Label: name, Tone: 3 + min(len(c.Lines), 1), Y: t.Metrics[name]})
					}
				}
			}
			if len(c.Lines) > 0 && len(c.Lines) <= 8 {
				out = append(out, c)
			}
		}
	}
	return withData(out)
}

// withData drops lines without a value, and plots without a line.
func withData(in []plot) []plot {
	var out []plot
	for _, c := range in {
		c.Lines = slices.DeleteFunc(c.Lines, func(l line) bool {
			return !slices.ContainsFunc(l.Y, func(v *float64) bool { return v != nil })
		})
		if len(c.Lines) > 0 && len(c.X) > 1 {
			out = append(out, c)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}
