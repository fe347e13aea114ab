package main

import (
	"math"
	"strconv"
	"strings"

	"penstock/bench/load/client"
)

// waits holds the buckets of the edges' histogram of waits for the store. It maps each bound, in
// seconds, to the number of waits up to that bound.
type waits map[float64]float64

const waitSeries = `penstock_fleet_wait_seconds_bucket{le="`

// add adds the buckets on an edge's metrics page.
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

// since returns the waits since an earlier reading.
func (w waits) since(earlier waits) waits {
	out := waits{}
	for le, n := range w {
		out[le] = n - earlier[le]
	}
	return out
}

func (w waits) all() float64 { return w[math.Inf(1)] }

// longer returns how many waits were longer than a bound of the histogram.
func (w waits) longer(bound float64) float64 { return w.all() - w[bound] }

// quantile returns a quantile in seconds, interpolated within its bucket. In the last bucket the
// result is the bucket's lower bound.
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
