package fault

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"penstock/bench/sim/textgen"
)

// Fault is an injected fault with its schedule.
type Fault struct {
	// Spec is NAME[=VALUE][;param=value…], several joined by "+": "cut-after=3",
	// "status=503;retry-after=2", "crlf+no-done". Rows lists the names. Every fault takes
	// delay=DURATION, a wait before it.
	Spec string `json:"fault"`
	// Count is the number of requests (or connections, for refuse and noread) that it affects; 0:
	// all.
	Count int `json:"count"`
	// After is the number of requests that pass before the first one that the fault affects.
	After int `json:"after"`
	// Share is the fraction of requests that it affects, 0 to 1; 0 means all.
	Share float64 `json:"share"`
	// Path limits it to paths with this prefix; "*" means every path. Empty means inference only,
	// so that health, models and metrics keep answering. The faults "refuse" and "noread" happen
	// before the path is known, so they affect every connection.
	Path string `json:"path"`
}

// Schedule decides which requests get a fault: of the faults that apply to a request, the first one
// is performed. The zero value has no faults.
type Schedule struct {
	armed atomic.Bool // false: there are no faults
	rng   atomic.Uint64
	mu    sync.Mutex
	list  []*scheduled
}

type scheduled struct {
	Fault
	effects    *Effects
	seen, hits int
}

// Seed sets the seed of the random draws for Share.
func (s *Schedule) Seed(seed uint64) { s.rng.Store(seed) }

// Load replaces the faults. Faults with an empty Spec are ignored.
func (s *Schedule) Load(faults ...Fault) error {
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

// Accepted returns the fault for a new connection; nil: none.
func (s *Schedule) Accepted() *Effects {
	return s.pick(func(f *scheduled) bool { return f.effects.Accept != AcceptNormally })
}

// Requested returns the fault for a request, or nil. work says whether the request is inference.
func (s *Schedule) Requested(path string, work bool) *Effects {
	return s.pick(func(f *scheduled) bool {
		switch {
		case f.effects.Accept != AcceptNormally, strings.HasPrefix(path, "/sim/"):
			return false
		case f.Path == "":
			return work != f.effects.Pages
		}
		return f.Path == "*" || strings.HasPrefix(path, f.Path)
	})
}

func (s *Schedule) pick(applies func(*scheduled) bool) *Effects {
	if !s.armed.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.list {
		if !applies(f) || f.Count > 0 && f.hits >= f.Count {
			continue
		}
		f.seen++
		if f.seen <= f.After {
			continue
		}
		if f.Share > 0 && float64(textgen.Mix(s.rng.Add(1), 3)>>11)/(1<<53) >= f.Share {
			continue
		}
		f.hits++
		return f.effects
	}
	return nil
}
