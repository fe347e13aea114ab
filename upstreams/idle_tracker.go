package upstreams

import (
	"sync/atomic"
	"time"
)

// The prober probes idle engines less often, because probing a thousand of them would cost the edge
// more than their calls. An engine becomes idle when it has been up with all its models for
// idleThreshold and has had no requests from any client. The first call ends the idle state: within a
// second, watchProgress requests a probe. A failed call requests a probe immediately (health.go).

const (
	// idleThreshold is how long an engine must be without requests to count as idle.
	idleThreshold = time.Minute
	// The probe interval of an idle engine is multiplied by idleProbeIntervalFactor, up to
	// maxIdleProbeInterval.
	idleProbeIntervalFactor = 5
	maxIdleProbeInterval    = 10 * time.Second
)

// idleTracker tracks how long an engine has been idle. Only the prober's goroutine accesses it,
// except for probeDelayed.
type idleTracker struct {
	since        time.Time   // when the engine last had requests or was in doubt
	endedCalls   uint64      // number of calls that had ended when since was set
	probeDelayed atomic.Bool // the next probe is delayed
}

// idleProbeInterval returns the probe interval of an engine that has been idle for the given time.
func idleProbeInterval(interval, idle time.Duration) time.Duration {
	if idle < idleThreshold {
		return interval
	}
	return max(interval, min(idleProbeIntervalFactor*interval, maxIdleProbeInterval))
}

// updateIdleTracker updates the idleTracker. It is called before each probe.
func (p *prober) updateIdleTracker(now time.Time) {
	u, work := p.up, endedCallCount(p.up)
	m, missing := u.Health.factsSnapshot().liveness, u.Models.unservedNames(u.settings.Load().expected)
	if hasCalls(u) || work != p.idle.endedCalls || m.state != StateUp || m.contradictions > 0 || len(missing) > 0 {
		p.idle.since, p.idle.endedCalls = now, work
	}
}

// probeInterval returns the current probe interval. If the engine reports requests from other
// clients, the interval stays short, because routing uses these reports.
func (p *prober) probeInterval(now time.Time) time.Duration {
	usual := p.up.settings.Load().probe.interval
	if r := p.up.reports.last.Load(); r.isFresh(MomentOf(now)) && r.Running+r.Waiting > 0 {
		p.idle.since = now
	}
	return idleProbeInterval(usual, now.Sub(p.idle.since))
}

func endedCallCount(u *Upstream) (n uint64) {
	for o := range outcomeCount {
		n += u.series.attempts[o].Get()
	}
	return n
}
