package upstreams

import (
	"sync/atomic"
	"time"
)

// An idle engine is probed less often: probing a thousand idle engines would cost the edge more
// than their calls. An engine is idle if it has been up for the duration restAfter, with all its
// models and without anyone's work. The first call ends that: the check in the same second asks for
// a probe. A failed call asks for a probe at once (health.go).

const (
	// restAfter is the time that an engine must be without work to count as idle.
	restAfter = time.Minute
	// restFactor is the factor by which the interval of an idle engine is longer, up to
	// restIntervalMax.
	restFactor      = 5
	restIntervalMax = 10 * time.Second
)

// rest records how long an engine has been idle. The prober's goroutine owns it, except for
// resting.
type rest struct {
	since   time.Time   // when it last had work, or was in doubt
	work    uint64      // number of calls that had ended by then
	resting atomic.Bool // the next probe comes later than usual
}

// restInterval returns the time between two probes of an engine, given how long the engine has been
// idle.
func restInterval(interval, idle time.Duration) time.Duration {
	if idle < restAfter {
		return interval
	}
	return max(interval, min(restFactor*interval, restIntervalMax))
}

// noteRest records before a probe whether the engine is idle.
func (p *prober) noteRest(now time.Time) {
	u, work := p.up, endedCalls(p.up)
	m, missing := u.Health.read().machine, u.Models.unserved(u.settings.Load().expected)
	if hasCalls(u) || work != p.rest.work || m.state != StateUp || m.bad > 0 || len(missing) > 0 {
		p.rest.since, p.rest.work = now, work
	}
}

// interval returns the current time between two probes. Picks use the engine's report if it shows
// others' work, so the usual interval then stays.
func (p *prober) interval(now time.Time) time.Duration {
	usual := p.up.settings.Load().probe.interval
	if r := p.up.reports.last.Load(); r.fresh(At(now)) && r.Running+r.Waiting > 0 {
		p.rest.since = now
	}
	return restInterval(usual, now.Sub(p.rest.since))
}

// endedCalls returns the number of calls that have ended at the upstream.
func endedCalls(u *Upstream) (n uint64) {
	for o := range outcomeCount {
		n += u.series.attempts[o].Get()
	}
	return n
}
