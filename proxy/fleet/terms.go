package fleet

import (
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
	back          atomic.Int64 // when the store answered again; 0 if it was never lost
	lastHeartbeat atomic.Int64 // when a heartbeat was last answered
	report        func(*account)

	storeClock storeClock
}

func (t *terms) now() time.Duration { return t.since(t.clock()) }

func (t *terms) since(now time.Time) time.Duration { return now.Sub(t.epoch) }

// enoughWait reports whether a request has failed and enough calls wait to open the breaker. More
// calls would wait without success. Before the first failure, only the store decides: it may be
// healthy and a little late, and other edges may use what was free at the last answer.
func enoughWait(misses, waiting int) bool {
	return misses > 0 && misses+waiting >= failuresToOpen
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
