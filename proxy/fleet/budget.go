package fleet

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/config/money"
	"penstock/proxy/access/limit"
)

// A budget is an account for one key and one period. The account name contains the period, so a new
// period starts at zero. Charges do not decrease over time.
//
// An edge reports its usage since the start of the period under the name of its ledger, which
// survives restarts. All usage is therefore counted exactly once, even if the store loses all data
// or an edge crashes. Amounts reserved by a dead edge become free again, because the edge may not
// have used them.

// budgetKinds are the kinds of the cells in a budget: requests (unused), tokens, and spend in
// millionths of the currency.
var budgetKinds = [cells]kind{slot, budget, budget}

const spent = slots // index of the cell for spend

var budgetNames = [limit.Periods][cells]string{
	limit.Day:   {tokens: limit.TokensPerDay, spent: limit.SpendPerDay},
	limit.Month: {tokens: limit.TokensPerMonth, spent: limit.SpendPerMonth},
}

type keyBudget struct {
	terms    *terms
	id, edge string
	used     limit.Used

	mu      sync.Mutex
	current [limit.Periods]*periodBudget
	// Budgets of previous periods, for calls that started during those periods.
	before [limit.Periods]*periodBudget
}

type periodBudget struct {
	number  int64
	account *account

	mu    sync.Mutex
	spent money.Amount // exact spend at this edge; the account counts in millionths
}

// NewBudget returns the fleet-wide budget of a key. used returns the usage at this edge. edge is
// the name under which this edge has reported usage before; if it is empty, NewBudget creates a new
// name.
func NewBudget(f *Fleet, id, edge string, used limit.Used) limit.Budget {
	return newKeyBudget(&f.terms, id, edge, used)
}

func newKeyBudget(t *terms, id, edge string, used limit.Used) *keyBudget {
	return &keyBudget{terms: t, id: id, edge: edge, used: used}
}

// of returns the budget for the period that contains now. A new periodBudget starts with this
// edge's usage in the period so far.
func (b *keyBudget) of(period int, now time.Time) *periodBudget {
	number, _ := limit.PeriodOf(period, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.current[period]
	if p != nil && p.number >= number { // if the clock was set back, the later period stays current
		return p
	}
	name := now.UTC().Format([limit.Periods]string{limit.Day: "2006-01-02", limit.Month: "2006-01"}[period])
	next := &periodBudget{number: number, account: newAccount(b.terms, "k:"+b.id+" "+name)}
	a := next.account
	a.usage.names = budgetNames[period]
	for i := range a.usage.cells {
		a.usage.cells[i].kind = budgetKinds[i]
	}
	if b.edge != "" {
		a.edge = b.edge
	}
	used := b.used(b.id, now)[period]
	next.spent = used.Spend
	a.usage.cells[tokens].charged, a.usage.cells[spent].charged = used.Tokens, millionths(used.Spend)
	b.before[period], b.current[period] = p, next
	return next
}

// heldIn returns the budget for the period with the given number, or nil if that period ended too
// long ago.
func (b *keyBudget) heldIn(period int, number int64) *periodBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range []*periodBudget{b.current[period], b.before[period]} {
		if p != nil && p.number == number {
			return p
		}
	}
	return nil
}

// millionths converts an amount to millionths and rounds up. Without rounding up, each edge could
// exceed the limit by a fraction of a millionth.
func millionths(a money.Amount) int64 {
	if a.Picos > 0 {
		return a.Micros + 1
	}
	return a.Micros
}

func needsOf(c limit.Cost) needs { return needs{tokens: c.Tokens, spent: millionths(c.Spend)} }

func (b *keyBudget) Hold(l *config.KeyLimits, expected limit.Cost, now time.Time) (held limit.Held, d limit.Decision) {
	for period := range b.current {
		of := limit.OfPeriod(l, period)
		if of.Tokens == 0 && of.Spend.Zero() {
			continue
		}
		p, n := b.of(period, now), atMost(expected, of)
		if d = p.account.take(needsOf(of), needsOf(n), now); d.OK {
			held.At[period], held.In[period] = p.number, n
			continue
		}
		b.Settle(held, limit.Cost{}, now)
		b.tell(l, period+1, now)
		if d.Unavailable {
			return limit.Held{}, d
		}
		refused := p.account.refusal(needsOf(of), needsOf(n))
		refused.Budget, refused.Expected = of, expected
		return limit.Held{}, limit.Exhausted(period, d.LimitName == budgetNames[period][spent], refused, now)
	}
	return held, allowed
}

// tell makes the accounts report to the store: that of the period with the index from, and those of
// all longer periods. A rejected call has not used these accounts, but a new process may still have
// to report the usage of the previous process.
func (b *keyBudget) tell(l *config.KeyLimits, from int, now time.Time) {
	for period := from; period < limit.Periods; period++ {
		if of := limit.OfPeriod(l, period); of.Tokens > 0 || !of.Spend.Zero() {
			a := b.of(period, now).account
			a.mu.Lock()
			a.usage.follow(needsOf(of))
			a.queue()
			a.mu.Unlock()
		}
	}
}

// atMost returns the amount that a call reserves. It is the expected cost, or the entire budget if
// that is less.
func atMost(c, budget limit.Cost) limit.Cost {
	if budget.Tokens > 0 {
		c.Tokens = min(c.Tokens, budget.Tokens)
	}
	if !budget.Spend.Zero() && budget.Spend.Less(c.Spend) {
		c.Spend = budget.Spend
	}
	return c
}

// refusal describes why a budget rejects a call:
//
//   - the usage of the entire fleet, as far as this edge knows;
//   - whether the call would be admitted if all running calls ended without using anything (Freed);
//   - if this edge may grant only a share of the remaining budget, the share (Part) and the
//     duration of the restriction (Wait).
func (a *account) refusal(limits, n needs) limit.Refused {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, used, now := limit.Refused{Freed: true}, needs{}, a.terms.now()
	var parts needs
	for i := range a.usage.cells {
		c := &a.usage.cells[i]
		used[i] = c.used()
		if limits[i] > 0 && n[i] > 0 && used[i]+n[i] > limits[i] {
			r.Freed = false
		}
		switch {
		case limits[i] == 0 || n[i] == 0:
		case a.usage.lost:
			parts[i], r.Parted = max(int64(c.alone), 0), true
		case c.withheld(n[i], now, a.terms.edges()):
			parts[i], r.Parted, r.Wait = max(int64(c.part), 0), true, max(r.Wait, c.doubtful-now)
		default:
			parts[i] = max(limits[i]-used[i], 0)
		}
	}
	r.Used, r.Part = costOf(used), costOf(parts)
	return r
}

func costOf(n needs) limit.Cost {
	return limit.Cost{Tokens: n[tokens], Spend: money.Amount{Micros: n[spent]}}
}

// Used implements limit.Budget. It returns the usage of the entire fleet, as far as this edge
// knows.
func (b *keyBudget) Used(period int, now time.Time) limit.Cost {
	a := b.of(period, now).account
	a.mu.Lock()
	defer a.mu.Unlock()
	var used needs
	for i := range a.usage.cells {
		used[i] = a.usage.cells[i].used()
	}
	return costOf(used)
}

// Open implements limit.Budget.
func (b *keyBudget) Open(period int, now time.Time) bool {
	a := b.of(period, now).account
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open()
}

// used returns how much of the budget all edges have used, as far as this edge knows.
func (c *cell) used() int64 { return max(int64(c.debt), c.charged) }

// Settle implements limit.Budget. A call's usage counts in the period in which the call ends.
func (b *keyBudget) Settle(held limit.Held, used limit.Cost, now time.Time) {
	for period, number := range held.At {
		if number == 0 {
			continue
		}
		if from := b.heldIn(period, number); from != nil {
			from.account.settle(needsOf(held.In[period]), needs{})
		}
		if used != (limit.Cost{}) {
			b.of(period, now).charge(used)
		}
	}
}

func (p *periodBudget) charge(used limit.Cost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := millionths(p.spent)
	p.spent = p.spent.Plus(used.Spend)
	p.account.settle(needs{}, needs{tokens: used.Tokens, spent: millionths(p.spent) - before})
}
