package load

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"penstock/bench/process"
	"penstock/bench/result"
)

// cpuMeter watches the load tester itself: processor time and how late its timers fire.
type cpuMeter struct {
	mu     sync.Mutex
	wake   result.Histogram
	shares []float64 // the load of each second
	gc     debug.GCStats
}

// cpuSpan is processor time and wall time between two moments.
type cpuSpan struct {
	cpu, wall time.Duration
	known     bool
	start     time.Time
	cpu0      time.Duration

	waited      time.Duration // ready to run, and no processor was free
	waitedKnown bool
	waited0     time.Duration
}

func (c *cpuSpan) begin() {
	c.start = time.Now()
	c.cpu0, c.known = process.CPUTime()
	c.waited0, c.waitedKnown = waitTime()
}

func (c *cpuSpan) finish() {
	now, ok := process.CPUTime()
	waited, waitedOK := waitTime()
	c.cpu, c.wall, c.known = now-c.cpu0, time.Since(c.start), c.known && ok
	c.waited, c.waitedKnown = waited-c.waited0, c.waitedKnown && waitedOK
}

// waitTime returns for how long threads of this process were ready to run while others had the processors.
func waitTime() (time.Duration, bool) {
	s, err := process.Schedule("self")
	return time.Duration(s.Waited), err == nil
}

// share is the used part of what the process may use.
func (c *cpuSpan) share() (float64, bool) {
	if !c.known || c.wall <= 0 {
		return 0, false
	}
	return float64(c.cpu) / float64(c.wall) / float64(runtime.GOMAXPROCS(0)), true
}

// tick is how often the meter sets its timer.
const tick = 10 * time.Millisecond

// watch measures until ctx ends.
func (m *cpuMeter) watch(ctx context.Context) {
	debug.ReadGCStats(&m.gc)
	var second cpuSpan
	second.begin()
	t := time.NewTimer(tick)
	defer t.Stop()
	for due := time.Now().Add(tick); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		m.mu.Lock()
		m.wake.Record(int64(now.Sub(due)))
		m.mu.Unlock()
		if now.Sub(second.start) >= time.Second {
			second.finish()
			if v, ok := second.share(); ok {
				m.mu.Lock()
				m.shares = append(m.shares, v)
				m.mu.Unlock()
			}
			second.begin()
		}
		due = time.Now().Add(tick)
		t.Reset(tick)
	}
}

// report says how the client did while it measured.
func (m *cpuMeter) report(spans []span, connections int) result.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := result.Client{GOMAXPROCS: runtime.GOMAXPROCS(0), WakeDelay: m.wake.Distribution(nil), Connections: connections}
	var cpu, wall, waited time.Duration
	known, waitedKnown := len(spans) > 0, len(spans) > 0
	for i := range spans {
		cpu += spans[i].cpu.cpu
		wall += spans[i].cpu.wall
		waited += spans[i].cpu.waited
		known = known && spans[i].cpu.known
		waitedKnown = waitedKnown && spans[i].cpu.waitedKnown
	}
	if waitedKnown && wall > 0 {
		out.CPUWaitShare = new(waited.Seconds() / wall.Seconds() / float64(out.GOMAXPROCS))
	}
	if known && wall > 0 {
		share, total := cpu.Seconds()/wall.Seconds()/float64(out.GOMAXPROCS), cpu.Seconds()
		out.CPUShare, out.CPUSeconds = &share, &total
		most := 0.0
		for _, s := range m.shares {
			most = max(most, s)
		}
		if len(m.shares) > 0 {
			out.CPUMaxShare = &most
		}
	}
	var now debug.GCStats
	debug.ReadGCStats(&now)
	for i := range min(int(now.NumGC-m.gc.NumGC), len(now.Pause)) {
		out.GCPauseMaxMs = max(out.GCPauseMaxMs, now.Pause[i].Seconds()*1000)
	}
	if rss, ok := process.MaxRSS(); ok {
		out.MaxRSSBytes = &rss
	}
	return out
}
