package upstreams

import (
	"maps"
	"time"

	"penstock/upstreams/engine"
)

// A 404 that is about a model takes a listed model off its upstream at once. The engine's list
// decides when it is back. The prober reads it again at once: a router that was asked in the middle
// of swapping models has the model back in a moment. A name that flaps, listed and answered with
// 404 in turn, stays away longer each time, so that a wrong list does not cost a call every tenth
// of a second.
//
// No client takes a model away alone, since engines repeat in their errors what a client wrote. Two
// independent sources are needed against a list that has shown the model after a 404, and where no
// list names the model at all.

const (
	// missingUnlisted is how long a name without a list to bring it back stays away.
	missingUnlisted = 30 * time.Second
	// missingAgain is how long a listed name stays away after its second 404. Each further one
	// doubles it up to missingAgainMax, which is short: a 404 may also be about what one client
	// asked for.
	missingAgain    = time.Second
	missingAgainMax = 4 * time.Second
	// flapsForgotten is the pause after which the next 404 counts as the first again.
	flapsForgotten = 2 * time.Minute
	// missingSources is how many independent 404s stand against a list, or in for one.
	missingSources = 2
	// missingReread is how long after a 404 the prober reads the list every confirmPause, rather
	// than with every probe.
	missingReread = 30 * time.Second
)

// missingModel is one served name's newest 404.
type missingModel struct {
	at   time.Time
	hold time.Duration // no list brings the name back before this has passed
}

// missingModels holds the names that a 404 keeps away. It is copied on write, and bounded: the
// names are configured ones.
type missingModels map[string]missingModel

// flaps counts the losses of one name that came soon after one another.
type flaps struct {
	last  time.Time // newest 404
	count int
	by    evidence // the calls that got them
}

// confirmed reports whether more than one client got such a 404. Clients without a key cannot be
// distinguished, so for them different bodies count.
func (r *flaps) confirmed(f FailureSource) bool {
	return r.by.n >= missingSources || f.Key == "" && r.by.bodyCount >= missingSources
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

// ModelGone records that the engine answered a call with a 404 about f.Served. A probe starts at
// once. Only this name leaves the upstream, unless the engine lists it in spite of an earlier 404,
// or never did, and f is the only source. The name is back when a list that was read later has it,
// or after 30 s where the engine lists nothing or not everything.
func (u *Upstream) ModelGone(f FailureSource) {
	if prober := u.modelGone(f, time.Now()); prober != nil {
		prober.kick()
	}
}

// modelGone records a 404 and returns the prober, for the caller to wake.
func (u *Upstream) modelGone(f FailureSource, now time.Time) *prober {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure = &LastFailure{At: now, During: "call", Reason: "model_gone", Status: 404}
	r := u.flaps[f.Served]
	if now.Sub(r.last) > flapsForgotten {
		r = flaps{}
	}
	r.last = now
	r.by.add(f, now)
	next := missingModels{}
	if old := u.missing.Load(); old != nil {
		maps.Copy(next, *old)
	}
	g, away := next[f.Served]
	leaves := away || r.confirmed(f) || r.count == 0 && u.lists(f.Served)
	if leaves && !away { // ignore 404s of requests sent before the first one
		if r.count > 0 {
			g.hold = min(missingAgainMax, missingAgain<<min(r.count-1, 8))
		}
		r.count++
	}
	u.flaps[f.Served] = r
	if leaves {
		g.at = now
		next[f.Served] = g
		u.missing.Store(&next)
		u.renewServed()
	}
	return u.prober
}

// lists reports whether the engine's newest list has the name and means something by it.
func (u *Upstream) lists(served string) bool {
	return u.models.Load().Names(u.engine.Load(), served)
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

// setModels stores a list that was read from begun on. A nil list forgets the last one: an engine
// that stops listing is not empty.
func (u *Upstream) setModels(list *engine.ModelList, begun time.Time) {
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
func (u *Upstream) stillMissing(old missingModels, list *engine.ModelList, begun time.Time) missingModels {
	p, next := u.engine.Load(), missingModels{}
	for name, g := range old {
		since := begun.Sub(g.at)
		if since < 0 || since < g.hold {
			next[name] = g
			continue
		}
		if !list.Names(p, name) && (list.Decides(p, name) || since < missingUnlisted) {
			next[name] = g
		}
	}
	return next
}
