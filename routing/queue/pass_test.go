package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/routing"
)

// reserveSimulation is a pool of slots with its queue. Batch calls must leave some of the slots
// free.
type reserveSimulation struct {
	*fakeUpstream
	served, evicted atomic.Int64
}

const passingSlots = 4

func newReserveSimulation(depth int) *reserveSimulation {
	p := &reserveSimulation{fakeUpstream: newFakeUpstream(depth)}
	p.free.Store(passingSlots)
	p.fits = func(q *routing.Query) bool { return p.room(q.Reserve) > 0 }
	return p
}

// ask starts a call that requests a slot. It returns once the call has a slot, is waiting, or was
// refused.
func (p *reserveSimulation) ask(n *WaitRequest, take func() bool) {
	go func() {
		switch err := p.q.Wait(nil, n, time.Now().Add(time.Hour), take); {
		case err == nil:
			p.served.Add(1)
		case errors.Is(err, ErrFull):
			p.evicted.Add(1)
		}
	}()
	synctest.Wait()
}

func (p *reserveSimulation) need(rank int, key string) (*WaitRequest, func() bool) {
	n := &WaitRequest{Key: key, Rank: rank}
	if rank > 0 {
		n.Reserve, n.AgesAt = 50, time.Now().Add(time.Minute)
	}
	return n, func() bool { return p.room(n.Reserve) > 0 && p.take() }
}

func (p *reserveSimulation) room(reserve routing.Percent) int {
	return int(p.free.Load()) - int(reserve.Of(passingSlots))
}

// TestFreeSlotPreventsEviction checks that a call that can use a free slot acquires it, regardless
// of which calls are waiting. No waiter may be evicted for this call, and the queue may never
// exceed its depth.
func TestFreeSlotPreventsEviction(t *testing.T) {
	const depth = 3
	beside := 0 // calls for which a slot was free while the queue was full
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			p, r := newReserveSimulation(depth), rand.New(rand.NewPCG(seed, 1))
			for step := range 40 {
				if r.IntN(3) == 0 && p.free.Load() < passingSlots {
					p.release()
					synctest.Wait()
				} else {
					n, take := p.need(r.IntN(2), fmt.Sprint(r.IntN(3)))
					room, served, evicted, full := p.room(n.Reserve), p.served.Load(), p.evicted.Load(), p.q.WaitingCallCount() == depth
					p.ask(n, take)
					if room > 0 && (p.served.Load() != served+1 || p.evicted.Load() != evicted) {
						t.Fatalf("step %d of seed %d: beside %d free slots %d were served and %d lost their places",
							step, seed, room, p.served.Load()-served, p.evicted.Load()-evicted)
					}
					if room > 0 && full {
						beside++
					}
				}
				if w := p.q.WaitingCallCount(); w > depth {
					t.Fatalf("step %d of seed %d: %d wait", step, seed, w)
				}
			}
			for p.q.WaitingCallCount() > 0 || p.free.Load() < passingSlots {
				p.release()
				synctest.Wait()
			}
		})
	}
	if beside == 0 {
		t.Error("no full queue had a free slot beside it: the test proves nothing")
	}
}

// TestPassingLosesItsSlot checks a call that joins a full queue because a slot is free. If another
// call takes that slot first, the call gets the position that it would otherwise have had.
func TestPassingLosesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const depth = 2
		p := newReserveSimulation(depth)
		p.free.Store(1)
		for i := range depth { // batch calls do not use that slot
			n, take := p.need(1, fmt.Sprint("batch-", i))
			p.ask(n, take)
		}
		n, take := p.need(0, "user")
		p.ask(n, func() bool {
			p.free.CompareAndSwap(1, 0) // a call for a different model acquires the slot
			return take()
		})
		if p.q.WaitingCallCount() != depth || p.evicted.Load() != 1 || p.q.WaitingInRank(1) != depth-1 {
			t.Errorf("%d wait, %d of them of batches, and %d lost their places", p.q.WaitingCallCount(), p.q.WaitingInRank(1), p.evicted.Load())
		}
		for range depth {
			p.free.Store(passingSlots - 1)
			p.release()
			synctest.Wait()
		}
		if p.served.Load() != depth || p.q.WaitingCallCount() != 0 {
			t.Errorf("%d were served", p.served.Load())
		}
	})
}
