package status

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/proxy/telemetry/observe"
)

// The states of a call in addition to its phases.
const (
	CallDone    = "done"
	CallLeft    = "left"
	CallFailed  = "failed"
	CallRefused = "refused" // refused before a request was sent to an engine
)

// Call is one row of the calls table. It contains no text from a prompt or an answer.
type Call struct {
	ID      string    `json:"id"`
	ProxyID string    `json:"proxy_request_id,omitempty"` // id from a proxy in listen_trusted
	Start   time.Time `json:"start"`
	Key     string    `json:"key,omitempty"`
	Dialect string    `json:"dialect"`
	Model   string    `json:"model"`
	// Asked is the requested model, if a different model (Model) answered.
	Asked    string    `json:"asked_model,omitempty"`
	Upstream string    `json:"upstream,omitempty"`
	Pool     string    `json:"pool"`
	Class    string    `json:"class,omitempty"` // empty if the call is in the first class
	Stream   bool      `json:"stream"`
	State    string    `json:"state"` // body, hook, queued, waiting, streaming; done, left, failed, refused
	Status   int       `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	Phase    string    `json:"left_in_phase,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	Failed   []Attempt `json:"failed_attempts,omitempty"`
	Resumed  int       `json:"resumed,omitempty"` // how many times another upstream continued the stream

	Cached int `json:"prompt_cached_tokens"`
	Fresh  int `json:"prompt_new_tokens"`
	// Expected is how many prompt tokens the edge expected to be cached when it chose the upstream.
	Expected  int  `json:"prompt_expected_cached_tokens,omitempty"`
	Generated int  `json:"generated_tokens"`
	Estimated bool `json:"tokens_estimated,omitempty"`

	// Choice is a routing.ChoiceReason, or empty if there was no alternative. Only the call's page
	// shows Estimates.
	Choice    string                     `json:"choice,omitempty"`
	Estimates []observe.UpstreamEstimate `json:"-"`

	Hooks      float64 `json:"hook_ms,omitempty"`
	HookFailed string  `json:"hook_failed,omitempty"` // the last hook that returned no decision
	HookDetail string  `json:"hook_detail,omitempty"` // the hook's fault, one of hook.AllAnswerMistakes

	Queue       float64  `json:"queue_ms"`
	TTFT        float64  `json:"ttft_ms"` // 0 if there is no first token
	Duration    float64  `json:"duration_ms"`
	PromptSpeed *float64 `json:"prompt_tokens_per_second"` // null if unknown
	GenSpeed    *float64 `json:"generated_tokens_per_second"`

	slow bool
}

// Attempt is a failed attempt of a call at an upstream.
type Attempt struct {
	Upstream     string  `json:"upstream"`
	Cause        string  `json:"cause"`                   // one of upstreams.Causes
	EngineStatus int     `json:"engine_status,omitempty"` // 0 if the engine did not respond
	After        float64 `json:"after_ms"`                // since the start of the call
	Took         float64 `json:"took_ms"`
}

// Why returns the cause, as shown in the log, and the status.
func (a *Attempt) Why() string { return withStatus(a.Cause, a.EngineStatus) }

// Running reports whether the call is still running.
func (c *Call) Running() bool {
	switch c.State {
	case CallDone, CallLeft, CallFailed, CallRefused:
		return false
	}
	return true
}

// Slow reports whether the call has ended and waited longer than it should have.
func (c *Call) Slow() bool { return c.slow }

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MaxShownEnded is the maximum number of recently ended calls to show. The same maximum applies to
// each kind of call that is stored longer: failed, slow and refused calls.
const MaxShownEnded = 100

func mergeCalls(flights []Call, ended []observe.EndedCall) []Call {
	slices.SortFunc(flights, func(a, b Call) int { return a.Start.Compare(b.Start) })
	out := slices.Grow(flights, max(1, len(ended))) // the JSON must contain a list, not null
	for i := range ended {
		out = append(out, endedCall(&ended[i]))
	}
	return out
}

func endedCall(e *observe.EndedCall) Call {
	r := &e.Record
	c := Call{
		ID: r.RequestID.String(), ProxyID: r.ProxyRequestID, Start: r.Start, Key: r.Key, Dialect: r.Dialect, Model: r.Model, Asked: r.Asked,
		Upstream: r.Upstream, Pool: r.Pool, Class: r.Class, Stream: r.Stream,
		State: CallDone, Status: r.Status, Code: r.Code, Attempts: r.Attempts, Resumed: r.Resumed,
		Cached: r.CachedTokens, Fresh: max(0,
			r.PromptTokens-r.CachedTokens), Generated: r.CompletionTokens, Estimated: r.TokensEstimated,
		Queue: Millis(r.Queue), TTFT: Millis(r.TTFT), Duration: Millis(e.End.Sub(r.Start)), slow: r.Slow(),
	}
	if r.Choice != nil {
		c.Choice, c.Expected, c.Estimates = r.Choice.Reason, r.ExpectedCached, r.Choice.Estimates
	}
	if h := r.Hooks; h != nil {
		c.Hooks, c.HookFailed, c.HookDetail = Millis(h.Took), h.Failed, h.Detail
	}
	for i := range r.Failed {
		a := &r.Failed[i]
		c.Failed = append(c.Failed, Attempt{a.Upstream, a.Cause, a.EngineStatus, Millis(a.After), Millis(a.Took)})
	}
	switch {
	case r.Outcome == observe.OutcomeOK:
	case r.Outcome == observe.OutcomeClientGone:
		c.State, c.Phase = CallLeft, string(r.Phase)
	case r.Refused():
		c.State = CallRefused
	default:
		c.State = CallFailed
	}
	if r.Stream && r.UpstreamTTFT > 0 { // otherwise, it is unknown when the prefill ended
		c.PromptSpeed = tokensPerSecond(float64(c.Fresh), r.UpstreamTTFT)
		c.GenSpeed = tokensPerSecond(float64(r.CompletionTokens-1), e.End.Sub(r.Start)-r.TTFT)
	}
	return c
}

func tokensPerSecond(tokens float64, d time.Duration) *float64 {
	if tokens <= 0 || d < time.Millisecond {
		return nil
	}
	v := tokens / d.Seconds()
	return &v
}

// Reason counts the calls that were refused or failed for the same reason.
type Reason struct {
	Code     string `json:"code"`
	Cause    string `json:"cause,omitempty"` // for a failure at an engine: one of upstreams.Causes
	Status   int    `json:"status"`
	Engine   int    `json:"engine_status,omitempty"` // 0 if the engine did not respond
	Limit    string `json:"limit,omitempty"`
	Model    string `json:"model,omitempty"`
	Key      string `json:"key,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Failed is true if the service failed even though the request and its key were valid.
	Failed bool      `json:"failed,omitempty"`
	Count  int       `json:"count"`
	Minute int       `json:"last_minute"` // how many of Count occurred in the last minute
	Last   time.Time `json:"last"`
}

// ID identifies the reason among all counted reasons.
func (r *Reason) ID() string {
	cause := r.Cause
	if r.Engine != 0 {
		cause += strconv.Itoa(r.Engine)
	}
	return strings.Join([]string{r.Code, cause, r.Limit, r.Key, r.Model, r.Upstream}, " ")
}

func (r *Reason) causeText() string { return causeWithStatus(cmp.Or(r.Cause, r.Code), r.Engine) }

func reasonsFromCounts(counts []observe.FailureReasonCount) []Reason {
	out := make([]Reason, 0, len(counts))
	for i := range counts {
		c := &counts[i]
		out = append(out, Reason{
			Code: c.Code, Cause: c.Cause, Status: c.Status, Limit: c.Limit, Model: c.Model, Key: c.Key, Upstream: c.Upstream,
			Engine: c.EngineStatus,
			Failed: c.Outcome.Failed(), Count: c.Count, Minute: c.Minute, Last: c.Last,
		})
	}
	return out
}
