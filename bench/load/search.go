package load

import (
	"cmp"
	"context"
	"math"
	"slices"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// unsaturatedShare is the fraction of the offered load that a target must complete to count as
// unsaturated.
const unsaturatedShare = 0.95

// stageOutcome is the judgement on a finished stage, and determines the next stage.
type stageOutcome struct {
	rate          float64 // the requested rate or, in a closed loop, the achieved rate
	completedRate float64 // completed requests per second
	closed        bool
	met           bool
	broke         []string
}

// runAllStages runs all stages. The flags define the stages, unless a sweep or a search chooses
// them.
func (d *stageDriver) runAllStages(ctx context.Context) *result.Search {
	switch d.s.Profile {
	case "sweep":
		return d.runSweep(ctx)
	case "search":
		return d.runSearch(ctx)
	}
	for _, spec := range d.s.stages {
		if ctx.Err() != nil {
			break
		}
		d.runStage(ctx, spec)
	}
	return nil
}

// runSweep first measures one request at a time. It then measures --max-concurrency concurrent
// requests. If that flag is not set, it measures increasing numbers of requests until the
// throughput stops growing. Finally it measures evenly spaced rates between the two throughputs.
func (d *stageDriver) runSweep(ctx context.Context) *result.Search {
	base := d.s.stages[0]
	closed := func(clients int) float64 {
		if ctx.Err() != nil {
			return 0
		}
		d.runStage(ctx, stageSpec{concurrency: clients, count: base.count, duration: base.duration})
		return d.collectFindings().judgeStage(len(d.stages) - 1).completedRate
	}
	low := closed(1)
	var high float64
	if len(d.s.MaxConcurrency) > 0 {
		high = closed(base.concurrency)
	} else {
		high = measureSaturation(cmp.Or(min(base.count, maxSweepClients), maxSweepClients), closed)
	}
	n := cmp.Or(d.s.MaxStages, 8) - 2
	for i := 1; i <= n && ctx.Err() == nil && high > 0; i++ {
		rate := low + (high-low)*float64(i)/float64(n+1)
		d.runStage(ctx, stageSpec{rate: roundForDisplay(rate), count: base.count, duration: base.duration})
	}
	return d.collectFindings().searchResult("sweep")
}

// A sweep starts with initialClients clients. It quadruples that number, up to maxSweepClients,
// until the throughput grows by less than a quarter.
const (
	initialClients  = 8
	maxSweepClients = 1024
)

// measureSaturation measures the throughput with an increasing number of clients until the
// throughput stops growing noticeably. The number of clients never exceeds most. It returns the
// highest throughput.
func measureSaturation(most int, measure func(clients int) float64) (highest float64) {
	for n := min(initialClients, most); ; n = min(4*n, most) {
		done := measure(n)
		if n == most || done < 1.25*highest || done == 0 {
			return max(highest, done)
		}
		highest = done
	}
}

// runSearch finds the highest rate that meets the objectives. It starts with the rate in the flags
// or, if none is given, with the result of findStartingRate. It doubles the rate until an objective
// is missed, and then halves the interval until its width is less than 5 %. If an eighth of the
// first rate still misses an objective, the search gives up.
func (d *stageDriver) runSearch(ctx context.Context) *result.Search {
	base := d.s.stages[0]
	rate := base.rate
	if rate == 0 || math.IsInf(rate, 1) {
		if rate = d.findStartingRate(ctx, base); rate == 0 {
			return d.collectFindings().searchResult("search")
		}
	}
	least := rate / 8
	low, high := 0.0, math.Inf(1)
	for i := 0; i < cmp.Or(d.s.MaxStages, 12) && ctx.Err() == nil && rate > 0; i++ {
		d.runStage(ctx, stageSpec{rate: rate, count: base.count, duration: base.duration})
		if ctx.Err() != nil {
			break
		}
		if o := d.collectFindings().judgeStage(len(d.stages) - 1); o.met {
			low = rate
		} else {
			high = rate
		}
		switch {
		case !math.IsInf(high, 1) && high-low <= 0.05*high, high <= least:
			return d.collectFindings().searchResult("search")
		case math.IsInf(high, 1):
			rate *= 2
		default:
			rate = roundForDisplay((low + high) / 2)
		}
	}
	return d.collectFindings().searchResult("search")
}

// findStartingRate returns the throughput of a closed loop that meets the objectives. It first
// tries --max-concurrency, if that flag is set, and then one request at a time. If even one request
// at a time misses the objectives, no rate can meet them, and findStartingRate returns 0.
func (d *stageDriver) findStartingRate(ctx context.Context, base stageSpec) float64 {
	first := stageSpec{concurrency: 1, count: base.count, duration: base.duration}
	if len(d.s.MaxConcurrency) > 0 && base.concurrency > 1 {
		given := first
		given.concurrency = base.concurrency
		d.runStage(ctx, given)
		if d.collectFindings().judgeStage(0).met {
			return roundForDisplay(d.collectFindings().judgeStage(0).completedRate)
		}
	}
	if ctx.Err() == nil {
		d.runStage(ctx, first)
	}
	if i := len(d.stages) - 1; d.collectFindings().judgeStage(i).met {
		return roundForDisplay(d.collectFindings().judgeStage(i).completedRate)
	}
	return 0
}

// roundForDisplay rounds v to three significant digits, so that rates are readable.
func roundForDisplay(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return math.Round(v/unit) * unit
}

// collectFindings returns the findings on the completed stages.
func (d *stageDriver) collectFindings() *findings {
	return &findings{s: d.s, samples: d.rec.samples, gaps: d.rec.gaps, stages: d.stages}
}

func (f *findings) stageSummary(stage int) result.Summary {
	return f.summary(func(k gapKey) bool { return k.stage == stage && k.target == 0 }, f.stages[stage].seconds())
}

// judgeStage judges a stage. A stage passes if 99 % of the requests meet the objectives, the error
// rate is within its limit, and the client sent the scheduled load.
func (f *findings) judgeStage(stage int) stageOutcome {
	sum := f.stageSummary(stage)
	rate := f.stages[stage].spec.rate
	o := stageOutcome{rate: rate, closed: rate == 0}
	if sum.RequestThroughput != nil {
		o.completedRate = *sum.RequestThroughput
	}
	if o.closed {
		o.rate = o.completedRate
	}
	o.broke = f.s.missedObjectives(&sum)
	if !o.closed && f.isFallingBehind(stage) {
		o.broke = append(o.broke, "throughput")
	}
	o.met = len(o.broke) == 0 && sum.Completed > 0
	return o
}

// isFallingBehind reports whether latencies grew during a stage. It orders the requests by when
// they were due. A stage fell behind if the last third of the requests took at least 1.5 times as
// long as the middle third. The first third is ignored, because the target was idle at the start.
func (f *findings) isFallingBehind(stage int) bool {
	var times []client.Sample
	for i := range f.samples {
		if s := &f.samples[i]; s.Stage == stage && s.Completed() && s.Target == 0 {
			times = append(times, *s)
		}
	}
	third := len(times) / 3
	if third < minSamples {
		return false
	}
	slices.SortFunc(times, func(a, b client.Sample) int { return cmp.Compare(a.At.Scheduled, b.At.Scheduled) })
	mean := func(part []client.Sample) (sum float64) {
		for i := range part {
			sum += float64(part[i].Latency(result.E2ELFromSchedule))
		}
		return sum / float64(len(part))
	}
	return mean(times[2*third:]) > 1.5*mean(times[third:2*third])
}

// missedObjectives returns the objectives that a summary misses. Latencies are judged by their p99,
// and errors by their rate.
func (s *settings) missedObjectives(sum *result.Summary) []string {
	out := []string{}
	bounded := false
	for _, o := range s.objectives {
		if o.Measure == "error_rate" {
			bounded = true
			if sum.ErrorRate != nil && *sum.ErrorRate > o.Limit {
				out = append(out, o.Measure)
			}
			continue
		}
		if d := sum.Latency[o.Measure]; d != nil && d.Percentile(99) > o.Limit {
			out = append(out, o.Measure)
		}
	}
	if !bounded && sum.ErrorRate != nil && *sum.ErrorRate > MaxErrorShare {
		out = append(out, "error_rate")
	}
	return out
}

// searchResult summarises a sweep or a search.
func (f *findings) searchResult(profile string) *result.Search {
	out := &result.Search{Profile: profile, Missed: []string{}}
	best, limit, kneeRate := 0.0, math.Inf(1), 0.0
	for i := range f.stages {
		o := f.judgeStage(i)
		if !o.closed && o.completedRate >= unsaturatedShare*o.rate && o.rate > kneeRate {
			kneeRate, out.Knee = o.rate, &i
		}
		switch {
		case len(f.s.objectives) == 0:
		case o.met && o.rate > best:
			best, out.Best, out.Rate = o.rate, &i, &o.rate
		case !o.met && !o.closed && o.rate < limit:
			limit, out.Limit, out.Missed = o.rate, &o.rate, o.broke
		}
	}
	return out
}
