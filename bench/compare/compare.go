package compare

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"penstock/bench/result"
)

// Values of Row.Outcome.
const (
	RowBetter = "better"
	RowWorse  = "worse"
	RowSame   = "no difference" // the interval contains zero
	// the difference is smaller than the clients' measurement error
	RowWithinFloor = "within the client's floor"
	RowUnknown     = "unknown"          // no interval could be computed
	RowTooFew      = "too few requests" // Row.Needs contains the required number of requests
)

// Row compares one number in two results.
type Row struct {
	// Group is the name of a stage, or empty for the whole run.
	Group string `json:"group"`
	// Key is a flat key in the result file, or the name of a rate.
	Key  string  `json:"key"`
	Base float64 `json:"base"`
	New  float64 `json:"new"`
	// Change is (New - Base) / Base, or null if Base is 0.
	Change *float64 `json:"change"`
	// Low and High are the bounds of New - Base, or null if there is no interval.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Outcome is one of the Row constants.
	Outcome string `json:"outcome"`
	// Needs is how many requests each result needs for a judgement. It is set only with RowTooFew.
	Needs int `json:"needs,omitempty"`

	key result.Key
}

// Report is a comparison of two results.
type Report struct {
	// Confidence is the probability that all intervals hold simultaneously, such as 0.999.
	Confidence float64 `json:"confidence"`
	// Notes explain why the results are hard to compare, for example because the models or loads
	// differ, or because a result is invalid.
	Notes []string `json:"notes"`
	Rows  []Row    `json:"rows"`
	// Valid is false if either result is invalid.
	Valid bool `json:"valid"`
	// Verdict summarises the comparison in one line.
	Verdict string `json:"verdict"`

	floors    map[string]float64 // largest floor of the two clients for each measure, in ms
	certainty intervalScale
}

var comparedRates = []string{
	"request_throughput", "output_throughput", "request_goodput", "error_rate",
	"stream_faults", "cached_share",
}

// comparedLatencies lists the compared measures in the order of the report. The mean, median, p90
// and p99 of each are compared.
var comparedLatencies = []string{
	result.TTFT, result.TPOT, result.ITL, result.E2EL, result.TTFTFromSchedule,
	result.E2ELFromSchedule,
}

func measureStatistics(measure string) []result.Key {
	return []result.Key{
		{Name: measure, Stat: "mean"},
		{Name: measure, Stat: "median", Percent: 50},
		{Name: measure, Stat: "p", Percent: 90},
		{Name: measure, Stat: "p", Percent: 99},
	}
}

// CompareResults compares two results. For each difference, it computes a bootstrap interval. The
// intervals of latencies are computed from the histograms, those of rates from the time series, and
// those of fractions from the counts. All intervals hold simultaneously with the given confidence
// (0.999). Numbers with too few samples are not judged. A latency difference below the clients'
// floor is neither better nor worse. Results with more than one stage are compared by stage name.
func CompareResults(base, next *result.Result, confidence float64) *Report {
	c := &Report{Confidence: confidence, Valid: true, Notes: comparabilityNotes(base, next), floors: map[string]float64{}}
	for _, m := range comparedLatencies {
		c.floors[m] = clientResolution(m, base, next)
	}
	for _, r := range []*result.Result{base, next} {
		c.Valid = c.Valid && r.Penstock.Verdict.Valid
	}
	a, b := base.Penstock, next.Penstock
	rows := len(comparedRates) + len(comparedLatencies)*len(measureStatistics(""))
	c.certainty = newIntervalScale(confidence, rows*max(1, min(len(a.Stages), len(b.Stages))))
	switch {
	case len(a.Stages) <= 1 && len(b.Stages) <= 1:
		c.addRows("", stageSummary{&a.Total, &a.Series, -1}, stageSummary{&b.Total, &b.Series, -1})
	default:
		for i := range a.Stages {
			for j := range b.Stages {
				if a.Stages[i].Name == b.Stages[j].Name {
					c.addRows(a.Stages[i].Name, stageSummary{&a.Stages[i].Summary, &a.Series, i}, stageSummary{&b.Stages[j].Summary, &b.Series, j})
				}
			}
		}
		if len(c.Rows) == 0 {
			c.Notes = append(c.Notes, "no stage of one has the name of a stage of the other")
		}
	}
	c.Verdict = c.verdictText()
	return c
}

// stageSummary is a summary together with its stage number in the time series. Stage -1 is the
// whole run.
type stageSummary struct {
	s      *result.Summary
	series *result.Series
	stage  int
}

// completedRequests returns the number of completed requests, which is the maximum number of
// independent samples.
func (p stageSummary) completedRequests() int { return p.s.Completed }

// perSecond returns a column's values per second, for the time intervals in the stage. It omits the
// first and the last interval, which may be incomplete.
func (p stageSummary) perSecond(column func(i int) float64) []float64 {
	var out []float64
	for i, stage := range p.series.Stage {
		if stage >= 0 && (p.stage < 0 || stage == p.stage) {
			out = append(out, column(i)/p.series.IntervalS)
		}
	}
	if len(out) < 3 {
		return nil
	}
	return out[1 : len(out)-1]
}

func (c *Report) addRows(group string, a, b stageSummary) {
	for _, name := range comparedRates {
		c.addRate(group, result.Key{Name: name}, a, b)
	}
	for _, name := range comparedLatencies {
		if a.s.Latency[name] == nil || b.s.Latency[name] == nil {
			continue
		}
		keys := measureStatistics(name)
		requests := [2]int{a.completedRequests(), b.completedRequests()}
		ivs := latencyIntervals(a.s.Latency[name], b.s.Latency[name], requests, keys, c.certainty)
		samples := independentSamples(a.s.Latency[name], b.s.Latency[name], requests)
		for i, k := range keys {
			x, y := k.FromDistribution(a.s.Latency[name]), k.FromDistribution(b.s.Latency[name])
			if !math.IsNaN(x) && !math.IsNaN(y) {
				c.addRow(group, k, x, y, ivs[i])
				if row := &c.Rows[len(c.Rows)-1]; row.Outcome == RowUnknown && samples < minSamples(k) {
					row.Outcome, row.Needs = RowTooFew, minSamples(k)
				}
			}
		}
	}
}

func (c *Report) addRate(group string, k result.Key, a, b stageSummary) {
	x, _, ok := k.FromSummary(a.s)
	y, _, ok2 := k.FromSummary(b.s)
	if !ok || !ok2 {
		return
	}
	n1, n2 := float64(a.s.Completed+a.s.Failed), float64(b.s.Completed+b.s.Failed)
	var iv *interval
	switch k.Name {
	case "request_throughput":
		iv = seriesInterval(
			a.perSecond(func(i int) float64 { return float64(a.series.Completed[i]) }),
			b.perSecond(func(i int) float64 { return float64(b.series.Completed[i]) }), y-x, c.certainty)
	case "output_throughput":
		iv = seriesInterval(
			a.perSecond(func(i int) float64 { return a.series.OutputTokens[i] }),
			b.perSecond(func(i int) float64 { return b.series.OutputTokens[i] }), y-x, c.certainty)
	case "error_rate":
		iv = shareInterval(x*n1, n1, y*n2, n2, c.certainty)
	case "stream_faults":
		if iv = shareInterval(min(x, n1), n1, min(y, n2), n2, c.certainty); iv != nil {
			iv.low, iv.high = iv.low*n2, iv.high*n2
		}
	case "request_goodput":
		if a.s.GoodShare != nil && b.s.GoodShare != nil && a.s.Seconds > 0 && b.s.Seconds > 0 {
			if iv = shareInterval(*a.s.GoodShare*n1, n1, *b.s.GoodShare*n2, n2, c.certainty); iv != nil {
				spread := *b.s.GoodShare - *a.s.GoodShare
				iv.low, iv.high = (iv.low-spread)*n2/b.s.Seconds+y-x, (iv.high-spread)*n2/b.s.Seconds+y-x
			}
		}
	}
	c.addRow(group, k, x, y, iv)
}

func (c *Report) addRow(group string, k result.Key, x, y float64, iv *interval) {
	row := Row{Group: group, Key: k.String(), Base: x, New: y, Outcome: RowUnknown, key: k}
	if x != 0 {
		row.Change = new((y - x) / x)
	}
	switch {
	case iv == nil && x == y:
		row.Outcome = RowSame
	case iv == nil:
	case iv.containsZero():
		row.Outcome = RowSame
	case k.Stat != "" && math.Abs(y-x) < c.floors[k.Name]:
		row.Outcome = RowWithinFloor
	case (iv.low > 0) == k.MoreIsBetter():
		row.Outcome = RowBetter
	default:
		row.Outcome = RowWorse
	}
	if iv != nil {
		row.Low, row.High = &iv.low, &iv.high
	}
	c.Rows = append(c.Rows, row)
}

func (c *Report) verdictText() string {
	names := map[string][]string{}
	for _, r := range c.Rows {
		name := r.Key
		if r.Group != "" {
			name += " (" + r.Group + ")"
		}
		if r.Change != nil {
			name += " " + percent(*r.Change)
		}
		names[r.Outcome] = append(names[r.Outcome], name)
	}
	var parts []string
	for _, o := range []string{RowWorse, RowBetter} {
		if list := names[o]; len(list) > 0 {
			more := ""
			if len(list) > 4 {
				more = fmt.Sprintf(" and %d more", len(list)-4)
				list = list[:4]
			}
			parts = append(parts, o+": "+strings.Join(list, ", ")+more)
		}
	}
	floor := ""
	if n := len(names[RowWithinFloor]); n > 0 {
		floor = fmt.Sprintf("; %d of %d within the client's floor", n, len(c.Rows))
	}
	switch n := len(names[RowUnknown]) + len(names[RowTooFew]); {
	case len(c.Rows) == 0:
		return "nothing to compare"
	case len(parts) == 0 && n > 0 && !c.hasIntervals():
		return "too few requests to judge any difference" + c.neededRequestsText()
	case len(parts) == 0 && n > 0:
		return fmt.Sprintf("no difference that %s intervals would support; %d of %d are not judged", confidenceText(c.Confidence), n, len(c.Rows)) + c.neededRequestsText() + floor
	case len(parts) == 0:
		return fmt.Sprintf("no difference that %s intervals would support", confidenceText(c.Confidence)) + floor
	}
	if n := len(names[RowSame]); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d without a difference", n, len(c.Rows)))
	}
	return strings.Join(parts, "; ") + floor
}

// neededRequestsText describes how many requests are needed to judge the rows that have too few
// samples. It returns "" if every row has enough.
func (c *Report) neededRequestsText() string {
	least, most := 0, 0
	for _, r := range c.Rows {
		if r.Needs > 0 {
			least, most = min(cmp.Or(least, r.Needs), r.Needs), max(most, r.Needs)
		}
	}
	switch {
	case most == 0:
		return ""
	case least == most:
		return fmt.Sprintf(", for want of %d requests", most)
	}
	return fmt.Sprintf(", for want of %d to %d requests", least, most)
}

// hasIntervals reports whether any row has an interval.
func (c *Report) hasIntervals() bool {
	for _, r := range c.Rows {
		if r.Low != nil {
			return true
		}
	}
	return false
}

func confidenceText(c float64) string { return strconv.FormatFloat(100*c, 'f', -1, 64) + " %" }

func percent(v float64) string {
	p := 100 * v
	digits := 1
	if math.Abs(p) >= 100 {
		digits = 0
	}
	s := strconv.FormatFloat(p, 'f', digits, 64) + " %"
	if p > 0 {
		s = "+" + s
	}
	return s
}
