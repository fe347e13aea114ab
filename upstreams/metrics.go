package upstreams

import (
	"strconv"
	"sync/atomic"
	"time"

	"penstock/upstreams/engine"

	"github.com/VictoriaMetrics/metrics"
)

// upstreamMetrics contains the metrics of an upstream. The set's mutex guards the field set and the
// fields after it.
type upstreamMetrics struct {
	attempts  [outcomeCount]*metrics.Counter
	abandoned [slotFateCount]*metrics.Counter
	generated [engine.GenerationVerdictCount]*metrics.Counter
	wakes     [len(wakeResults)]*metrics.Counter

	currentSet   atomic.Pointer[metrics.Set] // same as set, for code that does not hold the mutex
	set          *metrics.Set                // nil once the upstream is removed
	isRegistered bool
}

var wakeResults = [...]string{"asked", "failed"}

const wakeAskedIndex, wakeFailedIndex = 0, 1

// countSlotFates adds fates, the number of abandoned calls by fate, to the counters.
func (s *upstreamMetrics) countSlotFates(fates [slotFateCount]int) {
	for f, n := range fates {
		s.abandoned[f].Add(n)
	}
}

// createMetrics creates the metrics set. All label values are configured names or constants, so the
// number of series is bounded.
func (s *upstreamMetrics) createMetrics(u *Upstream) {
	set := metrics.NewSet()
	s.set = set
	s.currentSet.Store(set)
	label := "{upstream=" + strconv.Quote(u.identity.label)
	gauge := func(name string, read func(now time.Time) float64) {
		set.NewGauge("penstock_upstream_"+name, func() float64 { return read(time.Now()) })
	}
	gauge("up"+label+"}", func(time.Time) float64 {
		s := u.State()
		return boolToFloat(s == StateUp || s == StateStalled || s == StateBusy)
	})
	gauge("stalled"+label+"}", func(time.Time) float64 { return boolToFloat(u.State() == StateStalled) })
	gauge("busy"+label+"}", func(time.Time) float64 { return boolToFloat(u.State() == StateBusy) })
	gauge("still_seconds"+label+"}", func(now time.Time) float64 { return u.Progress.Facts(now).Still.Seconds() })
	gauge("progress_counted"+label+"}", func(now time.Time) float64 { return boolToFloat(u.Progress.Facts(now).Counts) })
	gauge("breaker_open"+label+"}", func(now time.Time) float64 { return boolToFloat(u.Breaker.StateAt(now) != BreakerClosed) })
	for p := range poolCount {
		pool := label + ",pool=" + strconv.Quote(p.String()) + "}"
		gauge("inflight"+pool, func(time.Time) float64 { return float64(callsInPool(u.slots.inUse.Load(), p)) })
		gauge("limit"+pool, func(time.Time) float64 { return float64(u.slots.limits.Load().netSlots[p]) })
		gauge("places"+pool, func(time.Time) float64 { return float64(u.slots.limits.Load().places[p]) })
	}
	gauge("state_seconds"+label+"}", func(now time.Time) float64 { return now.Sub(u.Health.factsSnapshot().changedAt).Seconds() })
	gauge("admitted"+label+"}", func(time.Time) float64 { return boolToFloat(u.Mode() == ModeReady) })
	reported := func(name string, read func(r *LoadReport) float64) {
		gauge(name+label+"}", func(now time.Time) float64 {
			if r := u.reports.last.Load(); r.isFresh(MomentOf(now)) {
				return read(&r.LoadReport)
			}
			return -1
		})
	}
	reported("running", func(r *LoadReport) float64 { return float64(r.Running) })
	reported("waiting", func(r *LoadReport) float64 { return float64(r.Waiting) })
	reported("kv_usage_ratio", func(r *LoadReport) float64 { return r.KVUsage })
	gauge("others"+label+"}", func(now time.Time) float64 {
		others, _ := u.reports.otherRequests(MomentOf(now))
		return float64(others)
	})
	gauge("ghosts"+label+"}", func(time.Time) float64 { return float64(u.slots.ghostCount()) })
	gauge("probe_age_seconds"+label+"}", func(now time.Time) float64 { return secondsSince(u.Health.factsSnapshot().probedAt, now) })
	gauge("report_age_seconds"+label+"}", func(now time.Time) float64 {
		if r := u.reports.last.Load(); r != nil {
			return secondsSince(r.At, now)
		}
		return -1
	})
	speed := func(name string, read func(v *ModelSpeed) float64) {
		gauge(name+label+"}", func(now time.Time) float64 {
			if all := modelSpeeds(&u.Models, MomentOf(now)); len(all) > 0 {
				return read(&all[0])
			}
			return -1
		})
	}
	speed("prompt_tokens_per_second", func(v *ModelSpeed) float64 { return v.Prompt })
	speed("answer_tokens_per_second", func(v *ModelSpeed) float64 { return v.Answer })
	gauge("surplus_total"+label+"}", func(time.Time) float64 { return float64(u.client.hosts.UnsolicitedCount()) })
	for o := range outcomeCount {
		newOrRevivedCounter(set, &s.attempts[o], "penstock_upstream_attempts_total"+label+",result="+strconv.Quote(o.String())+"}")
	}
	for f := range slotFateCount {
		newOrRevivedCounter(set, &s.abandoned[f], "penstock_upstream_abandoned_total"+label+",slot="+strconv.Quote(f.String())+"}")
	}
	for i, result := range wakeResults {
		newOrRevivedCounter(set, &s.wakes[i], "penstock_upstream_wakes_total"+label+",result="+strconv.Quote(result)+"}")
	}
	for g := range engine.GenerationVerdictCount {
		name := "penstock_upstream_generation_probes_total" + label + ",result=" + strconv.Quote(g.String()) + "}"
		newOrRevivedCounter(set, &s.generated[g], name)
	}
}

// newOrRevivedCounter creates the counter *c. A revived upstream keeps its counters. In that case,
// newOrRevivedCounter exposes the existing counter as a gauge with this name.
func newOrRevivedCounter(set *metrics.Set, c **metrics.Counter, name string) {
	if *c == nil {
		*c = set.NewCounter(name)
		return
	}
	before := *c
	set.NewGauge(name, func() float64 { return float64(before.Get()) })
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
