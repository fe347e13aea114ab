package routing

import (
	"container/heap"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/upstreams"
)

// loadSimulation simulates clients that call one model in closed loops, in virtual time.
type loadSimulation struct {
	t             testing.TB
	route         *Route
	loops         []*closedLoopClient
	events        loopEvents
	busy          time.Duration // total time that slots were in use
	withoutClaims bool          // the simulation runs without claims
}

// closedLoopClient is a client that calls again once its call has ended or, after a refusal, once
// its pause is over.
type closedLoopClient struct {
	key           string
	call, pause   time.Duration // duration of a call, and pause after a refusal
	next          time.Time
	lease         *upstreams.Lease
	asked, served int
}

type loopEvents []*closedLoopClient

func (e loopEvents) Len() int           { return len(e) }
func (e loopEvents) Less(i, j int) bool { return e[i].next.Before(e[j].next) }
func (e loopEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *loopEvents) Push(x any)        { *e = append(*e, x.(*closedLoopClient)) }
func (e *loopEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newLoadSimulation(t testing.TB, slots int) *loadSimulation {
	return &loadSimulation{t: t, route: lookup(t, table(t, plan(t, upstream("a", slots)), model("m", "", "a")), "m")}
}

// add starts n clients that use the same key. Each client starts a millisecond after the one before
// it.
func (c *loadSimulation) add(n int, key string, call, pause time.Duration) *closedLoopClient {
	var first *closedLoopClient
	for range n {
		l := &closedLoopClient{key: key, call: call, pause: pause, next: t0.Add(time.Duration(len(c.loops)) * time.Millisecond)}
		c.loops = append(c.loops, l)
		heap.Push(&c.events, l)
		if first == nil {
			first = l
		}
	}
	return first
}

// retryAfter is the Retry-After of refused calls.
const retryAfter = time.Second

func (c *loadSimulation) run(d time.Duration) {
	for len(c.events) > 0 && c.events[0].next.Sub(t0) < d {
		l := c.events[0]
		now := l.next
		if l.lease != nil {
			l.lease.ReleaseAt(upstreams.OutcomeOK, now)
			l.lease = nil
			c.busy += l.call
			l.next = now.Add(time.Millisecond) // network delay of the next call
		} else {
			c.ask(l, now)
		}
		heap.Fix(&c.events, 0)
	}
	for _, l := range c.loops {
		if l.lease != nil {
			l.lease.ReleaseAt(upstreams.OutcomeOK, t0.Add(d))
		}
	}
}

func (c *loadSimulation) ask(l *closedLoopClient, now time.Time) {
	q := Query{Key: l.key, Now: now, RetryAfter: retryAfter}
	if c.withoutClaims {
		q.RetryAfter = 0
	}
	l.asked++
	lease, _, err := c.route.Acquire(&q)
	switch {
	case err == nil:
		l.lease, l.next = lease, now.Add(l.call)
		l.served++
	case isFullError(err):
		l.next = now.Add(l.pause)
	default:
		c.t.Fatal(err)
	}
}

// TestFloodLeavesSlotsToOthers checks a model that one key floods with immediate retries. Another
// client that honours its Retry-After must still get a slot for at least two in five of its calls.
func TestFloodLeavesSlotsToOthers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.IntRange(2, 8).Draw(rt, "slots")
		each := time.Duration(rapid.IntRange(20, 300*slots).Draw(rt, "a call of the flood, ms")) * time.Millisecond
		own := time.Duration(rapid.IntRange(20, 2000).Draw(rt, "a call of the client, ms")) * time.Millisecond
		way := time.Duration(rapid.IntRange(0, 200).Draw(rt, "to the client and back, ms")) * time.Millisecond
		c := newLoadSimulation(t, slots)
		c.add(rapid.IntRange(slots+1, slots+8).Draw(rt, "loops"), "flood", each, time.Duration(rapid.IntRange(20, 100).Draw(rt, "pause, ms"))*time.Millisecond)
		client := c.add(1, "client", own, retryAfter+way)
		c.run(20 * time.Second)
		if client.asked < 6 || client.served*5 < client.asked*2 {
			rt.Fatalf("%d of %d were served", client.served, client.asked)
		}
	})
}

// TestFloodWithoutClaims checks that a client that honours its Retry-After gets no slot if there
// are no claims. This shows that TestFloodLeavesSlotsToOthers can fail.
func TestFloodWithoutClaims(t *testing.T) {
	c := newLoadSimulation(t, 4)
	c.withoutClaims = true
	c.add(64, "flood", 100*time.Millisecond, 20*time.Millisecond)
	client := c.add(1, "client", 100*time.Millisecond, retryAfter)
	c.run(72 * time.Second)
	if client.served > client.asked/10 {
		t.Errorf("%d of %d were served", client.served, client.asked)
	}
}

// TestSingleSlotIsShared checks that two keys share a single slot, even if one of them floods the
// model.
func TestSingleSlotIsShared(t *testing.T) {
	for _, loops := range []int{1, 64} {
		c := newLoadSimulation(t, 1)
		c.add(loops, "flood", 100*time.Millisecond, 20*time.Millisecond)
		client := c.add(1, "client", 100*time.Millisecond, retryAfter+20*time.Millisecond)
		c.run(100 * time.Second)
		if client.served*5 < client.asked*2 {
			t.Errorf("%d loops: %d of %d were served", loops, client.served, client.asked)
		}
	}
}

// TestFloodAloneLosesNothing checks that a key without competitors loses no slots to claims.
func TestFloodAloneLosesNothing(t *testing.T) {
	served := map[bool]int{}
	for _, refuse := range []bool{false, true} {
		c := newLoadSimulation(t, 4)
		c.withoutClaims = refuse
		c.add(64, "flood", 70*time.Millisecond, 20*time.Millisecond)
		c.run(20 * time.Second)
		for _, l := range c.loops {
			served[refuse] += l.served
		}
		if n := c.route.claims.RefusedForClaimsCount(); n != 0 {
			t.Errorf("%d calls yielded to nobody", n)
		}
	}
	if served[false] != served[true] {
		t.Errorf("%d calls were served with claims, %d without", served[false], served[true])
	}
}

// TestManyKeysKeepSlotsBusy checks that if many keys use a full model, no slot stays idle and each
// key is served.
func TestManyKeysKeepSlotsBusy(t *testing.T) {
	for _, keys := range []int{6, 20, 100} {
		busy := map[bool]time.Duration{}
		for _, refuse := range []bool{false, true} {
			c := newLoadSimulation(t, 4)
			c.withoutClaims = refuse
			for k := range keys {
				c.add(1, fmt.Sprint("key-", k), 200*time.Millisecond, retryAfter+time.Duration(k)*time.Millisecond)
			}
			c.run(200 * time.Second)
			busy[refuse] = c.busy
			for _, l := range c.loops {
				if !refuse && l.served < 5 {
					t.Errorf("%d keys: %s was served %d times of %d", keys, l.key, l.served, l.asked)
				}
			}
		}
		t.Logf("%d keys: slots were busy for %v, and for %v without claims", keys, busy[false], busy[true])
		if busy[false] < busy[true]*3/4 {
			t.Errorf("%d keys: slots were busy for %v, and for %v without claims", keys, busy[false], busy[true])
		}
	}
}

// TestClaimsEnd checks that a claim ends when it expires, or when its key acquires a slot.
func TestClaimsEnd(t *testing.T) {
	c := newLoadSimulation(t, 1)
	claims := c.route.claims
	ask := func(key string, at time.Duration) *upstreams.Lease {
		lease, _, _ := c.route.Acquire(&Query{Key: key, Now: t0.Add(at), RetryAfter: retryAfter})
		return lease
	}
	held := ask("a", 0)
	ask("b", 0)
	ask("b", 100*time.Millisecond) // does not add a second claim
	if n := claims.liveCount.Load(); n != 1 {
		t.Fatalf("got %d live claims, want 1", n)
	}
	held.ReleaseAt(upstreams.OutcomeOK, t0)
	if ask("c", time.Second) != nil || claims.RefusedForClaimsCount() != 1 {
		t.Error("a slot that b has a claim on went to c")
	}
	got := ask("b", time.Second)
	if got == nil {
		t.Fatal("b's own claim kept it out")
	}
	got.ReleaseAt(upstreams.OutcomeOK, t0)
	if held = ask("a", time.Minute); held == nil || claims.liveCount.Load() != 0 || len(claims.groups) != 1 {
		t.Errorf("%d claims are left", claims.liveCount.Load())
	}
	held.ReleaseAt(upstreams.OutcomeOK, t0)
}

// TestClaimsOfSharedUpstreams checks that a claim on a shared upstream also applies to calls of
// another model. Those calls may still use their model's other upstreams.
func TestClaimsOfSharedUpstreams(t *testing.T) {
	tab := table(t, plan(t, upstream("a", 1), upstream("b", 1)), model("m", "", "a"), model("n", "", "a", "b"))
	m, n := lookup(t, tab, "m"), lookup(t, tab, "n")
	ask := func(r *Route, key string) (*upstreams.Lease, *Target) {
		lease, target, _ := r.Acquire(&Query{Key: key, Now: t0.Add(time.Second), RetryAfter: retryAfter})
		return lease, target
	}
	held, _, _ := m.Acquire(&Query{Key: "flood", Now: t0, RetryAfter: retryAfter})
	_, _, _ = m.Acquire(&Query{Key: "client", Now: t0, RetryAfter: retryAfter})
	held.ReleaseAt(upstreams.OutcomeOK, t0)
	other, target := ask(n, "flood")
	if other == nil || target.Upstream.Name() != "b" {
		t.Fatal("the claim on a keeps the call from b")
	}
	if l, _ := ask(n, "flood"); l != nil {
		t.Error("the other model's call took the slot")
	}
	own, _ := ask(m, "client")
	if own == nil {
		t.Fatal("the slot was not kept")
	}
	own.ReleaseAt(upstreams.OutcomeOK, t0)
	other.ReleaseAt(upstreams.OutcomeOK, t0)
}

// TestClaimsHoldNoLock checks that other calls are not delayed while a call acquires its slot,
// which may require a request to the fleet's store.
func TestClaimsHoldNoLock(t *testing.T) {
	c := newLoadSimulation(t, 2)
	claims := c.route.claims
	ask := func(key string, meanwhile func()) {
		q := Query{Key: key, Now: t0, RetryAfter: retryAfter}
		kept := claims.hideReservedSlots(c.route, &targetSearch{Query: q})
		meanwhile()
		claims.recordAcquireResult(c.route, &q, kept, &FullError{})
	}
	ask("a", func() {}) // adds a claim
	ask("b", func() { ask("c", func() {}) })
	if n := claims.liveCount.Load(); n != 3 {
		t.Errorf("%d claims, want 3", n)
	}
}

// TestClaimsCostNothing checks that a call allocates only its lease if no claim affects it.
func TestClaimsCostNothing(t *testing.T) {
	c := newLoadSimulation(t, 4)
	allocs := func(after time.Duration) float64 {
		return testing.AllocsPerRun(100, func() {
			lease, _, err := c.route.Acquire(&Query{Key: "a", Now: t0, RetryAfter: after})
			if err != nil {
				t.Fatal(err)
			}
			lease.ReleaseAt(upstreams.OutcomeOK, t0)
		})
	}
	if with, without := allocs(retryAfter), allocs(0); with != 1 || without != 1 {
		t.Errorf("%v allocations with claims, %v without, want 1", with, without)
	}
}

// TestRetryAfter checks that a refusal says when a slot is expected to become free. This time is
// learned from the calls that have ended. The key's claim must last until then.
func TestRetryAfter(t *testing.T) {
	c := newLoadSimulation(t, 2)
	now := t0
	refusal := func() *FullError {
		var full *FullError
		_, _, err := c.route.Acquire(&Query{Key: "b", Now: now, RetryAfter: time.Second, RetryAfterIsMinimum: true})
		if !errors.As(err, &full) {
			t.Fatalf("got %v, want a refusal", err)
		}
		return full
	}
	fill := func() (held [2]*upstreams.Lease) {
		for i := range held {
			lease, _, err := c.route.Acquire(&Query{Key: "a", Now: now})
			if err != nil {
				t.Fatal(err)
			}
			held[i] = lease
		}
		return held
	}
	held := fill()
	if after := refusal().RetryAfter(time.Second, 0); after != time.Second {
		t.Errorf("%v without history, want the minimum", after)
	}
	now = t0.Add(9 * time.Second)
	for _, l := range held {
		l.ReleaseAt(upstreams.OutcomeOK, now)
	}
	held = fill()
	full := refusal()
	for waiting, want := range map[int]time.Duration{0: 4500 * time.Millisecond, 1: 9 * time.Second, 100: maxRetryAfter} {
		if after := full.RetryAfter(time.Second, waiting); after.Round(time.Millisecond) != want {
			t.Errorf("%v after calls of 9 s in 2 slots with %d waiting, want %v", after, waiting, want)
		}
	}
	if due := c.route.claims.groups[0].findKey("b").claimDue.Sub(now); due.Round(time.Millisecond) != 4500*time.Millisecond {
		t.Errorf("the claim is due after %v, want 4.5s", due)
	}
	for _, l := range held {
		l.ReleaseAt(upstreams.OutcomeOK, now)
	}
}
