package observe

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"penstock/config/money"
)

// UsageDays is how many days Usage stores individually: the current and the previous month.
const UsageDays = 62

// maxUsagePairs is the maximum number of pairs of a key and a model. Further pairs are counted
// under otherUsageName, so that the sums are correct.
const (
	maxUsagePairs  = 10_000
	otherUsageName = "(other)"
)

// Usage counts calls and tokens by key and model, by key and end user, and by day (UTC). It is safe
// for concurrent use.
type Usage struct {
	mu       sync.Mutex // held to add a pair; guards since
	since    time.Time
	accounts copyOnWriteMap[usagePair, *usageAccount]
	users    endUsers

	unsaved atomic.Pointer[func() time.Duration]
}

type usagePair struct{ key, model string }

type usageAccount struct {
	mu      sync.Mutex
	total   UsageAmount
	changed bool       // whether one of the days has changed
	days    []usageDay // in ascending order
}

type usageDay struct {
	day     int64 // number of the day since 1970
	changed bool  // whether the day has changed since the last EachChanged
	UsageAmount
}

// OlderDays is the day in the row that contains the sum of all older days.
const OlderDays = 0

// DayOf returns the day of a time, in UTC.
func DayOf(t time.Time) int64 { return t.Unix() / (24 * 3600) }

// FormatDay formats a day as 2026-01-31.
func FormatDay(day int64) string { return time.Unix(day*24*3600, 0).UTC().Format(time.DateOnly) }

// ParseDay parses the output of FormatDay.
func ParseDay(s string) (int64, error) {
	t, err := time.Parse(time.DateOnly, s)
	return DayOf(t), err
}

// UsageAmount is an amount of usage.
type UsageAmount struct {
	Calls      uint64 `json:"calls"`
	Prompt     uint64 `json:"prompt_tokens"`
	Cached     uint64 `json:"cached_tokens"`
	Completion uint64 `json:"completion_tokens"`
	Estimated  uint64 `json:"estimated_calls"` // calls for which the engine did not report tokens
	// Spend is the cost according to the models' prices.
	Spend money.Amount `json:"spend,omitzero"`
}

// Tokens returns the tokens that budgets count.
func (a *UsageAmount) Tokens() int64 { return int64(a.Prompt + a.Completion) }

// Add adds b.
func (a *UsageAmount) Add(b UsageAmount) {
	a.Calls += b.Calls
	a.Prompt += b.Prompt
	a.Cached += b.Cached
	a.Completion += b.Completion
	a.Estimated += b.Estimated
	a.Spend = a.Spend.Plus(b.Spend)
}

// addCall counts a call if it reached an engine. A refusal is not usage.
func (u *Usage) addCall(r *Record, now time.Time) {
	if r.Model == "" || r.Attempts == 0 {
		return
	}
	a := UsageAmount{
		Calls: 1, Prompt: uint64(max(0, r.PromptTokens)), Cached: uint64(max(0, r.CachedTokens)),
		Completion: uint64(max(0, r.CompletionTokens)), Spend: r.Spend,
	}
	if r.TokensEstimated {
		a.Estimated = 1
	}
	day := u.account(usagePair{r.Key, r.Model}).addToDay(a, DayOf(now))
	if r.User != (EndUserHash{}) {
		u.users.addUsage(endUserKey{r.Key, r.User.String()}, a, day)
	}
}

func (u *Usage) account(p usagePair) *usageAccount {
	if c, ok := u.accounts.get(p); ok {
		return c
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.accounts.all()) >= maxUsagePairs {
		p = usagePair{otherUsageName, otherUsageName}
	}
	c, ok := u.accounts.get(p)
	if !ok {
		c = new(usageAccount)
		u.accounts.update(func(all map[usagePair]*usageAccount) { all[p] = c })
	}
	return c
}

// addToDay adds an amount to a day. It returns the day to which the amount was added.
func (c *usageAccount) addToDay(a UsageAmount, day int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(a)
	if n := len(c.days); n == 0 || c.days[n-1].day < day {
		if n == UsageDays {
			c.days = slices.Delete(c.days, 0, 1)
		}
		c.days = append(c.days, usageDay{day: day})
	}
	d := &c.days[len(c.days)-1] // the newest day, even if the clock has been set back
	d.UsageAmount.Add(a)
	c.changed, d.changed = true, true
	return d.day
}

// UsageReport contains the usage of all keys.
type UsageReport struct {
	Since time.Time   `json:"since"`
	Now   time.Time   `json:"now"`
	Total UsageAmount `json:"total"`
	Keys  []KeyUsage  `json:"keys"`
}

// KeyUsage is the usage of one key.
type KeyUsage struct {
	Key    string       `json:"key"` // id of the key; empty if no key is required
	Total  UsageAmount  `json:"total"`
	Models []ModelUsage `json:"models,omitempty"`
	Users  []UserUsage  `json:"users,omitempty"` // set instead of Models in a report by end user
}

// ModelUsage is the usage of one model by one key.
type ModelUsage struct {
	Model string      `json:"model"`
	Total UsageAmount `json:"total"`
	Days  []DayUsage  `json:"days"` // oldest first, at most 62; omits days without calls
}

// DayUsage is the usage on one day, in UTC.
type DayUsage struct {
	Day string `json:"day"` // 2026-01-31
	UsageAmount
}

// Report returns all usage, ordered by key and model. The report starts at since or, if the
// restored ledger starts earlier, at the start of the ledger.
func (u *Usage) Report(since, now time.Time) *UsageReport {
	u.mu.Lock()
	if !u.since.IsZero() && u.since.Before(since) {
		since = u.since
	}
	u.mu.Unlock()
	out := &UsageReport{Since: since, Now: now, Keys: []KeyUsage{}}
	for p, c := range u.accounts.all() {
		out.addModelUsage(p.key, c.modelUsage(p.model))
	}
	out.sort()
	return out
}

func (r *UsageReport) addModelUsage(key string, m ModelUsage) {
	k := r.addKeyUsage(key, m.Total)
	k.Models = append(k.Models, m)
}

func (r *UsageReport) addKeyUsage(key string, a UsageAmount) *KeyUsage {
	at := slices.IndexFunc(r.Keys, func(k KeyUsage) bool { return k.Key == key })
	if at < 0 {
		r.Keys = append(r.Keys, KeyUsage{Key: key})
		at = len(r.Keys) - 1
	}
	k := &r.Keys[at]
	k.Total.Add(a)
	r.Total.Add(a)
	return k
}

func (r *UsageReport) sort() {
	slices.SortFunc(r.Keys, func(a, b KeyUsage) int { return cmp.Compare(a.Key, b.Key) })
	for i := range r.Keys {
		slices.SortFunc(r.Keys[i].Models, func(a, b ModelUsage) int { return cmp.Compare(a.Model, b.Model) })
	}
}

func (c *usageAccount) modelUsage(model string) ModelUsage {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := ModelUsage{Model: model, Total: c.total}
	for _, d := range c.days {
		m.Days = append(m.Days, DayUsage{FormatDay(d.day), d.UsageAmount})
	}
	return m
}

// ForPeriod returns the report for one day (2026-01-31) or one month (2026-01).
func (r *UsageReport) ForPeriod(period string) *UsageReport {
	out := &UsageReport{Since: r.Since, Now: r.Now, Keys: []KeyUsage{}}
	for i := range r.Keys {
		for _, m := range r.Keys[i].Models {
			if days, sum := daysInPeriod(period, m.Days); days != nil {
				out.addModelUsage(r.Keys[i].Key, ModelUsage{m.Model, sum, days})
			}
		}
		for _, u := range r.Keys[i].Users {
			if days, sum := daysInPeriod(period, u.Days); days != nil {
				k := out.addKeyUsage(r.Keys[i].Key, sum)
				k.Users = append(k.Users, UserUsage{u.User, sum, days})
			}
		}
	}
	return out
}

func daysInPeriod(period string, all []DayUsage) (days []DayUsage, sum UsageAmount) {
	for _, d := range all {
		if strings.HasPrefix(d.Day, period) {
			days = append(days, d)
			sum.Add(d.UsageAmount)
		}
	}
	return days, sum
}

// SetUnsavedFunc sets a function that returns how long usage has been waiting for the disk.
func (u *Usage) SetUnsavedFunc(unsaved func() time.Duration) { u.unsaved.Store(&unsaved) }

// UnsavedTime returns how long usage has been waiting for the disk, or 0 if usage is not saved.
func (u *Usage) UnsavedTime() time.Duration {
	if f := u.unsaved.Load(); f != nil {
		return (*f)()
	}
	return 0
}
