package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Measures in Summary.Latency and in the flat keys.
const (
	TTFT             = "ttft"               // from sent to the first token
	TTFV             = "ttfv"               // from sent to the first visible token
	ITL              = "itl"                // gaps between tokens, over all requests
	TPOT             = "tpot"               // mean gap within a request
	E2EL             = "e2el"               // from sent to the last byte
	TTFTFromSchedule = "ttft_from_schedule" // from scheduled to the first token
	E2ELFromSchedule = "e2el_from_schedule" // from scheduled to the last byte
	ScheduleDelay    = "schedule_delay"     // from scheduled to sent; vLLM calls it client queue time
	Queue            = "queue"              // wait at the edge, as reported by the edge
	Connect          = "connect"            // duration of the connect, for new connections only
)

// AllMeasures returns all measures in the order in which reports list them.
func AllMeasures() []string {
	return []string{TTFT, TTFV, TPOT, ITL, E2EL, TTFTFromSchedule, E2ELFromSchedule, ScheduleDelay, Queue, Connect}
}

// Summary contains the measures of a set of requests.
type Summary struct {
	// Requests is the number of requests sent in the measured part: Completed + Failed + Left.
	Requests  int `json:"requests"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Left      int `json:"left"` // requests whose client left on purpose
	// Seconds is the wall time to which the following rates refer.
	Seconds float64 `json:"seconds"`
	// ErrorRate is Failed / (Completed + Failed).
	ErrorRate *float64 `json:"error_rate"`
	// InputTokens, OutputTokens and CachedTokens are sums over completed requests. InputTokens
	// includes CachedTokens.
	InputTokens  *int64 `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	CachedTokens *int64 `json:"cached_tokens"`
	// CachedShare is CachedTokens / InputTokens for the requests whose responses report cached
	// tokens.
	CachedShare *float64 `json:"cached_share"`
	// The following rates are per second.
	RequestThroughput *float64 `json:"request_throughput"`
	InputThroughput   *float64 `json:"input_throughput"`
	OutputThroughput  *float64 `json:"output_throughput"`
	Goodput           *float64 `json:"goodput"`
	// GoodShare is the fraction of completed and failed requests that met all objectives. A failed
	// request meets no objectives.
	GoodShare *float64 `json:"good_share"`
	// MeanConcurrency is the sum of all latencies divided by Seconds.
	MeanConcurrency *float64 `json:"mean_concurrency"`
	// Latency has an entry for each measure. The entry is null if the measure was not taken.
	Latency map[string]*Distribution `json:"latency"`
	// CoalescedShare is the fraction of token events that arrived in the same read as an earlier
	// one. Their gaps are meaningless and are not in ITL.
	CoalescedShare *float64 `json:"coalesced_share"`
	// Errors are the failures, most frequent first.
	Errors []ErrorCount `json:"errors"`
	// StreamFaults counts faulty streams by kind of fault. It includes streams that failed because
	// of the fault.
	StreamFaults map[string]int `json:"stream_faults"`
	// Unmeasured contains the reason for each member or measure that is null.
	Unmeasured map[string]string `json:"unmeasured"`
}

// ErrorCount is the number of failures of one kind.
type ErrorCount struct {
	// Kind is one of the Err constants.
	Kind string `json:"kind"`
	// Status is the HTTP status, or 0 if there was none.
	Status int `json:"status"`
	// Code is the code or type in the error object, sanitized to an identifier. It may be empty.
	Code  string `json:"code"`
	Count int    `json:"count"`
	// Expected is the number of these failures that --expect-errors covers.
	Expected int `json:"expected"`
}

// Label formats kind, status and code for display.
func (e ErrorCount) Label() string {
	parts := []string{e.Kind}
	if e.Status != 0 {
		parts = append(parts, strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	return strings.Join(parts, " ")
}

// ExpectedText describes how many of the failures were expected, or returns "" if none were.
func (e ErrorCount) ExpectedText() string {
	switch e.Expected {
	case 0:
		return ""
	case e.Count:
		return " (as expected)"
	}
	return fmt.Sprintf(" (%d as expected)", e.Expected)
}

// Distribution contains latencies in milliseconds.
type Distribution struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Std   float64 `json:"std"` // population standard deviation
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// Percentiles is keyed by name, such as "50" and "99.9". It always contains 1, 5, 10, 25, 50,
	// 75, 90, 95, 99 and 99.9.
	Percentiles map[string]float64 `json:"percentiles"`
	// Buckets are the non-empty buckets of an HdrHistogram with 3 significant digits, in ascending
	// order: [middle in ms, count]. The cumulative sum of the counts, divided by Count, is the CDF.
	// To merge two distributions, add the counts.
	Buckets [][2]float64 `json:"buckets"`
}

// Percentile returns the p-th percentile (0 to 100), interpolated linearly between ranks as in
// numpy.
func (d *Distribution) Percentile(p float64) float64 {
	if d == nil || d.Count == 0 {
		return math.NaN()
	}
	rank := p / 100 * float64(d.Count-1)
	lo := int64(math.Floor(rank))
	a, b := d.valueAtRank(lo), d.valueAtRank(min(lo+1, d.Count-1))
	return min(max(a+(b-a)*(rank-float64(lo)), d.Min), d.Max)
}

// valueAtRank returns the value of rank i, counting from 0.
func (d *Distribution) valueAtRank(i int64) float64 {
	for _, b := range d.Buckets {
		if i -= int64(b[1]); i < 0 {
			return b[0]
		}
	}
	return d.Max
}

// Series shows the run over time, in columns of equal length. An interval is initially 1 s long.
// Its length doubles whenever there would be more than 1200 intervals.
type Series struct {
	IntervalS float64 `json:"interval_s"`
	// TS contains the starts of the intervals in seconds since the start of the run, including the
	// warm-up.
	TS []float64 `json:"t_s"`
	// Scheduled, Sent, Completed, Failed and Left count requests. Each of them counts a request in
	// the interval in which that event happened.
	Scheduled []int `json:"scheduled"`
	Sent      []int `json:"sent"`
	Completed []int `json:"completed"`
	Failed    []int `json:"failed"`
	Left      []int `json:"left"`
	// Upstreams counts complete responses by upstream, in the interval in which they ended. It is
	// empty if the edge names no upstreams.
	Upstreams map[string][]int `json:"upstreams"`
	// InFlight is the maximum number of requests in flight in each interval.
	InFlight []int `json:"in_flight"`
	// OutputTokens is the number of output tokens in each interval.
	OutputTokens []float64 `json:"output_tokens"`
	// Latency contains percentiles for each interval in ms, or null for an interval without
	// samples. Values of ttft belong to the interval of the first token, and values of e2el to the
	// interval of the end. The keys are ttft, ttft_from_schedule, itl and e2el. Each entry has the
	// keys "50", "90", "99" and "max".
	Latency map[string]map[string][]*float64 `json:"latency"`
	// Stage is the index of the stage in which each interval starts, or -1 in the warm-up.
	Stage []int `json:"stage"`
}

// Sources of token counts.
const (
	TokensFromUsage = "usage"
	TokensEstimated = "estimate"
)

// TokenCounts counts completed requests by the source of their token counts.
type TokenCounts struct {
	Input  map[string]int `json:"input"`  // usage, estimate
	Output map[string]int `json:"output"` // usage, estimate
}
