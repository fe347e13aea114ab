package upstreams

import (
	"maps"
	"time"

	"penstock/config"
)

// A model that an engine answered 404 for leaves its upstream at once. The engine's list decides when it is back, and it is
// read again at once too: a router that was asked in the middle of swapping models has the model back in a moment. A name
// that is listed and answered with 404 again and again stays away longer each time, so that a list which is wrong does not
// cost a call every tenth of a second.

const (
	// goneUnlisted is how long a 404 keeps a name away where no list can bring it back.
	goneUnlisted = 30 * time.Second
	// goneAgain is how long it does for a second 404, though the list has the name; twice as long for each further one, up to
	// goneAgainMax: short, since a 404 may also be about something that one client asked for.
	goneAgain    = time.Second
	goneAgainMax = 4 * time.Second
	// goneForgotten is how long after a 404 the next one counts as the first again.
	goneForgotten = 2 * time.Minute
	// goneWatched is how long after a 404 the list is read every confirmPause rather than with every probe.
	goneWatched = 30 * time.Second
)

// goneModel is one served name's newest 404.
type goneModel struct {
	at   time.Time
	hold time.Duration // no list brings the name back before this has passed
}

// goneModels holds the names that are away for a 404. Copied on write; the names are configured ones.
type goneModels map[string]goneModel

// relapses counts the 404s of a name that came soon after one another.
type relapses struct {
	last  time.Time
	count int
}

// isGone reports whether a 404 keeps the name away. It does not allocate.
func (u *Upstream) isGone(served string) bool {
	m := u.gone404.Load()
	if m == nil {
		return false
	}
	_, gone := (*m)[served]
	return gone
}

// ModelGone records that the engine answered 404 for a served name: only this name leaves the upstream, until a probe that
// is begun later, and is asked for now, sees it listed. Where the engine lists nothing, or not everything, the name is tried
// again after 30 s.
func (u *Upstream) ModelGone(served string) {
	if prober := u.modelGone(served, time.Now()); prober != nil {
		prober.kick()
	}
}

// modelGone notes a 404 and returns the prober, which is to look.
func (u *Upstream) modelGone(served string, now time.Time) *prober {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure = &LastFailure{At: now, During: "call", Reason: "model_gone", Status: 404}
	next := goneModels{}
	if old := u.gone404.Load(); old != nil {
		maps.Copy(next, *old)
	}
	g, away := next[served]
	if !away { // a call that was sent before the first 404 came is no news
		g.hold = u.relapse(served, now)
	}
	g.at = now
	next[served] = g
	u.gone404.Store(&next)
	u.renewOffers()
	return u.prober
}

// relapse counts a 404 and returns how long it keeps the name away at least. Called with mu held.
func (u *Upstream) relapse(served string, now time.Time) time.Duration {
	r := u.relapses[served]
	if now.Sub(r.last) > goneForgotten {
		r.count = 0
	}
	hold := time.Duration(0)
	if r.count > 0 {
		hold = min(goneAgainMax, goneAgain<<min(r.count-1, 8))
	}
	u.relapses[served] = relapses{now, r.count + 1}
	return hold
}

// returning reports whether a model is away that may soon be back.
func (u *Upstream) returning(now time.Time) bool {
	m := u.gone404.Load()
	if m == nil {
		return false
	}
	for _, g := range *m {
		if now.Sub(g.at) < goneWatched {
			return true
		}
	}
	return false
}

// setModels stores a reading begun at begun, or forgets all when list is nil: an engine that stops listing is not empty.
func (u *Upstream) setModels(list *modelList, begun time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if list != nil || u.models.Load() != nil {
		u.models.Store(list)
	}
	if old := u.gone404.Load(); old != nil {
		next := u.stillGone(*old, list, begun)
		if len(next) == 0 {
			u.gone404.Store(nil)
		} else {
			u.gone404.Store(&next)
		}
	}
	u.renewOffers()
}

// stillGone returns the names that a reading leaves away.
func (u *Upstream) stillGone(old goneModels, list *modelList, begun time.Time) goneModels {
	p, next := u.engine.Load(), goneModels{}
	for name, g := range old {
		since := begun.Sub(g.at)
		if since < 0 || since < g.hold {
			next[name] = g
			continue
		}
		listed, telling := false, false
		if list != nil && p.spec.Names != config.NamesIgnored {
			_, listed = list.find(p, name)
			telling = p.spec.Names == config.NamesListed || list.ever[name]
		}
		if !listed && (telling || since < goneUnlisted) {
			next[name] = g
		}
	}
	return next
}
