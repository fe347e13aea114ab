package load

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"penstock/bench/process"
	"penstock/bench/result"
)

// clientMeter measures the load tester's CPU time and the delay of its timers.
type clientMeter struct {
	mu          sync.Mutex
	timerDelays result.Histogram
	maxShare    float64 // fraction of the available CPU time used in the busiest second
	gc          debug.GCStats
}

// cpuSpan contains the CPU time, and the time spent waiting for a CPU, during a time span. All
// values are in seconds; unknown values are NaN.
type cpuSpan struct {
	cpu, waited, wall float64
	start             time.Time
}

func (c *cpuSpan) begin() {
	c.start = time.Now()
	c.cpu, c.waited = processTimes()
}

func (c *cpuSpan) finish() {
	cpu, waited := processTimes()
	c.cpu, c.waited, c.wall = cpu-c.cpu, waited-c.waited, time.Since(c.start).Seconds()
}

// processTimes returns the CPU time of this process, and the time that its runnable threads waited
// for a CPU.
func processTimes() (ran, waited float64) {
	ran, waited = math.NaN(), math.NaN()
	if d, ok := process.CPUTime(); ok {
		ran = d.Seconds()
	}
	if s, err := process.ReadSchedulerTimes("self"); err == nil {
		waited = s.Waited / 1e9
	}
	return ran, waited
}

// cpuShare divides seconds by the CPU time available during wall. If that time is unknown, it
// returns nil.
func cpuShare(seconds, wall float64) *float64 {
	if v := seconds / wall / float64(runtime.GOMAXPROCS(0)); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return &v
	}
	return nil
}

// meterTickInterval is the interval of the meter's timer.
const meterTickInterval = 10 * time.Millisecond

func (m *clientMeter) sampleUntilDone(ctx context.Context) {
	debug.ReadGCStats(&m.gc)
	var second cpuSpan
	second.begin()
	t := time.NewTimer(meterTickInterval)
	defer t.Stop()
	for due := time.Now().Add(meterTickInterval); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		m.mu.Lock()
		m.timerDelays.Record(int64(now.Sub(due)))
		m.mu.Unlock()
		if now.Sub(second.start) >= time.Second {
			second.finish()
			if v := cpuShare(second.cpu, second.wall); v != nil {
				m.mu.Lock()
				m.maxShare = max(m.maxShare, *v)
				m.mu.Unlock()
			}
			second.begin()
		}
		due = time.Now().Add(meterTickInterval)
		t.Reset(meterTickInterval)
	}
}

// clientReport describes how the client performed during the measurement.
func (m *clientMeter) clientReport(spans []completedStage, connections int) result.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := result.Client{GOMAXPROCS: runtime.GOMAXPROCS(0), WakeDelay: m.timerDelays.Distribution(), Connections: connections}
	var sum cpuSpan
	for i := range spans {
		sum.cpu, sum.waited, sum.wall = sum.cpu+spans[i].cpu.cpu, sum.waited+spans[i].cpu.waited, sum.wall+spans[i].cpu.wall
	}
	out.CPUShare, out.CPUWaitShare = cpuShare(sum.cpu, sum.wall), cpuShare(sum.waited, sum.wall)
	if out.CPUShare != nil {
		out.CPUSeconds = &sum.cpu
	}
	if out.CPUShare != nil && m.maxShare > 0 {
		out.CPUMaxShare = &m.maxShare
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
