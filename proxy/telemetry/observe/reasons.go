package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// ReasonWindow is the period for which Reasons counts.
const ReasonWindow = 5 * time.Minute

// mostReasons is the maximum number of reasons with a key. It is needed because a configuration may
// have thousands of keys and models.
const mostReasons = 512

// OtherKeys stands for the keys that found no free row.
const OtherKeys = "(others)"

// Reason is why calls were refused before an engine was asked, or failed at an engine.
type Reason struct {
	Code     string
	Status   int
	Outcome  Outcome
	Limit    string // the exceeded limit of the key; empty otherwise
	Model    string
	Key      string // key id, for a refusal
	Upstream string // upstream, for a failure
	Cause    string // for a failure: a word of upstreams.Causes

	EngineStatus int // for a failure: the status of the engine's answer; 0: no answer
}

// ReasonCount counts the calls that ended for a reason within ReasonWindow.
type ReasonCount struct {
	Reason
	Count  int
	Minute int // how many of Count ended in the last minute
	Last   time.Time
}

// Reasons counts refusals or failures by reason. A flood of one reason does not hide another. Any
// goroutine may call its methods.
type Reasons struct {
	mu   sync.Mutex
	rows map[Reason]*reasonRow
}

type reasonRow struct {
	counts Ring[int]
	last   time.Time
}

func (r *Reasons) add(reason Reason, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row(reason, now)
	*row.counts.At(now)++
	row.last = now
}

// row finds or adds the row for a reason. If there is no room, it first removes rows whose counts
// are zero.
func (r *Reasons) row(reason Reason, now time.Time) *reasonRow {
	if row := r.rows[reason]; row != nil {
		return row
	}
	if r.rows == nil {
		r.rows = make(map[Reason]*reasonRow)
	}
	if len(r.rows) >= mostReasons {
		for old, row := range r.rows {
			if now.Sub(row.last) >= ReasonWindow {
				delete(r.rows, old)
			}
		}
	}
	if len(r.rows) >= mostReasons && reason.Key != "" {
		reason.Key = OtherKeys
		if row := r.rows[reason]; row != nil {
			return row
		}
	}
	row := &reasonRow{counts: NewRing[int](int(ReasonWindow / RingSlot))}
	r.rows[reason] = row
	return row
}

// Counts returns the reasons in the window, the most frequent first.
func (r *Reasons) Counts(now time.Time) []ReasonCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []ReasonCount{}
	for reason, row := range r.rows {
		c := ReasonCount{Reason: reason, Last: row.last}
		row.counts.Each(now, ReasonWindow, func(n *int) { c.Count += *n })
		row.counts.Each(now, time.Minute, func(n *int) { c.Minute += *n })
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Limit, b.Limit),
			cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.EngineStatus, b.EngineStatus), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}
