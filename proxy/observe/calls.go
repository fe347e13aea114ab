package observe

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
)

// Outcome is how a call ended, for the metrics' label and the log.
type Outcome string

// The closed set of outcomes.
const (
	OK           Outcome = "ok"
	ClientError  Outcome = "client_error"  // the request was refused as wrong or not allowed
	Limited      Outcome = "limited"       // a rate, a full pool or a memory budget refused it
	NoRoute      Outcome = "no_route"      // no healthy upstream
	UpstreamFail Outcome = "upstream_fail" // an engine failed before the commit
	StreamBroken Outcome = "stream_broken" // an engine failed after the commit
	Timeout      Outcome = "timeout"
	ClientGone   Outcome = "client_gone"
	Drained      Outcome = "drained" // ended by the edge's own shutdown
	Internal     Outcome = "internal"
)

// Phase is where a call stood when its client left.
type Phase string

// The phases of a call.
const (
	PhaseBody      Phase = "body"
	PhaseQueued    Phase = "queued"
	PhaseWaiting   Phase = "waiting"
	PhaseStreaming Phase = "streaming"
)

// Record is everything that is told of one call. Model and Upstream are configured names or empty.
type Record struct {
	RequestID, Key, Dialect, Model, Upstream, Pool, Client string

	Start             time.Time
	Stream            bool
	Status, Attempts  int
	Code              string // error code of the refusal or failure
	Outcome           Outcome
	Phase             Phase // of a client that left
	PromptTokens      int
	CompletionTokens  int
	CachedTokens      int
	TokensEstimated   bool
	Queue, TTFT       time.Duration
	BytesIn, BytesOut int64
}

// latencyBounds reach from a local embedding to a long generation, in seconds.
var latencyBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}

// Calls counts and logs finished calls. It is safe for concurrent use.
type Calls struct {
	set    *metrics.Set
	log    *zap.Logger
	access bool

	series   sync.Map // seriesKey → *series
	models   sync.Map // modelKey → *modelSeries
	refusals sync.Map // code → *metrics.Counter
	aborts   sync.Map // Phase → *metrics.Counter
	inflight atomic.Int64

	// Panics counts recovered panics; a rise is a bug.
	Panics *metrics.Counter
}

type seriesKey struct{ dialect, model, upstream, outcome string }

type modelKey struct{ dialect, model string }

type modelSeries struct {
	duration, ttft             *metrics.PrometheusHistogram
	prompt, completion, cached *metrics.Counter
}

// NewCalls registers the edge's own metrics in set and logs access lines to log when access is true.
func NewCalls(set *metrics.Set, log *zap.Logger, access bool) *Calls {
	c := &Calls{set: set, log: log, access: access}
	c.Panics = set.NewCounter("penstock_panics_total")
	set.NewGauge("penstock_calls_inflight", func() float64 { return float64(c.inflight.Load()) })
	return c
}

// Begin counts a call as in flight until Finish.
func (c *Calls) Begin() { c.inflight.Add(1) }

// InFlight returns the calls between Begin and Finish.
func (c *Calls) InFlight() int64 { return c.inflight.Load() }

// Finish counts r and writes its line. It is called exactly once per Begin.
func (c *Calls) Finish(r *Record, now time.Time) {
	c.inflight.Add(-1)
	c.calls(seriesKey{r.Dialect, r.Model, r.Upstream, string(r.Outcome)}).Inc()
	switch r.Outcome {
	case ClientGone:
		c.counter(&c.aborts, "penstock_client_aborts_total", "phase", string(r.Phase)).Inc()
	case OK:
	default:
		c.counter(&c.refusals, "penstock_errors_total", "code", dash(r.Code)).Inc()
	}
	if r.Model != "" {
		m := c.model(modelKey{r.Dialect, r.Model})
		m.duration.Update(now.Sub(r.Start).Seconds())
		if r.TTFT > 0 {
			m.ttft.Update(r.TTFT.Seconds())
		}
		m.prompt.Add(r.PromptTokens)
		m.completion.Add(r.CompletionTokens)
		m.cached.Add(r.CachedTokens)
	}
	if c.access {
		writeLine(c.log, r, now)
	}
}

// Refused counts a request that was refused before it was a call, by the code of the refusal.
func (c *Calls) Refused(code string) {
	c.counter(&c.refusals, "penstock_errors_total", "code", dash(code)).Inc()
}

func (c *Calls) calls(k seriesKey) *metrics.Counter {
	if v, ok := c.series.Load(k); ok {
		return v.(*metrics.Counter)
	}
	name := fmt.Sprintf(`penstock_calls_total{dialect=%q,model=%q,upstream=%q,outcome=%q}`, k.dialect, dash(k.model), dash(k.upstream), k.outcome)
	v, _ := c.series.LoadOrStore(k, c.set.GetOrCreateCounter(name))
	return v.(*metrics.Counter)
}

func (c *Calls) counter(in *sync.Map, name, label, value string) *metrics.Counter {
	if v, ok := in.Load(value); ok {
		return v.(*metrics.Counter)
	}
	v, _ := in.LoadOrStore(value, c.set.GetOrCreateCounter(fmt.Sprintf(`%s{%s=%q}`, name, label, value)))
	return v.(*metrics.Counter)
}

func (c *Calls) model(k modelKey) *modelSeries {
	if v, ok := c.models.Load(k); ok {
		return v.(*modelSeries)
	}
	labels := fmt.Sprintf(`dialect=%q,model=%q`, k.dialect, k.model)
	tokens := func(kind string) *metrics.Counter {
		return c.set.GetOrCreateCounter(fmt.Sprintf(`penstock_tokens_total{%s,kind=%q}`, labels, kind))
	}
	v, _ := c.models.LoadOrStore(k, &modelSeries{
		duration:   c.set.GetOrCreatePrometheusHistogramExt(`penstock_call_duration_seconds{`+labels+`}`, latencyBounds),
		ttft:       c.set.GetOrCreatePrometheusHistogramExt(`penstock_ttft_seconds{`+labels+`}`, latencyBounds),
		prompt:     tokens("prompt"),
		completion: tokens("completion"),
		cached:     tokens("cached"),
	})
	return v.(*modelSeries)
}
