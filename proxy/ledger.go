package proxy

import (
	"context"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/ledger"
	"penstock/proxy/telemetry/observe"
)

// openLedger returns nil if no ledger is configured. If the edge shares the ports of another
// process, it follows that process's ledger, and writes to the ledger only after the other process
// has exited.
func (e *Edge) openLedger(c *config.File) (*ledger.Ledger, error) {
	var sinks []func(string, []observe.UsageRow)
	if e.fleet != nil {
		e.fleetUsage = fleet.NewUsageExchange(e.fleet, e.services.Calls.Usage)
		sinks = append(sinks, e.fleetUsage.Add)
	}
	if c.Ledger.Path == "" && len(sinks) == 0 {
		return nil, nil
	}
	exports := make([]ledger.Sink, 0, len(c.Ledger.Export))
	for _, to := range c.Ledger.Export {
		exports = append(exports, ledger.Sink{File: to.File, URL: to.URL, Token: to.Token.Value()})
	}
	return ledger.Open(ledger.Options{
		Sinks: sinks, Exports: exports,
		Path: c.Ledger.Path, Usage: e.services.Calls.Usage, Wait: e.opts.SharedPort, Metrics: e.metrics, Log: e.log,
		Restored: func(rows []observe.UsageRow) { e.keyLimits.AddUsage(usageFuncFromRows(rows)) },
	})
}

// usageFuncFromRows returns a function that computes the usage of keys on the current day and in the
// current month from the given rows.
func usageFuncFromRows(rows []observe.UsageRow) limit.UsageFunc {
	byKey := map[string][]observe.UsageRow{}
	for _, r := range rows {
		if r.User == "" {
			byKey[r.Key] = append(byKey[r.Key], r)
		}
	}
	return periodUsageFunc(func(key string, from, to int64) (sum observe.UsageAmount) {
		for _, r := range byKey[key] {
			if r.Day >= from && r.Day <= to {
				sum.Add(r.UsageAmount)
			}
		}
		return sum
	})
}

// newFleetUsageBudget returns the fleet-wide budget of a key or a group. If the edge has a ledger, its
// name in the budget survives a restart. While the edge is still following another process's
// ledger, the edge has no name yet and reports only the usage that it has counted itself.
func newFleetUsageBudget(e *Edge, id string, by func(limit.UsageFunc) limit.UsageFunc) limit.UsageBudget {
	name, usage := e.ledger.EdgeID(), e.services.Calls.Usage
	if name != "" {
		return fleet.NewBudget(e.fleet, id, name, by(periodUsageFunc(usage.UsageBetween)))
	}
	return fleet.NewBudget(e.fleet, id, name, by(periodUsageFunc(func(key string, from, to int64) observe.UsageAmount {
		return usage.UsageBetween(key, from, to).ExcessOver(e.ledger.InheritedUsage(key, from, to))
	})))
}

// periodUsageFunc returns a function that computes the usage of keys on the current day and in the
// current month. of returns a key's usage between two days.
func periodUsageFunc(of func(key string, from, to int64) observe.UsageAmount) limit.UsageFunc {
	return func(key string, now time.Time) (used [limit.PeriodCount]limit.Cost) {
		today := observe.DayOf(now)
		for p, from := range [limit.PeriodCount]int64{today, today - int64(now.UTC().Day()-1)} {
			a := of(key, from, today)
			used[p] = limit.Cost{Tokens: a.Tokens(), Spend: a.Spend}
		}
		return used
	}
}

// startLedger writes the ledger until end is called. end must be called after all calls have ended.
func (e *Edge) startLedger() (end func()) {
	if e.ledger == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 1)
	go e.guard.Loop(work.Done(), guard.PlaceLedger, func() {
		e.ledger.Run(work)
		ended <- struct{}{}
	})
	exports := e.ledger.Exporters()
	handedOn := make(chan struct{}, len(exports))
	for _, x := range exports {
		go e.guard.Loop(work.Done(), guard.PlaceLedger, func() {
			x.Run(work)
			handedOn <- struct{}{}
		})
	}
	return func() {
		cancel()
		late := time.After(leaveTimeout)
		select {
		case <-ended:
		case <-late: // the disk hangs
			return
		}
		// If the previous process still writes the ledger and is draining, it ends before this process
		// has to.
		e.shutdown.waitOrHurry(time.Until(e.shutdown.drainEnd), e.ledger.CanClose)
		unsaved := e.ledger.UnsavedTime()
		if err := e.ledger.Close(); err != nil {
			e.log.Error("the last usage is not in the ledger", zap.Stringer("unsaved", unsaved.Round(time.Second)), zap.Error(err))
		}
		late = time.After(leaveTimeout)
		for range exports {
			select {
			case <-handedOn:
			case <-late: // a sink hangs; it receives the remaining rows after the next start
				return
			}
		}
		for _, x := range exports {
			if err := x.Close(); err != nil {
				e.log.Warn("not all acknowledgements of an export are on disk: their rows are sent again", zap.Error(err))
			}
		}
	}
}
