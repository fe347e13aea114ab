package proxy

import (
	"io"
	"slices"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// registry holds the metric sets of the live upstreams, so that a removed one takes its series with it and two edges in
// one process (tests) do not share any.
type registry struct {
	mu   sync.Mutex
	sets []*metrics.Set
}

func (r *registry) add(s *metrics.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = append(r.sets, s)
}

func (r *registry) remove(s *metrics.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = slices.DeleteFunc(r.sets, func(x *metrics.Set) bool { return x == s })
}

func (r *registry) write(w io.Writer) {
	r.mu.Lock()
	sets := slices.Clone(r.sets)
	r.mu.Unlock()
	for _, s := range sets {
		s.WritePrometheus(w)
	}
}
