package bench

import (
	"math"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram in microseconds: what is longer than an hour counts as an hour.
const (
	histMin = 1
	histMax = int64(time.Hour / time.Microsecond)
)

// histogram counts latencies in an HdrHistogram of microseconds with 3 significant digits, and keeps their exact mean,
// deviation and bounds. The zero value is ready. It is not safe for concurrent use.
type histogram struct {
	h            *hdrhistogram.Histogram
	n            int64
	mean, square float64 // Welford's: mean, and sum of squared deviations, in ms
	low, high    float64 // ms
}

// record adds a latency in nanoseconds. One below 0, which a clock cannot give, counts as 0.
func (h *histogram) record(ns int64) {
	if h.h == nil {
		h.h = hdrhistogram.New(histMin, histMax, 3)
	}
	ns = max(ns, 0)
	_ = h.h.RecordValue(min((ns+500)/1000, histMax)) // cannot fail: it is in range
	ms := float64(ns) / 1e6
	if h.n++; h.n == 1 {
		h.low, h.high = ms, ms
	}
	h.low, h.high = min(h.low, ms), max(h.high, ms)
	d := ms - h.mean
	h.mean += d / float64(h.n)
	h.square += d * (ms - h.mean)
}

// merge adds everything that o has counted.
func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	if h.n == 0 {
		h.h = hdrhistogram.New(histMin, histMax, 3)
		h.low, h.high = o.low, o.high
	}
	h.h.Merge(o.h)
	n := float64(h.n + o.n)
	d := o.mean - h.mean
	h.square += o.square + d*d*float64(h.n)*float64(o.n)/n
	h.mean += d * float64(o.n) / n
	h.n += o.n
	h.low, h.high = min(h.low, o.low), max(h.high, o.high)
}

// standardPercentiles are in every Distribution.
var standardPercentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9}

// distribution returns what h has counted, with the standard percentiles and more; nil when that is nothing.
func (h *histogram) distribution(more []float64) *Distribution {
	if h.n == 0 {
		return nil
	}
	d := &Distribution{
		Count: h.n, Mean: h.mean, Std: math.Sqrt(h.square / float64(h.n)), Min: h.low, Max: h.high,
		Percentiles: map[string]float64{}, Buckets: [][2]float64{},
	}
	for _, b := range h.h.Distribution() {
		if b.Count > 0 {
			d.Buckets = append(d.Buckets, [2]float64{float64(b.From+b.To) / 2000, float64(b.Count)})
		}
	}
	for _, list := range [][]float64{standardPercentiles, more} {
		for _, p := range list {
			d.Percentiles[percentileName(p)] = d.Percentile(p)
		}
	}
	return d
}

// percentileName is how a percentile is written in keys: 99, 99.9.
func percentileName(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }
