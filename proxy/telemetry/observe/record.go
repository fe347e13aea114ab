package observe

import (
	"strings"
	"time"

	"penstock/config/money"
)

// Outcome is how a call ended, for the metrics' label and the log.
type Outcome string

// The closed set of outcomes.
const (
	OK           Outcome = "ok"
	ClientError  Outcome = "client_error"  // the request was wrong or not allowed
	Limited      Outcome = "limited"       // a rate, a full pool or a memory budget refused it
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

// Phase is the phase that a call is in, or was in when its client left.
type Phase string

// The phases of a call.
const (
	PhaseBody      Phase = "body"
	PhaseQueued    Phase = "queued"
	PhaseWaiting   Phase = "waiting"
	PhaseStreaming Phase = "streaming"
	PhaseStalled   Phase = "stalled" // the client stopped reading and was cut off; the end of a call only
)

// ID is a request id stored in place: "req_" and 26 characters. A Record holds it by value, so that
// storing one allocates nothing.
type ID [30]byte

// String returns the id as clients see it.
func (id ID) String() string { return string(id[:]) }

// IsID reports whether s has the form of a request id.
func IsID(s string) bool {
	rest, ok := strings.CutPrefix(s, "req_")
	return ok && len(s) == len(ID{}) && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// Record is everything that is reported about one call. Model, Upstream and Key are configured
// names or empty, User and Session are keyed hashes, Client is the peer's address if log.client
// asks for it. No field can hold a client's words.
type Record struct {
	RequestID                                   ID
	Key, Dialect, Model, Upstream, Pool, Client string
	User                                        EndUser // of the key's application; zero: not known
	Session                                     Session // of the client, where log.sessions asks for it; zero: not known
	Template                                    string  // key that a token has its rights from; empty for a key

	Start            time.Time
	Stream           bool
	Status, Attempts int
	Resumed          int    // how often another upstream continued the stream
	Class            string // of the call, where it is not the first
	Asked            string // model that the client asked for, if Model answers in its place
	Nearest          string // configured model that the client may have meant by an unknown name
	Tier             int    // of the upstream that was asked last; 0: it has no tiers, or it is the first
	// Arm is the arm of the upstream that was asked last. If none was asked for lack of room, it is
	// the arm of the call. It is NoArm for upstreams without an arm, and empty if the model has no
	// arms or shadow.
	Arm       string
	MissedArm string  // the call's arm, or NoArm, if another one was asked
	Choice    *Choice // why the last upstream was picked; nil: there was no choice
	Code      string  // error code of the refusal or failure
	Finish    string  // how the answer ended, in the chat dialect's words
	// Markup is model markup at the beginning of the answer that the engine should have parsed,
	// from a closed set.
	Markup           string
	Dropped          []string // what was left out of the request, from a closed set
	Limit            string   // which limit of its key refused it; empty otherwise
	Outcome          Outcome
	Phase            Phase // of a client that left
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int  // of PromptTokens
	ExpectedCached   int  // of PromptTokens, what the engine was believed to have cached; see Choice
	TokensEstimated  bool // the engine reported none
	Spend            money.Amount
	Committed        bool // bytes of a stream had been sent

	Queue        time.Duration // waiting for a slot
	TTFT         time.Duration // from the request's head to the first event; of a whole answer to its last byte
	UpstreamTTFT time.Duration // from sending to the first event
	Overhead     time.Duration // what the edge itself added before the first byte of the answer; 0: not known

	BytesIn, BytesOut int64

	// Cause and EngineStatus describe the failure that ended the call: a word of upstreams.Causes,
	// empty if no engine failed it, and the status of the engine's answer, 0 if there was none.
	Cause        string
	EngineStatus int
	// Failed lists the failed attempts, oldest first, whether or not a later one was answered.
	Failed []FailedAttempt

	streamed int // events counted by a Meter while the stream ran
}

// SetTokens records the tokens of the prompt and the answer.
func (r *Record) SetTokens(prompt, completion, cached int, estimated bool) {
	r.PromptTokens, r.CompletionTokens, r.CachedTokens, r.TokensEstimated = prompt, completion, cached, estimated
	if r.Choice != nil {
		r.ExpectedCached = r.Choice.expect(prompt)
	}
}

// NoArm is the arm of upstreams without an arm, if others of their model have one.
const NoArm = "-"

// FailedAttempt is a failed attempt.
type FailedAttempt struct {
	Upstream     string
	Cause        string        // a word of upstreams.Causes
	EngineStatus int           // of the engine's answer; 0: there was none
	Arm          string        // of the upstream, as in Record
	Rejected     bool          // the engine refused the request itself
	Fault        bool          // it counts against the upstream
	After        time.Duration // from the start of the call to that of the attempt
	Took         time.Duration
}

// retried reports whether the failed attempt with this number was followed by another one.
func (r *Record) retried(i int) bool {
	return i < len(r.Failed)-1 || !r.Outcome.Failed() || r.Failed[i].Upstream != r.Upstream
}

// outputTime returns how long the generation took after the first token.
func (r *Record) outputTime(now time.Time) time.Duration { return now.Sub(r.Start) - r.TTFT }

// Words for limits that are not a key's.
const (
	limitPool   = "pool"   // every slot of the model is in use, and its queue full or timed out
	limitEngine = "engine" // the engines themselves refused
)

// limit returns what refused a call with the outcome Limited, from a closed set.
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

// shownModel returns the model as the console log writes it. An unknown name is a client's string,
// so a configured model with a similar name replaces it.
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
