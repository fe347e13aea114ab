package limit

import (
	"strings"
	"testing"
	"time"

	"penstock/config"
	"penstock/config/money"
)

// groupKeys returns two keys in the same group, and one key that belongs to no group.
func groupKeys(k *KeyUsages, own config.KeyLimits, group config.GroupLimits) (a, b, alone *KeyLimiter) {
	bound := k.Bind([]config.Key{
		{ID: "a", Group: "g", Limits: own}, {ID: "b", Group: "g", Limits: own}, {ID: "alone", Limits: own},
	}, []config.Group{{ID: "g", Limits: group}})
	return bound["a"], bound["b"], bound["alone"]
}

// TestGroupTakeRequest checks that the keys in a group share the group's requests per minute. If
// the group rejects a request, the key must not be charged for it.
func TestGroupTakeRequest(t *testing.T) {
	now := time.Now()
	a, b, alone := groupKeys(NewKeyUsages(8, now), config.KeyLimits{RequestsPerMinute: 3}, config.GroupLimits{RequestsPerMinute: 4})
	byKey := Decision{LimitName: RequestsPerMinute, RetryAfter: 20 * time.Second, Limit: 3}
	byGroup := Decision{LimitName: RequestsPerMinute, RetryAfter: 15 * time.Second, Limit: 4, Group: "g"}
	for i, step := range []struct {
		of   *KeyLimiter
		want Decision
	}{
		{a, decisionAllowed},
		{a, decisionAllowed},
		{a, decisionAllowed},
		{a, byKey},
		{a, byKey},
		{b, decisionAllowed},
		{b, byGroup},
		{b, byGroup},
		{b, byGroup},
		{alone, decisionAllowed},
	} {
		if got := step.of.TakeRequest(now); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
	if l, _ := b.RequestLevel(now); l.Remaining != 2 {
		t.Errorf("the key has %d left, want 2", l.Remaining)
	}
	if l, ok := b.RequestsLeft(now); !ok || l.Limit != 4 || l.Remaining != 0 {
		t.Errorf("of both there is %+v left", l)
	}
	if l, ok := alone.RequestsLeft(now); !ok || l.Limit != 3 || l.Remaining != 2 {
		t.Errorf("without a group there is %+v left", l)
	}
}

// TestGroupReserves checks calls made with a key in a group. If the group rejects a call, nothing
// may stay reserved from the key. When a call ends, it must release its reservations from both the
// key and the group.
func TestGroupReserves(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(8, now)
	for name, c := range map[string]struct {
		own   config.KeyLimits
		group config.GroupLimits
		first Cost
		limit string
	}{
		"concurrency": {config.KeyLimits{Concurrency: 5}, config.GroupLimits{Concurrency: 1}, Cost{}, Concurrency},
		"tokens":      {config.KeyLimits{}, config.GroupLimits{TokensPerMinute: 10}, Cost{Tokens: 8}, TokensPerMinute},
		"budget":      {config.KeyLimits{TokensPerDay: 100}, config.GroupLimits{TokensPerDay: 10}, Cost{Tokens: 8}, TokensPerDay},
	} {
		a, b, _ := groupKeys(keys, c.own, c.group)
		var first, second Reservation
		if d := a.Reserve(&first, c.first, Cost{}, now); !d.OK {
			t.Fatalf("%s: the first Reserve = %+v, want OK", name, d)
		}
		if d := b.Reserve(&second, Cost{Tokens: 5}, Cost{}, now); d.OK || d.Group != "g" || d.LimitName != c.limit {
			t.Errorf("%s: the second Reserve = %+v, want a refusal by group g for %s", name, d, c.limit)
		}
		if n := b.state.running.Load(); n != 0 || second.Cancel() {
			t.Errorf("%s: the refused call holds %d places", name, n)
		}
		if !first.Cancel() || first.Cancel() {
			t.Errorf("%s: the call ends once", name)
		}
		if d := b.Reserve(&second, Cost{Tokens: 5}, Cost{}, now); !d.OK || !second.Cancel() {
			t.Errorf("%s: after the end of the first: %+v", name, d)
		}
		if n := a.group.state.running.Load(); n != 0 {
			t.Errorf("%s: the group still has %d calls", name, n)
		}
	}
}

// TestGroupBudgetBeginsWithItsKeys checks that after a restart, a group's budget includes what its
// keys have used.
func TestGroupBudgetBeginsWithItsKeys(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(8, now)
	keys.SetInitialUsage(func(id string, _ time.Time) (used [PeriodCount]Cost) {
		used[PeriodDay] = Cost{Tokens: map[string]int64{"a": 3, "b": 5, "alone": 90}[id]}
		return used
	})
	a, _, alone := groupKeys(keys, config.KeyLimits{}, config.GroupLimits{TokensPerDay: 10})
	if got := a.group.BudgetLevels(now)[0].Used.Tokens; got != 8 {
		t.Errorf("the group has used %d, want 8", got)
	}
	var r Reservation
	if d := a.Reserve(&r, Cost{Tokens: 3}, Cost{}, now); d.OK || d.Group != "g" || d.Quota == nil || d.Quota.Remaining != "2" {
		t.Errorf("Reserve of 3 tokens = %+v, want a refusal by group g with 2 remaining", d)
	}
	if d := alone.Reserve(&r, Cost{Tokens: 3}, Cost{}, now); !d.OK || !r.Cancel() {
		t.Errorf("without a group: %+v", d)
	}
}

// TestGroupOfTokens checks that callers with tokens belong to the group of the key whose rights
// they have, even after reloads.
func TestGroupOfTokens(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(8, now)
	from := config.Key{ID: "template", Group: "g"}
	bind := func() BoundKeys {
		return keys.Bind([]config.Key{from}, []config.Group{{ID: "g", Limits: config.GroupLimits{RequestsPerMinute: 2}}})
	}
	bound := bind()
	if d := keys.TokenKey("corp/alice", &from, bound).TakeRequest(now); !d.OK {
		t.Fatalf("Take of corp/alice = %+v, want OK", d)
	}
	bound = bind()
	if d := keys.TokenKey("corp/bob", &from, bound).TakeRequest(now); !d.OK {
		t.Fatalf("Take of corp/bob = %+v, want OK", d)
	}
	if d := keys.TokenKey("corp/alice", &from, bound).TakeRequest(now); d.OK || d.Group != "g" {
		t.Errorf("the third request: %+v", d)
	}
	if d := keys.TokenKey("corp/alice", &from, nil).TakeRequest(now); !d.OK {
		t.Errorf("after the loss of the key: %+v", d)
	}
}

// accounts counts the requests per account. Each account admits one request.
type accounts map[string]int

type oneRequestAccount struct {
	of accounts
	id string
}

func (o oneRequestAccount) TakeRequest(config.KeyLimits, time.Time) Decision {
	o.of[o.id]++
	return Decision{OK: o.of[o.id] <= 1, LimitName: RequestsPerMinute}
}

func (o oneRequestAccount) RefundRequest() { o.of[o.id]-- }

func (o oneRequestAccount) Reserve(config.KeyLimits, int64, time.Time) (int64, Decision) {
	return 0, decisionAllowed
}
func (o oneRequestAccount) Settle(int64, int64)                                  {}
func (o oneRequestAccount) Charge(int64, time.Time) Decision                     { return decisionAllowed }
func (o oneRequestAccount) Levels(config.KeyLimits, time.Time) (r, t LimitLevel) { return r, t }

// TestCharge checks that a charge to a running call counts immediately, and is not refunded when
// the call ends. The charge must be rejected once a limit of the key or the group is exceeded. The
// reservations of other calls must not count.
func TestCharge(t *testing.T) {
	for name, c := range map[string]struct {
		key   config.KeyLimits
		group config.GroupLimits
		of    string
		most  int64 // largest charge that is not rejected
	}{
		"tokens per minute":              {config.KeyLimits{TokensPerMinute: 100}, config.GroupLimits{}, TokensPerMinute, 100},
		"tokens per day":                 {config.KeyLimits{TokensPerDay: 100}, config.GroupLimits{}, TokensPerDay, 99},
		"tokens per month":               {config.KeyLimits{TokensPerMonth: 100}, config.GroupLimits{}, TokensPerMonth, 99},
		"spend per day":                  {config.KeyLimits{SpendPerDay: money.Amount{Micros: 100}}, config.GroupLimits{}, SpendPerDay, 99},
		"tokens per minute of the group": {config.KeyLimits{}, config.GroupLimits{TokensPerMinute: 100}, TokensPerMinute, 100},
		"tokens per day of the group":    {config.KeyLimits{}, config.GroupLimits{TokensPerDay: 100}, TokensPerDay, 99},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			keys := NewKeyUsages(8, now)
			a, b, _ := groupKeys(keys, c.key, c.group)
			var call, other, next Reservation
			cost := func(n int64) Cost { return Cost{Tokens: n, Spend: money.Amount{Micros: n}} }
			if !a.Reserve(&call, Cost{}, Cost{}, now).OK || !b.Reserve(&other, cost(60), Cost{}, now).OK {
				t.Fatal("a call is refused")
			}
			if d := call.Charge(cost(c.most), now); !d.OK {
				t.Errorf("a charge of %d: %+v, want OK", c.most, d)
			}
			d := call.Charge(cost(1), now)
			if inGroup := strings.Contains(name, "group"); d.OK || d.LimitName != c.of || (d.Group != "") != inGroup {
				t.Errorf("one more: %+v, want a refusal by %s", d, c.of)
			}
			call.Settle(Cost{}, now)
			if d := a.Reserve(&next, cost(1), Cost{}, now); d.OK || d.LimitName != c.of {
				t.Errorf("the next call: %+v, want a refusal by %s", d, c.of)
			}
			if d := call.Charge(cost(1), now); !d.OK {
				t.Errorf("a call that has ended is charged: %+v", d)
			}
		})
	}
}

type openBudget struct{ UsageBudget }

func (openBudget) AllowsOverrun(int, time.Time) bool { return true }

// TestChargeOpen checks that no running call is ended by a budget that allows overruns.
func TestChargeOpen(t *testing.T) {
	now := time.Now()
	a, _, _ := groupKeys(NewKeyUsages(8, now), config.KeyLimits{TokensPerDay: 100}, config.GroupLimits{})
	a.budget = openBudget{a.budget}
	var call Reservation
	if !a.Reserve(&call, Cost{}, Cost{}, now).OK {
		t.Fatal("the call is refused")
	}
	if d := call.Charge(Cost{Tokens: 1000}, now); !d.OK {
		t.Errorf("a charge above the budget: %+v, want OK", d)
	}
}

// TestGroupOfAFleet checks that the fleet counts a group in a separate account, under an id that no
// key can have. If the group rejects a request, the request must be refunded to the key.
func TestGroupOfAFleet(t *testing.T) {
	now, counted := time.Now(), accounts{}
	keys := NewKeyUsages(8, now)
	keys.SetAccounts(func(id string) KeyAccount { return oneRequestAccount{counted, id} })
	a, b, _ := groupKeys(keys, config.KeyLimits{}, config.GroupLimits{RequestsPerMinute: 1})
	if d := a.TakeRequest(now); !d.OK {
		t.Errorf("Take of a = %+v, want OK", d)
	}
	if d := b.TakeRequest(now); d.OK || d.Group != "g" {
		t.Errorf("Take of b = %+v, want a refusal by group g", d)
	}
	if counted["group g"] != 2 || counted["a"] != 1 || counted["b"] != 0 {
		t.Errorf("counted: %v", counted)
	}
}
