package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/money"
	"penstock/proxy/access/limit"
)

type budgetEdge struct {
	fleet  *Fleet
	line   *simulatedStore
	budget *keyBudget
	used   limit.Cost // usage in the period according to the ledger
	held   []limit.BudgetReservation
}

var budgetDay = time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)

func (w *world) startBudget(name string, e *budgetEdge, i int) {
	w.start(i)
	f := w.edges[i]
	e.fleet, e.held, e.line.began = f, nil, uint64(w.twin.now)*1000
	e.budget = newKeyBudget(&f.edgeState, "a", name, func(string, time.Time) [limit.PeriodCount]limit.Cost {
		return [limit.PeriodCount]limit.Cost{e.used, e.used}
	})
}

func (w *world) settleAll() {
	for _, l := range w.lines {
		l.lose, l.mute, l.repeat, l.delay, l.cut = never, never, never, never, false
	}
	for range 10 {
		w.advance(time.Second)
	}
}

// unreportedUsage returns the usage and reservations that the edge has not reported to the store.
func (e *budgetEdge) unreportedUsage(told *modelEdge) (c limit.Cost) {
	c = e.used
	for _, h := range e.held {
		c = c.Plus(limit.Cost{Tokens: h.In[limit.PeriodDay].Tokens, Spend: h.In[limit.PeriodMonth].Spend})
	}
	c.Tokens = max(0, c.Tokens-told.charged[tokenCellIndex])
	if c.Spend.Micros -= told.charged[spendCellIndex]; c.Spend.Micros < 0 {
		c.Spend = money.Amount{}
	}
	return c
}

// TestBudgetOfAFleet loses, delays, repeats and reorders messages, kills and restarts edges, and
// makes the store lose all data. At the end, the account in the store must equal the usage of all
// edges. A call may be admitted only if it fits into the budget in addition to the used and
// reserved amounts. There is one exception: when an edge's lease expires, the budget may be
// exceeded by the usage and reservations that this edge has not reported.
func TestBudgetOfAFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.KeyLimits{
			TokensPerDay: rapid.SampledFrom([]int{0, 500, 20_000}).Draw(t, "tokens"), SpendPerMonth: money.Amount{Micros: rapid.SampledFrom([]int64{0, 3000}).Draw(t, "spend")},
		}
		edges := rapid.IntRange(1, 4).Draw(t, "edges")
		w := newWorld(edges, config.KeyLimits{}, config.StoreLostClosed)
		w.now, w.began = budgetDay, budgetDay
		all := make([]*budgetEdge, edges)
		chance := rapid.IntRange(0, 30).Draw(t, "faults in a hundred")
		fault := func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
		for i := range all {
			all[i] = &budgetEdge{line: w.lines[i]}
			w.lines[i].lose, w.lines[i].mute, w.lines[i].repeat, w.lines[i].delay = fault, fault, fault, fault
			w.startBudget(string(rune('a'+i)), all[i], i)
		}
		beyond, lapses := map[string]limit.Cost{}, 0
		w.twin.lapsed = func(id, name string, told *modelEdge) {
			lapses++
			beyond[id] = beyond[id].Plus(all[name[0]-'a'].unreportedUsage(told))
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, edges-1).Draw(t, "edge")
			e := all[i]
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				ms, step := rapid.IntRange(1, 20_000).Draw(t, "ms"), 500
				if rapid.IntRange(0, 3).Draw(t, "stands still") == 0 {
					step = ms
				}
				for left := ms; left > 0; left -= step {
					w.advance(time.Duration(min(left, step)) * time.Millisecond)
				}
			case 1:
				w.lines[i].hearLate()
			case 2:
				// No two processes may start in the same microsecond.
				w.tick(time.Millisecond)
				w.startBudget(string(rune('a'+i)), e, i)
			case 3, 4, 5:
				if len(e.held) > 0 {
					h := e.held[0]
					e.held = e.held[1:]
					used := limit.Cost{Tokens: rapid.Int64Range(0, max(h.In[limit.PeriodDay].Tokens, h.In[limit.PeriodMonth].Tokens)).Draw(t, "used")}
					used.Spend = money.Amount{Micros: used.Tokens / 2, Picos: int32(used.Tokens%2) * 500_000}
					e.budget.Settle(h, used, w.now)
					if h.At != [limit.PeriodCount]int64{} {
						e.used = e.used.Plus(used)
					}
				}
			default:
				n := rapid.Int64Range(1, 200).Draw(t, "estimate")
				expected := limit.Cost{Tokens: n, Spend: money.Amount{Micros: n / 2, Picos: int32(n%2) * 500_000}}
				held, d := e.budget.ReserveUsage(&limits, expected, limit.Cost{}, w.now)
				if !d.OK {
					continue
				}
				e.held = append(e.held, held)
				sum := limit.Cost{}
				for _, e := range all {
					sum = sum.Plus(e.used)
					for _, h := range e.held {
						sum = sum.Plus(limit.Cost{Tokens: h.In[limit.PeriodDay].Tokens, Spend: h.In[limit.PeriodMonth].Spend})
					}
				}
				most := limit.Cost{Tokens: int64(limits.TokensPerDay), Spend: limits.SpendPerMonth}
				most.Tokens += beyond["k:a 2026-11-22"].Tokens
				most.Spend = most.Spend.Plus(beyond["k:a 2026-11"].Spend)
				if limits.TokensPerDay > 0 && sum.Tokens > most.Tokens {
					t.Fatalf("%d tokens are used or held, of %d (%d leases ran out)", sum.Tokens, most.Tokens, lapses)
				}
				if !limits.SpendPerMonth.Zero() && most.Spend.Less(sum.Spend) {
					t.Fatalf("%s is spent or held, of %s (%d leases ran out)", sum.Spend, most.Spend, lapses)
				}
			}
		}
		if rapid.Bool().Draw(t, "the store forgets") {
			w.twin.forget()
		}
		w.settleAll()
		sum := limit.Cost{}
		for _, e := range all {
			for range e.held {
				e.budget.Settle(e.held[0], limit.Cost{}, w.now)
				e.held = e.held[1:]
			}
			// This call makes the edge notice that the budget was lost.
			_, _ = e.budget.ReserveUsage(&limits, limit.Cost{Tokens: 1}, limit.Cost{}, w.now)
			sum.Tokens += e.used.Tokens
			// Each edge rounds up to whole millionths in its report.
			sum.Spend.Micros += toMillionths(e.used.Spend)
		}
		for _, e := range all {
			for _, p := range e.budget.current {
				if p != nil {
					p.account.mu.Lock()
					p.account.exchangeMessage(t.Context(), newSentMessage())
					p.account.mu.Unlock()
				}
			}
			for period, of := range [limit.PeriodCount]limit.Cost{{Tokens: int64(limits.TokensPerDay)}, {Spend: limits.SpendPerMonth}} {
				if used := e.budget.Used(period, w.now); of != (limit.Cost{}) && used.Tokens < e.used.Tokens {
					t.Fatalf("%+v is shown as used, and this edge alone has used %+v", used, e.used)
				}
			}
		}
		for id, a := range w.twin.accounts {
			if int64(a.cells[tokenCellIndex].debt) != sum.Tokens || int64(a.cells[spendCellIndex].debt) != sum.Spend.Micros {
				t.Fatalf("%s: %v and %v are used, want %+v", id, a.cells[tokenCellIndex].debt, a.cells[spendCellIndex].debt, sum)
			}
		}
	})
}

// TestRefusedDayTellsMonth checks that an edge that starts with an exhausted daily budget still
// reports its usage for the month.
func TestRefusedDayTellsMonth(t *testing.T) {
	limits := config.KeyLimits{TokensPerDay: 500, SpendPerMonth: money.Amount{Micros: 3000}}
	w := newWorld(1, config.KeyLimits{}, config.StoreLostClosed)
	w.now, w.began = budgetDay, budgetDay
	e := &budgetEdge{line: w.lines[0], used: limit.Cost{Tokens: 500, Spend: money.Amount{Micros: 250}}}
	w.startBudget("a", e, 0)
	if _, d := e.budget.ReserveUsage(&limits, limit.Cost{Tokens: 1}, limit.Cost{}, w.now); d.OK {
		t.Fatal("a day that is used up admits a call")
	}
	w.advance(time.Second)
	if a := w.twin.accounts["k:a 2026-11"]; a == nil || a.cells[spendCellIndex].debt != 250 {
		t.Errorf("the month's account: %+v", a)
	}
}

// TestUnusedBudget checks that an unused budget admits a call whose expected usage exceeds the
// entire budget only if the budget covers the least usage of the call.
func TestUnusedBudget(t *testing.T) {
	cost := func(n int64) limit.Cost { return limit.Cost{Tokens: n, Spend: money.Amount{Micros: n}} }
	for name, limits := range map[string]config.KeyLimits{
		limit.TokensPerDay: {TokensPerDay: 500}, limit.SpendPerMonth: {SpendPerMonth: money.Amount{Micros: 500}},
	} {
		for least, want := range map[int64]bool{0: true, 500: true, 501: false, 9000: false} {
			w := newWorld(1, config.KeyLimits{}, config.StoreLostOpen)
			e := &budgetEdge{line: w.lines[0]}
			w.startBudget("a", e, 0)
			_, d := e.budget.ReserveUsage(&limits, cost(9000), cost(least), w.now)
			if d.OK != want || !d.OK && (d.LimitName != name || d.Quota == nil || d.Quota.OnlyReserved) {
				t.Errorf("%s, at least %d: got %+v %+v, want OK: %v", name, least, d, d.Quota, want)
			}
			w.lines[0].cut = true
			if _, d = e.budget.ReserveUsage(&limits, cost(9000), cost(least), w.now); !d.OK {
				t.Errorf("%s, at least %d, without the store: got %+v %+v, want OK", name, least, d, d.Quota)
			}
		}
	}
}

// TestOpenBudget checks that a budget ends no running call while the store is lost and fleet.lost
// is open.
func TestOpenBudget(t *testing.T) {
	for lost, want := range map[string]bool{config.StoreLostOpen: true, config.StoreLostDivide: false, config.StoreLostClosed: false} {
		w := newWorld(1, config.KeyLimits{}, lost)
		e := &budgetEdge{line: w.lines[0]}
		w.startBudget("a", e, 0)
		if e.budget.AllowsOverrun(limit.PeriodDay, w.now) {
			t.Errorf("%s: open with the store", lost)
		}
		w.lines[0].cut = true
		if got := e.budget.AllowsOverrun(limit.PeriodDay, w.now); got != want {
			t.Errorf("%s: open without the store: %v, want %v", lost, got, want)
		}
	}
}

// TestForgottenBudget checks that a budget does not start at zero after the store has lost it, no
// matter which edge asks first. At most the amount that was free at the edges' last answers may be
// granted.
func TestForgottenBudget(t *testing.T) {
	limits := config.KeyLimits{TokensPerDay: 5000}
	w := newWorld(3, config.KeyLimits{}, config.StoreLostDivide)
	w.now, w.began = budgetDay, budgetDay
	edges := make([]*budgetEdge, 3)
	used := int64(0)
	call := func(i int, n int64) bool {
		held, d := edges[i].budget.ReserveUsage(&limits, limit.Cost{Tokens: n}, limit.Cost{}, w.now)
		if d.OK {
			edges[i].budget.Settle(held, limit.Cost{Tokens: n}, w.now)
			used += n
		}
		return d.OK
	}
	for i := range edges {
		edges[i] = &budgetEdge{line: w.lines[i]}
		w.startBudget(string(rune('a'+i)), edges[i], i)
		edges[i].fleet.SetExpectedEdges(len(edges))
		if !call(i, 1500) {
			t.Fatal("a budget that is not used up refuses")
		}
		w.advance(time.Second)
	}
	for i := range edges { // every edge asks the store after the last reports
		call(i, 20)
	}
	w.advance(time.Second)
	for round := range 6 {
		w.twin.forget()
		for range 30 {
			call(round%3, 25)
			call((round+1)%3, 25)
		}
		if used > 5000 {
			t.Fatalf("%d of 5000 tokens were used in round %d", used, round)
		}
		// In other rounds, the store loses the budgets before all edges have reported.
		if round%2 == 0 {
			w.advance(time.Second)
		}
	}
	if used < 4900 {
		t.Errorf("%d of 5000 tokens: what was left is to be used", used)
	}
}

// TestPartOfForgottenBudget checks that after the store has lost its data, a rejection contains the
// edge's share of the remaining budget and the time until the call can be admitted.
func TestPartOfForgottenBudget(t *testing.T) {
	limits := config.KeyLimits{TokensPerDay: 3000}
	w := newWorld(2, config.KeyLimits{}, config.StoreLostDivide)
	w.now, w.began = budgetDay, budgetDay
	edges := make([]*budgetEdge, 2)
	for i := range edges {
		edges[i] = &budgetEdge{line: w.lines[i]}
		w.startBudget(string(rune('a'+i)), edges[i], i)
		edges[i].fleet.SetExpectedEdges(len(edges))
		held, d := edges[i].budget.ReserveUsage(&limits, limit.Cost{Tokens: 600}, limit.Cost{}, w.now)
		if !d.OK {
			t.Fatal("a budget that is not used up refuses")
		}
		edges[i].budget.Settle(held, limit.Cost{Tokens: 600}, w.now)
		w.advance(time.Second)
	}
	w.twin.forget()
	ask := func(n int64) limit.Decision {
		held, d := edges[0].budget.ReserveUsage(&limits, limit.Cost{Tokens: n}, limit.Cost{}, w.now)
		if d.OK {
			edges[0].budget.Settle(held, limit.Cost{}, w.now)
		}
		return d
	}
	ask(1) // makes the edge notice the loss
	d := ask(1500)
	if d.OK || d.Quota == nil || !d.Quota.OnlyReserved || d.Quota.Grantable == "" || d.Quota.Grantable >= "1500" || d.RetryAfter <= time.Second || d.RetryAfter > leaseTime {
		t.Fatalf("Hold of 1500 = %+v, quota %+v; want a refusal by the edge's part for more than 1 s, at most %v", d, d.Quota, leaseTime)
	}
	w.advance(d.RetryAfter)
	if d := ask(1500); !d.OK {
		t.Errorf("after the time that it has named: %+v, quota %+v", d, d.Quota)
	}
}
