package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const recentRows = 256

// RecentCalls stores up to maxKeptCalls failed, slow and refused calls each for maxKeptTime. The
// list of the newest calls covers only a few seconds on a busy edge.
const (
	maxKeptCalls = 1000
	maxKeptTime  = time.Hour
)

// A call is slow if it waited longer than SlowQueueThreshold for a slot, or longer than
// SlowFirstTokenThreshold for the first event of its stream.
const (
	SlowQueueThreshold      = time.Second
	SlowFirstTokenThreshold = 2 * time.Second
)

// RecentCalls stores the newest calls that reached an engine. It stores failed, slow and refused
// calls separately, so that other calls cannot displace them. RecentCalls is safe for concurrent
// use.
type RecentCalls struct {
	calls                 recentRing
	failed, slow, refused keptCalls
	// Refusals counts the calls that were refused before a request was sent to an engine.
	Refusals FailureReasons
	// Failures counts the calls that failed at an engine.
	Failures FailureReasons
	// Attempts counts failed attempts that count as failures of their upstream.
	Attempts FailureReasons
}

// keptCalls stores calls of one kind. Its memory grows with the number of calls, up to
// maxKeptCalls.
type keptCalls struct {
	mu   sync.Mutex
	rows []EndedCall // a ring, once it is full
	next int         // index of the oldest row, once the ring is full
}

func (k *keptCalls) add(r *Record, now time.Time) {
	e := EndedCall{*r, now}
	if r.Choice != nil {
		e.Choice = new(RoutingChoice)
		r.Choice.copyTo(e.Choice)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.rows) < maxKeptCalls {
		k.rows = append(k.rows, e)
		return
	}
	k.rows[k.next] = e
	k.next = (k.next + 1) % maxKeptCalls
}

// newest returns at most n calls that ended within maxKeptTime, most recent first.
func (k *keptCalls) newest(n int, now time.Time) (out []EndedCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range min(n, len(k.rows)) {
		e := k.rows[(k.next+len(k.rows)-1-i)%len(k.rows)]
		if now.Sub(e.End) > maxKeptTime {
			break
		}
		out = append(out, e)
	}
	return out
}

type recentRing struct {
	next atomic.Uint64
	rows [recentRows]struct {
		mu   sync.Mutex
		used bool
		r    Record
		end  time.Time

		choice RoutingChoice // storage for the choice of r
	}
}

func (r *recentRing) add(rec *Record, now time.Time) {
	row := &r.rows[(r.next.Add(1)-1)%recentRows]
	row.mu.Lock()
	row.r, row.end, row.used = *rec, now, true
	if rec.Choice != nil {
		rec.Choice.copyTo(&row.choice)
		row.r.Choice = &row.choice
	}
	row.mu.Unlock()
}

func (r *recentRing) newest() []EndedCall {
	out := make([]EndedCall, 0, recentRows)
	for i := range r.rows {
		row := &r.rows[i]
		row.mu.Lock()
		if row.used {
			e := EndedCall{row.r, row.end}
			if e.Choice != nil {
				e.Choice = new(RoutingChoice)
				row.choice.copyTo(e.Choice)
			}
			out = append(out, e)
		}
		row.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b EndedCall) int { return b.End.Compare(a.End) })
	return out
}

// EndedCall is the record of a call and the time at which the call ended.
type EndedCall struct {
	Record
	End time.Time
}

// isRefusal reports whether the call was refused before a request was sent to an engine.
func (r *Record) isRefusal() bool {
	return r.Attempts == 0 && r.Outcome != OutcomeOK && r.Outcome != OutcomeClientGone
}

// Slow reports whether the call waited longer than it should have.
func (r *Record) Slow() bool {
	return r.Queue > SlowQueueThreshold || r.Stream && r.UpstreamTTFT > SlowFirstTokenThreshold
}

// Refused reports whether the call was refused before a request was sent to an engine, and the
// service was not at fault.
func (r *Record) Refused() bool { return r.isRefusal() && !r.Outcome.Failed() }

func (r *RecentCalls) add(rec *Record, now time.Time) {
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
		r.Refusals.add(FailureReason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Limit: rec.Limit, Model: rec.Model, Key: rec.Key,
		}, now)
		return
	}
	if failed {
		r.Failures.add(FailureReason{
			Code: rec.Code, Status: rec.Status, Outcome: rec.Outcome, Model: rec.Model, Upstream: rec.Upstream, Cause: rec.Cause,
			EngineStatus: rec.EngineStatus,
		}, now)
	}
	for i := range rec.Failed {
		if a := &rec.Failed[i]; a.Fault {
			r.Attempts.add(FailureReason{Upstream: a.Upstream, Cause: a.Cause, EngineStatus: a.EngineStatus}, now)
		}
	}
	r.calls.add(rec, now)
}

// Newest returns at most n calls that reached an engine, and at most n of each kind that is stored
// separately, most recent first. Each call appears only once.
func (r *RecentCalls) Newest(n int, now time.Time) []EndedCall {
	all := r.calls.newest()
	all = all[:min(n, len(all))]
	for _, k := range []*keptCalls{&r.failed, &r.slow, &r.refused} {
		all = append(all, k.newest(n, now)...)
	}
	seen := make(map[RequestID]bool, len(all))
	all = slices.DeleteFunc(all, func(e EndedCall) bool {
		again := seen[e.RequestID]
		seen[e.RequestID] = true
		return again
	})
	slices.SortStableFunc(all, func(a, b EndedCall) int { return b.End.Compare(a.End) })
	return all
}

// Find returns the call with the given id if it is still stored.
func (r *RecentCalls) Find(id string, now time.Time) (EndedCall, bool) {
	for _, e := range r.Newest(maxKeptCalls, now) {
		if e.RequestID.String() == id {
			return e, true
		}
	}
	return EndedCall{}, false
}
