package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Key names a number of a Result by its measure and statistic.
type Key struct {
	Name    string  // one of AllMeasures, or a rate such as request_throughput
	Stat    string  // mean, median, std, min, max, p; empty for rates
	Percent float64 // used if Stat is p
}

// FlatMeasures and FlatStatistics are the measures and statistics in vLLM's block and in the flat
// keys.
var (
	FlatMeasures   = []string{TTFT, TPOT, ITL, E2EL}
	FlatStatistics = []string{"mean", "std", "median", "p50", "p90", "p95", "p99"}
)

// summaryRates lists the numbers in a Summary that are not latencies and, for each, whether larger
// is better.
var summaryRates = map[string]struct {
	more bool
	of   func(*Summary) *float64
}{
	"request_throughput": {true, func(s *Summary) *float64 { return s.RequestThroughput }},
	"input_throughput":   {true, func(s *Summary) *float64 { return s.InputThroughput }},
	"output_throughput":  {true, func(s *Summary) *float64 { return s.OutputThroughput }},
	"request_goodput":    {true, func(s *Summary) *float64 { return s.Goodput }},
	"good_share":         {true, func(s *Summary) *float64 { return s.GoodShare }},
	"cached_share":       {true, func(s *Summary) *float64 { return s.CachedShare }},
	"error_rate":         {false, func(s *Summary) *float64 { return s.ErrorRate }},
	"coalesced_share":    {false, func(s *Summary) *float64 { return s.CoalescedShare }},
	"mean_concurrency":   {false, func(s *Summary) *float64 { return s.MeanConcurrency }},
	"requests":           {true, func(s *Summary) *float64 { return floatCount(s.Requests) }},
	"completed":          {true, func(s *Summary) *float64 { return floatCount(s.Completed) }},
	"failed":             {false, func(s *Summary) *float64 { return floatCount(s.Failed) }},
	"stream_faults": {false, func(s *Summary) *float64 {
		n := 0
		for _, c := range s.StreamFaults {
			n += c
		}
		return floatCount(n)
	}},
}

func floatCount(n int) *float64 {
	return new(float64(n))
}

// ParseKey parses a key such as p99_ttft_ms, mean_e2el_ms or max_itl_ms, or the name of a rate.
func ParseKey(s string) (Key, error) {
	if _, ok := summaryRates[s]; ok {
		return Key{Name: s}, nil
	}
	rest, ok := strings.CutSuffix(s, "_ms")
	stat, name, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 {
		return Key{}, fmt.Errorf("unknown measure %q: want one such as p99_ttft_ms, mean_e2el_ms, request_throughput or error_rate", s)
	}
	k := Key{Name: name, Stat: stat}
	known := false
	for _, m := range AllMeasures() {
		known = known || m == name
	}
	if !known {
		return k, fmt.Errorf("unknown measure %q: there is no %q; latencies are %s", s, name, strings.Join(AllMeasures(), ", "))
	}
	switch stat {
	case "mean", "median", "std", "min", "max":
		return k, nil
	}
	p, err := strconv.ParseFloat(strings.TrimPrefix(stat, "p"), 64)
	if err != nil || stat[0] != 'p' || !(p >= 0 && p <= 100) {
		return k, fmt.Errorf("unknown measure %q: %q is not mean, median, std, min, max or p0 to p100", s, stat)
	}
	k.Stat, k.Percent = "p", p
	return k, nil
}

// String returns the text that ParseKey parses.
func (k Key) String() string {
	switch k.Stat {
	case "":
		return k.Name
	case "p":
		return "p" + strconv.FormatFloat(k.Percent, 'f', -1, 64) + "_" + k.Name + "_ms"
	}
	return k.Stat + "_" + k.Name + "_ms"
}

// FromDistribution returns the number from a distribution, or NaN if the distribution is empty.
func (k Key) FromDistribution(d *Distribution) float64 {
	if d == nil || d.Count == 0 {
		return math.NaN()
	}
	switch k.Stat {
	case "mean":
		return d.Mean
	case "std":
		return d.Std
	case "min":
		return d.Min
	case "max":
		return d.Max
	case "median":
		return d.Quantile(50)
	}
	return d.Quantile(k.Percent)
}

// Quantile returns a percentile. If the result contains a value computed from the samples, Quantile
// returns that value. Otherwise, it estimates the percentile from the buckets.
func (d *Distribution) Quantile(p float64) float64 {
	if v, ok := d.Percentiles[strconv.FormatFloat(p, 'f', -1, 64)]; ok {
		return v
	}
	return d.Percentile(p)
}

// FromSummary returns the number from a summary. If it was not measured, ok is false and reason
// explains why.
func (k Key) FromSummary(s *Summary) (v float64, reason string, ok bool) {
	if k.Stat == "" {
		if p := summaryRates[k.Name].of(s); p != nil {
			return *p, "", true
		}
	} else if v := k.FromDistribution(s.Latency[k.Name]); !math.IsNaN(v) {
		return v, "", true
	}
	if reason = s.Unmeasured[k.Name]; reason == "" {
		reason = "it was not measured"
	}
	return math.NaN(), reason, false
}

// Format formats a value. Counts are integers, fractions are in percent, and other numbers have
// four digits.
func (k Key) Format(v float64) string {
	switch {
	case k.Stat != "":
	case k.Name == "requests" || k.Name == "completed" || k.Name == "failed" || k.Name == "stream_faults":
		return strconv.FormatFloat(v, 'f', -1, 64)
	case k.Name == "error_rate" || strings.HasSuffix(k.Name, "_share"):
		return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
	}
	return NumberText(v)
}

// Unit returns the unit to append to the result of Format, including a leading space. It returns ""
// for counts, or if Format already includes the unit.
func (k Key) Unit() string {
	switch {
	case k.Stat != "":
		return " ms"
	case k.Name == "request_throughput" || k.Name == "request_goodput":
		return " req/s"
	case k.Name == "input_throughput" || k.Name == "output_throughput":
		return " tok/s"
	}
	return ""
}

// MoreIsBetter reports whether a larger number is an improvement.
func (k Key) MoreIsBetter() bool { return k.Stat == "" && summaryRates[k.Name].more }

// NumberText formats v with four significant digits and no exponent.
func NumberText(v float64) string {
	digits := 3
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case abs >= 1000 || v == 0:
		digits = 0
	case abs >= 100:
		digits = 1
	case abs >= 10:
		digits = 2
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
