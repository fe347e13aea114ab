package fleet

import (
	"context"
	"time"
)

// These constants determine when an edge reports its usage to the store. If less than half of the
// limit is free, it reports earlier, because other edges may be waiting for the remaining amount.
const (
	reportFar  = 500 * time.Millisecond
	reportNear = 50 * time.Millisecond
	// After this time, a report renews the lease of amounts reserved by calls.
	renewAfter  = 4 * time.Second
	reportTick  = 50 * time.Millisecond
	reportsMost = 100 // maximum number of reports per tick, which allows 2,000 per second
)

// queue queues the account if it has something to report. The caller must hold the account's mu.
func (a *account) queue() {
	at, something := a.nextReport()
	if something && (!a.queued || at <= a.terms.now()) {
		a.queued = true
		a.terms.report(a)
	}
}

func (f *Fleet) queue(a *account) {
	f.mu.Lock()
	f.reporting[a] = struct{}{}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// nextReport returns when the account must report its usage, return amounts, or renew its lease. If
// the account has nothing to report, something is false. The caller must hold mu.
func (a *account) nextReport() (at time.Duration, something bool) {
	add := func(t time.Duration) {
		if !something || t < at {
			at, something = t, true
		}
	}
	period := reportFar
	for i := range a.usage.cells {
		if c := &a.usage.cells[i]; c.limit > 0 && c.free < float64(c.limit)/2 {
			period = reportNear
		}
	}
	if a.turns != nil && a.turns.asked {
		add(a.sent + askAgain)
	}
	for i := range a.usage.cells {
		c := &a.usage.cells[i]
		target := spareTarget(a, c)
		switch {
		case c.limit == 0:
			continue
		// Without a report, the next calls would have to wait for the store.
		case c.far() && c.unclaimed() < target/2 && a.terms.now()-a.active < c.keep():
			add(a.sent)
		case c.unacked() != 0:
			add(a.sent + period)
		case c.unclaimed() > 2*target: // other edges may be waiting for the excess
			add(a.sent)
		case c.spare > 0:
			add(a.active + c.keep())
		case c.running > 0 && a.unheard:
			add(a.sent)
		}
		if c.running > 0 || c.spare > 0 {
			add(a.answered + renewAfter)
		}
	}
	return at, something
}

// remind makes every account report the amounts reserved by its calls, because the store has lost
// them.
func (f *Fleet) remind() {
	for _, a := range f.queuedAccounts() {
		a.mu.Lock()
		a.unheard = true
		a.mu.Unlock()
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Reports sends reports to the store until ctx is done. Before it returns, it gives all amounts
// granted to this edge back to the store.
func (f *Fleet) Reports(ctx context.Context) {
	tick := time.NewTicker(reportTick)
	defer tick.Stop()
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			f.giveBack()
			return
		}
		left := reportsMost
		for f.reportDue(f.terms.now(), &left) > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
				left = reportsMost
			case <-f.wake:
			case <-ctx.Done():
			}
		}
	}
}

func (f *Fleet) queuedAccounts() []*account {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*account, 0, len(f.reporting))
	for a := range f.reporting {
		all = append(all, a)
	}
	return all
}

func (f *Fleet) forget(a *account) {
	a.mu.Lock() // locked before f.mu, as in account.queue
	defer a.mu.Unlock()
	if !a.queued {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.reporting, a)
	}
}

// reportDue sends at most *left of the reports that are due. It returns how many accounts were
// queued.
func (f *Fleet) reportDue(now time.Duration, left *int) int {
	all := f.queuedAccounts()
	for _, a := range all {
		if *left == 0 || !f.terms.store.Available() {
			break
		}
		did, queued := a.reportIfDue(now)
		if did {
			*left--
		}
		if !queued {
			f.forget(a)
		}
	}
	return len(all)
}

// reportIfDue sends the account's report if it is due. queued is false if the account has nothing
// to report.
func (a *account) reportIfDue(now time.Duration) (sent, queued bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, something := a.nextReport()
	switch {
	case !something:
		a.queued = false
		return false, false
	case now < at || a.flying != nil || a.next != nil: // a call reports instead
		return false, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.terms.timeout)
	defer cancel()
	a.send(ctx, newFlight())
	if a.turns != nil && a.turns.asked && a.usage.cells[slots].free >= 1 {
		a.turns.wake()
	}
	return true, true
}

// giveBack makes every account return its unused amounts. It takes at most a second.
func (f *Fleet) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, a := range f.queuedAccounts() {
		if !f.terms.store.Available() || ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		if a.flying == nil {
			a.active = -time.Hour
			a.send(ctx, newFlight())
		}
		a.mu.Unlock()
	}
}
