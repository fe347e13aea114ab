package fleet

import (
	"cmp"
	"sync/atomic"
	"time"

	"penstock/config"
)

// terms are shared by all accounts of an edge.
type terms struct {
	edge          string // id unique to each process, so message numbers start from 1
	epoch         time.Time
	clock         func() time.Time
	timeout       time.Duration // maximum time that a call waits for the store
	whenLost      string
	store         store
	metrics       series
	expected      atomic.Int64 // expected number of edges; 0 if unknown
	seen          atomic.Int64
	waiting       atomic.Int64 // number of calls that wait for the store
	heard         atomic.Int64 // last answer about an account, or when calls began to wait
	usual         atomic.Int64 // average time until an answer
	back          atomic.Int64 // when the store answered again; 0 if it was never lost
	lastHeartbeat atomic.Int64 // when a heartbeat was last answered
	report        func(*account)

	storeClock storeClock
}

func (t *terms) now() time.Duration { return t.since(t.clock()) }

func (t *terms) since(now time.Time) time.Duration { return now.Sub(t.epoch) }

// enoughWait reports whether a call must be decided without the store, because the calls that wait
// already are enough to open the breaker. That applies once a request has failed or is overdue.
func enoughWait(misses, waiting int, overdue bool) bool {
	return (misses > 0 || overdue) && misses+waiting >= failuresToOpen
}

// A request without an answer is overdue after a part of the timeout, and after several times as
// long as the store usually takes.
const (
	overduePart  = 5
	overdueTimes = 4
)

func overdue(silent, timeout, usual time.Duration) bool {
	return silent > max(timeout/overduePart, overdueTimes*usual)
}

// overdue reports whether calls wait and the store has answered none of them for a while.
func (t *terms) overdue(now time.Duration) bool {
	silent := now - time.Duration(t.heard.Load())
	return t.waiting.Load() > 0 && overdue(silent, t.timeout, time.Duration(t.usual.Load()))
}

// hear records an answer that the store took this long for.
func (t *terms) hear(now, took time.Duration) {
	t.heard.Store(int64(now))
	usual := cmp.Or(t.usual.Load(), int64(took))
	t.usual.Store(usual + (int64(took)-usual)/8) // an answer at the same time may be left out
}

func (t *terms) silence(now time.Duration) time.Duration {
	return now - time.Duration(t.lastHeartbeat.Load())
}

// edges returns how many edges share the limits while the store is lost. It is the expected number
// or the last known number, whichever is larger. If both are unknown, it is config.UnknownEdges.
func (t *terms) edges() int {
	if t.edgesUnknown() {
		return config.UnknownEdges
	}
	return int(max(t.expected.Load(), t.seen.Load()))
}

func (t *terms) edgesUnknown() bool { return t.expected.Load() == 0 && t.seen.Load() == 0 }
