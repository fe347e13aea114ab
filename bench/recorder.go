package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// recorder takes down what happens while it happens. It is safe for concurrent use.
type recorder struct {
	series *series

	mu      sync.Mutex
	samples []sample
	gaps    map[gapKey]*gapCell
	ttfts   histogram // for departures in the middle of a prefill
}

// gapKey is the finest group that gaps are counted for; coarser ones are sums.
type gapKey struct {
	stage    int
	dialect  *dialect
	upstream string
	target   uint8
}

func newRecorder() *recorder {
	return &recorder{series: newSeries(), gaps: map[gapKey]*gapCell{}}
}

// FirstToken implements observer.
func (r *recorder) FirstToken(s *sample) *gapCell {
	key := gapKey{s.stage, s.dialect, s.edge.upstream, s.target}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.gaps[key]
	if c == nil {
		c = new(gapCell)
		r.gaps[key] = c
	}
	if s.stage >= 0 {
		r.ttfts.record(s.at.firstToken - s.at.sent)
	}
	return c
}

// Token implements observer.
func (r *recorder) Token(s *sample, at, gap int64) {
	if s.target == 0 {
		r.series.token(at, gap)
	}
}

func (r *recorder) add(s sample) {
	r.mu.Lock()
	r.samples = append(r.samples, s)
	r.mu.Unlock()
}

// halfPrefill is the time after which a client leaves in the middle of the prefill.
func (r *recorder) halfPrefill() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ttfts.n == 0 {
		return 10 * time.Millisecond
	}
	return max(time.Duration(r.ttfts.mean/2*float64(time.Millisecond)), 100*time.Microsecond)
}

// counters are what the progress display shows.
type counters struct {
	inFlight, peak, completed, failed, left atomic.Int64
	stage                                   atomic.Pointer[string]
}

// begin counts a request in flight.
func (c *counters) begin() {
	now := c.inFlight.Add(1)
	for old := c.peak.Load(); now > old && !c.peak.CompareAndSwap(old, now); old = c.peak.Load() {
	}
}

// end counts how a request ended.
func (c *counters) end(s *sample) {
	c.inFlight.Add(-1)
	switch {
	case s.left:
		c.left.Add(1)
	case s.failed():
		c.failed.Add(1)
	case s.completed():
		c.completed.Add(1)
	}
}
