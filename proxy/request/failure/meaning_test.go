package failure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock/proxy/request/retry"
	"penstock/routing"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// TestMeanings checks how each failure is classified for the client, for the upstream's health and
// for package retry.
func TestMeanings(t *testing.T) {
	status := func(n int) *Failure { return FromStatus(n, &engineerror.Error{Message: "m"}, 0) }
	exchange := func(f http1.Failure) *Failure { return FromExchange(&f) }
	tests := []struct {
		name    string
		f       *Failure
		status  int
		code    string
		outcome upstreams.Outcome
		cause   upstreams.Cause
		next    retry.Cause
		lost    bool // whether another engine may continue a stream
	}{
		{"400", status(400), 400, apierr.CodeRejectedByEngine, upstreams.OutcomeRejected, upstreams.CauseRejected, retry.CauseFinal, false},
		{"401", status(401), 502, apierr.CodeUpstreamAuth, upstreams.OutcomeBadResponse, upstreams.CauseCredential, retry.CauseFinal, true},
		{"402", status(402), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeBadResponse, upstreams.CauseStatus, retry.CauseFinal, true},
		{"404", status(404), 503, apierr.CodeNoHealthyRoute, upstreams.OutcomeBadResponse, upstreams.CauseStatus, retry.CauseModelGone, true},
		{"413", status(413), 413, apierr.CodeRequestTooLarge, upstreams.OutcomeRejected, upstreams.CauseRejected, retry.CauseFinal, false},
		{"429", status(429), 429, apierr.CodeCapacityFull, upstreams.OutcomeRefused, upstreams.CauseConnectionRefused, retry.CauseEngineFull, true},
		{"500", status(500), 502, apierr.CodeUpstreamFailed, upstreams.OutcomeBadResponse, upstreams.CauseStatus, retry.CauseEngineFailed, true},
		{"502", status(502), 502, apierr.CodeUpstreamFailed, upstreams.OutcomeBadResponse, upstreams.CauseStatus, retry.CauseConnectionLost, true},
		{"503", status(503), 503, apierr.CodeNoHealthyRoute, upstreams.OutcomeRefused, upstreams.CauseConnectionRefused, retry.CauseEngineFull, true},
		{"504", status(504), 504, apierr.CodeGenerationTimeout, upstreams.OutcomeTimeout, upstreams.CauseStatus, retry.CauseFinal, true},
		{"529", status(529), 503, apierr.CodeNoHealthyRoute, upstreams.OutcomeRefused, upstreams.CauseConnectionRefused, retry.CauseEngineFull, true},
		{"no endpoint", EngineLacksEndpoint(404), 502, apierr.CodeUpstreamFailed, upstreams.OutcomeRejected, upstreams.CauseNoEndpoint, retry.CauseModelGone, false},
		{"error event", FromStreamError(&engineerror.Error{Message: "m"}), 502, apierr.CodeUpstreamFailed, upstreams.OutcomeBadResponse, upstreams.CauseErrorEvent, retry.CauseEngineFailed, true},
		{"error event, 404", FromStreamError(&engineerror.Error{Message: "m", Status: 404}), 503, apierr.CodeNoHealthyRoute, upstreams.OutcomeRejected, upstreams.CauseErrorEvent, retry.CauseConnectionLost, false},
		{"stalled", EngineStalled(), 504, apierr.CodeGenerationTimeout, upstreams.OutcomeStalled, upstreams.CauseStalled, retry.CauseMustLeaveEngine, true},
		{"down", EngineDown(), 502, apierr.CodeUpstreamUnreachable, upstreams.OutcomeUnreachable, http1.ReasonSilent, retry.CauseMustLeaveEngine, true},
		{"drained", EngineDraining(), 503, apierr.CodeNoHealthyRoute, upstreams.OutcomeHandedOver, upstreams.CauseHandedOver, retry.CauseMustLeaveEngine, true},
		{"internal", Internal(errors.New("x")), 500, "internal", upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"poisoned", Poisoned(), 502, apierr.CodeUpstreamFailed, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"no memory", NoReplyMemory(), 503, codeReplyMemory, upstreams.OutcomeClientGone, upstreams.CauseReplyMemory, retry.CauseFinal, false},
		{"client gone", FromAbort(ErrClientGone), StatusClientGone, codeClientGone, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"revoked", FromAbort(ErrRevoked), 401, apierr.CodeInvalidAPIKey, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"shutting down", FromAbort(ErrShuttingDown), 503, apierr.CodeShuttingDown, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"not connected in time", exchange(http1.Failure{Kind: http1.KindTimeout, Clock: http1.TimeoutConnect}), 502, apierr.CodeUpstreamUnreachable, upstreams.OutcomeUnreachable, upstreams.CauseConnectTimeout, retry.CauseConnectionLost, true},
		{"not written in time", exchange(http1.Failure{Kind: http1.KindTimeout}), 504, apierr.CodeGenerationTimeout, upstreams.OutcomeTimeout, upstreams.CauseWriteTimeout, retry.CauseFinal, true},
		{"host vanished", exchange(http1.Failure{Kind: http1.KindBadResponse, Err: http1.ErrHostVanished, Reason: http1.ReasonSilent}), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeUnreachable, http1.ReasonSilent, retry.CauseMustLeaveEngine, true},
		{"client's body, cut", exchange(http1.Failure{Kind: http1.KindAborted, Err: apierr.TooLarge(1)}), 413, apierr.CodeRequestTooLarge, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"aborted", exchange(http1.Failure{Kind: http1.KindAborted, Err: ErrShuttingDown}), 503, apierr.CodeShuttingDown, upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
		{"unreadable", FromExchange(&translate.BadAnswerError{Reason: "x"}), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeBadResponse, upstreams.CauseBadAnswer, retry.CauseBadAnswer, true},
		{"no finish", BadResponse(translate.ErrNoFinish), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeBadResponse, upstreams.CauseUnfinished, retry.CauseBadAnswer, true},
		{"no length", BadResponse(translate.ErrNoAnswerLength), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeBadResponse, upstreams.CauseNoLength, retry.CauseBadAnswer, true},
		{"the model's fault", BadResponse(&translate.BadAnswerError{Reason: "x", ByModel: true}), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeOK, upstreams.CauseToolArguments, retry.CauseBadAnswer, false},
		{"wrong type", WrongReplyContentType(errors.New("x")), 502, apierr.CodeUpstreamBadResponse, upstreams.OutcomeBadResponse, upstreams.CauseContentType, retry.CauseBadAnswer, true},
		{"too long", FromStatus(400, &engineerror.Error{ContextOverflow: true, ContextPrompt: 9, ContextMax: 5}, 0), 400, apierr.CodeContextLength, upstreams.OutcomeRejected, upstreams.CauseRejected, retry.CausePromptTooLong, false},
		{"refused by the gate", FromRequestError(apierr.New(429, "x", "y")), 429, "x", upstreams.OutcomeOK, "", retry.CauseFinal, false},
		{"not one of our errors", FromRequestError(errors.New("x")), 500, "internal", upstreams.OutcomeClientGone, "", retry.CauseFinal, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.f
			if f.API.Status != tt.status || f.API.Code != tt.code {
				t.Errorf("the client gets %d %s, want %d %s", f.API.Status, f.API.Code, tt.status, tt.code)
			}
			if f.API.Message == "" && f.Error() == "" {
				t.Error("the client gets no words")
			}
			if f.Outcome != tt.outcome || f.Cause != tt.cause {
				t.Errorf("outcome %v with cause %q, want %v with %q", f.Outcome, f.Cause, tt.outcome, tt.cause)
			}
			if f.RetryCause() != tt.next || f.CanResume() != tt.lost {
				t.Errorf("next by %q, lost %t; want %q, %t", f.RetryCause(), f.CanResume(), tt.next, tt.lost)
			}
		})
	}
}

// TestFromAcquire checks the error for a call that finds no slot. It must be a 429 with a
// Retry-After if all engines are full, and a 503 if no engine is available.
func TestFromAcquire(t *testing.T) {
	vision := &routing.FullError{Pool: upstreams.PoolVision, Capacity: routing.Capacity{Active: 2, Total: 2}}
	for _, tt := range []struct {
		err    error
		status int
		has    string
	}{
		{&routing.FullError{}, 429, "All slots of this model are in use."},
		{&routing.FullError{Silent: 1}, 429, "one of its engines does not answer"},
		{&routing.FullError{Silent: 2}, 429, "2 of its engines do not answer"},
		{vision, 429, "All vision slots of this model are in use (2 active of 2)."},
		{routing.ErrNoUpstream, 503, "No healthy engine"},
	} {
		f := FromRoutingError(tt.err, 3*time.Second, time.Second)
		if f.API.Status != tt.status || !strings.Contains(f.API.Message, tt.has) || f.API.RetryAfter <= 0 {
			t.Errorf("%v: got %d %s after %v", tt.err, f.API.Status, f.API.Message, f.API.RetryAfter)
		}
		if (f.API.Metadata != nil) != (tt.err == error(vision)) {
			t.Errorf("%v: got the metadata %v, want some: %v", tt.err, f.API.Metadata, tt.err == error(vision))
		}
	}
}

// TestReadRetryAfter checks how Retry-After headers with seconds, a date or a malformed value are
// parsed.
func TestReadRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for given, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "soon": 0, "99999999999999999999": time.Minute, "90": time.Minute,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0, "Fri, 02 Jan 2026 03:04:15 CET": 0,
	} {
		if got := ParseRetryAfter([]byte(given), now); got != want {
			t.Errorf("%q: got %v, want %v", given, got, want)
		}
	}
}

// TestExplainOverflow checks the error message that makes agents shorten a conversation. The
// message must contain the numbers of the engine with the longest context, and must never imply
// that the prompt fits.
func TestExplainOverflow(t *testing.T) {
	for _, tt := range []struct {
		prompt, answer, most, context int
		has                           string
	}{
		{120, 0, 100, 100, ""},
		{120, 0, 100, 130, "maximum context length is 130 tokens. However, your request has 120 input tokens"},
		{60, 50, 100, 100, ""},
		{95, 50, 100, 100, "95 input tokens"},
	} {
		f := FromStatus(400, &engineerror.Error{Message: "as it was", ContextOverflow: true, ContextPrompt: tt.prompt, ContextAnswer: tt.answer, ContextMax: tt.most}, 0)
		f.ExplainOverflow(16, tt.context)
		if !strings.Contains(f.API.Message, tt.has) {
			t.Errorf("%+v: got the message %s, want it to contain %q", tt, f.API.Message, tt.has)
		}
		if o := f.API.Overflow; tt.has != "" && o.Prompt <= o.Max {
			t.Errorf("%+v: %s", tt, fmt.Sprintf("the numbers fit: %d of %d", o.Prompt, o.Max))
		}
	}
}
