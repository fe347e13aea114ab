package observe

import (
	"strings"
	"time"

	"penstock/config/money"
)

// Outcome says how a call ended, for a metric label and the log.
type Outcome string

// The closed set of outcomes.
const (
	OutcomeOK           Outcome = "ok"
	OutcomeClientError  Outcome = "client_error"  // the request was invalid or not allowed
	OutcomeLimited      Outcome = "limited"       // refused by a rate limit, a full pool or a memory budget
	OutcomeNoRoute      Outcome = "no_route"      // no healthy upstream
	OutcomeUpstreamFail Outcome = "upstream_fail" // an engine failed before the commit
	OutcomeStreamBroken Outcome = "stream_broken" // an engine failed after the commit
	OutcomeTimeout      Outcome = "timeout"
	OutcomeClientGone   Outcome = "client_gone"
	OutcomeDrained      Outcome = "drained" // ended because the edge shut down
	OutcomeInternal     Outcome = "internal"
)

// Failed reports whether the service failed the call. The alert PenstockErrors counts the same
// outcomes.
func (o Outcome) Failed() bool {
	return o == OutcomeUpstreamFail || o == OutcomeStreamBroken || o == OutcomeTimeout || o == OutcomeNoRoute || o == OutcomeInternal
}

// Phase is the current phase of a call or, if the client disconnected, the last phase.
type Phase string

// The phases of a call.
const (
	PhaseBody           Phase = "body"
	PhaseHook           Phase = "hook" // a hook decides about the call
	PhaseQueued         Phase = "queued"
	PhaseAwaitingAnswer Phase = "waiting"
	PhaseStreaming      Phase = "streaming"
	PhaseStalled        Phase = "stalled" // only for ended calls: the client had stopped reading
)

// RequestID is a request id: "req_" and 26 characters. Storing a RequestID does not allocate.
type RequestID [30]byte

// String returns the id as clients see it.
func (id RequestID) String() string { return string(id[:]) }

// IsRequestID reports whether s has the format of a request id.
func IsRequestID(s string) bool {
	rest, ok := strings.CutPrefix(s, "req_")
	return ok && len(s) == len(RequestID{}) && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// Record contains everything that is reported about one call. Model, Upstream and Key are
// configured names or empty, and User and Session are keyed hashes. No field contains client text.
type Record struct {
	RequestID                                   RequestID
	Key, Dialect, Model, Upstream, Pool, Client string
	ProxyRequestID                              string // from a proxy in listen_trusted, or empty
	// User is the end user of the application that owns the key, or zero if unknown.
	User     EndUserHash
	Session  SessionHash
	Template string // the key that defines a token's rights

	Start            time.Time
	Stream           bool
	Committed        bool // bytes of a stream were sent
	TokensEstimated  bool // the engine did not report token counts
	Status, Attempts int
	Resumed          int
	Class            string // class of the call; empty for the first class
	Asked            string // the requested model, if a different model (Model) answered
	// The configured model that the client may have meant if the requested name is unknown.
	Nearest string
	// Tier is the tier of the upstream in the last attempt. The first tier is 0.
	Tier int
	// Arm is the arm of the upstream in the last attempt. If there was no attempt, Arm is the arm
	// to which the call was assigned. It is empty if the model has no arms and no shadow.
	Arm       string
	MissedArm string         // the assigned arm, or NoArm, if an upstream of another arm was used
	Choice    *RoutingChoice // why the last upstream was chosen; nil if there was no alternative
	Code      string
	Finish    string
	// Markup is the model markup, from a closed set, at the start of the answer. The engine should
	// have removed this markup.
	Markup           string
	Dropped          []string // members omitted from the request, from a closed set
	Limit            string   // the limit of the key that rejected the call, or empty
	Outcome          Outcome
	Phase            Phase
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int
	ExpectedCached   int // how many of PromptTokens were expected to be cached; see Choice
	Spend            money.Amount

	Queue time.Duration
	// TTFT is the time from the start of the call to the first event. Without streaming, it ends at
	// the last byte.
	TTFT         time.Duration
	UpstreamTTFT time.Duration // from sending the request to the first event
	Overhead     time.Duration // time added by the edge before the first byte of the answer, or 0 if unknown

	BytesIn, BytesOut int64

	// Cause and EngineStatus describe the failure that ended the call. Cause is one of
	// upstreams.Causes, or empty. EngineStatus is 0 if there was no response.
	Cause        string
	EngineStatus int
	Hooks        *HooksResult // nil if no hook was called
	// Failed lists the failed attempts, oldest first, even if a later attempt succeeded.
	Failed []FailedAttempt

	streamed int // number of events counted by a StreamMeter while the stream was running
}

// HooksResult describes the hooks of a call.
type HooksResult struct {
	Took   time.Duration
	Failed string // the last hook that returned no decision, or empty
	// The fault in the hook's response, one of hook.AllAnswerMistakes; empty if there was no
	// response.
	Detail string
}

// SetTokens records the tokens of the prompt and the answer.
func (r *Record) SetTokens(prompt, completion, cached int, estimated bool) {
	r.PromptTokens, r.CompletionTokens, r.CachedTokens, r.TokensEstimated = prompt, completion, cached, estimated
	if r.Choice != nil {
		r.ExpectedCached = r.Choice.expectedCached(prompt)
	}
}

// NoArm is the name for the upstreams without an arm if other upstreams of the same model have
// arms.
const NoArm = "-"

// FailedAttempt describes a failed attempt.
type FailedAttempt struct {
	Upstream     string
	Cause        string // one of upstreams.Causes
	EngineStatus int
	Arm          string        // arm of the upstream, as in Record
	Rejected     bool          // the engine rejected the request because of its content
	Fault        bool          // the attempt counts as a failure of the upstream
	After        time.Duration // from the start of the call to the start of the attempt
	Took         time.Duration
}

// wasRetried reports whether another attempt followed the i-th failed attempt.
func (r *Record) wasRetried(i int) bool {
	return i < len(r.Failed)-1 || !r.Outcome.Failed() || r.Failed[i].Upstream != r.Upstream
}

func (r *Record) outputTime(now time.Time) time.Duration { return now.Sub(r.Start) - r.TTFT }

// Limits that do not belong to a key.
const (
	refusedByPool   = "pool"   // all the model's slots are in use, and its queue is full or the wait timed out
	refusedByEngine = "engine" // the engines refused the call
)

// refusedLimit returns the limit that refused a call whose outcome is Limited. The result comes
// from a closed set.
func (r *Record) refusedLimit() string {
	switch {
	case r.Limit != "":
		return r.Limit
	case r.Code == "capacity_full" && r.Attempts == 0:
		return refusedByPool
	case r.Code == "capacity_full":
		return refusedByEngine
	}
	return orDash(r.Code)
}

// loggedModel returns the model for the log. An unknown name is client text, so loggedModel returns
// a similar configured name instead.
func (r *Record) loggedModel() string {
	switch {
	case r.Code != "model_not_found":
		return orDash(r.Model)
	case r.Nearest != "":
		return "unknown model, like " + r.Nearest
	default:
		return "unknown model"
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
