package upstreams

import (
	"time"

	"penstock/upstreams/engine"
)

// A 404 about a model takes a listed model off its upstream at once. The engine's list decides
// when the model is back. The prober rereads the list at once, because a router that was swapping
// models has the model back in a moment. A name that flaps between listed and 404 stays away
// longer each time, so that a wrong list does not cost a call every tenth of a second.
//
// No client takes a model away alone, since engines repeat the client's input in their errors. If
// a list has shown the model after a 404, or if no list names it at all, two independent sources
// are needed.

const (
	// missingUnlisted is the time that a name stays away if no list can bring it back.
	missingUnlisted = 30 * time.Second
	// missingAgain is the time that a listed name stays away after its second 404. Each further 404
	// doubles this time, up to missingAgainMax. The times are short, because a 404 may concern only
	// one client's request.
	missingAgain    = time.Second
	missingAgainMax = 4 * time.Second
	// flapsForgotten is the time that a name must be without a 404 for the next 404 to count as the
	// first again.
	flapsForgotten = 2 * time.Minute
	// missingSources is the number of independent 404s that outweigh a list, or replace one.
	missingSources = 2
	// missingReread is the period after a 404 in which the prober reads the list every confirmPause
	// instead of with every probe.
	missingReread = 30 * time.Second
)

// missingModel is one served name's newest 404.
type missingModel struct {
	at   time.Time
	hold time.Duration // a list brings the name back only after this time
}

// missingModels holds the names that a 404 keeps away. It is immutable, and bounded because the
// names are configured ones.
type missingModels map[string]missingModel

// flaps counts the losses of one name in quick succession.
type flaps struct {
	last  time.Time // newest 404
	count int
	by    evidence // the sources of the 404s
}

// confirmed reports whether more than one client got a 404 for the name. Clients without a key
// cannot be told apart, so different bodies count instead.
func (r *flaps) confirmed(f FailureSource) bool {
	return r.by.n >= missingSources || f.Key == "" && r.by.bodyCount >= missingSources
}

// gone records that the engine answered 404 for f.Served.
func (s *ServedModels) gone(f FailureSource, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	r := s.flaps[f.Served]
	if now.Sub(r.last) > flapsForgotten {
		r = flaps{}
	}
	r.last = now
	r.by.add(f, now)
	g, away := v.missing[f.Served]
	leaves := away || r.confirmed(f) || r.count == 0 && v.list.Names(v.profile, f.Served)
	if leaves && !away { // ignore 404s of requests sent before the first one
		if r.count > 0 {
			g.hold = min(missingAgainMax, missingAgain<<min(r.count-1, 8))
		}
		r.count++
	}
	s.flaps[f.Served] = r
	if leaves {
		g.at = now
		next := missingModels{f.Served: g}
		for name, old := range v.missing {
			if name != f.Served {
				next[name] = old
			}
		}
		s.show(v.profile, v.list, v.listed, next)
	}
}

// lately reports whether some model's 404 is so recent that the model may soon be back.
func (m missingModels) lately(now time.Time) bool {
	for _, g := range m {
		if now.Sub(g.at) < missingReread {
			return true
		}
	}
	return false
}

// still returns the names that stay away despite a list. begun is the time at which the edge
// started to read the list.
func (m missingModels) still(p *engine.Profile, list *engine.ModelList, begun time.Time) missingModels {
	var next missingModels
	for name, g := range m {
		since := begun.Sub(g.at)
		stays := since < 0 || since < g.hold || !list.Names(p, name) && (list.Decides(p, name) || since < missingUnlisted)
		if stays {
			if next == nil {
				next = missingModels{}
			}
			next[name] = g
		}
	}
	return next
}
