package upstreams

import (
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// newMetrics makes the upstream's own set of series. Every label value is a configured name or a word of ours.
func (u *Upstream) newMetrics() {
	set := metrics.NewSet()
	label := "{upstream=" + strconv.Quote(u.label)
	gauge := func(name string, read func(now time.Time) float64) {
		set.NewGauge("penstock_upstream_"+name, func() float64 { return read(time.Now()) })
	}
	gauge("up"+label+"}", func(time.Time) float64 { return truth(u.State() == StateUp) })
	gauge("breaker_open"+label+"}", func(now time.Time) float64 { return truth(u.Breaker(now) != BreakerClosed) })
	for p := range poolCount {
		pool := label + ",pool=" + strconv.Quote(p.String()) + "}"
		gauge("inflight"+pool, func(time.Time) float64 { return float64(inPool(u.slots.Load(), p)) })
		gauge("limit"+pool, func(time.Time) float64 { return float64(u.limit(u.limits.Load(), p)) })
	}
	gauge("others"+label+"}", func(now time.Time) float64 { return float64(u.others(now)) })
	gauge("ghosts"+label+"}", func(time.Time) float64 { return float64(u.ghosts.Load()) })
	gauge("probe_age_seconds"+label+"}", func(now time.Time) float64 {
		u.mu.Lock()
		defer u.mu.Unlock()
		return age(u.probedAt, now)
	})
	gauge("report_age_seconds"+label+"}", func(now time.Time) float64 {
		if r := u.report.Load(); r != nil {
			return age(r.At, now)
		}
		return -1
	})
	for o := range outcomeCount {
		name := "penstock_upstream_attempts_total" + label + ",result=" + strconv.Quote(o.String()) + "}"
		if u.attempts[o] == nil {
			u.attempts[o] = set.NewCounter(name)
		} else { // revived: the counter goes on
			counter := u.attempts[o]
			set.NewGauge(name, func() float64 { return float64(counter.Get()) })
		}
	}
	u.metrics = set
}

// age is the seconds since at, or -1 when it never was.
func age(at, now time.Time) float64 {
	if at.IsZero() {
		return -1
	}
	return now.Sub(at).Seconds()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
