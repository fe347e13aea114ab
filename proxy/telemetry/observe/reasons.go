package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// ReasonWindow is the period that Reasons covers.
const ReasonWindow = 5 * time.Minute

// maxReasonRows limits the number of rows, because a configuration may have thousands of keys and
// models.
const maxReasonRows = 512

// OtherKeys replaces the key in a Reason if there are too many reasons.
const OtherKeys = "(others)"

// FailureReason describes why calls were refused or failed.
type FailureReason struct {
	Code     string
	Status   int
	Outcome  Outcome
	Limit    string // the exceeded limit of the key, or empty
	Model    string
	Key      string // key id, for a refusal
	Upstream string
	Cause    string // for a failure: one of upstreams.Causes

	EngineStatus int // for a failure: the engine's response status, or 0 if there was no response
}

// FailureReasonCount counts the calls refused or failed within ReasonWindow for one reason.
type FailureReasonCount struct {
	FailureReason
	Count  int
	Minute int // how many of Count occurred in the last minute
	Last   time.Time
}

// FailureReasons counts refusals or failures by reason. A flood of calls with the same reason does not
// hide other reasons. Reasons is safe for concurrent use.
type FailureReasons struct {
	mu   sync.Mutex
	rows map[FailureReason]*reasonRow
}

type reasonRow struct {
	counts TimeRing[int]
	last   time.Time
}

func (r *FailureReasons) add(reason FailureReason, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.getOrAddRow(reason, now)
	*row.counts.SlotAt(now)++
	row.last = now
}

// getOrAddRow returns the row for a reason. If there are too many rows, it first removes rows
// without recent calls.
func (r *FailureReasons) getOrAddRow(reason FailureReason, now time.Time) *reasonRow {
	if row := r.rows[reason]; row != nil {
		return row
	}
	if r.rows == nil {
		r.rows = make(map[FailureReason]*reasonRow)
	}
	if len(r.rows) >= maxReasonRows {
		for old, row := range r.rows {
			if now.Sub(row.last) >= ReasonWindow {
				delete(r.rows, old)
			}
		}
	}
	if len(r.rows) >= maxReasonRows && reason.Key != "" {
		reason.Key = OtherKeys
		if row := r.rows[reason]; row != nil {
			return row
		}
	}
	row := &reasonRow{counts: NewTimeRing[int](int(ReasonWindow / TimeRingSlot))}
	r.rows[reason] = row
	return row
}

// Counts returns the reasons in the window, most frequent first.
func (r *FailureReasons) Counts(now time.Time) []FailureReasonCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []FailureReasonCount{}
	for reason, row := range r.rows {
		c := FailureReasonCount{FailureReason: reason, Last: row.last}
		row.counts.EachSlot(now, ReasonWindow, func(n *int) { c.Count += *n })
		row.counts.EachSlot(now, time.Minute, func(n *int) { c.Minute += *n })
		if c.Count > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b FailureReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Limit, b.Limit),
			cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.EngineStatus, b.EngineStatus), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}
