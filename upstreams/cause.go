package upstreams

import "penstock/upstreams/http1"

// Cause is the reason why a health probe, or a call to an upstream, failed. Causes are a closed
// set, so they can be metric labels. The log, the call page, the events and the metrics use the
// same values. The empty Cause means that the upstream did not fail: the client disconnected, the
// key was revoked, or the edge shut down.
//
// Each failure reason of package http1 is also a Cause.
type Cause string

// Causes that package http1 does not define.
const (
	CauseStatus            Cause = "status"
	CauseCredential        Cause = "credential"
	CauseConnectionRefused Cause = "refused"
	CauseRejected          Cause = "rejected"
	CauseModelGone         Cause = "model_gone"
	CauseNoEndpoint        Cause = "no_endpoint"

	CauseErrorEvent    Cause = "error_event"
	CauseContentType   Cause = "content_type"
	CauseBadAnswer     Cause = "bad_answer"
	CauseToolArguments Cause = "tool_arguments"
	CauseUnfinished    Cause = "unfinished"
	CauseNoLength      Cause = "no_length"

	CauseConnectTimeout    Cause = "connect_timeout"
	CauseWriteTimeout      Cause = "write_timeout"
	CauseFirstEventTimeout Cause = "first_event_timeout"
	CauseIdleTimeout       Cause = "idle_timeout"
	CauseAnswerTimeout     Cause = "answer_timeout"
	CauseTotalTimeout      Cause = "total_timeout"
	CauseForgotten         Cause = "forgotten"
	CauseStalled           Cause = "stalled"
	CauseHandedOver        Cause = "handed_over"

	CauseReplyMemory Cause = "no_reply_memory"
	CauseAsleep      Cause = "asleep"

	CauseHookUnreachable Cause = "hook_unreachable"
	CauseHookTimeout     Cause = "hook_timeout"
	CauseHookStatus      Cause = "hook_status"
	CauseHookAnswer      Cause = "hook_answer"
)

// CauseMeaning explains a cause to an operator.
type CauseMeaning struct {
	Cause        Cause
	ShortMeaning string // short form, shown in parentheses
	Meaning      string // a full sentence
}

// Meaning explains the cause in a sentence. It returns "" for an unknown cause.
func (c Cause) Meaning() string { return c.meaningEntry().Meaning }

// ShortMeaning explains the cause in a few words. It returns "" for an unknown cause.
func (c Cause) ShortMeaning() string { return c.meaningEntry().ShortMeaning }

func (c Cause) meaningEntry() CauseMeaning {
	for i := range causeMeanings {
		if causeMeanings[i].Cause == c {
			return causeMeanings[i]
		}
	}
	return CauseMeaning{}
}

// Causes returns all causes, connection failures first.
func Causes() []CauseMeaning { return causeMeanings }

var causeMeanings = []CauseMeaning{
	{http1.ReasonConnect, "no connection", "The connection was refused or could not be made."},
	{http1.ReasonDNS, "its name does not resolve", "The upstream's name did not resolve, or not in time."},
	{http1.ReasonTLS, "TLS handshake failed", "The TLS handshake failed."},
	{CauseConnectTimeout, "no connection in time", "No connection was made within `timeouts.connect`."},
	{CauseWriteTimeout, "request not read in time", "The engine did not read the request in time."},
	{http1.ReasonReset, "connection reset", "The connection was reset."},
	{http1.ReasonEOF, "connection closed before the answer", "The engine closed the connection before the first byte of its answer."},
	{http1.ReasonSilent, "nothing came from it any more", "The engine's host stopped acknowledging or cannot be reached any more, or the engine was taken down after a minute of silence."},

	{CauseStatus, "status", "The engine answered with a status other than 200 that no other cause explains. Its own log says why."},
	{CauseCredential, "key not accepted", "The engine answered 401 or 403: look at the upstream's `api_key`."},
	{CauseConnectionRefused, "engine full or unavailable", "The engine said that it is full, or that it cannot answer at the moment: 429, 503, 529, or in the words of its profile."},
	{CauseRejected, "request rejected", "The engine refused the request itself, usually the client's fault: 400, 413, 422, or in the words of its profile."},
	{CauseModelGone, "model not found", "The engine answered 404 for a model that it is configured to serve."},
	{CauseNoEndpoint, "no such endpoint", "The engine does not have the endpoint of the call."},

	{CauseErrorEvent, "error in place of an answer", "An answer with status 200 held an error in place of the next event or of the completion."},
	{CauseContentType, "answer of the wrong media type", "The answer's media type is not the one requested, such as HTML."},
	{CauseBadAnswer, "answer not understood", "The answer breaks its dialect: JSON that does not parse, no choices, a member given twice, more than 32 MiB."},
	{CauseToolArguments, "tool arguments cut off", "The model called a tool with arguments that break off. The engine did its part."},
	{CauseUnfinished, "stream without its end", "The stream ended without a finish reason in every choice."},
	{CauseNoLength, "answer without a length", "The answer had no length and ended with its connection, so it cannot be known to be complete."},
	{http1.ReasonTruncated, "answer cut off", "The connection ended in the middle of the answer."},
	{http1.ReasonInvalid, "answer not valid HTTP", "The answer is not HTTP, or its framing contradicts itself."},
	{http1.ReasonTooLarge, "head of the answer too large", "The head of the answer, or a part of its framing, exceeds its bound."},
	{http1.ReasonEncoding, "answer in an encoding not asked for", "The answer has a content encoding that was not requested."},

	{CauseFirstEventTimeout, "no first event in time", "The first event of the stream did not come within `timeouts.first_event`."},
	{CauseIdleTimeout, "stream silent for too long", "The stream brought nothing for `timeouts.idle`."},
	{CauseAnswerTimeout, "no answer in time", "The whole answer did not come within `timeouts.answer`."},
	{CauseTotalTimeout, "call took too long", "The call took longer than `timeouts.total`."},
	{CauseForgotten, "engine forgot the call", "The engine has been silent and reports fewer requests than it was given: it has forgotten the call."},
	{CauseStalled, "engine stalled", "The upstream stalled, and the call was moved to another one."},
	{CauseHandedOver, "drain time over", "The upstream's drain time was over, and the call was moved to another one."},

	{CauseReplyMemory, "no memory for answers at the edge", "The edge had no memory for the answer (`limits.reply_memory`); the engine is not to blame."},
	{http1.ReasonRequest, "edge could not write the request", "The edge could not write the request; the engine is not to blame."},
	{http1.ReasonBody, "client's body ended early", "The client's body ended while it was passed on; the engine is not to blame."},
	{http1.ReasonAborted, "ended by the edge", "The edge ended the exchange; the engine is not to blame."},
	{http1.ReasonClosed, "connections closed by the edge", "The edge had closed the upstream's connections, as at a reload or its end."},

	{http1.ReasonTimeout, "no answer in time", "A probe had no answer in time."},
	{CauseAsleep, "engine asleep", "The engine answered a probe that it is asleep."},

	{CauseHookUnreachable, "hook not reachable", "No engine was asked: the connection to a hook could not be made, or broke before its answer."},
	{CauseHookTimeout, "no decision in time", "No engine was asked: a hook gave no whole answer within its `timeout`."},
	{CauseHookStatus, "hook answered with an error", "No engine was asked: a hook answered with a status other than 200."},
	{CauseHookAnswer, "decision not understood", "No engine was asked: a hook's answer is not a decision, is too long, breaks off, or rewrites what it may not."},
}
