package fleet

import (
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

func (w *world) takeAll(edge int) (n int) {
	for n < 1000 && w.keys[edge].TakeRequest(w.limits, w.now).OK {
		n++
	}
	return n
}

// TestRefundRequest checks that a refunded request does not count at the edge that admitted it, both
// with and without the store. A request that no longer counts must not be refunded.
func TestRefundRequest(t *testing.T) {
	const perMinute = 20
	limits := config.KeyLimits{RequestsPerMinute: perMinute}
	giveBack := func(w *world, n int) {
		for range n {
			if !w.keys[0].TakeRequest(limits, w.now).OK {
				t.Error("refused")
			}
			w.keys[0].RefundRequest()
		}
	}
	w := newWorld(2, limits, config.StoreLostClosed)
	giveBack(w, perMinute+5) // every request uses the refund of the previous request
	if n := w.takeAll(0); n != perMinute {
		t.Errorf("%d of %d are left", n, perMinute)
	}
	if n := w.takeAll(1); n != 0 {
		t.Errorf("another edge admits %d more", n)
	}

	w = newWorld(2, limits, config.StoreLostClosed)
	giveBack(w, 5)
	w.advance(100 * time.Millisecond) // the store has received the report
	other := w.takeAll(1)
	if n := other + w.takeAll(0); n < perMinute-1 || n > perMinute {
		t.Errorf("the fleet admits %d of %d", n, perMinute)
	}

	w = newWorld(2, limits, config.StoreLostClosed)
	giveBack(w, 1)
	for range 10 * 60 {
		w.advance(200 * time.Millisecond)
	}
	if n := w.takeAll(0); n > perMinute {
		t.Errorf("%d of %d are left two minutes later", n, perMinute)
	}

	cut := func() *world { // returns a world in which each edge uses its share
		w := newWorld(2, limits, "")
		w.keys[0].TakeRequest(limits, w.now)
		w.advance(time.Second)
		w.lines[0].cut = true
		return w
	}
	whole := cut().takeAll(0)
	w = cut()
	giveBack(w, 3)
	if n := w.takeAll(0); n != whole || n == 0 {
		t.Errorf("without the store %d are left of %d", n, whole)
	}
}

// TestChargeWithoutStore checks that a charge ends a running call while the store is lost, except
// if fleet.lost is open.
func TestChargeWithoutStore(t *testing.T) {
	limits := config.KeyLimits{TokensPerMinute: 100}
	for lost, want := range map[string]bool{config.StoreLostOpen: true, config.StoreLostDivide: false} {
		w := newWorld(2, limits, lost)
		w.lines[0].cut = true
		w.advance(time.Minute)
		if _, d := w.keys[0].Reserve(limits, 0, w.now); !d.OK {
			t.Fatalf("%s: Reserve = %+v, want OK", lost, d)
		}
		w.keys[0].Charge(1000, w.now)
		if d := w.keys[0].Charge(1, w.now); d.OK != want {
			t.Errorf("%s: a charge above the limit = %+v, want OK: %v", lost, d, want)
		}
		w.advance(10*time.Minute + time.Second)
		if d := w.keys[0].Charge(100, w.now); !d.OK {
			t.Errorf("%s: a charge after the limit has become free = %+v, want OK", lost, d)
		}
		if d := w.keys[0].Charge(1, w.now); d.OK != want {
			t.Errorf("%s: a second charge above the limit = %+v, want OK: %v", lost, d, want)
		}
	}
}

// TestRefundRequest_NoLimit checks that no request is refunded if there is no limit, and that a limit
// added later is enforced exactly.
func TestRefundRequest_NoLimit(t *testing.T) {
	w := newWorld(1, config.KeyLimits{}, config.StoreLostClosed)
	for range 5 {
		w.keys[0].TakeRequest(w.limits, w.now)
		w.keys[0].RefundRequest()
	}
	w.limits.RequestsPerMinute = 10
	if n := w.takeAll(0); n > 10 {
		t.Errorf("%d of 10", n)
	}
}

// TestCharge checks that charges to a running call count at all edges, and are rejected once the
// fleet has exceeded the limit.
func TestCharge(t *testing.T) {
	limits := config.KeyLimits{TokensPerMinute: 100}
	w := newWorld(2, limits, config.StoreLostClosed)
	held, d := w.keys[0].Reserve(limits, 0, w.now)
	if !d.OK || held != 0 {
		t.Fatalf("Reserve = %d, %+v, want 0, OK", held, d)
	}
	if _, d := w.keys[1].Reserve(limits, 0, w.now); !d.OK {
		t.Fatalf("Reserve at the other edge = %+v, want OK", d)
	}
	charge := func(edge int, used int64, want bool) {
		t.Helper()
		if d := w.keys[edge].Charge(used, w.now); d.OK != want {
			t.Errorf("a charge of %d at edge %d: %+v, want OK: %v", used, edge, d, want)
		}
		w.advance(time.Second)
	}
	charge(0, 30, true)
	charge(1, 30, true)
	charge(0, 60, true) // edge 0 has not received the other edge's charges from the store yet
	charge(0, 1, false)
	charge(1, 1, true)
	charge(1, 1, false)
	w.keys[0].Settle(held, 0)
	if _, d := w.keys[1].Reserve(limits, 10, w.now); d.OK || d.LimitName != limit.TokensPerMinute {
		t.Errorf("the next call: %+v, want a refusal", d)
	}
	w.advance(time.Minute)
	charge(0, 1, true)
	charge(1, 150, false)
	limits.TokensPerMinute = 0
	// Simulates a call after a reload changed the limits.
	if _, d := w.keys[1].Reserve(limits, 0, w.now); !d.OK {
		t.Fatalf("Reserve without a limit = %+v, want OK", d)
	}
	charge(1, 1, true)
}
