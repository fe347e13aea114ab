package hook

import (
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/proxy/telemetry/observe"
)

// FailureCounts counts the questions to a hook in the last minute, and how many of them failed.
type FailureCounts[F any] struct {
	Hook          string
	Asked, Failed int
	Last          F
}

const recentWindow = time.Minute

// RecentFailures counts the questions to hooks and the failures of hooks in the last minute. F
// describes a failure. A RecentFailures may be used by multiple goroutines.
type RecentFailures[F any] struct {
	mu   sync.Mutex
	rows map[string]*recentRow[F]
}

type recentRow[F any] struct {
	last   F
	counts observe.TimeRing[recentCounts]
}

type recentCounts struct{ asked, failed int }

// CountQuestion counts a question. failed is nil if the hook answered.
func (r *RecentFailures[F]) CountQuestion(hook string, failed *F, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.rows[hook]
	if row == nil {
		if r.rows == nil {
			r.rows = map[string]*recentRow[F]{}
		}
		row = &recentRow[F]{counts: observe.NewTimeRing[recentCounts](int(recentWindow / observe.TimeRingSlot))}
		r.rows[hook] = row
	}
	slot := row.counts.SlotAt(now)
	slot.asked++
	if failed != nil {
		slot.failed++
		row.last = *failed
	}
}

// FailedHooks returns the hooks that failed in the last minute, sorted by name. It removes hooks
// that were not asked during that minute.
func (r *RecentFailures[F]) FailedHooks(now time.Time) (all []FailureCounts[F]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, row := range r.rows {
		u := FailureCounts[F]{Hook: name, Last: row.last}
		row.counts.EachSlot(now, recentWindow, func(n *recentCounts) {
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
	slices.SortFunc(all, func(a, b FailureCounts[F]) int { return strings.Compare(a.Hook, b.Hook) })
	return all
}
