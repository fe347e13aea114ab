package fleet

import (
	"context"
	"time"
)

// These constants determine when an edge reports its usage to the store. If less than half of the
// limit is free, the edge reports earlier, because other edges may be waiting for the remaining
// amount.
const (
	reportDelayFarFromLimit = 500 * time.Millisecond
	reportDelayNearLimit    = 50 * time.Millisecond
	// After this time, a report renews the lease of amounts reserved by calls.
	renewLeaseAfter   = 4 * time.Second
	reportInterval    = 50 * time.Millisecond
	maxReportsPerTick = 100 // maximum number of reports per tick; allows 2,000 reports per second
)

// queueReport queues the account if it has something to report. The caller must hold the account's
// mu.
func (a *keyAccount) queueReport() {
	at, something := a.nextReportTime()
	if something && (!a.reportQueued || at <= a.edgeState.now()) {
		a.reportQueued = true
		a.edgeState.reportAccount(a)
	}
}

func (f *Fleet) queueAccount(a *keyAccount) {
	f.mu.Lock()
	f.queuedReports[a] = struct{}{}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// nextReportTime returns the time at which the account must report its usage, return amounts, or
// renew its lease. If the account has nothing to report, something is false. The caller must hold
// mu.
func (a *keyAccount) nextReportTime() (at time.Duration, something bool) {
	add := func(t time.Duration) {
		if !something || t < at {
			at, something = t, true
		}
	}
	period := reportDelayFarFromLimit
	for i := range a.keyCells.cells {
		if c := &a.keyCells.cells[i]; c.limit > 0 && c.fleetFree < float64(c.limit)/2 {
			period = reportDelayNearLimit
		}
	}
	if a.turns != nil && a.turns.reportedWaiting {
		add(a.lastSent + askInterval)
	}
	for i := range a.keyCells.cells {
		c := &a.keyCells.cells[i]
		target := spareTarget(a, c)
		switch {
		case c.limit == 0:
			continue
		// Without a report, the next calls would have to wait for the store.
		case c.isFarFromLimit() && c.spareNotSetAside() < target/2 && a.edgeState.now()-a.lastAcquired < c.spareKeepTime():
			add(a.lastSent)
		case c.unreportedCharge() != 0:
			add(a.lastSent + period)
		case c.spareNotSetAside() > 2*target: // other edges may be waiting for the excess
			add(a.lastSent)
		case c.spare > 0:
			add(a.lastAcquired + c.spareKeepTime())
		case c.reservedAmount > 0 && a.reservationsLost:
			add(a.lastSent)
		}
		if c.reservedAmount > 0 || c.spare > 0 {
			add(a.lastAnswer + renewLeaseAfter)
		}
	}
	return at, something
}

// resendReservations makes every account report again which amounts its calls have reserved,
// because the store has lost these amounts.
func (f *Fleet) resendReservations() {
	for _, a := range f.queuedAccounts() {
		a.mu.Lock()
		a.reservationsLost = true
		a.mu.Unlock()
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// RunReports sends reports to the store until ctx is done. Before it returns, it gives all amounts
// granted to this edge back to the store.
func (f *Fleet) RunReports(ctx context.Context) {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			f.returnUnused()
			return
		}
		left := maxReportsPerTick
		for f.sendDueReports(f.edgeState.now(), &left) > 0 && ctx.Err() == nil {
			select {
			case <-tick.C:
				left = maxReportsPerTick
			case <-f.wake:
			case <-ctx.Done():
			}
		}
	}
}

func (f *Fleet) queuedAccounts() []*keyAccount {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*keyAccount, 0, len(f.queuedReports))
	for a := range f.queuedReports {
		all = append(all, a)
	}
	return all
}

func (f *Fleet) dequeueAccount(a *keyAccount) {
	a.mu.Lock() // locked before f.mu, as in keyAccount.queueReport
	defer a.mu.Unlock()
	if !a.reportQueued {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.queuedReports, a)
	}
}

// sendDueReports sends at most *left of the reports that are due. It returns how many accounts were
// queued.
func (f *Fleet) sendDueReports(now time.Duration, left *int) int {
	all := f.queuedAccounts()
	for _, a := range all {
		if *left == 0 || !f.edgeState.store.Available() {
			break
		}
		did, queued := a.reportIfDue(now)
		if did {
			*left--
		}
		if !queued {
			f.dequeueAccount(a)
		}
	}
	return len(all)
}

// reportIfDue sends the account's report if it is due. queued is false if the account has nothing
// to report.
func (a *keyAccount) reportIfDue(now time.Duration) (sent, queued bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, something := a.nextReportTime()
	switch {
	case !something:
		a.reportQueued = false
		return false, false
	case now < at || a.inFlight != nil || a.nextMessage != nil: // a call's message contains the report
		return false, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.edgeState.timeout)
	defer cancel()
	a.exchangeMessage(ctx, newSentMessage())
	if a.turns != nil && a.turns.reportedWaiting && a.keyCells.cells[slotCellIndex].fleetFree >= 1 {
		a.turns.wake()
	}
	return true, true
}

// returnUnused makes every account return its unused amounts. It takes at most a second.
func (f *Fleet) returnUnused() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, a := range f.queuedAccounts() {
		if !f.edgeState.store.Available() || ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		if a.inFlight == nil {
			a.lastAcquired = -time.Hour
			a.exchangeMessage(ctx, newSentMessage())
		}
		a.mu.Unlock()
	}
}
