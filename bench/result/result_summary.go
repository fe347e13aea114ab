package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Names of the measures in Summary.Latency and in the flat keys.
const (
	TTFT             = "ttft"               // sent to first token
	TTFV             = "ttfv"               // sent to first visible token
	ITL              = "itl"                // gaps between tokens, pooled
	TPOT             = "tpot"               // mean gap of a request
	E2EL             = "e2el"               // sent to last byte
	TTFTFromSchedule = "ttft_from_schedule" // scheduled to first token
	E2ELFromSchedule = "e2el_from_schedule" // scheduled to last byte
	ScheduleDelay    = "schedule_delay"     // scheduled to sent: vLLM's client queue time
	Queue            = "queue"              // in the edge, as it reports
	Connect          = "connect"            // new connections only
)

// Measures lists the names of all measures in the order of reports.
func Measures() []string {
	return []string{TTFT, TTFV, TPOT, ITL, E2EL, TTFTFromSchedule, E2ELFromSchedule, ScheduleDelay, Queue, Connect}
}

// Summary holds the measures of a set of requests.
type Summary struct {
	// Requests is the number of requests sent in the measured part: Completed + Failed + Left.
	Requests  int `json:"requests"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Left      int `json:"left"` // clients that left on purpose
	// Seconds is the wall time for the rates below.
	Seconds float64 `json:"seconds"`
	// ErrorRate is Failed / (Completed + Failed).
	ErrorRate *float64 `json:"error_rate"`
	// InputTokens, OutputTokens and CachedTokens are sums over completed requests. Cached ones are
	// part of the input.
	InputTokens  *int64 `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	CachedTokens *int64 `json:"cached_tokens"`
	// CachedShare is CachedTokens / InputTokens over the requests whose answers report cached
	// tokens.
	CachedShare *float64 `json:"cached_share"`
	// Rates are per second.
	RequestThroughput *float64 `json:"request_throughput"`
	InputThroughput   *float64 `json:"input_throughput"`
	OutputThroughput  *float64 `json:"output_throughput"`
	Goodput           *float64 `json:"goodput"`
	// GoodShare is the share of completed and failed requests that met every objective. A failed
	// request meets none.
	GoodShare *float64 `json:"good_share"`
	// MeanConcurrency is the sum of latencies / Seconds.
	MeanConcurrency *float64 `json:"mean_concurrency"`
	// Latency has an entry for every name of Measures; null when not measured.
	Latency map[string]*Distribution `json:"latency"`
	// CoalescedShare is the share of token events that came in one read with an earlier one. Their
	// gaps mean nothing and are not in ITL.
	CoalescedShare *float64 `json:"coalesced_share"`
	// Errors are the failures, most frequent first.
	Errors []ErrorCount `json:"errors"`
	// StreamFaults counts faulty streams by kind: see Faults. It includes those that failed because
	// of the fault.
	StreamFaults map[string]int `json:"stream_faults"`
	// Unmeasured gives the reason for each member or measure that is null.
	Unmeasured map[string]string `json:"unmeasured"`
}

// ErrorCount is one kind of failure.
type ErrorCount struct {
	// Kind is one of Kinds, a closed set.
	Kind string `json:"kind"`
	// Status is the HTTP status; 0 when there was none.
	Status int `json:"status"`
	// Code is the code or type from the error object, cut to the letters of an identifier; may be
	// empty.
	Code  string `json:"code"`
	Count int    `json:"count"`
	// Expected is how many of them belong to the test: --expect-errors.
	Expected int `json:"expected"`
}

// Label returns the kind with its status and code, for people.
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

// Belongs describes how many of the failures belong to the test; empty for none.
func (e ErrorCount) Belongs() string {
	switch e.Expected {
	case 0:
		return ""
	case e.Count:
		return " (as expected)"
	}
	return fmt.Sprintf(" (%d as expected)", e.Expected)
}

// Distribution is a set of latencies in milliseconds.
type Distribution struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Std   float64 `json:"std"` // of the population
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// Percentiles by name, such as "50" and "99.9": always 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9.
	Percentiles map[string]float64 `json:"percentiles"`
	// Buckets are the non-empty buckets of an HdrHistogram with 3 significant digits, in order:
	// [middle in ms, count]. Their running sum over Count is the CDF. Two distributions are merged
	// by adding counts.
	Buckets [][2]float64 `json:"buckets"`
}

// Percentile returns the p-th percentile (0 to 100), interpolated linearly between ranks as numpy
// does.
func (d *Distribution) Percentile(p float64) float64 {
	if d == nil || d.Count == 0 {
		return math.NaN()
	}
	rank := p / 100 * float64(d.Count-1)
	lo := int64(math.Floor(rank))
	a, b := d.at(lo), d.at(min(lo+1, d.Count-1))
	return min(max(a+(b-a)*(rank-float64(lo)), d.Min), d.Max)
}

// at returns the value of rank i, from 0.
func (d *Distribution) at(i int64) float64 {
	for _, b := range d.Buckets {
		if i -= int64(b[1]); i < 0 {
			return b[0]
		}
	}
	return d.Max
}

// Series is the run over time: columns of equal length. An interval is 1 s, and doubles each time
// the run would have more than 1200.
type Series struct {
	IntervalS float64 `json:"interval_s"`
	// TS is the start of each interval in seconds since the start of the run, including the
	// warm-up.
	TS []float64 `json:"t_s"`
	// Scheduled, Sent, Completed, Failed and Left count requests by the interval of that event.
	Scheduled []int `json:"scheduled"`
	Sent      []int `json:"sent"`
	Completed []int `json:"completed"`
	Failed    []int `json:"failed"`
	Left      []int `json:"left"`
	// Upstreams counts complete answers by the upstream that the edge named and the interval in
	// which they ended; empty when it named none.
	Upstreams map[string][]int `json:"upstreams"`
	// InFlight is the highest number of requests in flight in the interval.
	InFlight []int `json:"in_flight"`
	// OutputTokens is the number of output tokens in the interval.
	OutputTokens []float64 `json:"output_tokens"`
	// Latency holds percentiles for each interval in ms (ttft by the first token, e2el by the end);
	// null without samples. Keys: ttft, ttft_from_schedule, itl, e2el; below them "50", "90", "99",
	// "max".
	Latency map[string]map[string][]*float64 `json:"latency"`
	// Stage is the index of the stage at each interval's start; -1 in the warm-up.
	Stage []int `json:"stage"`
}

// Token sources.
const (
	TokensFromUsage = "usage"
	TokensEstimated = "estimate"
)

// TokenCounts is the number of completed requests by the source of their token counts.
type TokenCounts struct {
	Input  map[string]int `json:"input"`  // usage, estimate
	Output map[string]int `json:"output"` // usage, estimate
}
