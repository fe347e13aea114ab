package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// RefusalWindow is how far back Refusals counts.
const RefusalWindow = refusalSlots * refusalSlot

// The window is a ring of slots, so that old refusals leave the count by themselves. The number of
// reasons is bounded: models and keys are configured names, and a configuration may have thousands
// of each.
const (
	refusalSlot    = 10 * time.Second
	refusalSlots   = 30
	refusalReasons = 512
)

// OtherRefusals is the code under which refusals are counted for which there is no row left.
const OtherRefusals = "other"

// RefusalReason says why a call was refused before an engine was asked.
type RefusalReason struct {
	Code   string
	Status int
	Limit  string // which limit of its key; empty otherwise
	Model  string
	Key    string // its id
}

// RefusalCount is how often a reason refused calls within RefusalWindow.
type RefusalCount struct {
	RefusalReason
	Count int
	Last  time.Time
}

// Refusals counts refusals by reason. A flood of one reason hides no other one. Its methods may be
// called from any goroutine.
type Refusals struct {
	mu   sync.Mutex
	rows map[RefusalReason]*refusalRow
}

type refusalRow struct {
	slots [refusalSlots]struct {
		at    int64 // number of the slot since 1970: the count is stale if it is another one
		count int
	}
	last time.Time
}

func (r *Refusals) add(reason RefusalReason, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row(reason, now)
	at := now.UnixNano() / int64(refusalSlot)
	slot := &row.slots[at%refusalSlots]
	if slot.at != at {
		slot.at, slot.count = at, 0
	}
	slot.count++
	row.last = now
}

// row finds the row of a reason or makes one, if need be in place of rows that count nothing any
// more.
func (r *Refusals) row(reason RefusalReason, now time.Time) *refusalRow {
	if row := r.rows[reason]; row != nil {
		return row
	}
	if r.rows == nil {
		r.rows = make(map[RefusalReason]*refusalRow)
	}
	if len(r.rows) >= refusalReasons {
		for old, row := range r.rows {
			if now.Sub(row.last) >= RefusalWindow {
				delete(r.rows, old)
			}
		}
	}
	if len(r.rows) >= refusalReasons {
		reason = RefusalReason{Code: OtherRefusals}
		if row := r.rows[reason]; row != nil {
			return row
		}
	}
	row := new(refusalRow)
	r.rows[reason] = row
	return row
}

// Counts returns the reasons of the window, the most frequent first.
func (r *Refusals) Counts(now time.Time) []RefusalCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []RefusalCount{}
	newest := now.UnixNano() / int64(refusalSlot)
	for reason, row := range r.rows {
		c := RefusalCount{RefusalReason: reason, Last: row.last}
		for i := range row.slots {
			if s := &row.slots[i]; s.at > newest-refusalSlots {
				c.Count += s.count
			}
		}
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b RefusalCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Limit, b.Limit))
	})
	return out
}
