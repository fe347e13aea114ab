package load

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

// recorder records events as they happen. It is safe for concurrent use.
type recorder struct {
	series         *timeSeries
	retryWaitNanos atomic.Int64 // total time in ns that clients of closed loops have waited for Retry-After

	mu      sync.Mutex
	samples []client.Sample
	gaps    map[gapKey]*client.GapHistogram
	ttfts   result.Histogram // used to choose when clients disconnect during the prefill
}

// gapKey identifies the smallest group of gaps. Larger groups are sums of these groups.
type gapKey struct {
	stage    int
	dialect  *client.Dialect
	upstream string
	target   uint8
}

func newRecorder() *recorder {
	return &recorder{series: newSeries(), gaps: map[gapKey]*client.GapHistogram{}}
}

// RecordFirstToken implements the observer interface of package client.
func (r *recorder) RecordFirstToken(s *client.Sample) *client.GapHistogram {
	key := gapKey{s.Stage, s.Dialect, s.Edge.Upstream, s.Target}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.gaps[key]
	if c == nil {
		c = new(client.GapHistogram)
		r.gaps[key] = c
	}
	if s.Stage >= 0 {
		r.ttfts.Record(s.At.FirstToken - s.At.Sent)
	}
	return c
}

// RecordToken implements the observer interface of package client.
func (r *recorder) RecordToken(s *client.Sample, at, gap int64) {
	if s.Target == 0 {
		r.series.addToken(at, gap)
	}
}

func (r *recorder) addSample(s client.Sample) {
	r.mu.Lock()
	r.samples = append(r.samples, s)
	r.mu.Unlock()
}

// halfPrefillTime returns how long a client that disconnects during the prefill waits before it
// does so.
func (r *recorder) halfPrefillTime() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ttfts.N == 0 {
		return 10 * time.Millisecond
	}
	return max(time.Duration(r.ttfts.Mean/2*float64(time.Millisecond)), 100*time.Microsecond)
}

// progressCounters are the numbers that the progress display shows.
type progressCounters struct {
	inFlight, peak, completed, failed, left atomic.Int64
	stage                                   atomic.Pointer[string]
}

func (c *progressCounters) begin() {
	now := c.inFlight.Add(1)
	for old := c.peak.Load(); now > old && !c.peak.CompareAndSwap(old, now); old = c.peak.Load() {
	}
}

func (c *progressCounters) end(s *client.Sample) {
	c.inFlight.Add(-1)
	switch {
	case s.Left:
		c.left.Add(1)
	case s.Failed():
		c.failed.Add(1)
	case s.Completed():
		c.completed.Add(1)
	}
}
