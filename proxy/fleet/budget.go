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
var budgetKinds = [cellCount]cellKind{cellKindSlot, cellKindBudget, cellKindBudget}

const spendCellIndex = slotCellIndex // index of the cell for spend

var budgetLimitNames = [limit.PeriodCount][cellCount]string{
	limit.PeriodDay:   {tokenCellIndex: limit.TokensPerDay, spendCellIndex: limit.SpendPerDay},
	limit.PeriodMonth: {tokenCellIndex: limit.TokensPerMonth, spendCellIndex: limit.SpendPerMonth},
}

type keyBudget struct {
	edgeState  *edgeState
	id, edgeID string
	used       limit.UsageFunc

	mu      sync.Mutex
	current [limit.PeriodCount]*periodBudget
	// Budgets for the periods before the current ones, for calls that started in those periods.
	previous [limit.PeriodCount]*periodBudget
}

type periodBudget struct {
	periodNumber int64
	account      *keyAccount

	mu    sync.Mutex
	spent money.Amount // exact spend at this edge; the account only counts whole millionths
}

// NewBudget returns the fleet-wide budget of a key. used returns the usage at this edge. edge is
// the name under which this edge has reported usage before; if it is empty, NewBudget creates a new
// name.
func NewBudget(f *Fleet, id, edge string, used limit.UsageFunc) limit.UsageBudget {
	return newKeyBudget(&f.edgeState, id, edge, used)
}

func newKeyBudget(t *edgeState, id, edge string, used limit.UsageFunc) *keyBudget {
	return &keyBudget{edgeState: t, id: id, edgeID: edge, used: used}
}

// currentPeriod returns the budget for the period that contains now. A new periodBudget starts with
// this edge's usage in the period so far.
func (b *keyBudget) currentPeriod(period int, now time.Time) *periodBudget {
	number, _ := limit.PeriodNumber(period, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.current[period]
	if p != nil && p.periodNumber >= number { // if the clock was set back, the later period stays current
		return p
	}
	name := now.UTC().Format([limit.PeriodCount]string{limit.PeriodDay: "2006-01-02", limit.PeriodMonth: "2006-01"}[period])
	next := &periodBudget{periodNumber: number, account: newAccount(b.edgeState, "k:"+b.id+" "+name)}
	a := next.account
	a.keyCells.names = budgetLimitNames[period]
	for i := range a.keyCells.cells {
		a.keyCells.cells[i].kind = budgetKinds[i]
	}
	if b.edgeID != "" {
		a.edgeID = b.edgeID
	}
	used := b.used(b.id, now)[period]
	next.spent = used.Spend
	a.keyCells.cells[tokenCellIndex].charged, a.keyCells.cells[spendCellIndex].charged = used.Tokens, toMillionths(used.Spend)
	b.previous[period], b.current[period] = p, next
	return next
}

// periodByNumber returns the budget for the period with the given number, or nil if that period
// ended too long ago.
func (b *keyBudget) periodByNumber(period int, number int64) *periodBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range []*periodBudget{b.current[period], b.previous[period]} {
		if p != nil && p.periodNumber == number {
			return p
		}
	}
	return nil
}

// toMillionths converts an amount to millionths and rounds up. Without rounding up, each edge could
// exceed the limit by a fraction of a millionth.
func toMillionths(a money.Amount) int64 {
	if a.Picos > 0 {
		return a.Micros + 1
	}
	return a.Micros
}

func costAmounts(c limit.Cost) cellAmounts {
	return cellAmounts{tokenCellIndex: c.Tokens, spendCellIndex: toMillionths(c.Spend)}
}

func (b *keyBudget) ReserveUsage(l *config.KeyLimits, expected, least limit.Cost, now time.Time) (held limit.BudgetReservation, d limit.Decision) {
	for period := range b.current {
		of := limit.PeriodBudget(l, period)
		if of.Tokens == 0 && of.Spend.Zero() {
			continue
		}
		p, n := b.currentPeriod(period, now), limit.CappedCost(expected, least, of)
		notTaken := period + 1 // accounts from this period on have not been asked
		if exceeded := findExceededCell(costAmounts(n), costAmounts(of)); exceeded >= 0 && !b.AllowsOverrun(period, now) {
			d, notTaken = limit.Decision{LimitName: budgetLimitNames[period][exceeded]}, period
		} else if d = p.account.takeCallAmounts(costAmounts(of), costAmounts(n), now); d.OK {
			held.At[period], held.In[period] = p.periodNumber, n
			continue
		}
		b.Settle(held, limit.Cost{}, now)
		b.reportAccounts(l, notTaken, now)
		if d.Unavailable {
			return limit.BudgetReservation{}, d
		}
		refused := p.account.budgetRefusal(costAmounts(of), costAmounts(n))
		refused.Budget, refused.Expected = of, expected
		return limit.BudgetReservation{}, limit.RefusalDecision(period, d.LimitName == budgetLimitNames[period][spendCellIndex], refused, now)
	}
	return held, allowedDecision
}

// findExceededCell returns the index of the first cell whose budget is smaller than a call needs,
// or -1.
func findExceededCell(needed, budget cellAmounts) int {
	for i := range needed {
		if budget[i] > 0 && needed[i] > budget[i] {
			return i
		}
	}
	return -1
}

// reportAccounts makes the accounts of some periods report to the store: the period with the index
// from, and all longer periods. A rejected call has not used these accounts, but a new process may
// still have to report the usage of the previous process.
func (b *keyBudget) reportAccounts(l *config.KeyLimits, from int, now time.Time) {
	for period := from; period < limit.PeriodCount; period++ {
		if of := limit.PeriodBudget(l, period); of.Tokens > 0 || !of.Spend.Zero() {
			a := b.currentPeriod(period, now).account
			a.mu.Lock()
			a.keyCells.applyLimits(costAmounts(of))
			a.queueReport()
			a.mu.Unlock()
		}
	}
}

// budgetRefusal describes why a budget rejects a call:
//
//   - the usage of the entire fleet, as far as this edge knows;
//   - whether the call would be admitted if all running calls ended without using anything
//     (OnlyReserved);
//   - if this edge may grant only a share of the remaining budget, the share (Part), and how long
//     this restriction lasts (Wait).
func (a *keyAccount) budgetRefusal(limits, n cellAmounts) limit.BudgetRefusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, used, now := limit.BudgetRefusal{OnlyReserved: true}, cellAmounts{}, a.edgeState.now()
	var parts cellAmounts
	for i := range a.keyCells.cells {
		c := &a.keyCells.cells[i]
		used[i] = c.fleetUsage()
		if limits[i] > 0 && n[i] > 0 && used[i]+n[i] > limits[i] {
			r.OnlyReserved = false
		}
		switch {
		case limits[i] == 0 || n[i] == 0:
		case a.keyCells.isOffline:
			parts[i], r.SharedBlindly = max(int64(c.offlineAmount), 0), true
		case c.isWithheld(n[i], now, a.edgeState.edgeCount()):
			parts[i], r.SharedBlindly, r.Wait = max(int64(c.doubtShare), 0), true, max(r.Wait, c.doubtEnd-now)
		default:
			parts[i] = max(limits[i]-used[i], 0)
		}
	}
	r.Used, r.Part = amountsCost(used), amountsCost(parts)
	return r
}

func amountsCost(n cellAmounts) limit.Cost {
	return limit.Cost{Tokens: n[tokenCellIndex], Spend: money.Amount{Micros: n[spendCellIndex]}}
}

// Used implements limit.UsageBudget. It returns the usage of the entire fleet, as far as this edge
// knows.
func (b *keyBudget) Used(period int, now time.Time) limit.Cost {
	a := b.currentPeriod(period, now).account
	a.mu.Lock()
	defer a.mu.Unlock()
	var used cellAmounts
	for i := range a.keyCells.cells {
		used[i] = a.keyCells.cells[i].fleetUsage()
	}
	return amountsCost(used)
}

// AllowsOverrun implements limit.UsageBudget.
func (b *keyBudget) AllowsOverrun(period int, now time.Time) bool {
	a := b.currentPeriod(period, now).account
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isFailOpen()
}

// fleetUsage returns how much of the budget all edges have used, as far as this edge knows.
func (c *limitCell) fleetUsage() int64 { return max(int64(c.fleetDebt), c.charged) }

// Settle implements limit.UsageBudget. A call's usage counts in the period in which the call ends.
func (b *keyBudget) Settle(held limit.BudgetReservation, used limit.Cost, now time.Time) {
	for period, number := range held.At {
		if number == 0 {
			continue
		}
		if from := b.periodByNumber(period, number); from != nil {
			from.account.settle(costAmounts(held.In[period]), cellAmounts{})
		}
		if used != (limit.Cost{}) {
			b.currentPeriod(period, now).charge(used)
		}
	}
}

func (p *periodBudget) charge(used limit.Cost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := toMillionths(p.spent)
	p.spent = p.spent.Plus(used.Spend)
	p.account.settle(cellAmounts{}, cellAmounts{tokenCellIndex: used.Tokens, spendCellIndex: toMillionths(p.spent) - before})
}
