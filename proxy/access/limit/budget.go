package limit

import (
	"strconv"
	"sync"
	"time"

	"penstock/config"
	"penstock/config/money"
)

// Cost is a number of tokens and their price.
type Cost struct {
	Tokens int64
	Spend  money.Amount
}

// Plus returns the sum of c and d.
func (c Cost) Plus(d Cost) Cost { return Cost{c.Tokens + d.Tokens, c.Spend.Plus(d.Spend)} }

func (c Cost) minus(d Cost) Cost { return Cost{c.Tokens - d.Tokens, c.Spend.Minus(d.Spend)} }

// UsageBudget counts the usage of a key per day and per month, in UTC. It also counts the expected
// usage of running calls. The limits may change with each call. Its methods may be called by
// multiple goroutines.
type UsageBudget interface {
	// ReserveUsage reserves the expected usage of a call (see CappedCost). The caller must pass held
	// to Settle.
	ReserveUsage(l *config.KeyLimits, expected, least Cost, now time.Time) (held BudgetReservation, d Decision)
	// Settle charges the usage of a call instead of the reserved amount.
	Settle(held BudgetReservation, used Cost, now time.Time)
	// Used returns the known usage in a period, excluding the reservations of running calls.
	Used(period int, now time.Time) Cost
	// AllowsOverrun reports whether running calls may continue regardless of the usage in a period.
	AllowsOverrun(period int, now time.Time) bool
}

// BudgetReservation is the amount that a call has reserved from a budget.
type BudgetReservation struct {
	In [PeriodCount]Cost
	// At contains the number of each period. 0 means that nothing is reserved from a budget of this
	// kind.
	At [PeriodCount]int64
}

// These are the kinds of periods that a budget may have.
const (
	PeriodDay = iota
	PeriodMonth
	PeriodCount
)

// PeriodNumber returns the number of the period that contains now, and when the next period starts.
func PeriodNumber(period int, now time.Time) (number int64, renews time.Time) {
	now = now.UTC()
	y, m, d := now.Date()
	if period == PeriodMonth {
		return int64(y)*12 + int64(m), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	}
	renews = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	return renews.Unix() / (24 * 3600), renews
}

// PeriodBudget returns the budgets for a kind of period; zero means no budget.
func PeriodBudget(l *config.KeyLimits, period int) Cost {
	if period == PeriodMonth {
		return Cost{int64(l.TokensPerMonth), l.SpendPerMonth}
	}
	return Cost{int64(l.TokensPerDay), l.SpendPerDay}
}

// UsageFunc returns how much a key has used in the current day and the current month.
type UsageFunc func(id string, now time.Time) [PeriodCount]Cost

type localBudget struct {
	mu            sync.Mutex
	reserved      Cost
	used          [PeriodCount]Cost
	periodNumbers [PeriodCount]int64
}

func newLocalBudget(used [PeriodCount]Cost, now time.Time) *localBudget {
	b := &localBudget{used: used}
	for p := range b.periodNumbers {
		b.periodNumbers[p], _ = PeriodNumber(p, now)
	}
	return b
}

// rollOver starts new periods if the time has come. If the clock was set back, the period does not
// change.
func (b *localBudget) rollOver(now time.Time) {
	for p := range b.periodNumbers {
		if at, _ := PeriodNumber(p, now); at > b.periodNumbers[p] {
			b.periodNumbers[p], b.used[p] = at, Cost{}
		}
	}
}

func (b *localBudget) ReserveUsage(l *config.KeyLimits, expected, least Cost, now time.Time) (held BudgetReservation, d Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollOver(now)
	for p := range b.used {
		budget := PeriodBudget(l, p)
		needed := CappedCost(expected, least, budget)
		tokens := exceedsTokenBudget(b.used[p].Tokens, b.reserved.Tokens, needed.Tokens, budget.Tokens)
		if tokens || exceedsSpend(b.used[p].Spend, b.reserved.Spend, needed.Spend, budget.Spend) {
			refusal := BudgetRefusal{Budget: budget, Used: b.used[p], Expected: expected, OnlyReserved: b.fitsWhenIdle(p, budget, needed)}
			return held, RefusalDecision(p, !tokens, refusal, now)
		}
	}
	b.reserved = b.reserved.Plus(expected)
	return BudgetReservation{In: [PeriodCount]Cost{PeriodDay: expected}}, decisionAllowed
}

// fitsWhenIdle reports whether the call would be admitted if all running calls ended without using
// anything.
func (b *localBudget) fitsWhenIdle(p int, budget, needed Cost) bool {
	return !exceedsTokenBudget(b.used[p].Tokens, 0, needed.Tokens, budget.Tokens) &&
		!exceedsSpend(b.used[p].Spend, money.Amount{}, needed.Spend, budget.Spend)
}

// exceedsTokenBudget reports whether a call exceeds a budget; zero means no budget.
func exceedsTokenBudget(used, held, needed, budget int64) bool {
	return budget > 0 && (used >= budget || used+held+needed > budget)
}

func exceedsSpend(used, held, needed, budget money.Amount) bool {
	return !budget.Zero() && (!used.Less(budget) || budget.Less(used.Plus(held).Plus(needed)))
}

// CappedCost returns the amount that a call needs from a budget. Usually, this is the expected cost.
// If the expected cost exceeds the entire budget, an unused budget is enough, unless it does not
// even cover least.
func CappedCost(expected, least, budget Cost) Cost {
	if budget.Tokens > 0 {
		expected.Tokens = min(expected.Tokens, max(least.Tokens, budget.Tokens))
	}
	most := budget.Spend
	if most.Less(least.Spend) {
		most = least.Spend
	}
	if !budget.Spend.Zero() && most.Less(expected.Spend) {
		expected.Spend = most
	}
	return expected
}

func (b *localBudget) Settle(held BudgetReservation, used Cost, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollOver(now)
	b.reserved = b.reserved.minus(held.In[PeriodDay])
	for p := range b.used {
		b.used[p] = b.used[p].Plus(used)
	}
}

func (b *localBudget) Used(period int, now time.Time) Cost {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollOver(now)
	return b.used[period]
}

func (b *localBudget) AllowsOverrun(int, time.Time) bool { return false }

func (b *localBudget) addUsage(used [PeriodCount]Cost, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollOver(now)
	for p := range b.used {
		b.used[p] = b.used[p].Plus(used[p])
	}
}

// BudgetRefusal describes why a budget rejects a call.
type BudgetRefusal struct {
	Budget, Used, Expected Cost
	// OnlyReserved is true if the missing amount is only reserved by running calls. They may use
	// less, so the amount may become free.
	OnlyReserved bool

	// SharedBlindly is true if this edge may grant only Part of the remaining budget, because it
	// does not know the usage at the other edges yet. Wait is how long this restriction will last,
	// if known.
	SharedBlindly bool
	Part          Cost
	Wait          time.Duration
}

// RefusalDecision returns the Decision for a call that a budget rejects. spend is true for a budget
// of money, and false for a budget of tokens.
func RefusalDecision(period int, spend bool, r BudgetRefusal, now time.Time) Decision {
	_, renews := PeriodNumber(period, now)
	d := Decision{RetryAfter: max(renews.Sub(now), time.Second), Limit: r.Budget.Tokens}
	if r.OnlyReserved {
		d.RetryAfter = max(r.Wait, concurrencyRetry)
	}
	text := func(c Cost) string { return strconv.FormatInt(c.Tokens, 10) }
	d.LimitName = [PeriodCount]string{TokensPerDay, TokensPerMonth}[period]
	left := r.Used.Tokens < r.Budget.Tokens
	if spend {
		text = func(c Cost) string { return c.Spend.String() }
		d.LimitName, d.Limit = [PeriodCount]string{SpendPerDay, SpendPerMonth}[period], 0
		left = r.Used.Spend.Less(r.Budget.Spend)
	}
	q := &Quota{Limit: text(r.Budget), Used: text(r.Used), OnlyReserved: r.OnlyReserved, Renews: renews}
	if left {
		q.Remaining, q.Needed = text(r.Budget.minus(r.Used)), text(r.Expected)
		if r.SharedBlindly && r.OnlyReserved {
			q.Grantable = text(r.Part)
		}
	}
	d.Quota = q
	return d
}
