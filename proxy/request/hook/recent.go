package hook

import (
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/upstreams"
)

// Undecided says how many questions to a hook brought no decision in the last minute.
type Undecided struct {
	Hook   string
	Asked  int
	Failed int             // the part of Asked without a decision
	Cause  upstreams.Cause // of the last failure
}

const (
	recentSlot  = 10 * time.Second
	recentSlots = 6
)

// recent counts the questions of the last minute by hook, in a ring of slots.
type recent struct {
	mu   sync.Mutex
	rows map[string]*recentRow
}

type recentRow struct {
	cause upstreams.Cause
	slots [recentSlots]struct {
		at            int64 // the slot's number since 1970; in another slot the counts are stale
		asked, failed int
	}
}

// add counts a question that was answered or failed. An empty cause means a decision.
func (r *recent) add(hook string, cause upstreams.Cause, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rows[hook]
	if row == nil {
		if r.rows == nil {
			r.rows = map[string]*recentRow{}
		}
		row = new(recentRow)
		r.rows[hook] = row
	}
	at := now.UnixNano() / int64(recentSlot)
	slot := &row.slots[at%recentSlots]
	if slot.at != at {
		slot.at, slot.asked, slot.failed = at, 0, 0
	}
	slot.asked++
	if cause != "" {
		slot.failed++
		row.cause = cause
	}
}

// undecided returns the hooks that failed in the last minute, by name. It forgets hooks that were
// not asked in that time.
func (r *recent) undecided(now time.Time) (all []Undecided) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := now.UnixNano() / int64(recentSlot)
	for name, row := range r.rows {
		u := Undecided{Hook: name, Cause: row.cause}
		for i := range row.slots {
			if s := &row.slots[i]; s.at > newest-recentSlots {
				u.Asked += s.asked
				u.Failed += s.failed
			}
		}
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
