package result

import (
	"math"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range of a histogram in microseconds. A latency above an hour counts as an hour.
const (
	HistogramMinMicros = 1
	HistogramMaxMicros = int64(time.Hour / time.Microsecond)
)

// Histogram counts latencies in an HdrHistogram of microseconds with 3 significant digits. It also
// records the exact mean, deviation and extremes. The zero value is ready to use. It is not safe
// for concurrent use.
type Histogram struct {
	H            *hdrhistogram.Histogram
	N            int64
	Mean, square float64 // Welford's running mean and sum of squared deviations, in ms
	low, High    float64 // in ms
}

// Record adds a latency in nanoseconds. A negative latency counts as 0.
func (h *Histogram) Record(ns int64) {
	if h.H == nil {
		h.H = hdrhistogram.New(HistogramMinMicros, HistogramMaxMicros, 3)
	}
	ns = max(ns, 0)
	_ = h.H.RecordValue(min((ns+500)/1000, HistogramMaxMicros)) // cannot fail, because the value is in range
	ms := float64(ns) / 1e6
	if h.N++; h.N == 1 {
		h.low, h.High = ms, ms
	}
	h.low, h.High = min(h.low, ms), max(h.High, ms)
	d := ms - h.Mean
	h.Mean += d / float64(h.N)
	h.square += d * (ms - h.Mean)
}

// Merge adds the latencies of o.
func (h *Histogram) Merge(o *Histogram) {
	if o.N == 0 {
		return
	}
	if h.N == 0 {
		h.H = hdrhistogram.New(HistogramMinMicros, HistogramMaxMicros, 3)
		h.low, h.High = o.low, o.High
	}
	h.H.Merge(o.H)
	n := float64(h.N + o.N)
	d := o.Mean - h.Mean
	h.square += o.square + d*d*float64(h.N)*float64(o.N)/n
	h.Mean += d * float64(o.N) / n
	h.N += o.N
	h.low, h.High = min(h.low, o.low), max(h.High, o.High)
}

// standardPercentiles are the percentiles in every Distribution.
var standardPercentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9}

// Distribution returns the latencies as a Distribution, or nil if there are none.
func (h *Histogram) Distribution() *Distribution {
	if h.N == 0 {
		return nil
	}
	d := &Distribution{
		Count: h.N, Mean: h.Mean, Std: math.Sqrt(h.square / float64(h.N)), Min: h.low, Max: h.High,
		Percentiles: map[string]float64{}, Buckets: [][2]float64{},
	}
	for _, b := range h.H.Distribution() {
		if b.Count > 0 {
			d.Buckets = append(d.Buckets, [2]float64{float64(b.From+b.To) / 2000, float64(b.Count)})
		}
	}
	for _, p := range standardPercentiles {
		d.Percentiles[PercentileName(p)] = d.Percentile(p)
	}
	return d
}

// PercentileName formats a percentile as in keys, for example 99 or 99.9.
func PercentileName(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }
