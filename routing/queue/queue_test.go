package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/routing"
	"penstock/upstreams"
)

// fakeUpstream is one upstream. Its slots are acquired by compare-and-swap, and each release is
// signalled afterwards.
type fakeUpstream struct {
	free   atomic.Int64
	set    *Queues
	q      *Queue
	at     *upstreams.Upstream
	fits   func(*routing.Query) bool // reports whether a waiter can use a free slot; nil means always
	gone   atomic.Bool               // no call may use the upstream
	onWait func(*routing.Query)      // called by RegisterWait; may be nil
}

func newFakeUpstream(depth int) *fakeUpstream {
	p := &fakeUpstream{set: New(), at: new(upstreams.Upstream)}
	p.q = p.set.ForModel("m")
	p.applyDepth(depth)
	return p
}

func (p *fakeUpstream) applyDepth(depth int) {
	p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: depth, Route: p}})
}

// RegisterWait only calls onWait, because the models of the test take no turns.
func (p *fakeUpstream) RegisterWait(q *routing.Query) (quit func()) {
	if p.onWait != nil {
		p.onWait(q)
	}
	return func() {}
}

func (p *fakeUpstream) Targets() []routing.Target { return []routing.Target{{Upstream: p.at}} }

func (p *fakeUpstream) UsableSlots(_ *upstreams.Upstream, q *routing.Query) routing.UsableSlots {
	if p.gone.Load() {
		return routing.UsableSlots{None: true}
	}
	if p.fits != nil && !p.fits(q) {
		return routing.UsableSlots{}
	}
	return routing.UsableSlots{Slots: int(p.free.Load()), Shared: true}
}

func (p *fakeUpstream) take() bool {
	for {
		n := p.free.Load()
		if n == 0 {
			return p.gone.Load()
		}
		if p.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (p *fakeUpstream) release() {
	p.free.Add(1)
	p.set.OnSlotFreed(p.at)
}

func (p *fakeUpstream) wait(done <-chan struct{}, key string, deadline time.Time, try func() bool) error {
	return p.q.Wait(done, &WaitRequest{Key: key}, deadline, try)
}

func none() bool { return false }

func TestQueueServesKeysInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(100)
		var mu sync.Mutex
		var served []string
		wait := func(name string) {
			go func() {
				key, _, _ := strings.Cut(name, "-")
				if err := p.wait(nil, key, time.Now().Add(time.Minute), p.take); err != nil {
					t.Errorf("Wait of %s = %v, want a slot", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, name)
			}()
			synctest.Wait()
		}
		for i := range 4 {
			wait(fmt.Sprint("flood-", i))
		}
		wait("b-0")
		wait("flood-4")
		wait("c-0")
		wait("c-1")
		for range 8 {
			p.release()
			synctest.Wait()
		}
		want := []string{"flood-0", "b-0", "c-0", "flood-1", "c-1", "flood-2", "flood-3", "flood-4"}
		if !slices.Equal(served, want) {
			t.Errorf("served %v, want %v", served, want)
		}
		if p.q.WaitingCallCount() != 0 || len(p.q.keys) != 0 || p.q.keyOrder.Len() != 0 {
			t.Errorf("%d waiters, %d keys left", p.q.WaitingCallCount(), len(p.q.keys))
		}
	})
}

func TestQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(2)
		start := time.Now()
		errs := make(chan error, 2)
		done := make(chan struct{})
		go func() { errs <- p.wait(nil, "a", start.Add(3*time.Second), none) }()
		go func() { errs <- p.wait(done, "b", start.Add(time.Hour), none) }()
		synctest.Wait()
		if err := p.wait(nil, "c", start.Add(time.Hour), none); !errors.Is(err, ErrFull) {
			t.Errorf("the third Wait = %v, want ErrFull", err)
		}
		if err := <-errs; !errors.Is(err, ErrDeadline) || time.Since(start) != 3*time.Second {
			t.Errorf("deadline: %v after %v", err, time.Since(start))
		}
		close(done)
		if err := <-errs; !errors.Is(err, ErrCanceled) || time.Since(start) != 3*time.Second {
			t.Errorf("gone: %v after %v", err, time.Since(start))
		}
		if err := p.wait(nil, "a", time.Time{}, none); !errors.Is(err, ErrDeadline) {
			t.Errorf("no deadline: %v", err)
		}
		if p.q.WaitingCallCount() != 0 {
			t.Errorf("%d calls wait, want 0", p.q.WaitingCallCount())
		}
	})
}

func TestQueueDepth(t *testing.T) {
	p := newFakeUpstream(0)
	looked := false
	look := func() bool { looked = true; return true }
	if err := p.wait(nil, "a", time.Now().Add(time.Hour), look); !errors.Is(err, ErrFull) || looked {
		t.Errorf("no depth: %v, looked %v", err, looked)
	}
	p.applyDepth(1)
	if err := p.wait(nil, "a", time.Now().Add(time.Hour), look); err != nil || !looked {
		t.Errorf("depth 1: %v, looked %v", err, looked)
	}
}

// TestQueueKeepsPositionAfterFailedTry checks that a waiter that was woken but got no slot stays
// ahead of later waiters.
func TestQueueKeepsPositionAfterFailedTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(10)
		served := make(chan string, 2)
		var overtaken atomic.Bool
		take := func() bool {
			if overtaken.Swap(false) {
				p.free.Add(-1)
				return false
			}
			return p.take()
		}
		for _, key := range []string{"a", "b"} {
			go func() {
				if err := p.wait(nil, key, time.Now().Add(time.Minute), take); err != nil {
					t.Error(err)
				}
				served <- key
			}()
			synctest.Wait()
		}
		for range 3 {
			overtaken.Store(true) // a call outside the queue acquires the slot first
			p.release()
			synctest.Wait()
		}
		p.release()
		if first := <-served; first != "a" {
			t.Errorf("%s was served first", first)
		}
		p.release()
		<-served
	})
}

// TestQueueWakesWaiterThatCanUseSlot checks a slot that the first waiter cannot use. It must be
// offered to the next waiter that can use it, regardless of that waiter's key. No other waiter may
// be woken.
func TestQueueWakesWaiterThatCanUseSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(1000)
		p.fits = func(q *routing.Query) bool { return q.Pool == upstreams.PoolVision && len(q.Exclude) == 0 }
		var asked [900]atomic.Int64
		served := make(chan int, len(asked))
		for i := range asked {
			n := WaitRequest{Key: fmt.Sprint(i % 7), Pool: upstreams.PoolText}
			switch {
			case i == 600:
				n.Pool = upstreams.PoolVision
			case i%3 == 0:
				n.Pool, n.Excluded = upstreams.PoolVision, []upstreams.ID{upstreams.ID(fmt.Sprint(i % 2))}
			}
			go func() {
				if err := p.q.Wait(nil, &n, time.Now().Add(time.Minute), func() bool { asked[i].Add(1); return p.take() }); err == nil {
					served <- i
				}
			}()
			synctest.Wait()
		}
		for i := range asked {
			asked[i].Store(0)
		}
		p.release()
		synctest.Wait()
		if i := <-served; i != 600 {
			t.Errorf("waiter %d was served", i)
		}
		for range 3 {
			p.release() // no waiter can use this slot
			synctest.Wait()
		}
		for i := range asked {
			if n := asked[i].Load(); n != 0 && i != 600 || n > 1 {
				t.Errorf("waiter %d was asked %d times", i, n)
			}
		}
		late := make(chan error, 1) // a new call gets the slot that no waiter can use
		go func() {
			late <- p.q.Wait(nil, &WaitRequest{Key: "c", Pool: upstreams.PoolVision}, time.Now().Add(time.Second), p.take)
		}()
		if err := <-late; err != nil {
			t.Errorf("the newcomer's Wait = %v, want a slot", err)
		}
		time.Sleep(2 * time.Minute) // lets the other waiters time out
		p.set.mu.Lock()
		defer p.set.mu.Unlock()
		if len(p.q.classes) != 0 || p.q.WaitingCallCount() != 0 || p.set.waitingCount.Load() != 0 {
			t.Errorf("%d classes, %d wait", len(p.q.classes), p.q.WaitingCallCount())
		}
	})
}

// TestQueueEndsWithoutUpstreams checks that all waiters are woken once no upstream can accept their
// calls.
func TestQueueEndsWithoutUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(50)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if err := p.wait(nil, fmt.Sprint(i%3), time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		p.gone.Store(true)
		p.set.OnUpstreamChanged(p.at)
		wg.Wait()
	})
}

// TestQueuesShareAnUpstream checks that a free slot of a shared upstream wakes only one waiter, and
// that the models that share the upstream take turns. Waiters of models that do not use the
// upstream are not woken.
func TestQueuesShareAnUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(100)
		other := newFakeUpstream(1)
		other.set = p.set
		other.q = p.set.ForModel("other")
		var looks atomic.Int64
		other.fits = func(*routing.Query) bool { looks.Add(1); return false }
		uses := []QueueConfig{{Model: "other", Queue: other.q, Depth: 100, Route: other}}
		var asked atomic.Int64
		served := make(chan string, 100)
		for _, model := range []string{"a", "b", "c"} {
			uses = append(uses, QueueConfig{Model: model, Queue: p.set.ForModel(model), Depth: 100, Route: p})
		}
		p.set.ApplyConfigs(uses)
		for _, u := range uses {
			for range map[string]int{"a": 20, "b": 5, "c": 20, "other": 30}[u.Model] {
				go func() {
					if u.Queue.Wait(nil, &WaitRequest{Key: "k"}, time.Now().Add(time.Minute), func() bool { asked.Add(1); return u.Route.(*fakeUpstream).take() }) == nil {
						served <- u.Model
					}
				}()
			}
		}
		synctest.Wait()
		asked.Store(0)
		looks.Store(0)
		got := map[string]int{}
		for range 15 {
			p.release()
			synctest.Wait()
			got[<-served]++
		}
		if n := asked.Load(); n != 15 || looks.Load() != 0 {
			t.Errorf("15 slots: %d were woken, and a model without the upstream looked at %d times", n, looks.Load())
		}
		if got["a"] != 5 || got["b"] != 5 || got["c"] != 5 {
			t.Errorf("served %v, want 5 calls of each", got)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestQueueOffersSlotOfLeavingWaiter checks that a slot that was offered to a leaving waiter is
// offered to the next waiter. A call whose client has left acquires no slot.
func TestQueueOffersSlotOfLeavingWaiter(t *testing.T) {
	for range 20 { // a waiter may receive two events in either order
		synctest.Test(t, func(t *testing.T) {
			p := newFakeUpstream(10)
			done, hold := make(chan struct{}), make(chan struct{})
			gone, next := make(chan error, 1), make(chan error, 1)
			go func() {
				gone <- p.wait(done, "a", time.Now().Add(time.Minute), func() bool {
					select {
					case <-hold:
						return p.take()
					default:
					}
					<-hold // the first try is slow, and a slot is offered in the meantime
					return false
				})
			}()
			synctest.Wait()
			go func() { next <- p.wait(nil, "b", time.Now().Add(time.Minute), p.take) }()
			synctest.Wait()
			p.release()
			close(done)
			close(hold)
			if err := <-gone; !errors.Is(err, ErrCanceled) {
				t.Errorf("the one that left: %v", err)
			}
			if err := <-next; err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// TestQueueKeepsNewcomersWaiting checks that a new call does not try to acquire a slot while an
// earlier call is about to try. The new call gets only the slots that the earlier call does not
// take. A key that has acquired a slot without a signal moves behind the other keys.
func TestQueueKeepsNewcomersWaiting(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeUpstream(10)
			var looks, late atomic.Int64
			hold, slow := make(chan struct{}), int64(1)
			if signalled {
				slow = 2
			}
			served := make(chan string, 3)
			wait := func(name string, try func() bool) {
				go func() {
					key, _, _ := strings.Cut(name, "-")
					if err := p.wait(nil, key, time.Now().Add(time.Minute), try); err != nil {
						t.Errorf("Wait of %s = %v, want a slot", name, err)
					}
					served <- name
				}()
				synctest.Wait()
			}
			wait("a-0", func() bool {
				if looks.Add(1) == slow {
					<-hold
				}
				return p.take()
			})
			if signalled {
				p.release()
				synctest.Wait()
			}
			if n := looks.Load(); n != slow {
				t.Fatalf("the first one looked %d times", n)
			}
			take := func() bool { late.Add(1); return p.take() }
			wait("a-1", take)
			wait("b-0", take)
			p.free.Store(1)
			if n := late.Load(); n != 0 {
				t.Errorf("signalled %t: newcomers looked %d times before the first one had", signalled, n)
			}
			close(hold)
			got := []string{<-served}
			synctest.Wait()
			for range 2 {
				p.release()
				got = append(got, <-served)
			}
			want := []string{"a-0", "b-0", "a-1"}
			if signalled { // the key was moved to the back while no other key was waiting
				want = []string{"a-0", "a-1", "b-0"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("signalled %t: served %v, want %v", signalled, got, want)
			}
		})
	}
}

// TestQueueNewcomerIsWokenAtOnce checks that a new waiter finds a free slot without a call to
// OnSlotFreed if the only other waiter cannot use that slot. A waiter that leaves before it was
// woken wakes no other waiter.
func TestQueueNewcomerIsWokenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(10)
		p.fits = func(q *routing.Query) bool { return q.Pool == upstreams.PoolText }
		var looks atomic.Int64
		left := make(chan error, 2)
		look := func() bool { looks.Add(1); return false }
		go func() {
			left <- p.q.Wait(nil, &WaitRequest{Key: "a", Pool: upstreams.PoolVision}, time.Now().Add(time.Minute), look)
		}()
		synctest.Wait()
		p.free.Store(1)
		if err := p.wait(nil, "b", time.Now().Add(time.Second), p.take); err != nil {
			t.Errorf("a newcomer whom the slot suits: %v", err)
		}
		done := make(chan struct{})
		close(done)
		if err := p.wait(done, "b", time.Now().Add(time.Second), none); !errors.Is(err, ErrCanceled) {
			t.Errorf("one that leaves: %v", err)
		}
		synctest.Wait()
		if n := looks.Load(); n > 1 {
			t.Errorf("the one that waits was asked %d times for nothing", n-1)
		}
		if err := <-left; !errors.Is(err, ErrDeadline) {
			t.Errorf("the one that waited: %v", err)
		}
	})
}

// TestQueueFindsUnsignaledSlots checks that waiters find all slots that were freed without a call
// to OnSlotFreed while nobody was waiting.
func TestQueueFindsUnsignaledSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(10)
		slow := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.wait(nil, "a", time.Now().Add(time.Minute), func() bool { <-slow; return p.take() }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if err := p.wait(nil, "b", time.Now().Add(time.Minute), p.take); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		p.free.Store(4)
		close(slow)
		wg.Wait()
	})
}

func TestQueueEvictsForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(4)
		flood, other := make(chan error, 10), make(chan error, 10)
		join := func(key string, errs chan error) {
			go func() { errs <- p.wait(nil, key, time.Now().Add(time.Minute), p.take) }()
			synctest.Wait()
		}
		for range 5 {
			join("flood", flood)
		}
		if err := <-flood; !errors.Is(err, ErrFull) {
			t.Errorf("fifth of the flood: %v", err)
		}
		for range 2 {
			join("other", other)
			if err := <-flood; !errors.Is(err, ErrFull) {
				t.Errorf("newest of the flood: %v", err)
			}
		}
		join("other", other) // each key now has two calls, so neither evicts the other's
		if err := <-other; !errors.Is(err, ErrFull) {
			t.Errorf("third of the other: %v", err)
		}
		for range 4 {
			p.release()
		}
		for _, errs := range []chan error{flood, other} {
			for range 2 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestQueueOffersSlotsAfterReload checks that a reload that adds slots or changes the upstreams
// wakes exactly as many waiters as there are free slots.
func TestQueueOffersSlotsAfterReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeUpstream(50)
		var asked atomic.Int64
		var current atomic.Pointer[fakeUpstream]
		current.Store(p)
		for i := range 40 {
			go p.wait(nil, fmt.Sprint(i%3), time.Now().Add(time.Minute), func() bool { asked.Add(1); return current.Load().take() })
		}
		synctest.Wait()
		asked.Store(0)
		next := newFakeUpstream(0) // a different upstream of the same model
		next.set, next.q = p.set, p.q
		next.free.Store(6)
		p.set.ApplyConfigs([]QueueConfig{{Model: "m", Queue: p.q, Depth: 50, Route: next}})
		current.Store(next)
		p.set.OfferAllSlots()
		synctest.Wait()
		if asked.Load() != 6 {
			t.Errorf("%d were woken for 6 slots", asked.Load())
		}
		if n := p.q.WaitingCallCount(); n != 34 {
			t.Errorf("%d calls wait, want 34", n)
		}
		time.Sleep(2 * time.Minute)
	})
}

func TestQueueSurvivesPanic(t *testing.T) {
	p := newFakeUpstream(1)
	func() {
		defer func() { _ = recover() }()
		_ = p.wait(nil, "a", time.Now().Add(time.Hour), func() bool { panic("try") })
	}()
	if p.q.WaitingCallCount() != 0 {
		t.Error("a waiter whose try panicked still waits")
	}
}

// TestFullQueueComparesNeeds checks that a free slot lets a call into a full queue only if its engine
// has the features that the call needs.
func TestFullQueueComparesNeeds(t *testing.T) {
	p := newFakeUpstream(1)
	p.fits = func(q *routing.Query) bool { return q.Needs == 0 }
	first, err := p.q.Join(&WaitRequest{Key: "a", Needs: upstreams.FeatureTools})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Leave()
	p.free.Store(2) // one slot is left for the first call
	if w, err := p.q.Join(&WaitRequest{Key: "a", Needs: upstreams.FeatureTools}); !errors.Is(err, ErrFull) {
		t.Errorf("a call that cannot use the free slot: %v, %v", w, err)
	}
	w, err := p.q.Join(&WaitRequest{Key: "a"})
	if err != nil {
		t.Fatal("a call that can use the free slot:", err)
	}
	w.Leave()
}

// TestQueueCountsAtTiers checks that a waiting call is registered at all upstreams that the tiers
// of its key allow, including external upstreams.
func TestQueueCountsAtTiers(t *testing.T) {
	p := newFakeUpstream(2)
	var counted []routing.TierSet
	p.onWait = func(q *routing.Query) { counted = append(counted, q.Tiers) }
	for _, tiers := range []routing.TierSet{0, 0b11} {
		w, err := p.q.Join(&WaitRequest{Tiers: tiers})
		if err != nil {
			t.Fatal(err)
		}
		w.Leave()
	}
	if !slices.Equal(counted, []routing.TierSet{0, 0b11}) {
		t.Errorf("counted with the tiers %b", counted)
	}
}
