package upstreams

import (
	"time"

	"penstock/upstreams/engine"
)

// If an engine answers 404 for a listed model, the model's target immediately goes out of service.
// The target returns when a newer model list contains the model. The prober rereads the list
// immediately, because an engine that swaps models will soon list the model again. If a listed
// model gets 404s repeatedly, each outage lasts longer than the previous one. Otherwise, a wrong
// list would fail a call every tenth of a second.
//
// Engines echo client input in their errors, so a single client must not be able to take a target
// out of service again and again. Two independent 404s are needed if a list has contained the model
// after a 404, or if no list contains the model.

const (
	// unlistedModelOutage is the duration of an outage that the list cannot end.
	unlistedModelOutage = 30 * time.Second
	// listedModelOutage is how long a listed model stays out of service after its second 404. Each later
	// 404 doubles the duration, up to maxListedModelOutage. These durations are short, because a 404 may
	// concern only one client's request.
	listedModelOutage    = time.Second
	maxListedModelOutage = 4 * time.Second
	// If no 404 occurs during modelFlapMemory, the next 404 counts as the first 404 again.
	modelFlapMemory = 2 * time.Minute
	// minMissingSources is the number of independent 404s that outweigh the model list.
	minMissingSources = 2
	// For rereadListTime after a 404, the prober reads the list every failureConfirmPause.
	rereadListTime = 30 * time.Second
)

// missingModel describes the newest 404 for one served name.
type missingModel struct {
	at        time.Time
	minOutage time.Duration // the list cannot end the outage before this time has passed
}

// missingModels contains the served names that are out of service because of a 404. It is
// immutable. Only configured names are added to it, so its size is bounded.
type missingModels map[string]missingModel

// recentOutages counts the recent outages of one name.
type recentOutages struct {
	lastAt  time.Time // time of the newest 404
	count   int
	sources failureEvidence // sources of the 404s
}

// isConfirmed reports whether more than one client got a 404 for the name. Clients without a key
// cannot be told apart, so distinct request bodies count instead.
func (r *recentOutages) isConfirmed(f FailureSource) bool {
	return r.sources.n >= minMissingSources || f.Key == "" && r.sources.bodyCount >= minMissingSources
}

func (s *ServedModels) recordModelGone(f FailureSource, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	r := s.flaps[f.Served]
	if now.Sub(r.lastAt) > modelFlapMemory {
		r = recentOutages{}
	}
	r.lastAt = now
	r.sources.addFailure(f, now)
	g, away := v.missing[f.Served]
	leaves := away || r.isConfirmed(f) || r.count == 0 && v.list.Contains(v.profile, f.Served)
	if leaves && !away { // if the model was already missing, this request was sent before the first 404
		if r.count > 0 {
			g.minOutage = min(maxListedModelOutage, listedModelOutage<<min(r.count-1, 8))
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
		s.applyView(v.profile, v.list, v.listedAt, next)
	}
}

// anyRecent reports whether any 404 is so recent that its model may return soon.
func (m missingModels) anyRecent(now time.Time) bool {
	for _, g := range m {
		if now.Sub(g.at) < rereadListTime {
			return true
		}
	}
	return false
}

// stillMissing returns the names that remain out of service despite a new list. begun is when the
// edge started to read the list.
func (m missingModels) stillMissing(p *engine.Profile, list *engine.ModelList, begun time.Time) missingModels {
	var next missingModels
	for name, g := range m {
		since := begun.Sub(g.at)
		stays := since < 0 || since < g.minOutage || !list.Contains(p, name) && (list.IsAuthoritative(p, name) || since < unlistedModelOutage)
		if stays {
			if next == nil {
				next = missingModels{}
			}
			next[name] = g
		}
	}
	return next
}
