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
		{-5, 10, 40}, // the engine reports more cached tokens than the prompt has
	} {
		if got := Weight(c.uncached, c.answer); got != c.want {
			t.Errorf("Weight(%d, %d) = %d, want %d", c.uncached, c.answer, got, c.want)
		}
	}
}

// TestTurnBooks checks which service a turn has recorded at each stage of its call.
func TestTurnBooks(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*Turn)
		want int64
	}{
		{"an estimate at first", func(*Turn) {}, 500},
		{"little of an answer", func(u *Turn) { u.Answered(bookEvery - 1) }, 500},
		{"more of it", func(u *Turn) { u.Answered(bookEvery) }, 500 + 4*bookEvery},
		{"more still, not yet booked", func(u *Turn) { u.Answered(bookEvery); u.Answered(2*bookEvery - 1) }, 500 + 4*bookEvery},
		{"what the engine has counted", func(u *Turn) { u.Answered(100); u.End(20, 101, true) }, 424},
		{"no count: the estimate of what is read stays", func(u *Turn) { u.End(9000, 10, false) }, 540},
		{"no count of a shorter prompt", func(u *Turn) { u.End(300, 10, false) }, 340},
		{"no answer", func(u *Turn) { u.End(0, 0, false) }, 0},
		{"twice the same", func(u *Turn) { u.End(20, 1, true); u.End(20, 1, true) }, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Line
			other := l.Wait("other", 1, start)
			defer other.Leave(start)
			a := l.Wait("a", 1, start)
			defer a.Leave(start)
			turn := l.Begin("a", 1, 500, start)
			c.do(&turn)
			if got := int64(a.Served()); turn.Booked() != c.want || got != c.want {
				t.Errorf("booked %d, and the account has %d, want %d", turn.Booked(), got, c.want)
			}
		})
	}
}

func TestZeroTurnBooksNothing(t *testing.T) {
	var none Turn
	none.Answered(1e6)
	none.End(1e6, 1e6, true)
	none.Book(1e6)
	if none.Begun() || none.Booked() != 0 {
		t.Errorf("got %+v, want no turn", none)
	}
}

func TestQuietLineCountsNothing(t *testing.T) {
	var l Line
	if turn := l.Begin("a", 1, 500, start); turn.Begun() || len(l.accounts) != 0 {
		t.Fatalf("Begin = %+v with %d accounts, want no turn and no account", turn, len(l.accounts))
	}
	a := l.Wait("a", 1, start)
	running := l.Begin("b", 1, 500, start)
	a.Leave(start)
	if turn := l.Begin("a", 1, 500, start.Add(remembered)); !turn.Begun() {
		t.Error("the line has forgotten that a key waited a minute ago")
	}
	if turn := l.Begin("a", 1, 500, start.Add(remembered+1)); turn.Begun() || !l.Quiet() || len(l.accounts) != 0 {
		t.Errorf("%+v, quiet %v, %d accounts", turn, l.Quiet(), len(l.accounts))
	}
	running.End(1e6, 1e6, true)
	if len(l.accounts) != 0 {
		t.Error("a call that runs still has made a quiet line count")
	}
}

// TestIdleKeysSaveNoCredit checks that a key that returns after a pause is level with the waiting
// keys. It gains nothing from its idle time, and loses nothing for service that it received before
// any key waited.
func TestIdleKeysSaveNoCredit(t *testing.T) {
	var l Line
	a, b := l.Wait("a", 1, start), l.Wait("b", 1, start)
	for range 10 {
		l.Begin("a", 1, 1000, start)
		l.Begin("b", 1, 1000, start)
	}
	late := l.Wait("late", 1, start)
	if got := late.Served(); got < min(a.Served(), b.Served()) || got > max(a.Served(), b.Served()) {
		t.Errorf("the newcomer has %v, between %v and %v is right", got, a.Served(), b.Served())
	}
}

func TestServedOf(t *testing.T) {
	var l Line
	a := l.Wait("a", 2, start)
	l.Begin("a", 2, 1000, start)
	l.Begin("busy", 1, 5000, start)
	if got := l.ServedOf("a"); got != 500 || got != a.Served() || a.With(100) != 550 {
		t.Errorf("a key that waits has %v, %v with 100 more", got, a.With(100))
	}
	if got := l.ServedOf("busy"); got < 5000 {
		t.Errorf("a key that does not wait has %v", got)
	}
	if got := l.ServedOf("new"); got != l.time {
		t.Errorf("a new key has %v, the line's time is %v", got, l.time)
	}
}

// TestWeightChanges checks that a weight changed by a reload applies from the key's next call on.
func TestWeightChanges(t *testing.T) {
	var l Line
	a, b := l.Wait("a", 1, start), l.Wait("b", 1, start)
	l.Begin("a", 1, 1000, start)
	l.Begin("a", 4, 1000, start)
	if a.Served() != 1250 || l.share != 5 {
		t.Errorf("served %v, the weights of those that wait are %v", a.Served(), l.share)
	}
	a.Leave(start)
	b.Leave(start)
	if l.share != 0 {
		t.Errorf("the share is %v, want 0", l.share)
	}
}

// running is a call of a simulated key that occupies a slot.
type running struct {
	key  *simulated
	turn Turn
	cost int64
}

// simulated is a key that always has a waiting call.
type simulated struct {
	account *Account
	weight  float64
	served  float64 // total service of its completed calls
}

// next chooses a key as a queue does.
func next(keys []*simulated) *simulated {
	best := keys[0]
	for _, k := range keys[1:] {
		if k.account.Served() < best.account.Served() {
			best = k
		}
	}
	return best
}

// TestServedInProportion checks that keys that always wait are served in proportion to their
// weights. The difference never exceeds the service of the calls in the slots, regardless of what
// the calls cost and how wrong the estimates are.
func TestServedInProportion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Line
		slots := rapid.IntRange(1, 8).Draw(t, "slots")
		var keys []*simulated
		for i := range rapid.IntRange(2, 6).Draw(t, "keys") {
			w := float64(rapid.IntRange(1, 8).Draw(t, "weight"))
			keys = append(keys, &simulated{account: l.Wait(fmt.Sprint(i), w, start), weight: w})
		}
		var calls []running
		largest := 1.0
		for range rapid.IntRange(50, 300).Draw(t, "calls") {
			if len(calls) == slots {
				i := rapid.IntRange(0, slots-1).Draw(t, "which")
				c := calls[i]
				c.turn.Answered(rapid.IntRange(0, 100).Draw(t, "events"))
				c.turn.Book(c.cost)
				c.key.served += float64(c.cost)
				calls = append(calls[:i], calls[i+1:]...)
			}
			k := next(keys)
			expected := rapid.Int64Range(1, 20_000).Draw(t, "expected")
			cost := rapid.Int64Range(0, 100_000).Draw(t, "cost")
			largest = max(largest, float64(cost), float64(expected)+400)
			calls = append(calls, running{k, l.Begin(fmt.Sprint(indexOf(keys, k)), k.weight, expected, start), cost})
		}
		for _, c := range calls {
			c.turn.Book(c.cost)
			c.key.served += float64(c.cost)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for _, k := range keys {
			if got := k.account.Served() * k.weight; math.Abs(got-k.served) > 1 {
				t.Fatalf("a key was served %v, and its account has %v", k.served, got)
			}
			least, most = min(least, k.served/k.weight), max(most, k.served/k.weight)
		}
		if most-least > float64(2*slots+1)*largest {
			t.Fatalf("by weight, keys were served from %v to %v, with %d slots and calls of up to %v", least, most, slots, largest)
		}
	})
}

func indexOf(keys []*simulated, k *simulated) int {
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
		var l Line
		behind := l.Wait("behind", 1, start)
		debt := rapid.Int64Range(0, 10_000).Draw(t, "debt")
		if debt > 0 {
			other := l.Wait("first", 1, start)
			l.Begin("behind", 1, debt, start)
			other.Leave(start)
		}
		cost := rapid.Int64Range(100, 1000).Draw(t, "cost")
		for i := range 2000 {
			key := fmt.Sprint(i)
			newcomer := l.Wait(key, 1, start)
			if behind.Served() <= newcomer.Served() {
				return
			}
			turn := l.Begin(key, 1, cost, start)
			newcomer.Leave(start)
			turn.Book(cost)
		}
		t.Fatalf("served %v: it waits behind 2000 newcomers, the line's time is %v", behind.Served(), l.time)
	})
}

// TestAccountsAreForgotten checks that the number of accounts is always limited, and that keys that
// have left have no account.
func TestAccountsAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Line
		var waits []*Account
		var turns []Turn
		now := start
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				waits = append(waits, l.Wait(key, float64(rapid.IntRange(0, 3).Draw(t, "weight")), now))
			case 1:
				if n := len(waits); n > 0 {
					waits[n-1].Leave(now)
					waits = waits[:n-1]
				}
			case 2:
				turns = append(turns, l.Begin(key, 1, rapid.Int64Range(-1, 1000).Draw(t, "expected"), now))
			case 3:
				if n := len(turns); n > 0 {
					turns[n-1].Book(rapid.Int64Range(0, 2000).Draw(t, "served"))
					turns = turns[:n-1]
				}
			case 4:
				now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
			}
			share := 0.0
			for _, a := range l.waiting {
				share += a.share()
				if a.waiters <= 0 || l.accounts[a.name] != a {
					t.Fatalf("%+v waits, want only known accounts with waiters", a)
				}
			}
			if math.Abs(share-l.share) > 1e-6 {
				t.Fatalf("the weights of those that wait are %v, and %v is kept", share, l.share)
			}
		}
		for _, a := range waits {
			a.Leave(now)
		}
		for i := range turns {
			turns[i].Book(0)
		}
		if l.Begin("late", 1, 1, now.Add(2*remembered)); !l.Quiet() || len(l.accounts) != 0 || len(l.waiting) != 0 {
			t.Fatalf("quiet %v, %d accounts, %d wait", l.Quiet(), len(l.accounts), len(l.waiting))
		}
	})
}

func TestIdleAccountsAreBounded(t *testing.T) {
	var l Line
	a := l.Wait("a", 1, start)
	for i := range 5 * mostIdle {
		l.Begin(fmt.Sprint(i), 1, 1e9, start)
	}
	if n := len(l.accounts); n > mostIdle+1 || l.accounts["a"] != a {
		t.Errorf("got %d accounts, want at most %d", n, mostIdle+1)
	}
}
