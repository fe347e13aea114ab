package fault

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"penstock/bench/sim/textgen"
)

// Fault is an injected fault and its schedule.
type Fault struct {
	// Spec is NAME[=VALUE][;param=value…]. Specs can be joined with "+": "cut-after=3",
	// "status=503;retry-after=2", "crlf+no-done". Names returns the valid names. Every fault
	// accepts the parameter delay=DURATION, which delays the fault.
	Spec string `json:"fault"`
	// Count is the number of affected requests (or connections, for refuse and noread). 0 means
	// all.
	Count int `json:"count"`
	// After is the number of requests that pass before the fault affects the first one.
	After int `json:"after"`
	// Share is the fraction of requests that the fault affects, from 0 to 1. 0 means all.
	Share float64 `json:"share"`
	// Path limits the fault to paths that start with this prefix. "*" means every path. If it is
	// empty, the fault affects only inference, so health, models and metrics remain available. The
	// faults "refuse" and "noread" happen before the path is known, so they affect every
	// connection.
	Path string `json:"path"`
}

// Schedule decides which requests a fault affects. If more than one fault applies to a request, the
// first is injected. The zero value contains no faults.
type Schedule struct {
	armed atomic.Bool // false if there are no faults
	rng   atomic.Uint64
	mu    sync.Mutex
	list  []*scheduled
}

type scheduled struct {
	Fault
	effects       *Effects
	matches, hits int
}

// SetSeed sets the seed of the random draws for Share.
func (s *Schedule) SetSeed(seed uint64) { s.rng.Store(seed) }

// SetFaults replaces the faults. It ignores faults with an empty Spec.
func (s *Schedule) SetFaults(faults ...Fault) error {
	var list []*scheduled
	for _, f := range faults {
		if f.Spec == "" {
			continue
		}
		e, err := Parse(f.Spec)
		if err != nil {
			return err
		}
		if f.Count < 0 || f.After < 0 || f.Share < 0 || f.Share > 1 {
			return fmt.Errorf("fault %q: count and after cannot be below 0, share is 0 to 1", f.Spec)
		}
		list = append(list, &scheduled{Fault: f, effects: e})
	}
	s.mu.Lock()
	s.list = list
	s.armed.Store(len(list) > 0)
	s.mu.Unlock()
	return nil
}

// ForConnection returns the fault for a new connection, or nil if there is none.
func (s *Schedule) ForConnection() *Effects {
	return s.pickFault(func(f *scheduled) bool { return f.effects.Accept != AcceptNormally })
}

// ForRequest returns the fault for a request, or nil if there is none. work must be true for
// inference requests.
func (s *Schedule) ForRequest(path string, work bool) *Effects {
	return s.pickFault(func(f *scheduled) bool {
		switch {
		case f.effects.Accept != AcceptNormally, strings.HasPrefix(path, "/sim/"):
			return false
		case f.Path == "":
			return work != f.effects.Pages
		}
		return f.Path == "*" || strings.HasPrefix(path, f.Path)
	})
}

func (s *Schedule) pickFault(applies func(*scheduled) bool) *Effects {
	if !s.armed.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.list {
		if !applies(f) || f.Count > 0 && f.hits >= f.Count {
			continue
		}
		f.matches++
		if f.matches <= f.After {
			continue
		}
		if f.Share > 0 && float64(textgen.MixHash(s.rng.Add(1), 3)>>11)/(1<<53) >= f.Share {
			continue
		}
		f.hits++
		return f.effects
	}
	return nil
}
