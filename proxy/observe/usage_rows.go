package observe

import (
	"slices"
	"time"
)

// UsageRow is what a key used of a model on one day, all of it: who has read a newer row of a day
// needs no older one.
type UsageRow struct {
	Key, Model string
	Day        int64 // since 1970, in UTC; DayBefore: all days that are not kept one by one
	Amount
}

// DayBefore is the day of the sum of all days that usage does not keep one by one.
const DayBefore = 0

// DayOf returns the day of a time, in UTC.
func DayOf(t time.Time) int64 { return t.Unix() / (24 * 3600) }

// FormatDay writes a day as 2026-01-31.
func FormatDay(day int64) string { return time.Unix(day*24*3600, 0).UTC().Format(time.DateOnly) }

// ParseDay reads what FormatDay writes.
func ParseDay(s string) (int64, error) {
	t, err := time.Parse(time.DateOnly, s)
	return DayOf(t), err
}

// Changed calls f with the rows that have changed since the last Changed. One goroutine may use it.
func (u *Usage) Changed(f func(UsageRow)) {
	for p, c := range u.pairs.all() {
		c.mu.Lock()
		if c.changed {
			c.changed = false
			for i := range c.days {
				if d := &c.days[i]; d.changed {
					d.changed = false
					f(UsageRow{p.key, p.model, d.day, d.Amount})
				}
			}
		}
		c.mu.Unlock()
	}
}

// Rows calls f with all rows there are.
func (u *Usage) Rows(f func(UsageRow)) {
	for p, c := range u.pairs.all() {
		c.mu.Lock()
		before := c.total
		for i := range c.days {
			f(UsageRow{p.key, p.model, c.days[i].day, c.days[i].Amount})
			before.sub(c.days[i].Amount)
		}
		if before != (Amount{}) {
			f(UsageRow{p.key, p.model, DayBefore, before})
		}
		c.mu.Unlock()
	}
}

// Restore adds what was used before, since that time. It may come while calls are counted.
func (u *Usage) Restore(since time.Time, rows []UsageRow) {
	u.mu.Lock()
	if u.since.IsZero() || since.Before(u.since) {
		u.since = since
	}
	u.mu.Unlock()
	for i := range rows {
		u.cell(usagePair{rows[i].Key, rows[i].Model}).restore(rows[i].Day, rows[i].Amount)
	}
}

// Since returns when the account was begun, zero where nothing was restored.
func (u *Usage) Since() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since
}

func (c *usageCell) restore(day int64, a Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(a)
	if day == DayBefore {
		return
	}
	at, found := slices.BinarySearchFunc(c.days, day, func(d usageDay, day int64) int { return int(d.day - day) })
	if !found {
		c.days = slices.Insert(c.days, at, usageDay{day: day})
	}
	d := &c.days[at]
	d.Amount.Add(a)
	c.changed, d.changed = true, true
	if len(c.days) > UsageDays {
		c.days = slices.Delete(c.days, 0, len(c.days)-UsageDays)
	}
}

// Of returns what a key used of all models from one day to another, both included.
func (u *Usage) Of(key string, from, to int64) (sum Amount) {
	for p, c := range u.pairs.all() {
		if p.key != key {
			continue
		}
		c.mu.Lock()
		for i := range c.days {
			if d := &c.days[i]; d.day >= from && d.day <= to {
				sum.Add(d.Amount)
			}
		}
		c.mu.Unlock()
	}
	return sum
}

// sub takes b away, which is a part of a.
func (a *Amount) sub(b Amount) {
	a.Calls -= b.Calls
	a.Prompt -= b.Prompt
	a.Cached -= b.Cached
	a.Completion -= b.Completion
	a.Estimated -= b.Estimated
	a.Spend = a.Spend.Minus(b.Spend)
}
