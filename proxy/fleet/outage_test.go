package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"penstock/config"
)

// TestOutage checks that the edges continue with their shares while the store is lost, and that the
// fleet then exceeds its limit by at most 1 %. When the store answers again, the edges must share
// the limit again.
func TestOutage(t *testing.T) {
	const edges, perMinute = 4, 600
	for _, share := range []float64{0.3, 1.5} {
		for _, skew := range []bool{false, true} {
			limits := config.KeyLimits{RequestsPerMinute: perMinute}
			w := newWorld(edges, limits, config.StoreLostDivide)
			random := rand.New(rand.NewPCG(3, 4))
			owed, worst := 0.0, 0.0
			admitted := [3]int{} // before, during and after the loss of the store
			calls := [3]int{}
			for at := time.Duration(0); at < 6*time.Minute; {
				phase := int(at / (2 * time.Minute))
				for _, l := range w.lines {
					l.cut = phase == 1
				}
				gap := time.Duration(random.ExpFloat64() * float64(time.Minute) / (share * perMinute))
				for left := gap; left > 0; left -= reportInterval {
					w.advance(min(left, reportInterval))
				}
				at += gap
				owed = max(0, owed-gap.Minutes()*perMinute)
				i := random.IntN(edges)
				if skew && random.IntN(10) > 0 {
					i = 0
				}
				calls[phase]++
				if w.keys[i].TakeRequest(limits, w.now).OK {
					admitted[phase]++
					owed++
				}
				worst = max(worst, owed)
			}
			t.Logf("%.1f of the limit, skewed %v: %v of %v calls, at most %.0f owed", share, skew, admitted, calls, worst)
			if worst > 1.01*perMinute {
				t.Errorf("%.1f of the limit, skewed %v: the fleet owes %.0f at once", share, skew, worst)
			}
			for phase, n := range admitted {
				least := min(0.98*float64(calls[phase]), 0.98*2*perMinute)
				if phase == 1 && skew { // the edge has only its share
					least /= edges
				}
				if float64(n) < least {
					t.Errorf("%.1f of the limit, skewed %v: %d of %d calls in phase %d", share, skew, n, calls[phase], phase)
				}
			}
		}
	}
}

// TestReturnOneByOne checks edges that reach the store again one after another. The first edge must
// not use amounts that the other edges used but have not reported, or amounts that the store has
// lost.
func TestReturnOneByOne(t *testing.T) {
	const edges, perMinute = 4, 600
	for n := range 4 {
		// all: the first edge also gets calls while the store is lost; forgets: the store loses its
		// data.
		all, forgets := n&1 == 0, n&2 == 2
		limits := config.KeyLimits{RequestsPerMinute: perMinute}
		w := newWorld(edges, limits, config.StoreLostDivide)
		owed, admitted := 0.0, 0
		quarter := func(from, to int) (n int) { // sends the calls of about 250 ms to these edges
			for range 12 {
				w.advance(20 * time.Millisecond)
				owed = max(0, owed-perMinute/60.*0.02)
				for _, k := range w.keys[from:to] {
					if k.TakeRequest(limits, w.now).OK {
						owed++
						n++
					}
				}
			}
			return n
		}
		for range 80 {
			quarter(0, edges)
		}
		for _, l := range w.lines {
			l.cut = true
		}
		first := 1
		if all {
			first = 0
		}
		for range 80 {
			quarter(first, edges)
		}
		before := owed
		if forgets {
			w.twin.forget()
		}
		for i, l := range w.lines {
			l.cut = false
			w.edges[i].edgeState.storeReturned.Store(int64(w.edges[i].edgeState.now()))
			quarter(0, i+1)
			if owed > 1.01*perMinute {
				t.Errorf("%v %v: the fleet owes %.0f of %d once %d edges have the store again, %.0f before", all, forgets, owed, perMinute, i+1, before)
			}
		}
		for range 20 {
			quarter(0, 1)
		}
		for range 20 {
			admitted += quarter(0, 1)
		}
		if least := 20 * 12 * 0.02 * perMinute / 60 * 0.98; float64(admitted) < least {
			t.Errorf("%v %v: %d calls of an edge that has the limit for itself, %.0f are paid for", all, forgets, admitted, least)
		}
	}
}

// TestLost checks how many calls each setting of fleet.lost admits if the store was never reached.
func TestLost(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 8, TokensPerMinute: 4000, Concurrency: 4}
	for lost, want := range map[string]int{config.StoreLostDivide: 1, config.StoreLostOpen: 20, config.StoreLostClosed: 0} {
		w := newWorld(4, limits, lost)
		w.lines[0].cut = true
		key, admitted := w.keys[0], 0
		for range 20 {
			d := key.TakeRequest(limits, w.now)
			if !d.OK {
				if d.Unavailable != (lost == config.StoreLostClosed) || d.RetryAfter <= 0 {
					t.Errorf("%s: TakeRequest = %+v, want a refusal with a wait, unavailable only if closed", lost, d)
				}
				break
			}
			if _, d = key.Reserve(limits, 900, w.now); !d.OK {
				t.Errorf("%s: Reserve = %+v, want OK", lost, d)
				break
			}
			admitted++
		}
		if admitted != want {
			t.Errorf("%s: %d calls, want %d", lost, admitted, want)
		}
	}
}

// TestReturn checks that no amounts stay reserved for calls that started or ended while the store
// was lost.
func TestReturn(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 4000, Concurrency: 8}
	w := newWorld(2, limits, config.StoreLostDivide)
	key := w.keys[0]
	var helds []int64
	reserve := func() {
		t.Helper()
		key.TakeRequest(limits, w.now)
		held, d := key.Reserve(limits, 500, w.now)
		if !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
		helds = append(helds, held)
	}
	reserve()
	w.lines[0].cut = true
	reserve()
	key.Settle(helds[0], 400)
	w.advance(30 * time.Second)
	w.lines[0].cut = false
	reserve()
	key.Settle(helds[1], 100)
	key.Settle(helds[2], 100)
	for at := time.Duration(0); at < farSpareKeepTime+leaseTime; at += 100 * time.Millisecond {
		w.advance(100 * time.Millisecond)
	}
	if a := w.twin.accounts["a"]; a.cells[slotCellIndex].held != 0 || a.cells[tokenCellIndex].held != 0 || a.cells[requestCellIndex].held != 0 {
		t.Errorf("the store still counts %+v", a.cells)
	}
	w.edges[0].mu.Lock()
	defer w.edges[0].mu.Unlock()
	if len(w.edges[0].queuedReports) != 0 {
		t.Error("something is still to be reported")
	}
}

// TestUnheardAnswer checks the handling of usage that reached the store although the store's answer
// was lost. This usage expires in the store over time. An edge that is working without the store
// must not let the same usage expire a second time.
func TestUnheardAnswer(t *testing.T) {
	limits := config.KeyLimits{TokensPerMinute: 600}
	w := newWorld(1, limits, config.StoreLostDivide)
	key, l := w.keys[0], w.lines[0]
	for range 3 {
		if _, d := key.Reserve(limits, 100, w.now); !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
	}
	key.Settle(100, 100)
	l.mute = func() bool { return true }
	w.advance(time.Second)
	l.cut, l.mute = true, never
	key.Settle(100, 0)
	key.Reserve(limits, 10, w.now) // decided without the store
	w.advance(5 * time.Second)
	key.Settle(100, 100)
	l.cut = false
	w.advance(0)
	if debt := w.twin.accounts["a"].cells[tokenCellIndex].debt; debt != 150 {
		t.Errorf("%v tokens are owed; of 200 time has paid 50", debt)
	}
}

// fill starts up to most calls at an edge, until a call is rejected. Each call acquires a slot and
// the given tokens. fill returns the number of calls that it started.
func (w *world) fill(edge int, l config.KeyLimits, tokens int64, most int) (n int) {
	for ; n < most; n++ {
		if _, d := w.keys[edge].Reserve(l, tokens, w.now); !d.OK {
			break
		}
	}
	return n
}

func (w *world) end(edge, calls int) {
	for range calls {
		w.keys[edge].Settle(0, 0)
	}
	w.advance(time.Millisecond)
}

// TestDeadEdge checks that the slots of a dead edge become free, and that the requests and tokens
// granted to it count as used.
func TestDeadEdge(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 4000, Concurrency: 4}
	w := newWorld(2, limits, config.StoreLostDivide)
	for range 4 {
		if _, d := w.keys[0].Reserve(limits, 500, w.now); !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
	}
	w.lines[0].cut = true
	if _, d := w.keys[1].Reserve(limits, 500, w.now); d.OK || d.LimitName != cellLimitNames[slotCellIndex] {
		t.Fatalf("a fifth call: %+v", d)
	}
	const asksEvery = 100 * time.Millisecond
	after := time.Duration(0)
	for n := 0; n == 0 && after < time.Minute; after += asksEvery {
		w.advance(asksEvery)
		n = w.fill(1, limits, 400, 1)
	}
	// The last half second of the permitted ten is a reserve for slow machines.
	if after > 9500*time.Millisecond {
		t.Errorf("the slots of the dead edge are free after %s", after)
	}
	if n := w.fill(1, limits, 400, 9); n != 3 {
		t.Fatalf("%d more slots of the dead edge, want 3", n)
	}
	if debt := w.twin.accounts["a"].cells[tokenCellIndex].debt; debt < 1900 || debt > 2000 {
		t.Errorf("%v tokens are owed, want 2000", debt)
	}
}

// TestForgetfulStore checks that after the store has lost all data, each edge uses only its share,
// and the fleet does not exceed its limit.
func TestForgetfulStore(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600}
	w := newWorld(3, limits, config.StoreLostDivide)
	admitted := 0
	for i := range 3000 {
		if i == 300 {
			w.advance(300 * time.Millisecond)
			w.twin.forget()
		}
		if w.keys[i%3].TakeRequest(limits, w.now).OK {
			admitted++
		}
		w.advance(time.Millisecond)
	}
	if most := 600 + 33 + 6; admitted > most || admitted < 600 {
		t.Errorf("%d requests in 3.3 s at 600 a minute", admitted)
	}
}

// TestSlotsMove checks that when a call ends, every edge can immediately acquire its slot. While
// the store is lost, no edge may use more than its share.
func TestSlotsMove(t *testing.T) {
	limits := config.KeyLimits{Concurrency: 6}
	w := newWorld(3, limits, config.StoreLostDivide)
	all := func(i int) int { return w.fill(i, limits, 1, 99) }
	for round := range 6 {
		n := all(round % 3)
		if n != 6 {
			t.Fatalf("%d calls of 6 in round %d", n, round)
		}
		if other := all((round + 1) % 3); other != 0 {
			t.Fatalf("%d calls beside them", other)
		}
		w.end(round%3, n)
	}
	for _, l := range w.lines {
		l.cut = true
	}
	for i := range w.keys {
		if n := all(i); n != 2 {
			t.Errorf("%d calls at edge %d without the store, want 2", n, i)
		}
	}
}

// TestResendReservations checks that after the store was emptied, the running calls are reported again once a
// heartbeat reveals the loss.
func TestResendReservations(t *testing.T) {
	limits := config.KeyLimits{Concurrency: 4}
	w := newWorld(2, limits, config.StoreLostDivide)
	for range 4 {
		if _, d := w.keys[0].Reserve(limits, 1, w.now); !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
	}
	w.twin.forget()
	w.edges[0].resendReservations()
	w.advance(time.Millisecond)
	if _, d := w.keys[1].Reserve(limits, 1, w.now); d.OK {
		t.Error("a fifth call")
	}
}

// TestForgottenSlots checks an account after the store has lost its data. For the duration of a
// lease, no edge may take more than its share of the slots, because the store does not know all
// running calls. After that, any edge may use all free slots. If an account has only expired, its
// slots must not be divided.
func TestForgottenSlots(t *testing.T) {
	limits := config.KeyLimits{Concurrency: 4}
	w := newWorld(2, limits, config.StoreLostDivide)
	fill := func(i int) int { return w.fill(i, limits, 1, 99) }
	w.end(0, fill(0)) // both edges have used the account
	for range 2 {
		if _, d := w.keys[1].Reserve(limits, 1, w.now); !d.OK {
			t.Fatalf("Reserve of the other edge = %+v, want OK", d)
		}
	}
	w.twin.forget()
	if n := fill(0); n != 2 {
		t.Errorf("%d calls beside two that the store has forgotten, want 2", n)
	}
	w.end(1, 2)
	for range 12 {
		w.advance(time.Second)
	}
	if n := fill(0); n != 2 {
		t.Errorf("%d more calls after a lease, want 2", n)
	}
	w.end(0, 4)
	w.advance(time.Hour)
	w.twin.forget()
	if n := fill(0); n != 4 {
		t.Errorf("%d calls of an account that was idle for an hour, want 4", n)
	}
}

// TestForgottenOnce checks that an edge repeats its report if it gets no answer after the store has
// lost all data. The store must count the reported usage only once.
func TestForgottenOnce(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600}
	w := newWorld(1, limits, config.StoreLostDivide)
	for range 300 {
		w.keys[0].TakeRequest(limits, w.now)
	}
	w.advance(time.Second)
	w.twin.forget()
	w.lines[0].mute = func() bool { return true }
	for range 20 {
		w.keys[0].TakeRequest(limits, w.now)
		w.advance(50 * time.Millisecond)
	}
	if debt := w.twin.accounts["a"].cells[requestCellIndex].debt; debt < 250 || debt > 320 {
		t.Errorf("%v requests are owed, want some 300", debt)
	}
}

// TestWaitsOnce checks that a call that waited without success in TakeRequest does not wait again
// in Reserve. The next call must wait.
func TestWaitsOnce(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 4000, Concurrency: 4}
	w := newWorld(2, limits, config.StoreLostOpen)
	w.lines[0].lose = func() bool { return true }
	asked := func() uint64 {
		m := w.edges[0].edgeState.metrics
		return m.sent.Get() + m.failed.Get()
	}
	for call := range uint64(3) {
		w.keys[0].TakeRequest(limits, w.now)
		w.keys[0].Reserve(limits, 100, w.now)
		if n := asked(); n != call+1 {
			t.Errorf("%d messages of %d calls", n, call+1)
		}
	}
	w.lines[0].lose = never
	w.keys[0].TakeRequest(limits, w.now)
	w.keys[0].Reserve(limits, 3000, w.now)
	if n := asked(); n != 5 {
		t.Errorf("%d messages; the answered call asks for its tokens, too", n)
	}
}

// TestLostFromTheStart checks how much of a new key's limits an edge may use if it has never
// reached the store. The amount starts small and grows at the edge's share of the rate. After a
// minute, the edge must have its entire share of the per-minute limits.
func TestLostFromTheStart(t *testing.T) {
	const edges = 4
	limits := config.KeyLimits{RequestsPerMinute: 60, TokensPerMinute: 6000}
	for after, want := range map[time.Duration]int{0: 4, 30 * time.Second: 28, time.Minute: 60, time.Hour: 60} {
		w := newWorld(edges, limits, config.StoreLostDivide)
		for _, l := range w.lines {
			l.cut = true
		}
		w.tick(after)
		admitted := 0
		for _, key := range w.keys {
			for key.TakeRequest(limits, w.now).OK {
				if held, d := key.Reserve(limits, 100, w.now); d.OK {
					key.Settle(held, 100)
					admitted++
				}
			}
		}
		if admitted != want {
			t.Errorf("%s after the start: %d calls of %d edges, want %d", after, admitted, edges, want)
		}
	}
}

// TestEdgesUnknown checks that an edge that starts without the store takes half of the shared
// limits, unless the number of edges is configured. An edge with a configured store is probably not
// the only one.
func TestEdgesUnknown(t *testing.T) {
	for _, c := range []struct{ expected, seen, want int }{{0, 0, 2}, {1, 0, 1}, {4, 0, 4}, {0, 1, 1}, {0, 3, 3}, {2, 3, 3}, {4, 3, 4}} {
		w := newWorld(1, config.KeyLimits{}, config.StoreLostDivide)
		f := w.edges[0]
		f.SetExpectedEdges(c.expected)
		f.edgeState.seenEdges.Store(int64(c.seen))
		if got := f.edgeState.edgeCount(); got != c.want {
			t.Errorf("%d expected, %d seen: divided by %d, want %d", c.expected, c.seen, got, c.want)
		}
	}
}
