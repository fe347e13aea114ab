package fleet

import (
	"sync/atomic"
	"time"
)

// terms are what all accounts of an edge have in common.
type terms struct {
	edge     string // new with every start, so that its messages are numbered from 1
	epoch    time.Time
	clock    func() time.Time
	timeout  time.Duration // the most that a call waits for the store
	whenLost string
	store    store
	metrics  series
	expected atomic.Int64   // edges
	seen     atomic.Int64   // edges, at the last heartbeat
	report   func(*account) // has its report come by itself
}

// now is the time on the edge's own clock, which is monotonic.
func (t *terms) now() time.Duration { return t.since(t.clock()) }

func (t *terms) since(now time.Time) time.Duration { return now.Sub(t.epoch) }

// edges returns how many edges share what is free while the store is lost: those that are expected,
// or those that were seen, if they are more.
func (t *terms) edges() int { return int(max(t.expected.Load(), t.seen.Load(), 1)) }
