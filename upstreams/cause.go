package upstreams

import "penstock/upstreams/http1"

// Cause says why an attempt at an upstream failed, or a probe of it. The set is closed, so that a
// cause may be a metric's label: log, call page, events and metrics have the same words. The
// empty Cause means that the upstream has not failed: the client left, the key was revoked, the
// edge shut down.
//
// The words of package http1's failures are causes as they are.
type Cause string

// The causes that package http1 does not know.
const (
	CauseStatus     Cause = "status"
	CauseCredential Cause = "credential"
	CauseRefused    Cause = "refused"
	CauseRejected   Cause = "rejected"
	CauseModelGone  Cause = "model_gone"
	CauseNoEndpoint Cause = "no_endpoint"

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
)

// A CauseMeaning explains a cause to an operator.
type CauseMeaning struct {
	Cause   Cause
	Meaning string // a sentence
}

// Meaning says in a sentence what the cause means; empty for a word that is not a cause.
func (c Cause) Meaning() string {
	for i := range causes {
		if causes[i].Cause == c {
			return causes[i].Meaning
		}
	}
	return ""
}

// Causes returns every cause with its meaning, those of a connection first.
func Causes() []CauseMeaning { return causes }

var causes = []CauseMeaning{
	{http1.ReasonConnect, "The connection was refused or could not be made."},
	{http1.ReasonDNS, "The upstream's name did not resolve, or not in time."},
	{http1.ReasonTLS, "The TLS handshake failed."},
	{CauseConnectTimeout, "No connection was made within `timeouts.connect`."},
	{CauseWriteTimeout, "The engine did not read the request in time."},
	{http1.ReasonReset, "The connection was reset."},
	{http1.ReasonEOF, "The engine closed the connection before the first byte of its answer."},
	{http1.ReasonSilent, "The engine's host stopped acknowledging, or cannot be reached any more."},

	{CauseStatus, "The engine answered with a status other than 200 that no other cause explains. Its own log says why."},
	{CauseCredential, "The engine answered 401 or 403: look at the upstream's `api_key`."},
	{CauseRefused, "The engine said that it is full, or that it cannot answer at the moment: 429, 503, 529, or in the words of its profile."},
	{CauseRejected, "The engine refused the request itself, which is the client's to mend as a rule: 400, 413, 422, or in the words of its profile."},
	{CauseModelGone, "The engine answered 404 for a model that it is configured to serve."},
	{CauseNoEndpoint, "The engine does not have the endpoint of the call."},

	{CauseErrorEvent, "An answer with status 200 held an error in place of the next event or of the completion."},
	{CauseContentType, "The answer is of another media type than was asked for, such as HTML."},
	{CauseBadAnswer, "The answer breaks its dialect: JSON that does not parse, no choices, a member given twice, more than 32 MiB."},
	{CauseToolArguments, "The model called a tool with arguments that break off. The engine did its part."},
	{CauseUnfinished, "The stream ended without a finish reason in every choice."},
	{CauseNoLength, "The answer ended with its connection and had no length, so nobody knows whether it is whole."},
	{http1.ReasonTruncated, "The connection ended in the middle of the answer."},
	{http1.ReasonInvalid, "The answer is not HTTP, or its framing contradicts itself."},
	{http1.ReasonTooLarge, "The head of the answer, or a part of its framing, exceeds its bound."},
	{http1.ReasonEncoding, "The answer has a content encoding that was not asked for."},

	{CauseFirstEventTimeout, "The first event of the stream did not come within `timeouts.first_event`."},
	{CauseIdleTimeout, "The stream brought nothing for `timeouts.idle`."},
	{CauseAnswerTimeout, "The whole answer did not come within `timeouts.answer`."},
	{CauseTotalTimeout, "The call took longer than `timeouts.total`."},
	{CauseForgotten, "The engine has been silent and reports fewer requests than it was given: it has forgotten the call."},
	{CauseStalled, "The upstream stalled, and the call was moved to another one."},
	{CauseHandedOver, "The upstream's drain time was over, and the call was moved to another one."},

	{CauseReplyMemory, "The edge had no memory for the answer (`limits.reply_memory`); the engine is not to blame."},
	{http1.ReasonRequest, "The edge could not write the request; the engine is not to blame."},
	{http1.ReasonBody, "The client's body ended while it was passed on; the engine is not to blame."},
	{http1.ReasonAborted, "The edge ended the exchange; the engine is not to blame."},
	{http1.ReasonClosed, "The edge had closed the upstream's connections, as at a reload or its end."},

	{http1.ReasonTimeout, "A probe had no answer in time."},
	{CauseAsleep, "The engine said to a probe that it sleeps."},
}
