package observe

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Histogram bounds, in seconds. The gap bounds cover both fast engines (more than 1,000 tokens per
// second) and swapping engines.
var (
	latencyBounds  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640}
	gapBounds      = []float64{.0005, .001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 15, 60}
	overheadBounds = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5}
)

// Families with one label whose values come from a closed set.
const (
	familyAborts  = "penstock_client_aborts_total"
	familyErrors  = "penstock_errors_total"
	familyLimited = "penstock_limit_refusals_total"
	familyBroken  = "penstock_stream_aborts_total"
	familyDropped = "penstock_dropped_total"
)

var labelNameByFamily = map[string]string{
	familyAborts: "phase", familyErrors: "code", familyLimited: "limit",
	familyBroken: "code", familyDropped: "what",
}

// callSeries contains all metric series of calls. A lookup neither locks nor allocates.
type callSeries struct {
	set *metrics.Set

	mu                 sync.Mutex // held to create or drop series
	configured         map[string]bool
	configuredUpstream map[string]bool
	applied            int // number of configurations applied so far

	served        copyOnWriteMap[servedSeriesKey, *servedSeries]
	models        copyOnWriteMap[modelKey, *modelSeries]
	upstreams     copyOnWriteMap[string, *upstreamSeries]
	histories     copyOnWriteMap[modelUpstreamKey, *history]
	labelCounters copyOnWriteMap[labelValueKey, *metrics.Counter]
	markups       copyOnWriteMap[markupKey, *metrics.Counter]
	tiers         copyOnWriteMap[tierKey, *atomic.Int64]
	classes       copyOnWriteMap[classKey, *atomic.Int64]
	choices       copyOnWriteMap[choiceKey, *atomic.Int64]
	fallbacks     copyOnWriteMap[fallbackKey, *atomic.Int64]
	arms          copyOnWriteMap[armKey, *armStats]
	shadows       copyOnWriteMap[fallbackKey, *shadowStats]
	failures      copyOnWriteMap[failureKey, *metrics.Counter]
	keys          copyOnWriteMap[string, *keySeries]
}

type (
	servedSeriesKey  struct{ dialect, model, upstream string }
	modelKey         struct{ dialect, model string }
	modelUpstreamKey struct{ model, upstream string }
	markupKey        struct{ model, markup string }
	tierKey          struct {
		model string
		tier  int // greater than 0, because 0 is the first tier
	}
	classKey      struct{ model, class string } // class is not the first class
	choiceKey     struct{ model, reason string }
	fallbackKey   struct{ model, to string } // to is a fallback or the shadow of model
	armKey        struct{ model, arm string }
	labelValueKey struct{ family, value string }
	failureKey    struct{ upstream, cause, status string }
	endedCallsKey struct {
		upstream string
		outcome  Outcome
	}
)

// copyOnWriteMap is a map that is read without a lock and copied on each change.
type copyOnWriteMap[K comparable, V any] struct{ m atomic.Pointer[map[K]V] }

func (t *copyOnWriteMap[K, V]) get(k K) (v V, ok bool) {
	if m := t.m.Load(); m != nil {
		v, ok = (*m)[k]
	}
	return v, ok
}

func (t *copyOnWriteMap[K, V]) all() map[K]V {
	if m := t.m.Load(); m != nil {
		return *m
	}
	return nil
}

// update stores a copy that f has modified. The caller must hold series.mu.
func (t *copyOnWriteMap[K, V]) update(f func(map[K]V)) {
	next := maps.Clone(t.all())
	if next == nil {
		next = map[K]V{}
	}
	f(next)
	t.m.Store(&next)
}

// deleteFunc removes the entries for which gone returns true. The caller must hold series.mu.
func (t *copyOnWriteMap[K, V]) deleteFunc(gone func(K) bool) {
	t.update(func(all map[K]V) { maps.DeleteFunc(all, func(k K, _ V) bool { return gone(k) }) })
}

// getOrCreate returns the value of a key, or a new value if there is none. A new value is stored
// only if keep returns true, because a removed model must not get new series. keep is called with
// series.mu held.
func getOrCreate[K comparable, V any](s *callSeries, t *copyOnWriteMap[K, *V], k K, keep func() bool) *V {
	if v, ok := t.get(k); ok {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := t.get(k); ok {
		return v
	}
	v := new(V)
	if keep() {
		t.update(func(all map[K]*V) { all[k] = v })
	}
	return v
}

// knownLabelValues contains the label values of families with small sets. Their series exist from
// the start, with the value 0. If a series appeared only with its first event, increase and rate
// would miss that event.
var knownLabelValues = map[string][]string{
	familyAborts: {
		string(PhaseBody), string(PhaseHook), string(PhaseQueued), string(PhaseAwaitingAnswer), string(PhaseStreaming),
		string(PhaseStalled),
	},
	familyLimited: {
		"requests_per_minute", "tokens_per_minute", "concurrency", "tokens_per_day", "tokens_per_month",
		"spend_per_day", "spend_per_month", refusedByPool, refusedByEngine,
		"group_requests_per_minute", "group_tokens_per_minute", "group_concurrency", "group_tokens_per_day",
		"group_tokens_per_month", "group_spend_per_day", "group_spend_per_month",
	},
}

func newCallSeries(set *metrics.Set) *callSeries {
	s := &callSeries{set: set}
	s.setKeys(nil)
	for family, words := range knownLabelValues {
		for _, w := range words {
			s.labelCounter(family, w)
		}
	}
	return s
}

// modelSeries contains the series of one model in one dialect. If the model is empty, only the
// counters of ended calls exist.
type modelSeries struct {
	key modelKey
	// Whether the model was removed from the configuration; guarded by series.mu.
	dropped                    bool
	endCounters                copyOnWriteMap[endedCallsKey, *metrics.Counter]
	duration, ttft, queue, itl *metrics.PrometheusHistogram
	prompt, completion, cached *metrics.Counter
	estimated, full            *metrics.Counter
	// Histogram shared by all models in this dialect; nil before the first value.
	overhead atomic.Pointer[metrics.PrometheusHistogram]
	// lastEndNanos is when the model's last call ended, in Unix nanoseconds, or 0.
	lastEndNanos atomic.Int64
}

type upstreamSeries struct{ ttft *metrics.PrometheusHistogram }

// model returns the series of a model. If the model is no longer configured, it returns the series
// without a model.
func (s *callSeries) model(dialect, model string) *modelSeries {
	if m, ok := s.models.get(modelKey{dialect, model}); ok {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modelLocked(dialect, model)
}

// modelLocked does the same as model for callers that hold mu.
func (s *callSeries) modelLocked(dialect, model string) *modelSeries {
	if !s.configured[model] {
		model = ""
	}
	k := modelKey{dialect, model}
	if m, ok := s.models.get(k); ok {
		return m
	}
	m := &modelSeries{key: k}
	if model != "" {
		l := formatLabels("dialect", dialect, "model", model)
		histogram := func(name string, bounds []float64) *metrics.PrometheusHistogram {
			return s.set.NewPrometheusHistogramExt(name+l, bounds)
		}
		tokens := func(kind string) *metrics.Counter {
			return s.set.NewCounter("penstock_tokens_total" + formatLabels("dialect", dialect, "model", model, "kind", kind))
		}
		m.duration, m.ttft = histogram("penstock_call_duration_seconds",
			latencyBounds), histogram("penstock_ttft_seconds", latencyBounds)
		m.queue, m.itl = histogram("penstock_queue_seconds", latencyBounds), histogram("penstock_itl_seconds",
			gapBounds)
		m.prompt, m.completion, m.cached = tokens("prompt"), tokens("completion"), tokens("cached")
		m.estimated = s.set.NewCounter("penstock_calls_estimated_total" + l)
		m.full = s.set.NewCounter("penstock_calls_full_total" + l)
	}
	s.models.update(func(all map[modelKey]*modelSeries) { all[k] = m })
	return m
}

// overheadSeries returns the histogram of the dialect's overhead. It exists only after a first
// value, so that dialects with nothing but refused calls add no series.
func (m *modelSeries) overheadSeries(s *callSeries) *metrics.PrometheusHistogram {
	h := m.overhead.Load()
	if h == nil {
		h = s.set.GetOrCreatePrometheusHistogramExt("penstock_overhead_seconds"+formatLabels("dialect", m.key.dialect), overheadBounds)
		m.overhead.Store(h)
	}
	return h
}

func (m *modelSeries) endedCallsCounter(s *callSeries, upstream string, o Outcome) *metrics.Counter {
	if c, ok := m.endCounters.get(endedCallsKey{upstream, o}); ok {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The model was dropped after the caller's lookup. A counter created now would never be
	// removed.
	if m.dropped {
		m = s.modelLocked(m.key.dialect, m.key.model)
	}
	if upstream != "" && !s.configuredUpstream[upstream] {
		upstream = ""
	}
	k := endedCallsKey{upstream, o}
	if c, ok := m.endCounters.get(k); ok {
		return c
	}
	c := s.set.GetOrCreateCounter(m.endedCallsSeriesName(k))
	m.endCounters.update(func(all map[endedCallsKey]*metrics.Counter) { all[k] = c })
	return c
}

func (m *modelSeries) endedCallsSeriesName(k endedCallsKey) string {
	return "penstock_calls_total" + formatLabels("dialect", m.key.dialect, "model", orDash(m.key.model), "upstream",
		orDash(k.upstream), "outcome", string(k.outcome))
}

// servedSeries contains the series of the calls of one model, in one dialect, that reached one
// upstream. Such a call needs one look-up instead of four.
type servedSeries struct {
	*modelSeries
	ok       atomic.Pointer[metrics.Counter] // nil before the first successful call
	upstream *upstreamSeries
	history  *history
}

// getOrCreateServedSeries returns the series of a call that reached an upstream.
func (s *callSeries) getOrCreateServedSeries(k servedSeriesKey) *servedSeries {
	if c, ok := s.served.get(k); ok {
		return c
	}
	s.mu.Lock()
	applied := s.applied
	s.mu.Unlock()
	c := &servedSeries{modelSeries: s.model(k.dialect, k.model), upstream: s.upstream(k.upstream), history: s.getOrCreateHistory(k.model, k.upstream)}
	s.mu.Lock()
	defer s.mu.Unlock()
	// If another configuration was applied meanwhile, some of the series may have been dropped.
	if s.applied == applied && s.configured[k.model] && s.configuredUpstream[k.upstream] {
		s.served.update(func(all map[servedSeriesKey]*servedSeries) { all[k] = c })
	}
	return c
}

// countEndedCall counts the end of a call.
func (c *servedSeries) countEndedCall(s *callSeries, upstream string, o Outcome) {
	n := c.ok.Load()
	if o != OutcomeOK || n == nil {
		n = c.endedCallsCounter(s, upstream, o)
		if o == OutcomeOK {
			c.ok.Store(n)
		}
	}
	n.Inc()
}

// recordLatencies records the latencies of a successful call. Refusals are fast and would distort
// the latencies.
func (m *modelSeries) recordLatencies(r *Record, now time.Time) {
	if m.duration == nil {
		return
	}
	m.duration.Update(now.Sub(r.Start).Seconds())
	if r.Stream && r.TTFT > 0 { // an answer that is not streamed has no time to first token
		m.ttft.Update(r.TTFT.Seconds())
	}
}

func (m *modelSeries) recordUsage(r *Record) {
	if m.duration == nil {
		return
	}
	if r.Queue > 0 && r.Outcome != OutcomeLimited {
		m.queue.Update(r.Queue.Seconds())
	}
	m.prompt.Add(r.PromptTokens)
	m.completion.Add(r.CompletionTokens)
	m.cached.Add(r.CachedTokens)
	if r.TokensEstimated {
		m.estimated.Inc()
	}
}

// upstream returns an upstream's series. If the upstream is no longer configured, these series are
// not exported.
func (s *callSeries) upstream(name string) *upstreamSeries {
	if u, ok := s.upstreams.get(name); ok {
		return u
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.upstreams.get(name); ok {
		return u
	}
	if !s.configuredUpstream[name] {
		return new(upstreamSeries)
	}
	u := &upstreamSeries{ttft: s.set.NewPrometheusHistogramExt("penstock_upstream_ttft_seconds"+formatLabels("upstream",
		name), latencyBounds)}
	s.upstreams.update(func(all map[string]*upstreamSeries) { all[name] = u })
	return u
}

func (u *upstreamSeries) recordTTFT(r *Record) {
	if u.ttft != nil && r.Stream && r.UpstreamTTFT > 0 {
		u.ttft.Update(r.UpstreamTTFT.Seconds())
	}
}

// getOrCreateHistory returns the history of a model at an upstream. If either is no longer
// configured, the history is discarded.
func (s *callSeries) getOrCreateHistory(model, upstream string) *history {
	return getOrCreate(s, &s.histories, modelUpstreamKey{model, upstream}, func() bool {
		return s.configured[model] && s.configuredUpstream[upstream]
	})
}

// labelCounter returns the counter of a family for a label value from a closed set.
func (s *callSeries) labelCounter(family, value string) *metrics.Counter {
	k := labelValueKey{family, value}
	if c, ok := s.labelCounters.get(k); ok {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.set.GetOrCreateCounter(family + formatLabels(labelNameByFamily[family], value))
	s.labelCounters.update(func(all map[labelValueKey]*metrics.Counter) { all[k] = c })
	return c
}

func (s *callSeries) countFailure(a *FailedAttempt) {
	k := failureKey{a.Upstream, a.Cause, statusLabel(a.EngineStatus)}
	if c, ok := s.failures.get(k); ok {
		c.Inc()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configuredUpstream[k.upstream] {
		return
	}
	c := s.set.GetOrCreateCounter(k.seriesName())
	c.Inc()
	s.failures.update(func(all map[failureKey]*metrics.Counter) { all[k] = c })
}

func (k failureKey) seriesName() string {
	return "penstock_upstream_failures_total" + formatLabels("upstream", k.upstream, "cause", k.cause, "status", k.status)
}

// statusLabel returns the label for a status. All numbers that are not HTTP statuses share one
// label, because an engine may send any number.
func statusLabel(status int) string {
	switch {
	case status == 0:
		return "-"
	case http.StatusText(status) == "" && status != 529:
		return "other"
	}
	return strconv.Itoa(status)
}

// countMarkup counts an answer that starts with markup. If the model is not configured, the count
// is discarded.
func (s *callSeries) countMarkup(model, markup string) {
	k := markupKey{model, markup}
	if c, ok := s.markups.get(k); ok {
		c.Inc()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configured[model] {
		return
	}
	c := s.set.GetOrCreateCounter(k.seriesName())
	c.Inc()
	s.markups.update(func(all map[markupKey]*metrics.Counter) { all[k] = c })
}

func incrementIfConfigured[K comparable](s *callSeries, t *copyOnWriteMap[K, *atomic.Int64], model string, k K) {
	getOrCreate(s, t, k, func() bool { return s.configured[model] }).Add(1)
}

func (k markupKey) seriesName() string {
	return "penstock_suspect_markup_total" + formatLabels("model", k.model, "markup", k.markup)
}

func (s *callSeries) setConfigured(models, upstreams, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configured, s.configuredUpstream = nameSet(models), nameSet(upstreams)
	s.applied++
	s.served.deleteFunc(func(servedSeriesKey) bool { return true })
	s.setKeys(keys)
	s.models.update(func(all map[modelKey]*modelSeries) {
		for k, m := range all {
			if k.model != "" && !s.configured[k.model] {
				delete(all, k)
				s.dropModel(m)
				continue
			}
			m.endCounters.update(func(ends map[endedCallsKey]*metrics.Counter) {
				for e := range ends {
					if e.upstream != "" && !s.configuredUpstream[e.upstream] {
						delete(ends, e)
						s.set.UnregisterMetric(m.endedCallsSeriesName(e))
					}
				}
			})
		}
	})
	s.markups.update(func(all map[markupKey]*metrics.Counter) {
		for k := range all {
			if !s.configured[k.model] {
				delete(all, k)
				s.set.UnregisterMetric(k.seriesName())
			}
		}
	})
	s.failures.update(func(all map[failureKey]*metrics.Counter) {
		for k := range all {
			if !s.configuredUpstream[k.upstream] {
				delete(all, k)
				s.set.UnregisterMetric(k.seriesName())
			}
		}
	})
	s.tiers.deleteFunc(func(k tierKey) bool { return !s.configured[k.model] })
	s.classes.deleteFunc(func(k classKey) bool { return !s.configured[k.model] })
	s.choices.deleteFunc(func(k choiceKey) bool { return !s.configured[k.model] })
	s.fallbacks.deleteFunc(func(k fallbackKey) bool { return !s.configured[k.model] })
	s.shadows.deleteFunc(func(k fallbackKey) bool { return !s.configured[k.model] || !s.configured[k.to] })
	s.arms.deleteFunc(func(k armKey) bool { return !s.configured[k.model] })
	s.histories.deleteFunc(func(k modelUpstreamKey) bool { return !s.configured[k.model] || !s.configuredUpstream[k.upstream] })
	s.upstreams.update(func(all map[string]*upstreamSeries) {
		for name := range all {
			if !s.configuredUpstream[name] {
				delete(all, name)
				s.set.UnregisterMetric("penstock_upstream_ttft_seconds" + formatLabels("upstream", name))
			}
		}
	})
}

func (s *callSeries) dropModel(m *modelSeries) {
	m.dropped = true
	for e := range m.endCounters.all() {
		s.set.UnregisterMetric(m.endedCallsSeriesName(e))
	}
	l := formatLabels("dialect", m.key.dialect, "model", m.key.model)
	for _, name := range []string{
		"penstock_call_duration_seconds", "penstock_ttft_seconds",
		"penstock_queue_seconds", "penstock_itl_seconds", "penstock_calls_estimated_total",
		"penstock_calls_full_total",
	} {
		s.set.UnregisterMetric(name + l)
	}
	for _, kind := range []string{"prompt", "completion", "cached"} {
		s.set.UnregisterMetric("penstock_tokens_total" + formatLabels("dialect", m.key.dialect, "model", m.key.model,
			"kind", kind))
	}
}

func nameSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func formatLabels(pairs ...string) string {
	var b strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		b.WriteString("," + pair[0] + `="` + labelEscaper.Replace(pair[1]) + `"`)
	}
	return "{" + b.String()[1:] + "}"
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
