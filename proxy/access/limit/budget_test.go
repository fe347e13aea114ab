package limit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/money"
)

var beforeMonthEnd = time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)

func boundKey(limits config.KeyLimits, used UsageFunc, now time.Time) *KeyLimiter {
	keys := NewKeyUsages(1, now)
	keys.SetInitialUsage(used)
	return keys.Bind([]config.Key{{ID: "a", Limits: limits}}, nil)["a"]
}

func parseAmount(t testing.TB, s string) money.Amount {
	t.Helper()
	a, err := money.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBudgets checks that a refusal states the name, the size and the usage of the budget, and when
// it renews.
func TestBudgets(t *testing.T) {
	now := time.Now()
	_, tomorrow := PeriodNumber(PeriodDay, now)
	_, next := PeriodNumber(PeriodMonth, now)
	call := Cost{Tokens: 60, Spend: parseAmount(t, "0.6")}
	for _, c := range []struct {
		limits                   config.KeyLimits
		name, limit, spent, left string
		renews                   time.Time
	}{
		{config.KeyLimits{TokensPerDay: 100}, TokensPerDay, "100", "60", "40", tomorrow},
		{config.KeyLimits{TokensPerMonth: 100, TokensPerDay: 1000}, TokensPerMonth, "100", "60", "40", next},
		{config.KeyLimits{SpendPerDay: parseAmount(t, "1.00")}, SpendPerDay, "1", "0.6", "0.4", tomorrow},
		{config.KeyLimits{SpendPerMonth: parseAmount(t, "1")}, SpendPerMonth, "1", "0.6", "0.4", next},
	} {
		k := boundKey(c.limits, nil, now)
		var first, second Reservation
		if d := k.Reserve(&first, call, Cost{}, now); !d.OK {
			t.Fatalf("%s: the first call is refused: %+v", c.name, d)
		}
		// The amount is reserved but not used yet.
		if d := k.Reserve(&second, call, Cost{}, now); d.OK || d.RetryAfter != concurrencyRetry ||
			*d.Quota != (Quota{Limit: c.limit, Used: "0", Remaining: c.limit, Needed: c.spent, OnlyReserved: true, Renews: c.renews}) {
			t.Errorf("%s: beside a call that runs: %+v %+v", c.name, d, d.Quota)
		}
		first.Settle(call, now)
		d := k.Reserve(&second, call, Cost{}, now)
		if d.OK || d.LimitName != c.name || *d.Quota != (Quota{Limit: c.limit, Used: c.spent, Remaining: c.left, Needed: c.spent, Renews: c.renews}) || d.RetryAfter != c.renews.Sub(now) {
			t.Errorf("%s: decision %+v, quota %+v; want a refusal by %s with %s of %s used", c.name, d, d.Quota, c.name, c.spent, c.limit)
		}
		if d := k.Reserve(&second, Cost{Tokens: 40, Spend: parseAmount(t, "0.4")}, Cost{}, now); !d.OK {
			t.Errorf("%s: what is left is refused: %+v", c.name, d)
		}
		second.Settle(Cost{Tokens: 40, Spend: parseAmount(t, "0.4")}, now)
		if d := k.Reserve(&second, call, Cost{}, now); d.OK || *d.Quota != (Quota{Limit: c.limit, Used: c.limit, Renews: c.renews}) {
			t.Errorf("%s: used up: %+v %+v", c.name, d, d.Quota)
		}
		later := c.renews
		if d := k.Reserve(&second, call, Cost{}, later); !d.OK {
			t.Errorf("%s: after it has renewed: %+v", c.name, d)
		}
	}
}

// TestBudgetLevels checks that the level of a budget is the key's usage without the reservations of
// running calls, and that it starts at zero in each period.
func TestBudgetLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock starts on the first day of a month
		now := time.Now().UTC().Add(12 * time.Hour)
		k := boundKey(config.KeyLimits{TokensPerDay: 200, SpendPerDay: parseAmount(t, "1"), SpendPerMonth: parseAmount(t, "2.5")}, nil, now)
		if none := boundKey(config.KeyLimits{RequestsPerMinute: 1}, nil, now).BudgetLevels(now); none != nil {
			t.Errorf("without a budget: %+v", none)
		}
		var first, second Reservation
		k.Reserve(&first, Cost{Tokens: 50, Spend: parseAmount(t, "0.5")}, Cost{}, now)
		first.Settle(Cost{Tokens: 50, Spend: parseAmount(t, "0.5")}, now)
		k.Reserve(&second, Cost{Tokens: 70}, Cost{}, now)
		wantLevels(t, k, now, 0.25, 0.5, 0.2)
		wantLevels(t, k, now.AddDate(0, 0, 1), 0, 0, 0.2)
		wantLevels(t, k, now.AddDate(0, 1, 0), 0, 0, 0)
		second.Settle(Cost{}, now)
	})
}

func wantLevels(t *testing.T, k *KeyLimiter, at time.Time, shares ...float64) {
	t.Helper()
	levels := k.BudgetLevels(at)
	for i, name := range []string{TokensPerDay, SpendPerDay, SpendPerMonth} {
		if len(levels) != 3 || levels[i].Name != name || levels[i].UsedFraction() != shares[i] {
			t.Fatalf("%+v, want %s used by %v", levels, name, shares[i])
		}
	}
	if tomorrow := at.AddDate(0, 0, 1).Truncate(24 * time.Hour); !levels[0].Renews.Equal(tomorrow) {
		t.Errorf("renews at %v, want %v", levels[0].Renews, tomorrow)
	}
}

// TestPeriods checks that days and months are in UTC, even if the argument has a different time
// zone.
func TestPeriods(t *testing.T) {
	day, renews := PeriodNumber(PeriodDay, beforeMonthEnd)
	// In this time zone, it is already December.
	month, renewsMonth := PeriodNumber(PeriodMonth, beforeMonthEnd.In(time.FixedZone("", 5*3600)))
	if want := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC); renews != want || renewsMonth != want {
		t.Errorf("the day and month renew at %s and %s, want %s", renews, renewsMonth, want)
	}
	nextDay, _ := PeriodNumber(PeriodDay, renews)
	nextMonth, _ := PeriodNumber(PeriodMonth, renews)
	if nextDay != day+1 || nextMonth != month+1 {
		t.Errorf("%d after %d, %d after %d", nextDay, day, nextMonth, month)
	}
}

// TestBudgetBegins checks that a budget starts with the usage so far, even if a reload added the
// budget, or removed the budget and added it again.
func TestBudgetBegins(t *testing.T) {
	now := time.Now()
	used := Cost{Tokens: 90}
	keys := NewKeyUsages(1, now)
	keys.SetInitialUsage(func(id string, _ time.Time) [PeriodCount]Cost { return [PeriodCount]Cost{used, used} })
	bind := func(limits config.KeyLimits) *KeyLimiter {
		return keys.Bind([]config.Key{{ID: "a", Limits: limits}}, nil)["a"]
	}
	admits := func(k *KeyLimiter, tokens int64) bool {
		var r Reservation
		ok := k.Reserve(&r, Cost{Tokens: tokens}, Cost{}, now).OK
		r.Cancel()
		return ok
	}
	k := bind(config.KeyLimits{TokensPerDay: 100})
	if admits(k, 11) || !admits(k, 10) {
		t.Error("the budget does not begin with what was used")
	}
	free := bind(config.KeyLimits{})
	if !admits(free, 1e9) {
		t.Error("without a budget it is held")
	}
	used.Tokens = 95
	if k = bind(config.KeyLimits{TokensPerDay: 100}); admits(k, 6) || !admits(k, 5) {
		t.Error("the budget that came back does not begin with what was used meanwhile")
	}
	elsewhere := func(id string, _ time.Time) (u [PeriodCount]Cost) {
		if id == "a" {
			u[PeriodDay].Tokens = 4
		}
		return u
	}
	if keys.AddUsage(elsewhere); admits(k, 2) || !admits(k, 1) {
		t.Error("it does not continue what became known")
	}
}

// TestBudgetIsExact checks that whenever a call is admitted, the usage plus the expected usage of
// running calls does not exceed the budget. A call that fits must be admitted.
func TestBudgetIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := beforeMonthEnd
		limits := config.KeyLimits{
			TokensPerDay: rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "day"), TokensPerMonth: rapid.SampledFrom([]int{0, 150, 3000}).Draw(t, "month"),
			SpendPerDay: money.Amount{Micros: rapid.SampledFrom([]int64{0, 500}).Draw(t, "money")},
		}
		b := newLocalBudget([PeriodCount]Cost{}, now)
		var used [PeriodCount]Cost
		var running []Cost
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0:
				before := now
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
				if now.YearDay() != before.YearDay() {
					used[PeriodDay] = Cost{}
				}
				if now.Month() != before.Month() {
					used[PeriodMonth] = Cost{}
				}
			case what < 5 && len(running) > 0:
				held := running[0]
				running = running[1:]
				cost := Cost{rapid.Int64Range(0, 2*held.Tokens+1).Draw(t, "used"), held.Spend}
				b.Settle(BudgetReservation{In: [PeriodCount]Cost{PeriodDay: held}}, cost, now)
				for p := range used {
					used[p] = used[p].Plus(cost)
				}
			default:
				expected := Cost{rapid.Int64Range(0, 200).Draw(t, "tokens"), money.Amount{Micros: rapid.Int64Range(0, 100).Draw(t, "spend")}}
				var held Cost
				for _, r := range running {
					held = held.Plus(r)
				}
				fits := true
				for p := range used {
					budget := PeriodBudget(&limits, p)
					sum := used[p].Plus(held)
					fits = fits && (budget.Tokens == 0 || used[p].Tokens < budget.Tokens && sum.Tokens+min(expected.Tokens, budget.Tokens) <= budget.Tokens) &&
						(budget.Spend.Zero() || used[p].Spend.Micros < budget.Spend.Micros && sum.Spend.Micros+expected.Spend.Micros <= budget.Spend.Micros)
				}
				got, d := b.ReserveUsage(&limits, expected, Cost{}, now)
				if d.OK != fits {
					t.Fatalf("%+v at %+v, held %+v: %+v", expected, used, held, d)
				}
				if d.OK {
					running = append(running, got.In[PeriodDay])
				} else if d.Quota == nil || d.RetryAfter <= 0 || !strings.HasPrefix(d.LimitName, "tokens") && !strings.HasPrefix(d.LimitName, "spend") {
					t.Fatalf("refusal = %+v, want a quota, a wait and a limit on tokens or spend", d)
				}
			}
		}
	})
}

// TestUnusedBudget checks that an unused budget admits a call whose expected usage exceeds the
// entire budget only if the budget covers the least usage of the call.
func TestUnusedBudget(t *testing.T) {
	now := time.Now()
	cost := func(tokens int64) Cost { return Cost{Tokens: tokens, Spend: money.Amount{Micros: tokens}} }
	for _, limits := range []config.KeyLimits{
		{TokensPerDay: 500}, {TokensPerMonth: 500}, {SpendPerDay: money.Amount{Micros: 500}}, {SpendPerMonth: money.Amount{Micros: 500}},
	} {
		for _, c := range []struct {
			used, expected, least int64
			want                  bool
		}{
			{0, 500, 500, true},
			{0, 501, 500, true},
			{0, 9000, 7, true},
			{0, 501, 501, false},
			{0, 9000, 9000, false},
			{0, 9000, 501, false},
			{1, 499, 7, true},
			{1, 500, 7, false},
			{1, 9000, 7, false},
			{500, 0, 0, false},
		} {
			k := boundKey(limits, func(string, time.Time) [PeriodCount]Cost { return [PeriodCount]Cost{cost(c.used), cost(c.used)} }, now)
			if d := k.Reserve(new(Reservation), cost(c.expected), cost(c.least), now); d.OK != c.want || !d.OK && d.Quota.OnlyReserved {
				t.Errorf("%+v, %+v: got %+v %+v", limits, c, d, d.Quota)
			}
		}
	}
}

func TestBudgetAllocatesNothing(t *testing.T) {
	now := time.Now()
	k := boundKey(config.KeyLimits{TokensPerDay: 1e9, SpendPerMonth: parseAmount(t, "1000000")}, nil, now)
	var r Reservation
	if n := testing.AllocsPerRun(100, func() {
		k.Reserve(&r, Cost{Tokens: 10, Spend: money.Amount{Micros: 1}}, Cost{}, now)
		r.Settle(Cost{Tokens: 5}, now)
	}); n != 0 {
		t.Errorf("Reserve and Settle allocate %v times, want 0", n)
	}
}
