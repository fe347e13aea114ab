package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"penstock/bench/result"
)

// plot is a chart on the page. It consists of columns with a common x axis. The script on the page
// does not depend on what the columns mean.
type plot struct {
	Group  string     `json:"group"` // section: load, time, spread or engine
	Title  string     `json:"title"`
	Note   string     `json:"note"`
	XUnit  string     `json:"x_unit"`
	YUnit  string     `json:"y_unit"`
	XLog   bool       `json:"x_log"`
	YLog   bool       `json:"y_log"`
	Points bool       `json:"points"`
	X      []float64  `json:"x"`
	Lines  []plotLine `json:"lines"`
	Marks  []plotMark `json:"marks"` // vertical lines: events, ends of stages
	YMax   *float64   `json:"y_max"`
	Words  string     `json:"words"` // text for readers who cannot see the chart
}

// plotLine is a column of a plot. Tones 1 to 3 are shades of one colour, for percentiles. Tone 4 is
// the second colour, and tone 5 is the colour for failures.
type plotLine struct {
	Label  string     `json:"label"`
	Tone   int        `json:"tone"`
	Dashed bool       `json:"dashed"`
	Fill   bool       `json:"fill"`
	Y      []*float64 `json:"y"`
}

type plotMark struct {
	X     float64 `json:"x"`
	Label string  `json:"label"`
}

// plottedPercentiles are the plotted percentiles, from light to dark.
var plottedPercentiles = []string{"50", "90", "99"}

// percentileLines returns a line for each plotted percentile. at returns the column of a
// percentile.
func percentileLines(at func(percentile string) []*float64) []plotLine {
	var out []plotLine
	for i, p := range plottedPercentiles {
		out = append(out, plotLine{Label: "p" + p, Tone: 1 + i, Y: at(p)})
	}
	return out
}

// allPlots returns all charts for which the result has data. Every line has at least one value, and
// every plot has at least one line.
func allPlots(p *result.Penstock) []plot {
	var out []plot
	for _, c := range slices.Concat(loadPlots(p), timeSeriesPlots(p), distributionPlots(p), enginePlots(p)) {
		c.Lines = slices.DeleteFunc(c.Lines, func(l plotLine) bool {
			return len(l.Y) != len(c.X) || !slices.ContainsFunc(l.Y, func(v *float64) bool { return v != nil })
		})
		if c.Marks == nil {
			c.Marks = []plotMark{} // null would stop the script
		}
		if c.YLog = c.Group == "time" && c.YUnit == "ms" && needsLogScale(c.Lines); len(c.Lines) > 0 && len(c.X) > 1 {
			c.Words = describePlot(&c)
			out = append(out, c)
		}
	}
	return out
}

// describePlot describes, in words, the range and the maximum of each line in a plot.
func describePlot(c *plot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, over %s to %s %s.", strings.TrimSpace(c.Title+" "+c.Note), result.NumberText(c.X[0]),
		result.NumberText(c.X[len(c.X)-1]), c.XUnit)
	number := func(v float64) string {
		if c.YMax != nil && *c.YMax == 1 {
			return shareText(&v)
		}
		return strings.TrimSpace(result.NumberText(v) + " " + c.YUnit)
	}
	for _, l := range c.Lines {
		low, high, at := math.Inf(1), math.Inf(-1), 0.0
		for i, v := range l.Y {
			if v != nil {
				if low = min(low, *v); *v > high {
					high, at = *v, c.X[i]
				}
			}
		}
		if fmt.Fprintf(&b, " %s: %s", l.Label, number(low)); low < high {
			fmt.Fprintf(&b, " to %s, highest at %s %s", number(high), result.NumberText(at), c.XUnit)
		}
		b.WriteByte('.')
	}
	return b.String()
}

// stageLoadReader returns the unit of stage loads and a function that reads a stage's load, for
// plots and tables. The load is the rate at which requests were sent. The closed loops of a sweep
// can therefore be plotted on the same axis as its rates. If all stages are closed loops, the load
// is their concurrency. An unknown load is NaN.
func stageLoadReader(p *result.Penstock) (unit string, of func(s *result.Stage) float64) {
	if !slices.ContainsFunc(p.Stages, func(s result.Stage) bool { return s.Rate != nil || s.Concurrency == nil }) {
		return "requests at once", func(s *result.Stage) float64 { return float64(*s.Concurrency) }
	}
	return "requests/s", func(s *result.Stage) float64 {
		return valueOrDefault(s.AchievedRate, valueOrDefault(s.Rate, math.NaN()))
	}
}

// loadPlots returns latency and throughput over load, if there is more than one stage.
func loadPlots(p *result.Penstock) []plot {
	unit, load := stageLoadReader(p)
	stages := slices.DeleteFunc(slices.Clone(p.Stages),
		func(s result.Stage) bool { return math.IsNaN(load(&s)) || s.Completed == 0 })
	if len(stages) < 2 {
		return nil
	}
	slices.SortStableFunc(stages, func(a, b result.Stage) int { return cmp.Compare(load(&a), load(&b)) })
	var x []float64
	for i := range stages {
		x = append(x, load(&stages[i]))
	}
	column := func(of func(s *result.Stage) *float64) []*float64 {
		return mapColumn(stages, func(s result.Stage) *float64 { return of(&s) })
	}
	var out []plot
	for _, m := range []string{result.TTFT, result.ITL, result.E2EL} {
		c := plot{Group: "load", Title: measureLabels[m].label, XUnit: unit, YUnit: "ms", X: x, Points: true}
		c.Lines = percentileLines(func(percentile string) []*float64 {
			return column(func(s *result.Stage) *float64 { return percentileValue(s.Latency[m], percentile) })
		})
		for _, o := range p.Objectives {
			if o.Measure == m {
				c.Lines = append(c.Lines, plotLine{
					Label: "objective", Tone: 5, Dashed: true,
					Y: column(func(*result.Stage) *float64 { return &o.Limit }),
				})
			}
		}
		out = append(out, c)
	}
	throughput := column(func(s *result.Stage) *float64 { return s.OutputThroughput })
	out = append(out, plot{
		Group: "load", Title: "Output tokens per second", XUnit: unit, YUnit: "tok/s", X: x,
		Points: true, Lines: []plotLine{{Label: "output", Tone: 3, Fill: true, Y: throughput}},
	})
	if len(p.Objectives) > 0 {
		good := column(func(s *result.Stage) *float64 { return s.GoodShare })
		out = append(out, plot{
			Group: "load", Title: "Share of requests within all objectives", XUnit: unit, X: x,
			Points: true, YMax: new(1.0), Lines: []plotLine{{Label: "within", Tone: 3, Fill: true, Y: good}},
		})
	}
	return out
}

// valueOrDefault returns *v. If v is nil, it returns otherwise.
func valueOrDefault(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}

// mapColumn applies a function to each value of a column.
func mapColumn[T any](values []T, of func(T) *float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		out[i] = of(v)
	}
	return out
}

func divideColumn[N int | float64](column []N, by float64) []*float64 {
	return mapColumn(column, func(n N) *float64 { return new(float64(n) / by) })
}

func percentileValue(d *result.Distribution, p string) *float64 {
	if d == nil || d.Count == 0 {
		return nil
	}
	v, ok := d.Percentiles[p]
	if !ok {
		return nil
	}
	return &v
}

func timeSeriesPlots(p *result.Penstock) []plot {
	s := &p.Series
	if len(s.TS) < 2 || s.IntervalS <= 0 {
		return nil
	}
	marks := plotMarks(p)
	timed := func(title, unit string, lines ...plotLine) plot {
		return plot{Group: "time", Title: title, XUnit: "s", YUnit: unit, X: s.TS, Marks: marks, Lines: lines}
	}
	requests := timed("Requests per second", "",
		plotLine{Label: "scheduled", Tone: 1, Dashed: true, Y: divideColumn(s.Scheduled, s.IntervalS)},
		plotLine{Label: "completed", Tone: 3, Y: divideColumn(s.Completed, s.IntervalS)})
	if slices.Max(append(s.Failed, 0)) > 0 {
		requests.Lines = append(requests.Lines, plotLine{Label: "failed", Tone: 5, Y: divideColumn(s.Failed, s.IntervalS)})
	}
	if slices.Max(append(s.Left, 0)) > 0 {
		requests.Lines = append(requests.Lines, plotLine{Label: "left", Tone: 4, Y: divideColumn(s.Left, s.IntervalS)})
	}
	out := []plot{
		requests, timed("Requests per second by upstream", "", upstreamLines(p)...),
		timed("Requests in flight", "", plotLine{Label: "most", Tone: 3, Fill: true, Y: divideColumn(s.InFlight, 1)}),
		timed("Output tokens per second", "tok/s", plotLine{
			Label: "output", Tone: 3, Fill: true,
			Y: divideColumn(s.OutputTokens, s.IntervalS),
		}),
	}
	for _, m := range []string{result.TTFT, result.TTFTFromSchedule, result.ITL, result.E2EL} {
		if m != result.TTFTFromSchedule || p.Load.Mode != "closed" {
			out = append(out, timed(measureLabels[m].label, "ms",
				percentileLines(func(percentile string) []*float64 { return s.Latency[m][percentile] })...))
		}
	}
	return out
}

// maxUpstreams is the maximum number of upstreams with a line in a plot. A reader could not
// distinguish more lines.
const maxUpstreams = 8

// upstreamLines returns a line for each upstream, or only for the busiest upstreams, with its
// responses per second. A line has a gap for the time when the engine's metrics page could not be
// read, because the engine was then dead rather than idle.
func upstreamLines(p *result.Penstock) (out []plotLine) {
	s := &p.Series
	names := slices.Sorted(maps.Keys(s.Upstreams))
	sum := func(name string) (n int) {
		for _, v := range s.Upstreams[name] {
			n += v
		}
		return n
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(sum(b), sum(a)) })
	names = names[:min(len(names), maxUpstreams)]
	slices.Sort(names)
	if len(names) < 2 {
		return nil
	}
	for i, name := range names {
		l := plotLine{Label: name, Tone: 1 + i%4, Dashed: i >= 4, Y: divideColumn(s.Upstreams[name], s.IntervalS)}
		at := slices.IndexFunc(p.Telemetry, func(t result.Telemetry) bool { return t.Source == "engine "+name })
		for j := range l.Y {
			if at >= 0 && wasUnreachable(&p.Telemetry[at], s.TS[j]+s.IntervalS) {
				l.Y[j] = nil
			}
		}
		out = append(out, l)
	}
	return out
}

// wasUnreachable reports whether an engine's metrics page could not be read at the last attempt
// before the given time.
func wasUnreachable(t *result.Telemetry, before float64) bool {
	last := -1
	for i, at := range t.TS {
		if at < before {
			last = i
		}
	}
	if last < 0 {
		return false
	}
	for _, column := range t.Metrics {
		if column[last] != nil {
			return false
		}
	}
	return true
}

// plotMarks returns the events and the boundaries of stages.
func plotMarks(p *result.Penstock) []plotMark {
	marks := []plotMark{}
	for i := range p.Events {
		marks = append(marks, plotMark{p.Events[i].StartS, p.Events[i].Action})
	}
	if len(p.Stages) > 1 {
		for i := range p.Stages {
			marks = append(marks, plotMark{p.Stages[i].StartS, p.Stages[i].Name})
		}
	}
	slices.SortStableFunc(marks, func(a, b plotMark) int { return cmp.Compare(a.X, b.X) })
	return marks
}

// needsLogScale reports whether the range of the values is so wide that a linear axis would hide
// its lower part.
func needsLogScale(lines []plotLine) bool {
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

// distributionPlots returns cumulative distributions. They show, for each duration, the fraction of
// samples that took at most that long.
func distributionPlots(p *result.Penstock) []plot {
	var out []plot
	for _, m := range []struct{ title, measure, label, fromSchedule string }{
		{"Time to first token", result.TTFT, "from send", result.TTFTFromSchedule},
		{"Time between tokens", result.ITL, "gaps", ""},
		{"End to end", result.E2EL, "from send", result.E2ELFromSchedule},
	} {
		first, second := p.Total.Latency[m.measure], p.Total.Latency[m.fromSchedule]
		c := plot{Group: "spread", Title: m.title, XUnit: "ms", XLog: true, YMax: new(1.0)}
		xs := map[float64]bool{}
		addQuantiles(xs, first)
		addQuantiles(xs, second)
		delete(xs, 0)
		c.X = slices.Sorted(maps.Keys(xs))
		c.Lines = []plotLine{{Label: m.label, Tone: 3, Y: cumulativeShares(first, c.X)}}
		if p.Load.Mode != "closed" {
			c.Lines = append(c.Lines, plotLine{Label: "from schedule", Tone: 4, Dashed: true, Y: cumulativeShares(second, c.X)})
		}
		if p.Compare != nil {
			c.Lines = append(c.Lines, plotLine{Label: "second target", Tone: 5, Y: cumulativeShares(p.Compare.Total.Latency[m.measure], c.X)})
		}
		out = append(out, c)
	}
	return out
}

// addQuantiles adds at most about 200 values of a distribution. It adds more values where samples
// are dense.
func addQuantiles(xs map[float64]bool, d *result.Distribution) {
	if d == nil {
		return
	}
	have, next := 0.0, 0.0
	for i, b := range d.Buckets {
		if have += b[1]; have >= next || i == len(d.Buckets)-1 {
			xs[b[0]] = true
			next = have + float64(d.Count)/200
		}
	}
}

// cumulativeShares returns the fraction of samples up to each x, or nil if there are no samples.
func cumulativeShares(d *result.Distribution, xs []float64) []*float64 {
	if d == nil || d.Count == 0 {
		return nil
	}
	have, i := 0.0, 0
	return mapColumn(xs, func(x float64) *float64 {
		for ; i < len(d.Buckets) && d.Buckets[i][0] <= x; i++ {
			have += d.Buckets[i][1]
		}
		return new(have / float64(d.Count))
	})
}

// plottedMetrics lists the metrics to plot, identified by the suffix of their names.
var plottedMetrics = []struct{ title, ends string }{
	{"Running and waiting requests", "num_requests_running num_requests_waiting num_running_reqs num_queue_reqs requests_processing requests_deferred penstock_inflight"},
	{"Use of the KV cache", "kv_cache_usage_perc gpu_cache_usage_perc token_usage kv_cache_usage_ratio"},
}

// enginePlots returns plots of the metrics of the engines and the edge.
func enginePlots(p *result.Penstock) []plot {
	var out []plot
	for _, t := range p.Telemetry {
		note := t.Source + " " + t.URL
		if name, ok := strings.CutPrefix(t.Source, "engine "); ok || p.Scenario != nil && p.Scenario.OwnFleet {
			note = cmp.Or(name, t.Source) // a name is more useful than a port
		}
		for _, want := range plottedMetrics {
			c := plot{Group: "engine", Title: want.title, Note: note, XUnit: "s", X: t.TS, Marks: plotMarks(p)}
			for _, end := range strings.Fields(want.ends) {
				for _, name := range slices.Sorted(maps.Keys(t.Metrics)) {
					if base, _, _ := strings.Cut(name, "{"); strings.HasSuffix(base, end) {
						c.Lines = append(c.Lines, plotLine{Label: name, Tone: 3 + min(len(c.Lines), 1), Y: t.Metrics[name]})
					}
				}
			}
			if len(c.Lines) <= 8 {
				out = append(out, c)
			}
		}
	}
	return out
}
