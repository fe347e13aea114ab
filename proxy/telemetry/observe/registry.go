package observe

import (
	"io"
	"slices"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// UpstreamMetricsRegistry contains the metric sets of the live upstreams. The zero value is ready
// for use. A Registry is safe for concurrent use.
type UpstreamMetricsRegistry struct {
	mu   sync.Mutex
	sets []*metrics.Set
}

// Add adds the metrics of an upstream.
func (r *UpstreamMetricsRegistry) Add(s *metrics.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = append(r.sets, s)
}

// Remove removes the metrics of an upstream.
func (r *UpstreamMetricsRegistry) Remove(s *metrics.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = slices.DeleteFunc(r.sets, func(x *metrics.Set) bool { return x == s })
}

// Write writes all sets in the Prometheus text format.
func (r *UpstreamMetricsRegistry) Write(w io.Writer) {
	r.mu.Lock()
	sets := slices.Clone(r.sets)
	r.mu.Unlock()
	for _, s := range sets {
		s.WritePrometheus(w)
	}
}
