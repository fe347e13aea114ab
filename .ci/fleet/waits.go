package main

import (
	"math"
	"strconv"
	"strings"

	"penstock/bench/load/client"
)

// waits contains the histogram of waits for the store. It maps each bucket bound, in seconds, to
// the number of waits that were at most that long.
type waits map[float64]float64

const waitSeries = `penstock_fleet_wait_seconds_bucket{le="`

// add adds the buckets in an edge's metrics page.
func (w waits) add(page []byte) {
	for series, n := range client.Metrics(page) {
		bound, ok := strings.CutPrefix(string(series), waitSeries)
		if !ok {
			continue
		}
		if le, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"}`), 64); err == nil { // also parses +Inf
			w[le] += n
		}
	}
}

// minus returns the waits that happened after an earlier reading.
func (w waits) minus(earlier waits) waits {
	out := waits{}
	for le, n := range w {
		out[le] = n - earlier[le]
	}
	return out
}

func (w waits) all() float64 { return w[math.Inf(1)] }

// countAbove returns the number of waits above a bucket bound.
func (w waits) countAbove(bound float64) float64 { return w.all() - w[bound] }

// quantile returns a quantile in seconds, interpolated within its bucket. For a quantile in the
// last bucket, it returns that bucket's lower bound.
func (w waits) quantile(q float64) float64 {
	rank, low, below := q*w.all(), 0.0, 0.0
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
