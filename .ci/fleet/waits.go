package main

import (
	"math"
	"strconv"
	"strings"

	"penstock/bench/load/client"
)

// waitHistogram contains the histogram of waits for the store. It maps each bucket bound, in
// seconds, to the number of waits that were at most that long.
type waitHistogram map[float64]float64

const storeWaitSeriesPrefix = `penstock_fleet_wait_seconds_bucket{le="`

// addMetricsPage adds the buckets in an edge's metrics page.
func (w waitHistogram) addMetricsPage(page []byte) {
	for series, n := range client.ParseMetrics(page) {
		bound, ok := strings.CutPrefix(string(series), storeWaitSeriesPrefix)
		if !ok {
			continue
		}
		if le, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"}`), 64); err == nil { // also parses +Inf
			w[le] += n
		}
	}
}

// subtract returns the waits that happened after an earlier reading.
func (w waitHistogram) subtract(earlier waitHistogram) waitHistogram {
	out := waitHistogram{}
	for le, n := range w {
		out[le] = n - earlier[le]
	}
	return out
}

func (w waitHistogram) totalCount() float64 { return w[math.Inf(1)] }

// countAbove returns the number of waits above a bucket bound.
func (w waitHistogram) countAbove(bound float64) float64 { return w.totalCount() - w[bound] }

// quantile returns a quantile in seconds, interpolated within its bucket. For a quantile in the
// last bucket, it returns that bucket's lower bound.
func (w waitHistogram) quantile(q float64) float64 {
	rank, low, below := q*w.totalCount(), 0.0, 0.0
	for {
		next := math.Inf(1)
		for le := range w {
			if le > low {
				next = min(next, le)
			}
		}
		switch n := w[next]; {
		case math.IsInf(next, 1):
			return low
		case n >= rank && n > below:
			return low + (next-low)*(rank-below)/(n-below)
		default:
			low, below = next, n
		}
	}
}
