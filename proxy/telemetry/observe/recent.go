package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recentRows is how many calls are kept, no matter how they ended.
const recentRows = 256

// Recent keeps keptRows calls of each kind that operators search for, each for keptFor. The newest
// calls of a busy edge cover only a few seconds, and most of them have succeeded.
const (
	keptRows = 1000
	keptFor  = time.Hour
)

// A call is slow if it waited longer than this for a slot, or if an engine took longer than this to
// send the first event of its stream.
const (
	SlowQueue      = time.Second
	SlowFirstToken = 2 * time.Second
)

// Recent holds the newest calls for which an engine was asked. It holds calls that failed, were
// slow or were refused separately, so that neither successful calls nor a scanner without a key can
// displace them. It counts failures and refusals by reason. Any goroutine may call its methods.
type Recent struct {
	calls                 ring
	failed, slow, refused kept
	// Refusals counts the calls that ended before an engine was asked.
	Refusals Reasons
	// Failures counts the calls that failed at an engine.
	Failures Reasons
	// Attempts counts the failed attempts, of all calls, that count as failures of their upstream.
	Attempts Reasons
}

// kept holds calls of one kind. Its memory grows with the number of calls, up to keptRows.
type kept struct {
	mu   sync.Mutex
	rows []Ended // a ring once it is full
	next int     // index of the oldest row of a full ring
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

// newest returns the rows, starting with the call that ended last.
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

// isRefusal reports whether the call was refused before an engine was asked.
func (r *Record) isRefusal() bool {
	return r.Attempts == 0 && r.Outcome != OK && r.Outcome != ClientGone
}

// Slow reports whether the call waited longer than it should have.
func (r *Record) Slow() bool {
	return r.Queue > SlowQueue || r.Stream && r.UpstreamTTFT > SlowFirstToken
}

// Refused reports whether the call was refused before an engine was asked, through no fault of the
// service.
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

// Newest returns the newest calls: at most n that reached an engine or were answered, and at most n
// of each kind that is kept separately. Each call appears only once. The call that ended last comes
// first.
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

// Find returns the call with the given id if it is still kept.
func (r *Recent) Find(id string, now time.Time) (Ended, bool) {
	for _, e := range r.Newest(keptRows, now) {
		if e.RequestID.String() == id {
			return e, true
		}
	}
	return Ended{}, false
}
