package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
)

// run is a measurement of all goals.
type run struct {
	world     testFleet
	startedAt time.Time
	loadTime  time.Duration // total time for which calls are sent
	notes     io.Writer
	loads     map[string]*keyLoad // by key, for keys that have a limit on requests
	table     resultTable
}

// measureFleet measures all goals. It sends calls for about d, and the events take another half
// minute. It prints the table to out and its progress to notes. If a goal does not hold, it returns
// an error.
func measureFleet(ctx context.Context, d time.Duration, out, notes io.Writer) error {
	r := &run{loadTime: d, notes: notes, loads: map[string]*keyLoad{}}
	defer r.world.close()
	r.printNote("starting a store, %d engines and %d edges", len(engineNames), edgeCount)
	if err := r.world.start(ctx); err != nil {
		return err
	}
	r.startedAt = time.Now()
	for _, step := range []func(context.Context) error{
		r.measureLimits, r.measureKeyBelowLimit, r.measureSlots, r.measureBursts, r.measureStoreOutage, r.compareUsage, r.measureRevocation, r.followConversations, r.measureKilledEdge,
	} {
		if err := step(ctx); err != nil {
			return exit.NewError(exit.Failed, err.Error())
		}
		if ctx.Err() != nil {
			return exit.NewError(exit.Failed, "stopped before all was measured")
		}
	}
	r.table = append(r.table, unmeasuredGoals...)
	r.table.sort()
	fmt.Fprint(out, r.table)
	if missed := r.table.missedRows(); len(missed) > 0 {
		return exit.NewError(exit.CheckFailed, "goals that do not hold: "+strings.Join(missed, ", "))
	}
	return nil
}

func (r *run) printNote(format string, v ...any) { fmt.Fprintf(r.notes, "fleet: "+format+"\n", v...) }

// storeMessageStats contains what the edges report about the messages that they send to the store.
type storeMessageStats struct {
	waits            waitHistogram
	lateWaits        [edgeCount]float64 // number of waits longer than lateWaitSeconds, by edge
	messages         float64
	offlineDecisions float64 // decisions made without the store
	available        int     // edges that can reach the store
}

// lateWaitSeconds is a bucket bound of the histogram, in seconds. Longer waits count as useless.
const lateWaitSeconds = 0.01

func (r *run) readStoreMessageStats(ctx context.Context) storeMessageStats {
	out := storeMessageStats{waits: waitHistogram{}}
	for i, e := range r.world.edges {
		page := e.metrics(ctx)
		own := waitHistogram{}
		own.addMetricsPage(page)
		out.waits.addMetricsPage(page)
		out.lateWaits[i] = own.countAbove(lateWaitSeconds)
		out.messages += client.MetricValue(page, `penstock_fleet_messages_total{result="ok"}`)
		out.offlineDecisions += client.MetricValue(page, "penstock_fleet_alone_total")
		out.available += int(client.MetricValue(page, "penstock_fleet_store_up"))
	}
	return out
}

// measureLimits sends enough calls to bring keys to their limits, with each distribution of calls
// over the edges.
func (r *run) measureLimits(ctx context.Context) error {
	for _, perMinute := range []int{60, 600, 6000} {
		key := fmt.Sprint("r", perMinute)
		l := &keyLoad{key: key, model: "sim", more: shortAnswerMember, limit: perMinute}
		r.loads[key] = l
		r.printNote("key %s: up to its limit", key)
		r.exhaustLimits(ctx, l)
	}
	before, calls := r.readStoreMessageStats(ctx), r.countCalls()
	for _, s := range edgeDistributions {
		r.printNote("half as much again as three limits allow, spread %s", s.name)
		rate := 1.5
		if s.name == "waves" {
			rate = 3 // sent only in every other second
		}
		r.loadLimitedKeys(ctx, rate, s.to, r.loadTime/8)
	}
	after := r.readStoreMessageStats(ctx)
	w := after.waits.subtract(before.waits)
	for _, key := range []string{"r60", "r600", "r6000"} {
		l := r.loads[key]
		list := l.allCalls()
		most, alone := maxCallsOverLimit(list, l.limit), countAdmittedByOneEdge(list, l.limit)
		full := alone < len(list) // a single edge would have refused some calls
		r.table.addRow(1, fmt.Sprintf("%d requests a minute: over-admission", l.limit), "0", verdictIfExercised(full, most == 0),
			"%.1f in any span of %.0f s, %d admitted", most, time.Since(r.startedAt).Seconds(), len(admittedCalls(list)))
		least := 0.99
		if len(list) < 300 {
			least = 0.98
		}
		use := fraction(len(admittedCalls(list)), alone)
		r.table.addRow(2, fmt.Sprintf("%d requests a minute: use", l.limit), fmt.Sprintf(">= %.0f %%", 100*least),
			verdictIfExercised(full, use >= least),
			"%.1f %% of what one edge admits; divided by %d: %.1f %%", 100*use, edgeCount, 100*fraction(countAdmittedBySplitLimit(list,
				l.limit, edgeCount), alone))
	}
	p50, p99 := w.quantile(0.5), w.quantile(0.99)
	r.table.addRow(3, "wait for the store at the limit", "p50 <= 0.6 ms, p99 <= 2 ms",
		verdictIfExercised(w.totalCount() >= minJudgedSamples, p50 <= 0.0006 && p99 <= 0.002),
		"p50 %.2f ms, p99 %.1f ms, of %.0f waits", 1e3*p50, 1e3*p99, w.totalCount())
	n := float64(r.countCalls() - calls)
	perCall := (after.messages - before.messages) / max(1, n)
	r.table.addRow(4, "messages a call at the limit", "<= 2.5", verdictIfExercised(n >= minJudgedSamples, perCall <= 2.5), "%.2f", perCall)
	return nil
}

// minJudgedSamples is the number of calls or waits needed for a meaningful fraction or mean.
const minJudgedSamples = 20

// A request with shortAnswerMember is answered immediately, with shortAnswerTokens tokens.
const (
	shortAnswerMember = `"sim":{"tokens":4}`
	shortAnswerTokens = 4
)

// loadLimitedKeys sends calls with all limited keys, for d. rate is a multiple of each key's limit.
func (r *run) loadLimitedKeys(ctx context.Context, rate float64, to edgeChooser, d time.Duration) {
	var all sync.WaitGroup
	for _, l := range r.loads {
		all.Go(func() { r.sendRandomCalls(ctx, l, rate*float64(l.limit)/60, to, d) })
	}
	all.Wait()
}

func (r *run) countCalls() (n int) {
	for _, l := range r.loads {
		n += len(l.allCalls())
	}
	return n
}

// measureKeyBelowLimit uses a key at about a third of its limit.
func (r *run) measureKeyBelowLimit(ctx context.Context) error {
	l := &keyLoad{key: "calm", model: "sim", more: shortAnswerMember, limit: 600}
	r.printNote("a key at 30 %% of its limit")
	// Warm up, because an edge has to ask the store for the first calls of a key.
	r.sendRandomCalls(ctx, l, 3, evenDistribution, r.loadTime/24)
	before, n := r.readStoreMessageStats(ctx), len(l.allCalls())
	r.sendRandomCalls(ctx, l, 3, evenDistribution, r.loadTime/4)
	after := r.readStoreMessageStats(ctx)
	calls := float64(max(1, len(l.allCalls())-n))
	waited := after.waits.subtract(before.waits).totalCount() / calls
	r.table.addRow(3, "calls at 30 % of 600 a minute that wait for the store", "<= 5 %",
		verdictIfExercised(calls >= minJudgedSamples, waited <= 0.05),
		"%.1f %% of %.0f", 100*waited, calls)
	perCall := (after.messages - before.messages) / calls
	r.table.addRow(4, "messages a call at 30 % of 600 a minute", "<= 1.2", verdictIfExercised(calls >= minJudgedSamples, perCall <= 1.2),
		"%.2f", perCall)
	each, err := r.world.store.measureScriptMicros(ctx)
	if err != nil {
		return err
	}
	r.table.addRow(4, "a script at the store, back to back", "<= 45 us", heldOrMissed(each <= 45),
		"%.0f us, the least of %d means of %d", each, scriptRounds, scriptRunsPerRound)
	return nil
}

// measureSlots sends more calls than there are slots, both with a key that has slots and to an
// engine whose slots are exact.
func (r *run) measureSlots(ctx context.Context) error {
	const held = time.Second
	key := &keyLoad{key: "slots", model: "keyed", more: `"sim":{"tokens":1,"ttft_ms":1000}`, limit: slotCount}
	exact := &keyLoad{key: "free", model: "exact", more: key.more, limit: slotCount}
	r.printNote("a key and an engine of %d slots with 1.3 times the calls", slotCount)
	without := r.readStoreMessageStats(ctx).offlineDecisions
	var both sync.WaitGroup
	for _, l := range []*keyLoad{key, exact} {
		both.Go(func() { r.sendRandomCalls(ctx, l, 1.3*slotCount/held.Seconds(), evenDistribution, r.loadTime/8) })
	}
	both.Wait()
	without = r.readStoreMessageStats(ctx).offlineDecisions - without
	for _, l := range []*keyLoad{key, exact} {
		what := fmt.Sprintf("%d slots of a key", slotCount)
		if l == exact {
			what = fmt.Sprintf("%d slots of an engine, fleet: exact", slotCount)
		}
		peak := r.world.engines[l.model].stats(ctx).Peak
		list := l.allCalls()
		alone := countAdmittedBySlots(list, slotCount, held)
		full := alone < len(list)
		r.table.addRow(1, what+": over-admission", "0", verdictIfExercised(full && without == 0, peak <= slotCount),
			"%d, at most %d at once, %.0f decided without the store", max(0, peak-slotCount), peak, without)
		use := fraction(len(admittedCalls(list)), alone)
		r.table.addRow(2, what+": use", ">= 98 %", verdictIfExercised(full, use >= 0.98), "%.1f %% of what one edge admits, %d calls",
			100*use, len(list))
	}
	return nil
}

// measureBursts sends a key's calls, both in bursts and one at a time. The key's limits are high
// enough for all of these calls.
func (r *run) measureBursts(ctx context.Context) error {
	for _, key := range []string{"burst-limits", "burst-slots"} {
		l := &keyLoad{key: key, model: "sim", more: shortAnswerMember, limit: burstSlots}
		r.printNote("key %s: bursts of 1 to %d calls that it has room for", key, maxBurstCalls)
		before := r.readStoreMessageStats(ctx)
		var both sync.WaitGroup
		both.Go(func() { r.sendRandomCalls(ctx, l, 5, evenDistribution, r.loadTime/16) })
		r.sendBursts(ctx, l, r.loadTime/16)
		both.Wait()
		refused, alone := countRefused(l.allCalls()), r.readStoreMessageStats(ctx).offlineDecisions-before.offlineDecisions
		r.table.addRow(2, fmt.Sprintf("bursts within %s: refused", keyLimits[key]), "0",
			verdictIfExercised(alone == 0, refused == 0), "%d of %d, %.0f decided without the store", refused, len(l.allCalls()), alone)
	}
	return nil
}

func fraction(n, of int) float64 { return float64(n) / float64(max(1, of)) }

// unmeasuredGoals lists the goals that a short run cannot measure.
var unmeasuredGoals = resultTable{
	{3, "added at 30 % of a limit", "p50 <= 20 us", "go test -bench 'Take' ./proxy/fleet", verdictNotMeasured},
	{6, "fail-over to a replica", "<= 1 %", "go test -run TestRealStore ./proxy/fleet", verdictNotMeasured},
	{
		11, "follow-ups while engines are busy", "as many as one edge", "go test -v -run TestConversations ./upstreams, in simulated time",
		verdictNotMeasured,
	},
	{7, "slots leaked after an hour of kills", "0", ".ci/soak fleet 60m", verdictNotMeasured},
	{8, "revoked with pub/sub cut", "<= 1 s", "go test ./proxy/fleet/keystore", verdictNotMeasured},
	{
		10, "misplaced calls at 90 % busy", "<= 2 %", "go test -v -run TestEdgesShare ./upstreams, in simulated time",
		verdictNotMeasured,
	},
	{12, "cost without fleet:", "<= 1 %", "penstock bench overhead", verdictNotMeasured},
	{13, "a pod that is deleted", "<= 200 ms", "go test ./upstreams/kubernetes, .ci/apiserver/run", verdictNotMeasured},
	{14, "16 edges", "twice the numbers", "go test -v -run TestShareOfLimitUsed ./proxy/fleet, in simulated time", verdictNotMeasured},
}
