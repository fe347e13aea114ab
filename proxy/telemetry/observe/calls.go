package observe

import (
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/config/instant"
)

// Calls counts finished calls, writes their access lines and stores the newest calls. It is safe
// for concurrent use.
type Calls struct {
	log    accessLog
	access atomic.Bool

	series   *series
	finished *metrics.Counter
	inflight atomic.Int64
	begun    time.Time

	// Recent stores the newest calls and refusals, for the status page.
	Recent *Recent
	// Usage counts usage by key and model.
	Usage *Usage
}

// NewCalls registers the edge's metrics in set, and writes access lines to log.
func NewCalls(set *metrics.Set, log *zap.Logger, l config.Log) *Calls {
	c := &Calls{
		log: accessLog{log, l.Format == config.LogFormatConsole}, series: newSeries(set),
		Recent: new(Recent), Usage: new(Usage), begun: time.Now(),
	}
	c.access.Store(l.Access)
	c.finished = set.NewCounter("penstock_calls_finished_total")
	set.NewGauge("penstock_calls_inflight", func() float64 { return float64(c.inflight.Load()) })
	return c
}

// SetLog applies the log settings of a reload, except the format of the lines.
func (c *Calls) SetLog(l config.Log) {
	c.access.Store(l.Access)
	c.log.setLevel(l.Level)
}

// Begin counts a call as in flight until Finish.
func (c *Calls) Begin() { c.inflight.Add(1) }

// InFlight returns the number of calls between Begin and Finish.
func (c *Calls) InFlight() int64 { return c.inflight.Load() }

// Finished returns the number of calls that have ended since the edge started.
func (c *Calls) Finished() uint64 { return c.finished.Get() }

// Configured sets the names in the configuration. Series with other names are dropped. A call whose
// model was removed is counted under "-", and a call whose key was removed under "other".
func (c *Calls) Configured(models, upstreams, keys []string) { c.series.keep(models, upstreams, keys) }

// Finish counts r, stores it and writes its access line. It must be called exactly once for each
// Begin. The call stays in flight until it has been counted, so that code that waits for the last
// call to end sees complete counts.
func (c *Calls) Finish(r *Record, now time.Time) {
	defer c.inflight.Add(-1)
	c.finished.Inc()
	c.count(r, now)
	c.Recent.add(r, now)
	c.Usage.add(r, now)
	if c.access.Load() {
		c.log.write(r, now)
	}
}

// LastEnd returns when a model's last call ended or, if there was none, when the edge started.
func (c *Calls) LastEnd(model string) time.Time {
	last := c.begun
	for k, m := range c.series.models.all() {
		if at := m.lastAt.Load(); k.model == model && at > 0 && time.Unix(0, at).After(last) {
			last = time.Unix(0, at)
		}
	}
	return last
}

// Overflowed returns how many of a model's calls ended in the given tier, which must not be the
// first.
func (c *Calls) Overflowed(model string, tier int) int64 {
	if n, ok := c.series.tiers.get(tierKey{model, tier}); ok {
		return n.Load()
	}
	return 0
}

// OfClass returns how many calls of a class other than the first have ended.
func (c *Calls) OfClass(model, class string) int64 {
	if n, ok := c.series.classes.get(classKey{model, class}); ok {
		return n.Load()
	}
	return 0
}

// FellBack returns how many of a model's calls ended at the fallback model to.
func (c *Calls) FellBack(model, to string) int64 {
	if n, ok := c.series.fallbacks.get(fallbackKey{model, to}); ok {
		return n.Load()
	}
	return 0
}

// Refused counts a request that was refused before it became a call.
func (c *Calls) Refused(code string) { c.series.word(familyErrors, dash(code)).Inc() }

// Left counts a client that disconnected before its request became a call.
func (c *Calls) Left() { c.series.word(familyAborts, string(PhaseBody)).Inc() }

func (c *Calls) count(r *Record, now time.Time) {
	m := c.series.model(r.Dialect, r.Model)
	m.ended(c.series, r.Upstream, r.Outcome).Inc()
	m.lastAt.Store(now.UnixNano())
	switch r.Outcome {
	case OK:
		m.observe(r, now)
	case ClientGone:
		c.series.word(familyAborts, string(r.Phase)).Inc()
	case Limited:
		c.series.word(familyLimited, r.limit()).Inc()
		if r.Limit == "" && m.full != nil {
			m.full.Inc()
		}
		fallthrough
	default:
		c.series.word(familyErrors, dash(r.Code)).Inc()
	}
	if r.Committed && r.Outcome != OK {
		c.series.word(familyBroken, dash(r.Code)).Inc()
	}
	for _, name := range r.Dropped {
		c.series.word(familyDropped, name).Inc()
	}
	for i := range r.Failed {
		a := &r.Failed[i]
		c.series.failed(a)
		if a.Fault && r.retried(i) {
			c.series.pair(r.Model, a.Upstream).retry(now)
		}
	}
	m.used(r)
	c.series.countKey(r)
	if r.Markup != "" {
		c.series.markup(r.Model, r.Markup)
	}
	if r.Tier > 0 {
		count(c.series, &c.series.tiers, r.Model, tierKey{r.Model, r.Tier})
	}
	if r.Class != "" {
		count(c.series, &c.series.classes, r.Model, classKey{r.Model, r.Class})
	}
	if r.Choice != nil {
		count(c.series, &c.series.choices, r.Model, choiceKey{r.Model, r.Choice.Reason})
	}
	if r.Arm != "" {
		if !r.foundNoRoom() {
			c.series.arm(r.Model, r.Arm).ended.Add(1)
		}
		own := c.series.arm(r.Model, r.ownArm())
		own.count(r, now.Sub(r.Start).Seconds())
		if r.MissedArm != "" {
			own.missed.Add(1)
		}
	}
	if r.Asked != "" {
		count(c.series, &c.series.fallbacks, r.Asked, fallbackKey{r.Asked, r.Model})
	}
	if r.Overhead > 0 {
		m.overhead.Update(r.Overhead.Seconds())
	}
	if r.Upstream != "" && r.Attempts > 0 {
		c.series.upstream(r.Upstream).finish(r)
		c.series.pair(r.Model, r.Upstream).finish(r, now)
	}
}

// Meter measures one stream while it runs. All streams of a model share their counters, so each
// Meter collects measurements for a short time and then adds them together.
type Meter struct {
	model *modelSeries
	pair  *history
	last  instant.Time
	seen  int
	moved int // number of events from previous upstreams

	handed instant.Time // when measurements were last added to the counters
	told   int          // number of events already added to the counters
	kept   int
	gaps   [16]float64 // in seconds; only gaps[:kept] is valid
}

// keepFor is how long a Meter collects measurements. keepFor is shorter than the interval at which
// the counters are read.
const keepFor = 250 * time.Millisecond

// Meter returns the meter for a new stream. Model and upstream are configured names.
func (c *Calls) Meter(dialect, model, upstream string) Meter {
	return Meter{model: c.series.model(dialect, model), pair: c.series.pair(model, upstream)}
}

// Move records that another upstream continues the stream. The new upstream's events are counted
// from 0.
func (c *Calls) Move(m *Meter, model, upstream string) {
	if m.model != nil {
		m.handOver()
		m.model, m.pair = c.series.model(m.model.key.dialect, model), c.series.pair(model, upstream)
		m.moved, m.seen, m.told = m.moved+m.seen, 0, 0
	}
}

// Note records how many events have been received. Events that are received at the same time count
// as one gap, because a read does not show how fast the engine generated them.
func (m *Meter) Note(events int, at instant.Time) {
	if m.model == nil || events == m.seen {
		return
	}
	if m.last != 0 {
		m.gaps[m.kept] = at.Since(m.last).Seconds()
		m.kept++
	}
	m.last, m.seen = at, events
	if m.kept == len(m.gaps) || at.Since(m.handed) >= keepFor {
		m.handOver()
		m.handed = at
	}
}

func (m *Meter) handOver() {
	if m.model.itl != nil {
		for _, gap := range m.gaps[:m.kept] {
			m.model.itl.Update(gap)
		}
	}
	if m.seen != m.told {
		m.pair.live.Add(int64(m.seen - m.told))
	}
	m.kept, m.told = 0, m.seen
}

// End adds the remaining measurements to the counters and copies the totals to the stream's record.
func (m *Meter) End(r *Record) {
	if m.model != nil {
		m.handOver()
	}
	r.streamed = m.moved + m.seen
}

// Tick adds the events of running streams to the history. Call it about every second.
func (c *Calls) Tick(now time.Time) {
	for _, h := range c.series.pairs.all() {
		h.fold(now)
	}
}
