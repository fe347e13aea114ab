package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// What usage keeps: as many pairs of a key and a model as usagePairs, each with its last usageDays
// days. What does not fit is booked under usageOther, so that the sums stay right.
const (
	usagePairs = 10_000
	usageDays  = 31
	usageOther = "(other)"
)

// Usage counts calls and tokens by key and model, since the start and by day (UTC), for chargeback.
// Its methods may be called from any goroutine.
type Usage struct {
	mu    sync.Mutex // held to add a pair
	pairs table[usagePair, *usageCell]
}

type usagePair struct{ key, model string }

type usageCell struct {
	mu    sync.Mutex
	total Amount
	days  []usageDay // ascending
}

type usageDay struct {
	day int64 // since 1970
	Amount
}

// Amount is what was used.
type Amount struct {
	Calls      uint64 `json:"calls"`
	Prompt     uint64 `json:"prompt_tokens"`
	Cached     uint64 `json:"cached_tokens"` // of prompt_tokens
	Completion uint64 `json:"completion_tokens"`
	Estimated  uint64 `json:"estimated_calls"` // calls whose tokens the engine did not report
}

func (a *Amount) add(b Amount) {
	a.Calls += b.Calls
	a.Prompt += b.Prompt
	a.Cached += b.Cached
	a.Completion += b.Completion
	a.Estimated += b.Estimated
}

// add books a call that an engine worked on. Refusals are nobody's usage.
func (u *Usage) add(r *Record, now time.Time) {
	if r.Model == "" || r.Attempts == 0 {
		return
	}
	a := Amount{
		Calls: 1, Prompt: uint64(max(0, r.PromptTokens)), Cached: uint64(max(0, r.CachedTokens)),
		Completion: uint64(max(0, r.CompletionTokens)),
	}
	if r.TokensEstimated {
		a.Estimated = 1
	}
	u.cell(usagePair{r.Key, r.Model}).add(a, now.Unix()/(24*3600))
}

func (u *Usage) cell(p usagePair) *usageCell {
	if c, ok := u.pairs.get(p); ok {
		return c
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pairs.all()) >= usagePairs {
		p = usagePair{usageOther, usageOther}
	}
	c, ok := u.pairs.get(p)
	if !ok {
		c = new(usageCell)
		u.pairs.change(func(all map[usagePair]*usageCell) { all[p] = c })
	}
	return c
}

func (c *usageCell) add(a Amount, day int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.add(a)
	if n := len(c.days); n == 0 || c.days[n-1].day < day {
		if n == usageDays {
			c.days = slices.Delete(c.days, 0, 1)
		}
		c.days = append(c.days, usageDay{day: day})
	}
	c.days[len(c.days)-1].Amount.add(a) // a clock that was set back books on the newest day
}

// UsageReport is the whole account.
type UsageReport struct {
	Since time.Time  `json:"since"`
	Now   time.Time  `json:"now"`
	Total Amount     `json:"total"`
	Keys  []KeyUsage `json:"keys"`
}

// KeyUsage is the account of one key.
type KeyUsage struct {
	Key    string       `json:"key"` // its id; empty where no key is asked for
	Total  Amount       `json:"total"`
	Models []ModelUsage `json:"models"`
}

// ModelUsage is what one key used of one model.
type ModelUsage struct {
	Model string `json:"model"`
	Total Amount `json:"total"`
	Days  []Day  `json:"days"` // oldest first, days without calls left out, 31 at most
}

// Day is what was used on one day, in UTC.
type Day struct {
	Day string `json:"day"` // 2026-01-31
	Amount
}

// Report returns the account, ordered by key and model.
func (u *Usage) Report(since, now time.Time) *UsageReport {
	out := &UsageReport{Since: since, Now: now, Keys: []KeyUsage{}}
	for p, c := range u.pairs.all() {
		at := slices.IndexFunc(out.Keys, func(k KeyUsage) bool { return k.Key == p.key })
		if at < 0 {
			out.Keys = append(out.Keys, KeyUsage{Key: p.key})
			at = len(out.Keys) - 1
		}
		k, m := &out.Keys[at], c.read(p.model)
		k.Models = append(k.Models, m)
		k.Total.add(m.Total)
		out.Total.add(m.Total)
	}
	slices.SortFunc(out.Keys, func(a, b KeyUsage) int { return cmp.Compare(a.Key, b.Key) })
	for i := range out.Keys {
		slices.SortFunc(out.Keys[i].Models, func(a, b ModelUsage) int { return cmp.Compare(a.Model, b.Model) })
	}
	return out
}

func (c *usageCell) read(model string) ModelUsage {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := ModelUsage{Model: model, Total: c.total}
	for _, d := range c.days {
		m.Days = append(m.Days, Day{time.Unix(d.day*24*3600, 0).UTC().Format(time.DateOnly), d.Amount})
	}
	return m
}
