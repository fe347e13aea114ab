package limit

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// Yielding are the running calls of all classes but the first: what a full pool sends away first,
// for a call of an earlier class that finds no slot. Only one that has shown its client nothing may
// be sent away, and a class keeps the slots of its floor. Calls of the first class cost one atomic
// load, and that only where they find no slot.
type Yielding struct {
	count  atomic.Int64 // of calls
	copies atomic.Int64 // of those, copies
	sent   [ranks]atomic.Uint64

	mu    sync.Mutex
	calls map[*YieldingCall]struct{}
}

// ShadowRank is the rank of copies of calls, which go behind every class.
const ShadowRank = config.MaxClasses

const ranks = ShadowRank + 1

// YieldingCall is one such call at one upstream.
type YieldingCall struct {
	Rank     int // of its class, 1 or more
	Pool     upstreams.Pool
	Upstream *upstreams.Upstream
	Begun    time.Time
	End      func() // ends it; it may not block

	shown, away bool          // guarded by Yielding.mu
	gone        chan struct{} // closed when its slot is free
}

// Any reports whether there are such calls.
func (y *Yielding) Any() bool { return y.count.Load() > 0 }

// Copies reports whether some of them are copies of calls.
func (y *Yielding) Copies() bool { return y.copies.Load() > 0 }

// SentAway returns how many calls of a rank were sent away.
func (y *Yielding) SentAway(rank int) uint64 { return y.sent[rank].Load() }

// Add adds a call that has got a slot.
func (y *Yielding) Add(c *YieldingCall) {
	c.gone = make(chan struct{})
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.calls == nil {
		y.calls = map[*YieldingCall]struct{}{}
	}
	y.calls[c] = struct{}{}
	y.count.Add(1)
	if c.Rank == ShadowRank {
		y.copies.Add(1)
	}
}

// Show reports whether the call may show its client something, and has it stay from here on.
// Otherwise it was sent away.
func (y *Yielding) Show(c *YieldingCall) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	c.shown = true
	return !c.away
}

// Remove removes a call whose slot is free, or one that was removed already.
func (y *Yielding) Remove(c *YieldingCall) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if _, there := y.calls[c]; !there {
		return
	}
	delete(y.calls, c)
	y.count.Add(-1)
	if c.Rank == ShadowRank {
		y.copies.Add(-1)
	}
	close(c.gone)
}

// SendAway ends a call of a later class for one of this rank at one of the upstreams: of those of
// the last class the one that began last. gone is closed when its slot is free; it is nil where
// there is none to be sent away. slots are those of the pool at the upstreams.
func (y *Yielding) SendAway(
	rank int, pool upstreams.Pool, at []*upstreams.Upstream, slots int, floors []config.Percent,
) (gone <-chan struct{}) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var running [ranks]int
	var last [ranks]*YieldingCall
	for c := range y.calls {
		if !c.uses(pool, at) || c.away {
			continue
		}
		running[c.Rank]++
		if !c.shown && (last[c.Rank] == nil || c.Begun.After(last[c.Rank].Begun)) {
			last[c.Rank] = c
		}
	}
	for r := len(last) - 1; r > rank; r-- {
		c := last[r]
		if c == nil || r < len(floors) && running[r] <= int(floors[r].Of(int64(slots))) {
			continue
		}
		c.away = true
		y.sent[r].Add(1)
		c.End()
		return c.gone
	}
	return nil
}

// uses reports whether a call holds a slot that one of the pool could have at the upstreams.
func (c *YieldingCall) uses(pool upstreams.Pool, at []*upstreams.Upstream) bool {
	for _, u := range at {
		if u == c.Upstream {
			return c.Pool == pool || u.Limits().Shared
		}
	}
	return false
}
