package turns

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1e9, 0)

func TestWeight(t *testing.T) {
	for _, c := range []struct {
		uncached, answer int
		want             int64
	}{
		{0, 0, 0},
		{1000, 0, 1000},
		{0, 10, 40},
		{1000, 10, 1040},
		{-5, 10, 40}, // the engine reports more cached tokens than prompt tokens
	} {
		if got := ServiceUnits(c.uncached, c.answer); got != c.want {
			t.Errorf("ServiceUnits(%d, %d) = %d, want %d", c.uncached, c.answer, got, c.want)
		}
	}
}

// TestTurnCharges checks how much service a turn has charged at each stage of its call.
func TestTurnCharges(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*CallCharge)
		want int64
	}{
		{"an estimate at first", func(*CallCharge) {}, 500},
		{"little of an answer", func(u *CallCharge) { u.ChargeAnswered(chargeIntervalTokens - 1) }, 500},
		{"more of it", func(u *CallCharge) { u.ChargeAnswered(chargeIntervalTokens) }, 500 + 4*chargeIntervalTokens},
		{"more still, not yet booked", func(u *CallCharge) {
			u.ChargeAnswered(chargeIntervalTokens)
			u.ChargeAnswered(2*chargeIntervalTokens - 1)
		}, 500 + 4*chargeIntervalTokens},
		{"what the engine has counted", func(u *CallCharge) { u.ChargeAnswered(100); u.ChargeFinal(20, 101, true) }, 424},
		{"no count: the estimate of what is read stays", func(u *CallCharge) { u.ChargeFinal(9000, 10, false) }, 540},
		{"no count of a shorter prompt", func(u *CallCharge) { u.ChargeFinal(300, 10, false) }, 340},
		{"no answer", func(u *CallCharge) { u.ChargeFinal(0, 0, false) }, 0},
		{"twice the same", func(u *CallCharge) { u.ChargeFinal(20, 1, true); u.ChargeFinal(20, 1, true) }, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Scheduler
			other := l.StartWait("other", 1, start)
			defer other.EndWait(start)
			a := l.StartWait("a", 1, start)
			defer a.EndWait(start)
			turn := l.StartCharging("a", 1, 500, start)
			c.do(&turn)
			if got := int64(a.WeightedService()); turn.ChargedService() != c.want || got != c.want {
				t.Errorf("booked %d, and the account has %d, want %d", turn.ChargedService(), got, c.want)
			}
		})
	}
}

func TestZeroTurnChargesNothing(t *testing.T) {
	var none CallCharge
	none.ChargeAnswered(1e6)
	none.ChargeFinal(1e6, 1e6, true)
	none.SetCharge(1e6)
	if none.IsActive() || none.ChargedService() != 0 {
		t.Errorf("got %+v, want no turn", none)
	}
}

func TestQuietSchedulerCountsNothing(t *testing.T) {
	var l Scheduler
	if turn := l.StartCharging("a", 1, 500, start); turn.IsActive() || len(l.accounts) != 0 {
		t.Fatalf("StartCharging = %+v with %d accounts, want no turn and no account", turn, len(l.accounts))
	}
	a := l.StartWait("a", 1, start)
	running := l.StartCharging("b", 1, 500, start)
	a.EndWait(start)
	if turn := l.StartCharging("a", 1, 500, start.Add(countingTimeAfterWait)); !turn.IsActive() {
		t.Error("the line has forgotten that a key waited a minute ago")
	}
	if turn := l.StartCharging("a", 1, 500, start.Add(countingTimeAfterWait+1)); turn.IsActive() || !l.IsQuiet() || len(l.accounts) != 0 {
		t.Errorf("%+v, quiet %v, %d accounts", turn, l.IsQuiet(), len(l.accounts))
	}
	running.ChargeFinal(1e6, 1e6, true)
	if len(l.accounts) != 0 {
		t.Error("a call that runs still has made a quiet line count")
	}
}

// TestIdleKeysSaveNoCredit checks that a key that waits again after a pause is level with the
// waiting keys. It gains nothing from its idle time, and loses nothing for service that it received
// before any key waited.
func TestIdleKeysSaveNoCredit(t *testing.T) {
	var l Scheduler
	a, b := l.StartWait("a", 1, start), l.StartWait("b", 1, start)
	for range 10 {
		l.StartCharging("a", 1, 1000, start)
		l.StartCharging("b", 1, 1000, start)
	}
	late := l.StartWait("late", 1, start)
	if got := late.WeightedService(); got < min(a.WeightedService(), b.WeightedService()) || got > max(a.WeightedService(), b.WeightedService()) {
		t.Errorf("the newcomer has %v, between %v and %v is right", got, a.WeightedService(), b.WeightedService())
	}
}

func TestKeyWeightedService(t *testing.T) {
	var l Scheduler
	a := l.StartWait("a", 2, start)
	l.StartCharging("a", 2, 1000, start)
	l.StartCharging("busy", 1, 5000, start)
	if got := l.KeyWeightedService("a"); got != 500 || got != a.WeightedService() || a.WeightedServiceAfter(100) != 550 {
		t.Errorf("a key that waits has %v, %v with 100 more", got, a.WeightedServiceAfter(100))
	}
	if got := l.KeyWeightedService("busy"); got < 5000 {
		t.Errorf("a key that does not wait has %v", got)
	}
	if got := l.KeyWeightedService("new"); got != l.virtualTime {
		t.Errorf("a new key has %v, the line's time is %v", got, l.virtualTime)
	}
}

// TestWeightChanges checks that a weight changed by a reload applies from the key's next call on.
func TestWeightChanges(t *testing.T) {
	var l Scheduler
	a, b := l.StartWait("a", 1, start), l.StartWait("b", 1, start)
	l.StartCharging("a", 1, 1000, start)
	l.StartCharging("a", 4, 1000, start)
	if a.WeightedService() != 1250 || l.totalWeight != 5 {
		t.Errorf("served %v, the weights of those that wait are %v", a.WeightedService(), l.totalWeight)
	}
	a.EndWait(start)
	b.EndWait(start)
	if l.totalWeight != 0 {
		t.Errorf("the share is %v, want 0", l.totalWeight)
	}
}

// runningCall is a call of a simulated key that occupies a slot.
type runningCall struct {
	key  *simulatedKey
	turn CallCharge
	cost int64
}

// simulatedKey is a key that always has a waiting call.
type simulatedKey struct {
	account *Account
	weight  float64
	served  float64 // total service of its completed calls
}

// leastServed returns the key that a queue would choose.
func leastServed(keys []*simulatedKey) *simulatedKey {
	best := keys[0]
	for _, k := range keys[1:] {
		if k.account.WeightedService() < best.account.WeightedService() {
			best = k
		}
	}
	return best
}

// TestServedInProportion checks that keys that always have a waiting call are served in proportion
// to their weights. The deviation never exceeds the service of the running calls, regardless of
// what the calls cost and how wrong the estimates are.
func TestServedInProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Scheduler
		slots := rapid.IntRange(1, 8).Draw(t, "slots")
		var keys []*simulatedKey
		for i := range rapid.IntRange(2, 6).Draw(t, "keys") {
			w := float64(rapid.IntRange(1, 8).Draw(t, "weight"))
			keys = append(keys, &simulatedKey{account: l.StartWait(fmt.Sprint(i), w, start), weight: w})
		}
		var calls []runningCall
		largest := 1.0
		for range rapid.IntRange(50, 300).Draw(t, "calls") {
			if len(calls) == slots {
				i := rapid.IntRange(0, slots-1).Draw(t, "which")
				c := calls[i]
				c.turn.ChargeAnswered(rapid.IntRange(0, 100).Draw(t, "events"))
				c.turn.SetCharge(c.cost)
				c.key.served += float64(c.cost)
				calls = append(calls[:i], calls[i+1:]...)
			}
			k := leastServed(keys)
			expected := rapid.Int64Range(1, 20_000).Draw(t, "expected")
			cost := rapid.Int64Range(0, 100_000).Draw(t, "cost")
			largest = max(largest, float64(cost), float64(expected)+400)
			calls = append(calls, runningCall{k, l.StartCharging(fmt.Sprint(indexOf(keys, k)), k.weight, expected, start), cost})
		}
		for _, c := range calls {
			c.turn.SetCharge(c.cost)
			c.key.served += float64(c.cost)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for _, k := range keys {
			if got := k.account.WeightedService() * k.weight; math.Abs(got-k.served) > 1 {
				t.Fatalf("a key was served %v, and its account has %v", k.served, got)
			}
			least, most = min(least, k.served/k.weight), max(most, k.served/k.weight)
		}
		if most-least > float64(2*slots+1)*largest {
			t.Fatalf("by weight, keys were served from %v to %v, with %d slots and calls of up to %v", least, most, slots, largest)
		}
	})
}

func indexOf(keys []*simulatedKey, k *simulatedKey) int {
	for i := range keys {
		if keys[i] == k {
			return i
		}
	}
	return -1
}

// TestNoKeyStarves checks that a waiting key is served even if new keys arrive with every slot.
func TestNoKeyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Scheduler
		behind := l.StartWait("behind", 1, start)
		debt := rapid.Int64Range(0, 10_000).Draw(t, "debt")
		if debt > 0 {
			other := l.StartWait("first", 1, start)
			l.StartCharging("behind", 1, debt, start)
			other.EndWait(start)
		}
		cost := rapid.Int64Range(100, 1000).Draw(t, "cost")
		for i := range 2000 {
			key := fmt.Sprint(i)
			newcomer := l.StartWait(key, 1, start)
			if behind.WeightedService() <= newcomer.WeightedService() {
				return
			}
			turn := l.StartCharging(key, 1, cost, start)
			newcomer.EndWait(start)
			turn.SetCharge(cost)
		}
		t.Fatalf("served %v: it waits behind 2000 newcomers, the line's time is %v", behind.WeightedService(), l.virtualTime)
	})
}

// TestAccountsAreForgotten checks that the number of accounts is always limited, and that the
// scheduler eventually drops the accounts of keys that no longer call.
func TestAccountsAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Scheduler
		var waits []*Account
		var turns []CallCharge
		now := start
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				waits = append(waits, l.StartWait(key, float64(rapid.IntRange(0, 3).Draw(t, "weight")), now))
			case 1:
				if n := len(waits); n > 0 {
					waits[n-1].EndWait(now)
					waits = waits[:n-1]
				}
			case 2:
				turns = append(turns, l.StartCharging(key, 1, rapid.Int64Range(-1, 1000).Draw(t, "expected"), now))
			case 3:
				if n := len(turns); n > 0 {
					turns[n-1].SetCharge(rapid.Int64Range(0, 2000).Draw(t, "served"))
					turns = turns[:n-1]
				}
			case 4:
				now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
			}
			share := 0.0
			for _, a := range l.waiting {
				share += a.keyWeight()
				if a.waiters <= 0 || l.accounts[a.name] != a {
					t.Fatalf("%+v waits, want only known accounts with waiters", a)
				}
			}
			if math.Abs(share-l.totalWeight) > 1e-6 {
				t.Fatalf("the weights of those that wait are %v, and %v is kept", share, l.totalWeight)
			}
		}
		for _, a := range waits {
			a.EndWait(now)
		}
		for i := range turns {
			turns[i].SetCharge(0)
		}
		if l.StartCharging("late", 1, 1, now.Add(2*countingTimeAfterWait)); !l.IsQuiet() || len(l.accounts) != 0 || len(l.waiting) != 0 {
			t.Fatalf("quiet %v, %d accounts, %d wait", l.IsQuiet(), len(l.accounts), len(l.waiting))
		}
	})
}

func TestIdleAccountsAreBounded(t *testing.T) {
	var l Scheduler
	a := l.StartWait("a", 1, start)
	for i := range 5 * maxIdleAccounts {
		l.StartCharging(fmt.Sprint(i), 1, 1e9, start)
	}
	if n := len(l.accounts); n > maxIdleAccounts+1 || l.accounts["a"] != a {
		t.Errorf("got %d accounts, want at most %d", n, maxIdleAccounts+1)
	}
}
