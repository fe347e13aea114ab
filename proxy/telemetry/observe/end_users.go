package observe

import (
	"cmp"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// EndUserHash is a keyed hash that identifies a user of an application. The application owns the API
// key. The zero value means no user.
type EndUserHash [16]byte

// String returns the hash in hexadecimal digits.
func (u EndUserHash) String() string { return hex.EncodeToString(u[:]) }

// maxListedUsers limits the users in reports to those with the highest usage.
const maxListedUsers = 1000

// endUsers contains the accounts of end users. A key's account includes the accounts of its end
// users. Usage of unlisted users is reported as "all others".
//
// endUsers also counts unlisted users, up to as many as there are listed users. If an unlisted user
// has more usage than the last listed user, the two change places. A client that invents a name for
// each call therefore cannot displace users who have more usage than a single call.
type endUsers struct {
	mu       sync.Mutex
	accounts map[endUserKey]*endUserAccount
	today    int64 // the newest day with usage
}

type endUserKey struct{ key, user string }

type endUserAccount struct {
	usageAccount
	listed bool
}

func (e *endUsers) addUsage(of endUserKey, a UsageAmount, day int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.account(of, day)
	c.dropDaysThrough(e.today - UsageDays)
	c.restoreDay(day, a) // the day of the key's account, even if the user's newest day differs
	if len(e.accounts) >= 2*maxListedUsers {
		e.selectListed()
	}
}

// account returns the account of an end user. The caller must hold mu.
func (e *endUsers) account(of endUserKey, day int64) *endUserAccount {
	if e.accounts == nil {
		e.accounts = map[endUserKey]*endUserAccount{}
	}
	e.today = max(e.today, day)
	c := e.accounts[of]
	if c == nil {
		c = &endUserAccount{listed: len(e.accounts) < maxListedUsers}
		e.accounts[of] = c
	}
	return c
}

// selectListed selects the users to list. If there are too many unlisted users, it drops some. The
// caller must hold mu.
func (e *endUsers) selectListed() {
	type place struct {
		of endUserKey
		*endUserAccount
	}
	places := make([]place, 0, len(e.accounts))
	for of, c := range e.accounts {
		if c.dropDaysThrough(e.today - UsageDays); len(c.days) == 0 {
			delete(e.accounts, of)
			continue
		}
		places = append(places, place{of, c})
	}
	slices.SortFunc(places, func(a, b place) int {
		used := cmp.Or(cmp.Compare(b.total.Tokens(), a.total.Tokens()), cmp.Compare(b.total.Calls, a.total.Calls))
		switch {
		case used == 0 && a.listed != b.listed && a.listed:
			return -1
		case used == 0 && a.listed != b.listed:
			return 1
		}
		return cmp.Or(used, cmp.Compare(a.of.key, b.of.key), cmp.Compare(a.of.user, b.of.user))
	})
	for i, p := range places {
		listed := i < maxListedUsers
		if listed && !p.listed {
			p.markChanged()
		}
		if p.listed = listed; !listed && len(places) >= 2*maxListedUsers {
			delete(e.accounts, p.of)
		}
	}
}

func (c *endUserAccount) dropDaysThrough(day int64) {
	for len(c.days) > 0 && c.days[0].day <= day {
		c.total.subtract(c.days[0].UsageAmount)
		c.days = slices.Delete(c.days, 0, 1)
	}
}

func (c *endUserAccount) markChanged() {
	c.changed = true
	for i := range c.days {
		c.days[i].changed = true
	}
}

func (e *endUsers) eachChanged(f func(UsageRow)) {
	e.eachListed(func(of endUserKey, c *endUserAccount) {
		if c.changed {
			c.changed = false
			c.eachChangedDay(func(d *usageDay) { f(of.usageRow(d)) })
		}
	})
}

func (e *endUsers) eachRow(f func(UsageRow)) {
	e.eachListed(func(of endUserKey, c *endUserAccount) {
		for i := range c.days {
			f(of.usageRow(&c.days[i]))
		}
	})
}

func (e *endUsers) eachListed(f func(endUserKey, *endUserAccount)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.accounts) > 0 {
		e.selectListed()
	}
	for of, c := range e.accounts {
		if c.listed {
			f(of, c)
		}
	}
}

func (of endUserKey) usageRow(d *usageDay) UsageRow {
	return UsageRow{Key: of.key, User: of.user, Day: d.day, UsageAmount: d.UsageAmount}
}

func (e *endUsers) restore(rows []UsageRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range rows {
		if rows[i].User != "" {
			e.today = max(e.today, rows[i].Day)
		}
	}
	for i := range rows {
		if r := &rows[i]; r.User != "" && r.Day > e.today-UsageDays {
			e.account(endUserKey{r.Key, r.User}, r.Day).restoreDay(r.Day, r.UsageAmount)
		}
	}
	e.selectListed()
}

// UserUsage is the usage of one of a key's end users, for all models.
type UserUsage struct {
	User  string      `json:"user"` // a keyed hash; empty for all unlisted users and for calls without a user
	Total UsageAmount `json:"total"`
	Days  []DayUsage  `json:"days"`
}

// ReportUsers returns the usage by key and end user. The last row of each key is the sum of all
// unlisted users, so that the totals are the same as those of Report.
func (u *Usage) ReportUsers(since, now time.Time) *UsageReport {
	users := map[string][]UserUsage{}
	// Read the users before the keys, so that the keys include all of this usage.
	u.users.eachListed(func(of endUserKey, c *endUserAccount) {
		m := c.modelUsage("")
		users[of.key] = append(users[of.key], UserUsage{of.user, m.Total, m.Days})
	})
	out := u.Report(since, now)
	for i := range out.Keys {
		k := &out.Keys[i]
		k.Users = users[k.Key]
		slices.SortFunc(k.Users, func(a, b UserUsage) int { return cmp.Compare(a.User, b.User) })
		if o := k.unlistedUserUsage(); o.Total != (UsageAmount{}) {
			k.Users = append(k.Users, o)
		}
		k.Models = nil
	}
	return out
}

// unlistedUserUsage returns the part of a key's usage that belongs to no listed end user.
func (k *KeyUsage) unlistedUserUsage() (o UserUsage) {
	o.Total, o.Days = k.Total, []DayUsage{}
	days := map[string]UsageAmount{}
	for _, m := range k.Models {
		for _, d := range m.Days {
			sum := days[d.Day]
			sum.Add(d.UsageAmount)
			days[d.Day] = sum
		}
	}
	for _, u := range k.Users {
		o.Total.subClamped(u.Total)
		for _, d := range u.Days {
			rest := days[d.Day]
			rest.subClamped(d.UsageAmount)
			days[d.Day] = rest
		}
	}
	for day, a := range days {
		if a != (UsageAmount{}) {
			o.Days = append(o.Days, DayUsage{day, a})
		}
	}
	slices.SortFunc(o.Days, func(a, b DayUsage) int { return cmp.Compare(a.Day, b.Day) })
	return o
}

// ExcessOver returns by how much a exceeds b. No number in the result is negative.
func (a UsageAmount) ExcessOver(b UsageAmount) UsageAmount {
	a.subClamped(b)
	return a
}

// subClamped subtracts b. No number becomes negative, even if a ledger has lost a line of a.
func (a *UsageAmount) subClamped(b UsageAmount) {
	a.Calls -= min(a.Calls, b.Calls)
	a.Prompt -= min(a.Prompt, b.Prompt)
	a.Cached -= min(a.Cached, b.Cached)
	a.Completion -= min(a.Completion, b.Completion)
	a.Estimated -= min(a.Estimated, b.Estimated)
	if a.Spend.Less(b.Spend) {
		b.Spend = a.Spend
	}
	a.Spend = a.Spend.Minus(b.Spend)
}
