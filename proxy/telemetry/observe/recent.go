package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recentRows is how many calls are remembered.
const recentRows = 256

// Recent holds the newest calls that an engine was asked about, and counts those that were refused
// before. They are apart, so that a scanner that knocks without a key cannot push real calls out.
// The ring is fixed; noting a call allocates nothing.
type Recent struct {
	calls ring
	// Refusals are the calls that no engine was asked about.
	Refusals Reasons
	// Failures are those that failed at an engine.
	Failures Reasons
}

type ring struct {
	next atomic.Uint64
	rows [recentRows]struct {
		mu   sync.Mutex
		used bool
		r    Record
		end  time.Time

		choice Choice // r's
	}
}

func (r *ring) add(rec *Record, now time.Time) {
	row := &r.rows[(r.next.Add(1)-1)%recentRows]
	row.mu.Lock()
	row.r, row.end, row.used = *rec, now, true
	if rec.Choice != nil {
		rec.Choice.copyTo(&row.choice)
		row.r.Choice = &row.choice
	}
	row.mu.Unlock()
}

// newest returns the rows, the latest end first.
func (r *ring) newest() []Ended {
	out := make([]Ended, 0, recentRows)
	for i := range r.rows {
		row := &r.rows[i]
		row.mu.Lock()
		if row.used {
			e := Ended{row.r, row.end}
			if e.Choice != nil {
				e.Choice = new(Choice)
				row.choice.copyTo(e.Choice)
			}
			out = append(out, e)
		}
		row.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Ended) int { return b.End.Compare(a.End) })
	return out
}

// Ended is a record with the time of the call's end.
type Ended struct {
	Record
	End time.Time
}

func (r *Recent) add(rec *Record, now time.Time) {
	if rec.Attempts == 0 && rec.Outcome != OK && rec.Outcome != ClientGone {
		r.Refusals.add(Reason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Limit: rec.Limit, Model: rec.Model, Key: rec.Key,
		}, now)
		return
	}
	if rec.Outcome.Failed() {
		r.Failures.add(Reason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Model: rec.Model, Upstream: rec.Upstream,
		}, now)
	}
	r.calls.add(rec, now)
}

// Calls returns the newest calls that reached an engine or were answered, newest first.
func (r *Recent) Calls() []Ended { return r.calls.newest() }
