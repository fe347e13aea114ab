package observe

import (
	"strings"
	"time"

	"penstock/config/money"
)

// Outcome is how a call ended, for a metric label and the log.
type Outcome string

// The closed set of outcomes.
const (
	OK           Outcome = "ok"
	ClientError  Outcome = "client_error"  // the request was invalid or not allowed
	Limited      Outcome = "limited"       // refused by a rate, a full pool or a memory budget
	NoRoute      Outcome = "no_route"      // no healthy upstream
	UpstreamFail Outcome = "upstream_fail" // an engine failed before the commit
	StreamBroken Outcome = "stream_broken" // an engine failed after the commit
	Timeout      Outcome = "timeout"
	ClientGone   Outcome = "client_gone"
	Drained      Outcome = "drained" // ended by the edge's own shutdown
	Internal     Outcome = "internal"
)

// Failed reports whether the service failed the call. The alert on failing calls counts the same
// outcomes.
func (o Outcome) Failed() bool {
	return o == UpstreamFail || o == StreamBroken || o == Timeout || o == NoRoute || o == Internal
}

// Phase is the phase of a call, or the last phase of a call whose client disconnected.
type Phase string

// The phases of a call.
const (
	PhaseBody      Phase = "body"
	PhaseHook      Phase = "hook" // a hook decides about the call
	PhaseQueued    Phase = "queued"
	PhaseWaiting   Phase = "waiting"
	PhaseStreaming Phase = "streaming"
	PhaseStalled   Phase = "stalled" // only at the end: the client stopped reading
)

// ID is a request id stored in place: "req_" and 26 characters. A Record contains the id itself, so
// storing an id allocates nothing.
type ID [30]byte

// String returns the id as clients see it.
func (id ID) String() string { return string(id[:]) }

// IsID reports whether s has the format of a request id.
func IsID(s string) bool {
	rest, ok := strings.CutPrefix(s, "req_")
	return ok && len(s) == len(ID{}) && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// Record holds all data that is reported about one call. Model, Upstream and Key are configured
// names or empty, User and Session are keyed hashes, and Client is the peer's address if log.client
// is set. ProxyRequestID is a text from a trusted proxy. No field can hold a client's text.
type Record struct {
	RequestID                                   ID
	Key, Dialect, Model, Upstream, Pool, Client string
	ProxyRequestID                              string // of a listed proxy; empty: none
	// user of the key's application; zero: unknown
	User     EndUser
	Session  Session // session of the client; zero: unknown
	Template string  // the key that is the template for a token's rights

	Start            time.Time
	Stream           bool
	Status, Attempts int
	Resumed          int    // how often another upstream continued the stream
	Class            string // class of the call; empty for the first class
	Asked            string // the model that the client requested, if Model answers in place of it
	Nearest          string // the configured model that the client may have meant by an unknown name
	// tier of the last upstream that was asked; 0: the first tier, or no tiers
	Tier int
	// Arm is the arm of the last upstream that was asked, or the call's own arm if no upstream was
	// asked because there was no slot. It is NoArm for upstreams without an arm, and empty if the
	// model has no arms and no shadow.
	Arm       string
	MissedArm string  // the call's own arm, or NoArm, if an upstream of another arm was asked
	Choice    *Choice // why the last upstream was picked; nil: there was no choice
	Code      string  // the error code of the refusal or failure
	Finish    string  // how the answer ended, in the chat dialect's words
	// Markup names model markup at the start of the answer that the engine should have parsed. The
	// name is from a closed set.
	Markup           string
	Dropped          []string // members omitted from the request, from a closed set
	Limit            string   // the key's limit that refused the call; empty otherwise
	Outcome          Outcome
	Phase            Phase // the phase in which the client disconnected
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int  // how many of PromptTokens the engine had cached
	ExpectedCached   int  // how many it was expected to have cached; see Choice
	TokensEstimated  bool // the engine reported no tokens
	Spend            money.Amount
	Committed        bool // bytes of a stream were sent

	Queue        time.Duration // time spent waiting for a slot
	TTFT         time.Duration // until the first event; unstreamed: until the last byte
	UpstreamTTFT time.Duration // from sending the request to the first event
	Overhead     time.Duration // the edge's own time before the first byte of the answer; 0: unknown

	BytesIn, BytesOut int64

	// Cause and EngineStatus describe the failure that ended the call. Cause is a word of
	// upstreams.Causes, or empty if no engine failed the call. EngineStatus is the status of the
	// engine's answer, or 0 without an answer.
	Cause        string
	EngineStatus int
	Hooks        *Hooks // nil: no hook was asked
	// Failed lists the failed attempts, oldest first, even if a later attempt was answered.
	Failed []FailedAttempt

	streamed int // events that a Meter counted while the stream ran
}

// Hooks describes what the hooks did to a call.
type Hooks struct {
	Took   time.Duration // total time of all hooks
	Failed string        // the last hook without a decision; empty: none
	Detail string        // fault in its answer, a word of hook.Details; empty: it gave no answer
}

// SetTokens records the tokens of the prompt and the answer.
func (r *Record) SetTokens(prompt, completion, cached int, estimated bool) {
	r.PromptTokens, r.CompletionTokens, r.CachedTokens, r.TokensEstimated = prompt, completion, cached, estimated
	if r.Choice != nil {
		r.ExpectedCached = r.Choice.expect(prompt)
	}
}

// NoArm stands for upstreams without an arm, if other upstreams of the same model have one.
const NoArm = "-"

// FailedAttempt describes a failed attempt.
type FailedAttempt struct {
	Upstream     string
	Cause        string        // a word of upstreams.Causes
	EngineStatus int           // status of the engine's answer; 0: no answer
	Arm          string        // arm of the upstream, as in Record
	Rejected     bool          // the engine refused the request itself
	Fault        bool          // it counts as a failure of the upstream
	After        time.Duration // from the start of the call to the start of the attempt
	Took         time.Duration
}

// retried reports whether another attempt followed the i-th failed attempt.
func (r *Record) retried(i int) bool {
	return i < len(r.Failed)-1 || !r.Outcome.Failed() || r.Failed[i].Upstream != r.Upstream
}

// outputTime returns how long the generation took after the first token.
func (r *Record) outputTime(now time.Time) time.Duration { return now.Sub(r.Start) - r.TTFT }

// Limits that do not belong to a key.
const (
	limitPool   = "pool"   // every slot of the model is in use, and its queue full or timed out
	limitEngine = "engine" // the engines themselves refused
)

// limit returns, from a closed set, the limit that refused a call with the outcome Limited.
func (r *Record) limit() string {
	switch {
	case r.Limit != "":
		return r.Limit
	case r.Code == "capacity_full" && r.Attempts == 0:
		return limitPool
	case r.Code == "capacity_full":
		return limitEngine
	}
	return dash(r.Code)
}

// shownModel returns the model as the console log shows it. An unknown name is a client's text, so
// shownModel shows a configured model with a similar name in place of it.
func (r *Record) shownModel() string {
	switch {
	case r.Code != "model_not_found":
		return dash(r.Model)
	case r.Nearest != "":
		return "unknown model, like " + r.Nearest
	default:
		return "unknown model"
	}
}

// dash returns s, or "-" if it is empty.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
