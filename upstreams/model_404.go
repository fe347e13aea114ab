package upstreams

import (
	"maps"
	"time"

	"penstock/config"
)

// A 404 for a model takes that model off its upstream at once. The engine's list decides when it is
// back. The prober reads it again at once: a router that was asked in the middle of swapping models
// has the model back in a moment. A name that flaps, listed and answered with 404 in turn, stays away
// longer each time, so that a wrong list does not cost a call every tenth of a second.

const (
	// missingUnlisted is how long a name without a list to bring it back stays away.
	missingUnlisted = 30 * time.Second
	// missingAgain is how long a listed name stays away after its second 404. Each further one doubles
	// it up to missingAgainMax, which is short: a 404 may also be about what one client asked for.
	missingAgain    = time.Second
	missingAgainMax = 4 * time.Second
	// flapsForgotten is the pause after which the next 404 counts as the first again.
	flapsForgotten = 2 * time.Minute
	// missingReread is how long after a 404 the prober reads the list every confirmPause, rather than
	// with every probe.
	missingReread = 30 * time.Second
)

// missingModel is one served name's newest 404.
type missingModel struct {
	at   time.Time
	hold time.Duration // no list brings the name back before this has passed
}

// missingModels holds the names that a 404 keeps away. It is copied on write, and bounded: the names
// are configured ones.
type missingModels map[string]missingModel

// flaps counts the 404s of one name that came soon after one another.
type flaps struct {
	last  time.Time
	count int
}

// isMissing reports whether a 404 keeps the name away. It does not allocate.
func (u *Upstream) isMissing(served string) bool {
	m := u.missing.Load()
	if m == nil {
		return false
	}
	_, gone := (*m)[served]
	return gone
}

// ModelGone records that the engine answered 404 for a served name. Only this name leaves the upstream,
// and a probe starts at once. The name is back when a list that was read later has it, or after 30 s
// where the engine lists nothing or not everything.
func (u *Upstream) ModelGone(served string) {
	if prober := u.modelGone(served, time.Now()); prober != nil {
		prober.kick()
	}
}

// modelGone records a 404 and returns the prober, for the caller to wake.
func (u *Upstream) modelGone(served string, now time.Time) *prober {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure = &LastFailure{At: now, During: "call", Reason: "model_gone", Status: 404}
	next := missingModels{}
	if old := u.missing.Load(); old != nil {
		maps.Copy(next, *old)
	}
	g, away := next[served]
	if !away { // ignore 404s of requests sent before the first one
		g.hold = u.countFlap(served, now)
	}
	g.at = now
	next[served] = g
	u.missing.Store(&next)
	u.renewServed()
	return u.prober
}

// countFlap counts a 404 and returns how long it keeps the name away at least. The caller holds mu.
func (u *Upstream) countFlap(served string, now time.Time) time.Duration {
	r := u.flaps[served]
	if now.Sub(r.last) > flapsForgotten {
		r.count = 0
	}
	hold := time.Duration(0)
	if r.count > 0 {
		hold = min(missingAgainMax, missingAgain<<min(r.count-1, 8))
	}
	u.flaps[served] = flaps{now, r.count + 1}
	return hold
}

// missingLately reports whether a model got its 404 so lately that it may soon be back.
func (u *Upstream) missingLately(now time.Time) bool {
	m := u.missing.Load()
	if m == nil {
		return false
	}
	for _, g := range *m {
		if now.Sub(g.at) < missingReread {
			return true
		}
	}
	return false
}

// setModels stores a list that was read from begun on. A nil list forgets the last one: an engine that
// stops listing is not empty.
func (u *Upstream) setModels(list *modelList, begun time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if list != nil || u.models.Load() != nil {
		u.models.Store(list)
	}
	if old := u.missing.Load(); old != nil {
		next := u.stillMissing(*old, list, begun)
		if len(next) == 0 {
			u.missing.Store(nil)
		} else {
			u.missing.Store(&next)
		}
	}
	u.renewServed()
}

// stillMissing returns the names that a list does not bring back.
func (u *Upstream) stillMissing(old missingModels, list *modelList, begun time.Time) missingModels {
	p, next := u.engine.Load(), missingModels{}
	for name, g := range old {
		since := begun.Sub(g.at)
		if since < 0 || since < g.hold {
			next[name] = g
			continue
		}
		listed, authoritative := false, false
		if list != nil && p.spec.Names != config.NamesIgnored {
			_, listed = list.find(p, name)
			authoritative = p.spec.Names == config.NamesListed || list.ever[name]
		}
		if !listed && (authoritative || since < missingUnlisted) {
			next[name] = g
		}
	}
	return next
}
