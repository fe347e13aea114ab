package fleet

import (
	"sync/atomic"
	"time"

	"penstock/config"
)

// edgeState is the state shared by all accounts of an edge.
type edgeState struct {
	edgeID        string // unique to each process, because message numbers start again at 1
	epoch         time.Time
	clock         func() time.Time
	timeout       time.Duration // maximum time that a call waits for the store
	lostPolicy    string
	store         storeClient
	metrics       fleetMetrics
	expectedEdges atomic.Int64 // expected number of edges; 0 if unknown
	seenEdges     atomic.Int64
	waitingCalls  atomic.Int64 // number of calls that are waiting for the store
	storeReturned atomic.Int64 // when the store last answered again; 0 if it was never lost
	lastHeartbeat atomic.Int64 // when a heartbeat was last answered
	reportAccount func(*keyAccount)

	storeClock storeClock
}

func (t *edgeState) now() time.Duration { return t.sinceEpoch(t.clock()) }

func (t *edgeState) sinceEpoch(now time.Time) time.Duration { return now.Sub(t.epoch) }

// shouldOpenBreaker reports whether a request has failed and enough calls are waiting to open the
// breaker. Further calls would wait without success. Before the first failure, only the store
// decides: it may be healthy and a little late, and other edges may have used what was free at the
// last answer.
func shouldOpenBreaker(misses, waiting int) bool {
	return misses > 0 && misses+waiting >= failuresToOpen
}

func (t *edgeState) sinceHeartbeat(now time.Duration) time.Duration {
	return now - time.Duration(t.lastHeartbeat.Load())
}

// edgeCount returns how many edges share the limits while the store is lost. It returns the expected
// number or the last seen number, whichever is larger. If both are unknown, it returns
// config.AssumedEdges.
func (t *edgeState) edgeCount() int {
	if t.isEdgeCountUnknown() {
		return config.AssumedEdges
	}
	return int(max(t.expectedEdges.Load(), t.seenEdges.Load()))
}

func (t *edgeState) isEdgeCountUnknown() bool {
	return t.expectedEdges.Load() == 0 && t.seenEdges.Load() == 0
}
