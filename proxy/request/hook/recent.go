package hook

import (
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/proxy/telemetry/observe"
)

// Undecided says how many questions to a hook brought no decision in the last minute.
type Undecided struct {
	Hook   string
	Asked  int
	Failed int     // the part of Asked without a decision
	Last   Failure // the last one
}

// recentWindow is how far back recent counts.
const recentWindow = time.Minute

// recent counts the questions of the last minute by hook.
type recent struct {
	mu   sync.Mutex
	rows map[string]*recentRow
}

type recentRow struct {
	last   Failure
	counts observe.Ring[recentCounts]
}

type recentCounts struct{ asked, failed int }

// add counts a question that was answered or failed. A nil failure means a decision.
func (r *recent) add(hook string, failed *Failure, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rows[hook]
	if row == nil {
		if r.rows == nil {
			r.rows = map[string]*recentRow{}
		}
		row = &recentRow{counts: observe.NewRing[recentCounts](int(recentWindow / observe.RingSlot))}
		r.rows[hook] = row
	}
	slot := row.counts.At(now)
	slot.asked++
	if failed != nil {
		slot.failed++
		row.last = *failed
	}
}

// undecided returns the hooks that failed in the last minute, by name. It forgets hooks that were
// not asked in that time.
func (r *recent) undecided(now time.Time) (all []Undecided) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, row := range r.rows {
		u := Undecided{Hook: name, Last: row.last}
		row.counts.Each(now, recentWindow, func(n *recentCounts) {
			u.Asked += n.asked
			u.Failed += n.failed
		})
		switch {
		case u.Asked == 0:
			delete(r.rows, name)
		case u.Failed > 0:
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Undecided) int { return strings.Compare(a.Hook, b.Hook) })
	return all
}
