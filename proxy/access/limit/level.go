package limit

import (
	"math/bits"
	"time"

	"penstock/config/money"
)

// LimitLevel is the state of one per-minute limit.
type LimitLevel struct {
	Limit     int64
	Text      string // Limit in decimal, or empty
	Remaining int64
	Reset     time.Duration // time until Remaining equals Limit
}

// HasRateLimit reports whether the key or its group has a per-minute limit.
func (k *KeyLimiter) HasRateLimit() bool {
	return k.limits.RequestsPerMinute != 0 || k.limits.TokensPerMinute != 0 || k.group != nil && k.group.HasRateLimit()
}

// Group returns the KeyLimiter of the key's group, and the name of the group. If the key belongs to
// no group, of is nil.
func (k *KeyLimiter) Group() (of *KeyLimiter, name string) { return k.group, k.groupName }

// RequestsLeft returns the level of requests per minute for the key or its group, whichever has
// fewer requests remaining. ok is false if neither the key nor the group has this limit.
func (k *KeyLimiter) RequestsLeft(now time.Time) (LimitLevel, bool) {
	l, ok := k.RequestLevel(now)
	if k.group == nil {
		return l, ok
	}
	g, limited := k.group.RequestLevel(now)
	return lowerLevel(l, ok, g, limited)
}

// TokensLeft is RequestsLeft for tokens. It returns the level as if the call with the reservation r
// had ended and used the given number of tokens. r may be nil.
func (k *KeyLimiter) TokensLeft(r *Reservation, used int64, now time.Time) (LimitLevel, bool) {
	if r == nil {
		r = new(Reservation)
	}
	l, ok := k.tokenLevelAfterCall(&r.keyPart, used, now)
	if k.group == nil {
		return l, ok
	}
	g, limited := k.group.tokenLevelAfterCall(&r.groupPart, used, now)
	return lowerLevel(l, ok, g, limited)
}

func lowerLevel(own LimitLevel, ok bool, group LimitLevel, limited bool) (LimitLevel, bool) {
	if limited && (!ok || group.Remaining < own.Remaining) {
		return group, true
	}
	return own, ok
}

// ConcurrencyLimit returns how many concurrent calls the key may have; 0 means no limit.
func (k *KeyLimiter) ConcurrencyLimit() int { return k.limits.Concurrency }

// RequestLevel returns the level of requests per minute, or false if the key has no such limit.
func (k *KeyLimiter) RequestLevel(now time.Time) (LimitLevel, bool) {
	limit := int64(k.limits.RequestsPerMinute)
	if limit == 0 {
		return LimitLevel{}, false
	}
	if a := k.state.account; a != nil {
		l, _ := a.Levels(k.limits, now)
		return l, true
	}
	used := max(k.state.requests.tat.Load()-k.sinceEpoch(now), 0)
	l := LimitLevel{Limit: limit, Text: k.texts.requests, Remaining: limit, Reset: time.Duration(used)}
	if one := costNanos(1, limit); one > 0 { // costNanos rounds down, so all requests have the same cost
		l.Remaining = min(max(ratePeriod-used, 0)/one, limit)
	}
	return l, true
}

// TokenLevel returns the level of tokens per minute, or false if the key has no such limit.
// Reserved tokens count as used.
func (k *KeyLimiter) TokenLevel(now time.Time) (LimitLevel, bool) {
	return k.tokenLevelAfterCall(&reservedPart{}, 0, now)
}

// tokenLevelAfterCall returns the level of tokens per minute as if the call with the reservation h had
// ended and used the given number of tokens. If the key has a KeyAccount, tokenLevelAfterCall returns
// the current level.
func (k *KeyLimiter) tokenLevelAfterCall(h *reservedPart, used int64, now time.Time) (LimitLevel, bool) {
	limit := int64(k.limits.TokensPerMinute)
	if limit == 0 {
		return LimitLevel{}, false
	}
	if a := k.state.account; a != nil {
		_, l := a.Levels(k.limits, now)
		return l, true
	}
	due := k.state.tokens.used(k.sinceEpoch(now))
	if h.key == k {
		due += costNanos(used, limit) - h.heldNanos
	}
	remaining := affordableUnits(max(ratePeriod-due, 0), limit)
	return LimitLevel{Limit: limit, Text: k.texts.tokens, Remaining: remaining, Reset: time.Duration(due)}, true
}

// affordableUnits returns how many units cost no more than c, which is at most ratePeriod.
func affordableUnits(c, limit int64) int64 {
	// costNanos rounds n×ratePeriod/limit down, so n fits if n×ratePeriod < (c+1)×limit.
	hi, lo := bits.Mul64(uint64(c)+1, uint64(limit))
	n, rest := bits.Div64(hi, lo, uint64(ratePeriod))
	if rest == 0 {
		n--
	}
	return min(int64(n), limit)
}

// BudgetLevel is the state of one budget of tokens or money.
type BudgetLevel struct {
	Name        string // name of the limit, such as TokensPerDay
	Limit, Used Cost
	Spend       bool
	Renews      time.Time
}

// UsedFraction returns the used fraction of the budget.
func (l *BudgetLevel) UsedFraction() float64 {
	if l.Spend {
		return currencyUnits(l.Used.Spend) / currencyUnits(l.Limit.Spend)
	}
	return float64(l.Used.Tokens) / float64(l.Limit.Tokens)
}

func currencyUnits(a money.Amount) float64 { return float64(a.Micros) + float64(a.Picos)/1e6 }

// BudgetLevels returns the states of the key's budgets. Daily budgets come first.
func (k *KeyLimiter) BudgetLevels(now time.Time) (out []BudgetLevel) {
	if k.budget == nil {
		return nil
	}
	for period := range PeriodCount {
		of := PeriodBudget(&k.limits, period)
		if of.Tokens == 0 && of.Spend.Zero() {
			continue
		}
		_, renews := PeriodNumber(period, now)
		l := BudgetLevel{Limit: of, Used: k.budget.Used(period, now), Renews: renews}
		if of.Tokens > 0 {
			l.Name = [PeriodCount]string{TokensPerDay, TokensPerMonth}[period]
			out = append(out, l)
		}
		if !of.Spend.Zero() {
			l.Name, l.Spend = [PeriodCount]string{SpendPerDay, SpendPerMonth}[period], true
			out = append(out, l)
		}
	}
	return out
}
