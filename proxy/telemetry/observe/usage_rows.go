package observe

import (
	"slices"
	"time"
)

// UsageRow is a key's usage of one model on one day, or the usage of one of its end users on one
// day. A newer row replaces all older rows with the same key, model, user and day.
type UsageRow struct {
	Key, Model string
	// A keyed hash; if set, the row has no model, and the key's rows with a model include this
	// usage.
	User string
	Day  int64 // days since 1970, in UTC; OlderDays for the sum of all days not stored individually
	UsageAmount
}

// EachChanged calls f with the rows that have changed since its last call. EachChanged must not be
// called concurrently.
func (u *Usage) EachChanged(f func(UsageRow)) {
	for p, c := range u.accounts.all() {
		c.mu.Lock()
		if c.changed {
			c.changed = false
			c.eachChangedDay(func(d *usageDay) { f(p.usageRow(d.day, d.UsageAmount)) })
		}
		c.mu.Unlock()
	}
	u.users.eachChanged(f)
}

func (p usagePair) usageRow(day int64, a UsageAmount) UsageRow {
	return UsageRow{Key: p.key, Model: p.model, Day: day, UsageAmount: a}
}

// eachChangedDay calls f with the days that have changed. The caller must prevent concurrent use.
func (c *usageAccount) eachChangedDay(f func(*usageDay)) {
	for i := range c.days {
		if d := &c.days[i]; d.changed {
			d.changed = false
			f(d)
		}
	}
}

// EachRow calls f with all rows.
func (u *Usage) EachRow(f func(UsageRow)) {
	for p, c := range u.accounts.all() {
		c.mu.Lock()
		before := c.total
		for i := range c.days {
			f(p.usageRow(c.days[i].day, c.days[i].UsageAmount))
			before.subtract(c.days[i].UsageAmount)
		}
		if before != (UsageAmount{}) {
			f(p.usageRow(OlderDays, before))
		}
		c.mu.Unlock()
	}
	u.users.eachRow(f)
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
			u.account(usagePair{rows[i].Key, rows[i].Model}).restoreDay(rows[i].Day, rows[i].UsageAmount)
		}
	}
	u.users.restore(rows)
}

// Since returns the time at which counting of the restored usage started, or the zero time.
func (u *Usage) Since() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since
}

func (c *usageAccount) restoreDay(day int64, a UsageAmount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(a)
	if day == OlderDays {
		return
	}
	at, found := slices.BinarySearchFunc(c.days, day, func(d usageDay, day int64) int { return int(d.day - day) })
	if !found {
		c.days = slices.Insert(c.days, at, usageDay{day: day})
	}
	d := &c.days[at]
	d.UsageAmount.Add(a)
	c.changed, d.changed = true, true
	if len(c.days) > UsageDays {
		c.days = slices.Delete(c.days, 0, len(c.days)-UsageDays)
	}
}

// UsageBetween returns a key's usage of all models between two days (inclusive).
func (u *Usage) UsageBetween(key string, from, to int64) (sum UsageAmount) {
	for p, c := range u.accounts.all() {
		if p.key != key {
			continue
		}
		c.mu.Lock()
		for i := range c.days {
			if d := &c.days[i]; d.day >= from && d.day <= to {
				sum.Add(d.UsageAmount)
			}
		}
		c.mu.Unlock()
	}
	return sum
}

// DayUsage returns the usage of all models on a day, by key id.
func (u *Usage) DayUsage(day int64) map[string]UsageAmount {
	out := map[string]UsageAmount{}
	for p, c := range u.accounts.all() {
		c.mu.Lock()
		for i := len(c.days) - 1; i >= 0 && c.days[i].day >= day; i-- {
			if d := &c.days[i]; d.day == day {
				sum := out[p.key]
				sum.Add(d.UsageAmount)
				out[p.key] = sum
			}
		}
		c.mu.Unlock()
	}
	return out
}

// subtract subtracts b, which must be included in a.
func (a *UsageAmount) subtract(b UsageAmount) {
	a.Calls -= b.Calls
	a.Prompt -= b.Prompt
	a.Cached -= b.Cached
	a.Completion -= b.Completion
	a.Estimated -= b.Estimated
	a.Spend = a.Spend.Minus(b.Spend)
}
