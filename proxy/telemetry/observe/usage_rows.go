package observe

import (
	"slices"
	"time"
)

// UsageRow is a key's usage of one model on one day, or the usage of one of its end users on one
// day. A newer row replaces all older rows with the same key, model, user and day.
type UsageRow struct {
	Key, Model string
	User       string // a keyed hash; the row has no model, and the key's other rows include its usage
	Day        int64  // days since 1970, in UTC; DayBefore for the sum of all days that are not stored individually
	Amount
}

// Changed calls f with the rows that have changed since its last call. Changed must not be called
// concurrently.
func (u *Usage) Changed(f func(UsageRow)) {
	for p, c := range u.pairs.all() {
		c.mu.Lock()
		if c.changed {
			c.changed = false
			c.changedDays(func(d *usageDay) { f(p.row(d.day, d.Amount)) })
		}
		c.mu.Unlock()
	}
	u.users.changed(f)
}

func (p usagePair) row(day int64, a Amount) UsageRow {
	return UsageRow{Key: p.key, Model: p.model, Day: day, Amount: a}
}

// changedDays calls f with the days that have changed. The caller must prevent concurrent use.
func (c *usageCell) changedDays(f func(*usageDay)) {
	for i := range c.days {
		if d := &c.days[i]; d.changed {
			d.changed = false
			f(d)
		}
	}
}

// Rows calls f with all rows.
func (u *Usage) Rows(f func(UsageRow)) {
	for p, c := range u.pairs.all() {
		c.mu.Lock()
		before := c.total
		for i := range c.days {
			f(p.row(c.days[i].day, c.days[i].Amount))
			before.sub(c.days[i].Amount)
		}
		if before != (Amount{}) {
			f(p.row(DayBefore, before))
		}
		c.mu.Unlock()
	}
	u.users.rows(f)
}

// Restore adds usage that was counted since the given time. It may be called while calls are
// counted.
func (u *Usage) Restore(since time.Time, rows []UsageRow) {
	u.mu.Lock()
	if u.since.IsZero() || since.Before(u.since) {
		u.since = since
	}
	u.mu.Unlock()
	for i := range rows {
		if rows[i].User == "" {
			u.cell(usagePair{rows[i].Key, rows[i].Model}).restore(rows[i].Day, rows[i].Amount)
		}
	}
	u.users.restore(rows)
}

// Since returns the time since which the restored usage was counted, or the zero time.
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

// Of returns a key's usage of all models between two days (inclusive).
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

// Day returns the usage of all models on a day, by key id.
func (u *Usage) Day(day int64) map[string]Amount {
	out := map[string]Amount{}
	for p, c := range u.pairs.all() {
		c.mu.Lock()
		for i := len(c.days) - 1; i >= 0 && c.days[i].day >= day; i-- {
			if d := &c.days[i]; d.day == day {
				sum := out[p.key]
				sum.Add(d.Amount)
				out[p.key] = sum
			}
		}
		c.mu.Unlock()
	}
	return out
}

// sub subtracts b, which must be included in a.
func (a *Amount) sub(b Amount) {
	a.Calls -= b.Calls
	a.Prompt -= b.Prompt
	a.Cached -= b.Cached
	a.Completion -= b.Completion
	a.Estimated -= b.Estimated
	a.Spend = a.Spend.Minus(b.Spend)
}
