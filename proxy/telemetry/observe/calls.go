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
	log        accessLog
	logsAccess atomic.Bool

	series    *callSeries
	finished  *metrics.Counter
	inflight  atomic.Int64
	startedAt time.Time

	// Recent stores the newest calls and refusals, for the status page.
	Recent *RecentCalls
	// Usage counts usage by key and model.
	Usage *Usage
}

// NewCalls registers the edge's metrics in set, and writes access lines to log.
func NewCalls(set *metrics.Set, log *zap.Logger, l config.Log) *Calls {
	c := &Calls{
		log: accessLog{log, l.Format == config.LogFormatConsole}, series: newCallSeries(set),
		Recent: new(RecentCalls), Usage: new(Usage), startedAt: time.Now(),
	}
	c.logsAccess.Store(l.Access)
	c.finished = set.NewCounter("penstock_calls_finished_total")
	set.NewGauge("penstock_calls_inflight", func() float64 { return float64(c.inflight.Load()) })
	return c
}

// SetLog applies the log settings of a reload, except the format of the lines.
func (c *Calls) SetLog(l config.Log) {
	c.logsAccess.Store(l.Access)
	c.log.setLevel(l.Level)
}

// BeginCall counts a call as in flight until FinishCall.
func (c *Calls) BeginCall() { c.inflight.Add(1) }

// InFlight returns the number of calls between BeginCall and FinishCall.
func (c *Calls) InFlight() int64 { return c.inflight.Load() }

// FinishedCount returns the number of calls that have ended since the edge started.
func (c *Calls) FinishedCount() uint64 { return c.finished.Get() }

// SetConfigured sets the names in the configuration. Series with other names are dropped. A call
// whose model was removed is counted under "-", and a call whose key was removed under "other".
func (c *Calls) SetConfigured(models, upstreams, keys []string) {
	c.series.setConfigured(models, upstreams, keys)
}

// FinishCall counts r, stores it and writes its access line. It must be called exactly once for
// each BeginCall. The call stays in flight until it has been counted, so that code that waits for
// the last call to end sees complete counts.
func (c *Calls) FinishCall(r *Record, now time.Time) {
	defer c.inflight.Add(-1)
	c.finished.Inc()
	c.countCall(r, now)
	c.Recent.add(r, now)
	c.Usage.addCall(r, now)
	if c.logsAccess.Load() {
		c.log.write(r, now)
	}
}

// LastEndTime returns the time at which a model's last call ended. If no call has ended, it returns
// the time at which the edge started.
func (c *Calls) LastEndTime(model string) time.Time {
	last := c.startedAt
	for k, m := range c.series.models.all() {
		if at := m.lastEndNanos.Load(); k.model == model && at > 0 && time.Unix(0, at).After(last) {
			last = time.Unix(0, at)
		}
	}
	return last
}

// TierCalls returns how many of a model's calls ended in the given tier, which must not be the
// first.
func (c *Calls) TierCalls(model string, tier int) int64 {
	if n, ok := c.series.tiers.get(tierKey{model, tier}); ok {
		return n.Load()
	}
	return 0
}

// ClassCalls returns how many calls of a class other than the first have ended.
func (c *Calls) ClassCalls(model, class string) int64 {
	if n, ok := c.series.classes.get(classKey{model, class}); ok {
		return n.Load()
	}
	return 0
}

// FallbackCalls returns how many of a model's calls ended at its fallback to.
func (c *Calls) FallbackCalls(model, to string) int64 {
	if n, ok := c.series.fallbacks.get(fallbackKey{model, to}); ok {
		return n.Load()
	}
	return 0
}

// CountRefused counts a request that was refused before it became a call.
func (c *Calls) CountRefused(code string) { c.series.labelCounter(familyErrors, orDash(code)).Inc() }

// CountClientGone counts a client that disconnected before its request became a call.
func (c *Calls) CountClientGone() { c.series.labelCounter(familyAborts, string(PhaseBody)).Inc() }

func (c *Calls) countCall(r *Record, now time.Time) {
	var (
		m      *modelSeries
		served *servedSeries // nil if the call reached no upstream
	)
	if r.Upstream != "" && r.Attempts > 0 {
		served = c.series.getOrCreateServedSeries(servedSeriesKey{r.Dialect, r.Model, r.Upstream})
		m = served.modelSeries
		served.countEndedCall(c.series, r.Upstream, r.Outcome)
	} else {
		m = c.series.model(r.Dialect, r.Model)
		m.endedCallsCounter(c.series, r.Upstream, r.Outcome).Inc()
	}
	m.lastEndNanos.Store(now.UnixNano())
	switch r.Outcome {
	case OutcomeOK:
		m.recordLatencies(r, now)
	case OutcomeClientGone:
		c.series.labelCounter(familyAborts, string(r.Phase)).Inc()
	case OutcomeLimited:
		c.series.labelCounter(familyLimited, r.refusedLimit()).Inc()
		if r.Limit == "" && m.full != nil {
			m.full.Inc()
		}
		fallthrough
	default:
		c.series.labelCounter(familyErrors, orDash(r.Code)).Inc()
	}
	if r.Committed && r.Outcome != OutcomeOK {
		c.series.labelCounter(familyBroken, orDash(r.Code)).Inc()
	}
	for _, name := range r.Dropped {
		c.series.labelCounter(familyDropped, name).Inc()
	}
	for i := range r.Failed {
		a := &r.Failed[i]
		c.series.countFailure(a)
		if a.Fault && r.wasRetried(i) {
			c.series.getOrCreateHistory(r.Model, a.Upstream).addRetry(now)
		}
	}
	m.recordUsage(r)
	c.series.countKey(r)
	if r.Markup != "" {
		c.series.countMarkup(r.Model, r.Markup)
	}
	if r.Tier > 0 {
		incrementIfConfigured(c.series, &c.series.tiers, r.Model, tierKey{r.Model, r.Tier})
	}
	if r.Class != "" {
		incrementIfConfigured(c.series, &c.series.classes, r.Model, classKey{r.Model, r.Class})
	}
	if r.Choice != nil {
		incrementIfConfigured(c.series, &c.series.choices, r.Model, choiceKey{r.Model, r.Choice.Reason})
	}
	if r.Arm != "" {
		if !r.foundNoSlot() {
			c.series.statsForArm(r.Model, r.Arm).ended.Add(1)
		}
		own := c.series.statsForArm(r.Model, r.assignedArm())
		own.countCall(r, now.Sub(r.Start).Seconds())
		if r.MissedArm != "" {
			own.missed.Add(1)
		}
	}
	if r.Asked != "" {
		incrementIfConfigured(c.series, &c.series.fallbacks, r.Asked, fallbackKey{r.Asked, r.Model})
	}
	if r.Overhead > 0 {
		m.overheadSeries(c.series).Update(r.Overhead.Seconds())
	}
	if served != nil {
		served.upstream.recordTTFT(r)
		served.history.addCall(r, now)
	}
}

// StreamMeter measures one stream while it runs. All streams of a model share their counters, so
// each StreamMeter collects measurements for a short time and then adds them in one batch.
type StreamMeter struct {
	model       *modelSeries
	history     *history
	lastEvent   instant.Time
	seenEvents  int
	movedEvents int // number of events from previous upstreams

	flushedAt     instant.Time // when measurements were last added to the counters
	flushedEvents int          // number of events already added to the counters
	gapCount      int
	gaps          [16]float32 // in seconds; only gaps[:gapCount] is valid
}

// flushInterval is how long a StreamMeter collects measurements. It is shorter than the interval at
// which the counters are read.
const flushInterval = 250 * time.Millisecond

// NewMeter returns the meter for a new stream. model and upstream are configured names.
func (c *Calls) NewMeter(dialect, model, upstream string) StreamMeter {
	return StreamMeter{model: c.series.model(dialect, model), history: c.series.getOrCreateHistory(model, upstream)}
}

// IsStarted reports whether NewMeter has returned m. The zero value measures nothing.
func (m *StreamMeter) IsStarted() bool { return m.model != nil }

// SwitchMeterUpstream records that another upstream continues the stream. The new upstream's events are
// counted from 0.
func (c *Calls) SwitchMeterUpstream(m *StreamMeter, model, upstream string) {
	if m.model != nil {
		m.flushCounters()
		m.model, m.history = c.series.model(m.model.key.dialect, model), c.series.getOrCreateHistory(model, upstream)
		m.movedEvents, m.seenEvents, m.flushedEvents = m.movedEvents+m.seenEvents, 0, 0
	}
}

// RecordEvents records how many events have been received. Events received in a single read count
// as one gap, because the read does not show how fast the engine generated them.
func (m *StreamMeter) RecordEvents(events int, at instant.Time) {
	if m.model == nil || events == m.seenEvents {
		return
	}
	if m.lastEvent != 0 {
		m.gaps[m.gapCount] = float32(at.Sub(m.lastEvent).Seconds())
		m.gapCount++
	}
	m.lastEvent, m.seenEvents = at, events
	if m.gapCount == len(m.gaps) || at.Sub(m.flushedAt) >= flushInterval {
		m.flushCounters()
		m.flushedAt = at
	}
}

func (m *StreamMeter) flushCounters() {
	if m.model.itl != nil {
		for _, gap := range m.gaps[:m.gapCount] {
			m.model.itl.Update(float64(gap))
		}
	}
	if m.seenEvents != m.flushedEvents {
		m.history.liveEvents.Add(int64(m.seenEvents - m.flushedEvents))
	}
	m.gapCount, m.flushedEvents = 0, m.seenEvents
}

// End adds the remaining measurements to the counters and copies the totals to the stream's record.
func (m *StreamMeter) End(r *Record) {
	if m.model != nil {
		m.flushCounters()
	}
	r.streamed = m.movedEvents + m.seenEvents
}

// UpdateHistory adds the events of running streams to the history. Call it about every second.
func (c *Calls) UpdateHistory(now time.Time) {
	for _, h := range c.series.histories.all() {
		h.addLiveEvents(now)
	}
}
