package status

import (
	"strings"

	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// inWords are the causes as a sentence has them in brackets. The log has the causes themselves.
var inWords = map[upstreams.Cause]string{
	http1.ReasonConnect:              "no connection",
	http1.ReasonDNS:                  "its name does not resolve",
	http1.ReasonTLS:                  "TLS handshake failed",
	upstreams.CauseConnectTimeout:    "no connection in time",
	upstreams.CauseWriteTimeout:      "request not read in time",
	http1.ReasonReset:                "connection reset",
	http1.ReasonEOF:                  "connection closed before the answer",
	http1.ReasonSilent:               "host not reachable any more",
	upstreams.CauseStatus:            "status",
	upstreams.CauseCredential:        "key not accepted",
	upstreams.CauseRefused:           "engine full or unavailable",
	upstreams.CauseRejected:          "request rejected",
	upstreams.CauseModelGone:         "model not found",
	upstreams.CauseNoEndpoint:        "no such endpoint",
	upstreams.CauseErrorEvent:        "error in place of an answer",
	upstreams.CauseContentType:       "answer of the wrong media type",
	upstreams.CauseBadAnswer:         "answer not understood",
	upstreams.CauseToolArguments:     "tool arguments cut off",
	upstreams.CauseUnfinished:        "stream without its end",
	upstreams.CauseNoLength:          "answer without a length",
	http1.ReasonTruncated:            "answer cut off",
	http1.ReasonInvalid:              "answer not valid HTTP",
	http1.ReasonTooLarge:             "head of the answer too large",
	http1.ReasonEncoding:             "answer in an encoding not asked for",
	upstreams.CauseFirstEventTimeout: "no first event in time",
	upstreams.CauseIdleTimeout:       "stream silent for too long",
	upstreams.CauseAnswerTimeout:     "no answer in time",
	upstreams.CauseTotalTimeout:      "call took too long",
	upstreams.CauseForgotten:         "engine forgot the call",
	upstreams.CauseStalled:           "engine stalled",
	upstreams.CauseHandedOver:        "drain time over",
	upstreams.CauseReplyMemory:       "no memory for answers at the edge",
	http1.ReasonRequest:              "edge could not write the request",
	http1.ReasonBody:                 "client's body ended early",
	http1.ReasonAborted:              "ended by the edge",
	http1.ReasonClosed:               "connections closed by the edge",
	http1.ReasonTimeout:              "no answer in time",
	upstreams.CauseAsleep:            "engine asleep",
}

// words returns a cause, or the code of an error that no engine caused, in an operator's words. What
// follows a cause behind a colon stays as it is.
func words(cause string) string {
	word, detail, more := strings.Cut(cause, ": ")
	said, ok := inWords[upstreams.Cause(word)]
	if !ok {
		said = strings.ReplaceAll(strings.TrimPrefix(word, "upstream_"), "_", " ")
	}
	if more {
		said += ": " + detail
	}
	return said
}
