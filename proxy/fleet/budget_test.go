package fleet

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/money"
	"penstock/proxy/limit"
)

// budgetEdge is an edge with a ledger that loses nothing.
type budgetEdge struct {
	fleet  *Fleet
	line   *line
	budget *keyBudget
	used   limit.Cost // by its ledger, in the period
	held   []limit.Held
}

var budgetDay = time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)

// startBudget begins the process of an edge with a ledger anew.
func (w *world) startBudget(name string, e *budgetEdge, i int) {
	w.start(i)
	f := w.edges[i]
	e.fleet, e.held = f, nil
	e.budget = newKeyBudget(&f.terms, "a", name, func(string, time.Time) [limit.Periods]limit.Cost {
		return [limit.Periods]limit.Cost{e.used, e.used}
	})
}

// settleAll has all faults end and all edges tell what they have to tell.
func (w *world) settleAll() {
	for _, l := range w.lines {
		l.lose, l.mute, l.repeat, l.cut = never, never, never, false
	}
	for range 10 {
		w.pass(time.Second)
	}
}

// Whatever is lost, repeated or overtaken, whatever edges are killed and start again, and if the store forgets all: what the
// store knows to be used is in the end what all edges have used. No call is let in that does not fit into the budget with what
// is used and held; a killed edge's untold use apart, until it is back.
func TestBudgetOfAFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.KeyLimits{
			TokensPerDay: rapid.SampledFrom([]int{0, 500, 20_000}).Draw(t, "tokens"), SpendPerMonth: money.Amount{Micros: rapid.SampledFrom([]int64{0, 3000}).Draw(t, "spend")},
		}
		edges := rapid.IntRange(1, 4).Draw(t, "edges")
		w := newWorld(edges, config.KeyLimits{}, config.LostClosed)
		w.now, w.began = budgetDay, budgetDay
		all := make([]*budgetEdge, edges)
		chance := rapid.IntRange(0, 30).Draw(t, "faults in a hundred")
		fault := func() bool { return rapid.IntRange(1, 100).Draw(t, "fault") <= chance }
		for i := range all {
			all[i] = &budgetEdge{line: w.lines[i]}
			l, row := w.lines[i], 0 // three failures in a row at most: a lease that runs out frees what calls hold
			l.lose = func() bool {
				lost := fault() && row < 3
				if lost {
					row++
				}
				return lost
			}
			l.mute = func() bool {
				lost := fault() && row < 3
				if row++; !lost {
					row = 0
				}
				return lost
			}
			l.repeat = fault
			w.startBudget(string(rune('a'+i)), all[i], i)
		}
		untold, kills := limit.Cost{}, 0
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, edges-1).Draw(t, "edge")
			e := all[i]
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				for left := rapid.IntRange(1, 20_000).Draw(t, "ms"); left > 0; left -= 500 { // edges renew their leases
					w.pass(time.Duration(min(left, 500)) * time.Millisecond)
				}
			case 1:
				w.lines[i].hearLate()
			case 2:
				kills++
				for _, p := range e.budget.current {
					if p != nil {
						c := &p.account.usage.cells
						untold = untold.Plus(limit.Cost{Tokens: c[tokens].charged - c[tokens].told, Spend: money.Amount{Micros: c[spent].charged - c[spent].told}})
					}
				}
				w.startBudget(string(rune('a'+i)), e, i)
				w.pass(time.Millisecond) // a process takes longer to start than any message that was sent
			case 3, 4, 5:
				if len(e.held) > 0 {
					h := e.held[0]
					e.held = e.held[1:]
					used := limit.Cost{Tokens: rapid.Int64Range(0, max(h.In[limit.Day].Tokens, h.In[limit.Month].Tokens)).Draw(t, "used")}
					used.Spend = money.Amount{Micros: used.Tokens / 2, Picos: int32(used.Tokens%2) * 500_000}
					e.budget.Settle(h, used, w.now)
					if h.At != [limit.Periods]int64{} {
						e.used = e.used.Plus(used)
					}
				}
			default:
				n := rapid.Int64Range(1, 200).Draw(t, "estimate")
				expected := limit.Cost{Tokens: n, Spend: money.Amount{Micros: n / 2, Picos: int32(n%2) * 500_000}}
				held, d := e.budget.Hold(&limits, expected, w.now)
				if !d.OK {
					continue
				}
				e.held = append(e.held, held)
				sum := limit.Cost{}
				for _, e := range all {
					sum = sum.Plus(e.used)
					for _, h := range e.held {
						sum = sum.Plus(limit.Cost{Tokens: h.In[limit.Day].Tokens, Spend: h.In[limit.Month].Spend})
					}
				}
				if limits.TokensPerDay > 0 && sum.Tokens > int64(limits.TokensPerDay)+untold.Tokens {
					t.Fatalf("%d tokens are used or held, %d were untold in %d kills", sum.Tokens, untold.Tokens, kills)
				}
				if most := limits.SpendPerMonth.Plus(untold.Spend); !limits.SpendPerMonth.Zero() && most.Less(sum.Spend) {
					t.Fatalf("%s is spent or held, %s was untold in %d kills", sum.Spend, untold.Spend, kills)
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
			_, _ = e.budget.Hold(&limits, limit.Cost{Tokens: 1}, w.now) // whoever has forgotten looks again
			sum.Tokens += e.used.Tokens
			sum.Spend.Micros += e.used.Spend.Micros // each edge tells whole millionths
		}
		for _, e := range all {
			for _, p := range e.budget.current {
				if p != nil {
					p.account.mu.Lock()
					p.account.send(t.Context(), &flight{done: make(chan struct{})})
					p.account.mu.Unlock()
				}
			}
		}
		for id, a := range w.twin.accounts {
			if int64(a.cells[tokens].debt) != sum.Tokens || int64(a.cells[spent].debt) != sum.Spend.Micros {
				t.Fatalf("%s: %v and %v are used, want %+v", id, a.cells[tokens].debt, a.cells[spent].debt, sum)
			}
		}
	})
}

// A store that forgets gives no budget anew, whichever edges ask first: what was left by their last
// answers is all there is.
func TestForgottenBudget(t *testing.T) {
	limits := config.KeyLimits{TokensPerDay: 5000}
	w := newWorld(3, config.KeyLimits{}, config.LostDivide)
	w.now, w.began = budgetDay, budgetDay
	edges := make([]*budgetEdge, 3)
	used := int64(0)
	call := func(i int, n int64) bool {
		held, d := edges[i].budget.Hold(&limits, limit.Cost{Tokens: n}, w.now)
		if d.OK {
			edges[i].budget.Settle(held, limit.Cost{Tokens: n}, w.now)
			used += n
		}
		return d.OK
	}
	for i := range edges {
		edges[i] = &budgetEdge{line: w.lines[i]}
		w.startBudget(string(rune('a'+i)), edges[i], i)
		edges[i].fleet.SetEdges(len(edges))
		if !call(i, 1500) {
			t.Fatal("a budget that is not used up refuses")
		}
		w.pass(time.Second)
	}
	for i := range edges { // each has asked since the last one told
		call(i, 20)
	}
	w.pass(time.Second)
	for round := range 6 {
		w.twin.forget()
		for range 30 {
			call(round%3, 25)
			call((round+1)%3, 25)
		}
		if used > 5000 {
			t.Fatalf("%d of 5000 tokens were used in round %d", used, round)
		}
		if round%2 == 0 { // else they are forgotten before all have told
			w.pass(time.Second)
		}
	}
	if used < 4900 {
		t.Errorf("%d of 5000 tokens: what was left is to be used", used)
	}
}
