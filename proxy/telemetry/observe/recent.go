package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const recentRows = 256

// Recent stores up to keptRows calls of each kind for keptFor, because the newest calls of a busy
// edge cover only a few seconds.
const (
	keptRows = 1000
	keptFor  = time.Hour
)

// A call is slow if it waited longer than SlowQueue for a slot, or longer than SlowFirstToken for
// the first event of its stream.
const (
	SlowQueue      = time.Second
	SlowFirstToken = 2 * time.Second
)

// Recent stores the newest calls that reached an engine. It stores failed, slow and refused calls
// separately, so that other calls cannot displace them. Recent is safe for concurrent use.
type Recent struct {
	calls                 ring
	failed, slow, refused kept
	// Refusals counts the calls that were refused before a request was sent to an engine.
	Refusals Reasons
	// Failures counts the calls that failed at an engine.
	Failures Reasons
	// Attempts counts failed attempts that count as failures of their upstream.
	Attempts Reasons
}

// kept stores calls of one kind. Its memory grows with the number of calls, up to keptRows.
type kept struct {
	mu   sync.Mutex
	rows []Ended // a ring, once it is full
	next int     // index of the oldest row, once the ring is full
}

func (k *kept) add(r *Record, now time.Time) {
	e := Ended{*r, now}
	if r.Choice != nil {
		e.Choice = new(Choice)
		r.Choice.copyTo(e.Choice)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.rows) < keptRows {
		k.rows = append(k.rows, e)
		return
	}
	k.rows[k.next] = e
	k.next = (k.next + 1) % keptRows
}

// newest returns at most n calls that ended within keptFor, the most recent first.
func (k *kept) newest(n int, now time.Time) (out []Ended) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range min(n, len(k.rows)) {
		e := k.rows[(k.next+len(k.rows)-1-i)%len(k.rows)]
		if now.Sub(e.End) > keptFor {
			break
		}
		out = append(out, e)
	}
	return out
}

type ring struct {
	next atomic.Uint64
	rows [recentRows]struct {
		mu   sync.Mutex
		used bool
		r    Record
		end  time.Time

		choice Choice // storage for the choice of r
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

// Ended is the record of a call and the time at which the call ended.
type Ended struct {
	Record
	End time.Time
}

// isRefusal reports whether the call was refused before a request was sent to an engine.
func (r *Record) isRefusal() bool {
	return r.Attempts == 0 && r.Outcome != OK && r.Outcome != ClientGone
}

// Slow reports whether the call waited longer than it should have.
func (r *Record) Slow() bool {
	return r.Queue > SlowQueue || r.Stream && r.UpstreamTTFT > SlowFirstToken
}

// Refused reports whether the call was refused before a request was sent to an engine, even though
// the service was not at fault.
func (r *Record) Refused() bool { return r.isRefusal() && !r.Outcome.Failed() }

func (r *Recent) add(rec *Record, now time.Time) {
	failed, refusal := rec.Outcome.Failed(), rec.isRefusal()
	switch {
	case failed:
		r.failed.add(rec, now)
	case refusal:
		r.refused.add(rec, now)
	case rec.Slow():
		r.slow.add(rec, now)
	}
	if refusal {
		r.Refusals.add(Reason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Limit: rec.Limit, Model: rec.Model, Key: rec.Key,
		}, now)
		return
	}
	if failed {
		r.Failures.add(Reason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Model: rec.Model, Upstream: rec.Upstream, Cause: rec.Cause,
			EngineStatus: rec.EngineStatus,
		}, now)
	}
	for i := range rec.Failed {
		if a := &rec.Failed[i]; a.Fault {
			r.Attempts.add(Reason{Upstream: a.Upstream, Cause: a.Cause, EngineStatus: a.EngineStatus}, now)
		}
	}
	r.calls.add(rec, now)
}

// Newest returns at most n calls that reached an engine, and at most n of each kind that is stored
// separately, most recent first. Each call appears only once.
func (r *Recent) Newest(n int, now time.Time) []Ended {
	all := r.calls.newest()
	all = all[:min(n, len(all))]
	for _, k := range []*kept{&r.failed, &r.slow, &r.refused} {
		all = append(all, k.newest(n, now)...)
	}
	seen := make(map[ID]bool, len(all))
	all = slices.DeleteFunc(all, func(e Ended) bool {
		again := seen[e.RequestID]
		seen[e.RequestID] = true
		return again
	})
	slices.SortStableFunc(all, func(a, b Ended) int { return b.End.Compare(a.End) })
	return all
}

// Find returns the call with the given id if it is still stored.
func (r *Recent) Find(id string, now time.Time) (Ended, bool) {
	for _, e := range r.Newest(keptRows, now) {
		if e.RequestID.String() == id {
			return e, true
		}
	}
	return Ended{}, false
}
