package fleet

import (
	"sync/atomic"
	"time"

	"penstock/config"
)

// terms holds what all accounts of an edge share.
type terms struct {
	edge          string // different after every start, so that messages are numbered from 1
	epoch         time.Time
	clock         func() time.Time
	timeout       time.Duration // maximum time that a call waits for the store
	whenLost      string
	store         store
	metrics       series
	expected      atomic.Int64   // expected number of edges; 0: unknown
	seen          atomic.Int64   // number of edges at the last heartbeat
	waiting       atomic.Int64   // number of calls that wait for the store
	back          atomic.Int64   // when the store answered again; 0: never lost
	lastHeartbeat atomic.Int64   // time of the last answered heartbeat; 0: none
	report        func(*account) // schedules the account's report

	storeClock storeClock
}

// now returns the time on the edge's own clock, which is monotonic.
func (t *terms) now() time.Duration { return t.since(t.clock()) }

func (t *terms) since(now time.Time) time.Duration { return now.Sub(t.epoch) }

// enoughWait reports whether, after one unanswered request, enough calls wait to declare the store
// lost if they time out. Further calls must not wait in vain.
func (t *terms) enoughWait() bool {
	misses := t.store.Misses()
	return misses > 0 && misses+int(t.waiting.Load()) >= failuresToOpen
}

// silence returns the time since the store last answered a heartbeat.
func (t *terms) silence(now time.Duration) time.Duration {
	return now - time.Duration(t.lastHeartbeat.Load())
}

// edges returns the number of edges that divide the free amounts while the store is lost. It is the
// expected or the seen number, whichever is greater, or config.UnknownEdges if neither is known.
func (t *terms) edges() int {
	if t.edgesUnknown() {
		return config.UnknownEdges
	}
	return int(max(t.expected.Load(), t.seen.Load()))
}

func (t *terms) edgesUnknown() bool { return t.expected.Load() == 0 && t.seen.Load() == 0 }
