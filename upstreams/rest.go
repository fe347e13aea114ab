package upstreams

import (
	"sync/atomic"
	"time"
)

// An engine at rest is probed less often: a thousand idle engines would cost the edge more than
// their calls. At rest is an engine that has been up, has had all of its models and no work of
// anybody for restAfter. The first call ends that: the look of the same second asks for a probe. So does a
// call that fails (health.go), at once.

const (
	// restAfter is how long nothing has to be asked of an engine.
	restAfter = time.Minute
	// restFactor is how many times longer the interval is then, up to restIntervalMax.
	restFactor      = 5
	restIntervalMax = 10 * time.Second
)

// rest is how long an engine has had nothing to do. The prober's goroutine owns it, but for
// resting.
type rest struct {
	since   time.Time   // when it last had work, or was in doubt
	work    uint64      // its calls that had ended by then
	resting atomic.Bool // the next probe comes later than usual
}

// restInterval returns the time between the probes of an engine that has had nothing to do for so
// long.
func restInterval(interval, idle time.Duration) time.Duration {
	if idle < restAfter {
		return interval
	}
	return max(interval, min(restFactor*interval, restIntervalMax))
}

// noteRest notes before a probe whether the engine has anything to do.
func (p *prober) noteRest(now time.Time) {
	u, work := p.up, endedCalls(p.up)
	m, missing := u.Health.read().machine, u.Models.unserved(u.settings.Load().expected)
	if hasCalls(u) || work != p.rest.work || m.state != StateUp || m.bad > 0 || len(missing) > 0 {
		p.rest.since, p.rest.work = now, work
	}
}

// interval returns the time between two probes as things are. Work of others, which the engine's
// report shows, keeps the usual one: their report steers the pick.
func (p *prober) interval(now time.Time) time.Duration {
	usual := p.up.settings.Load().probe.interval
	if r := p.up.reports.last.Load(); r.fresh(At(now)) && r.Running+r.Waiting > 0 {
		p.rest.since = now
	}
	return restInterval(usual, now.Sub(p.rest.since))
}

// endedCalls is how many calls have ended at the upstream.
func endedCalls(u *Upstream) (n uint64) {
	for o := range outcomeCount {
		n += u.series.attempts[o].Get()
	}
	return n
}
