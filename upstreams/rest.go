package upstreams

import (
	"sync/atomic"
	"time"
)

// The prober probes idle engines less often, because probing a thousand of them would cost the edge
// more than their calls. An engine becomes idle when it has been up with all its models for
// restAfter and has had no requests from any client. The first call ends the idle state: within a
// second, a check requests a probe. A failed call requests a probe immediately (health.go).

const (
	// restAfter is how long an engine must be without requests to count as idle.
	restAfter = time.Minute
	// The probe interval of an idle engine is multiplied by restFactor, up to restIntervalMax.
	restFactor      = 5
	restIntervalMax = 10 * time.Second
)

// rest tracks how long an engine has been idle. Only the prober's goroutine accesses it, except for
// resting.
type rest struct {
	since   time.Time   // when the engine last had requests, or was in doubt
	work    uint64      // number of calls that had ended when since was set
	resting atomic.Bool // the next probe is delayed
}

// restInterval returns the probe interval of an engine that has been idle for the given time.
func restInterval(interval, idle time.Duration) time.Duration {
	if idle < restAfter {
		return interval
	}
	return max(interval, min(restFactor*interval, restIntervalMax))
}

// noteRest updates the idle time. It is called before each probe.
func (p *prober) noteRest(now time.Time) {
	u, work := p.up, endedCalls(p.up)
	m, missing := u.Health.read().machine, u.Models.unserved(u.settings.Load().expected)
	if hasCalls(u) || work != p.rest.work || m.state != StateUp || m.bad > 0 || len(missing) > 0 {
		p.rest.since, p.rest.work = now, work
	}
}

// interval returns the current probe interval. If the engine reports requests from other clients,
// the interval stays short, because routing uses these reports.
func (p *prober) interval(now time.Time) time.Duration {
	usual := p.up.settings.Load().probe.interval
	if r := p.up.reports.last.Load(); r.fresh(At(now)) && r.Running+r.Waiting > 0 {
		p.rest.since = now
	}
	return restInterval(usual, now.Sub(p.rest.since))
}

func endedCalls(u *Upstream) (n uint64) {
	for o := range outcomeCount {
		n += u.series.attempts[o].Get()
	}
	return n
}
