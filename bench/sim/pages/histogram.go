package pages

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

var histogramBounds = [...]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// Histogram counts durations in the buckets that engines report. The zero value is empty.
type Histogram struct {
	mu     sync.Mutex
	counts [len(histogramBounds) + 1]int64
	sum    float64
	n      int64
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	s := d.Seconds()
	i := 0
	for i < len(histogramBounds) && s > histogramBounds[i] {
		i++
	}
	h.mu.Lock()
	h.counts[i]++
	h.sum += s
	h.n++
	h.mu.Unlock()
}

// Total returns the sum of all observed durations in seconds.
func (h *Histogram) Total() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sum
}

// Text returns the histogram in Prometheus text format, without the final line break.
func (h *Histogram) Text(name, labels string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP %s Histogram of %s.\n# TYPE %s histogram\n", name, strings.TrimPrefix(name, "vllm:"), name)
	more, alone := "", ""
	if labels != "" {
		more, alone = labels+",", "{"+labels+"}"
	}
	sum := int64(0)
	for i, le := range histogramBounds {
		sum += h.counts[i]
		fmt.Fprintf(&b, "%s_bucket{%sle=\"%g\"} %d\n", name, more, le, sum)
	}
	fmt.Fprintf(&b, "%s_bucket{%sle=\"+Inf\"} %d\n", name, more, h.n)
	fmt.Fprintf(&b, "%s_count%s %d\n%s_sum%s %g", name, alone, h.n, name, alone, h.sum)
	return b.String()
}
