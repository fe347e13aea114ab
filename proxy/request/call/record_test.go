package call

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// TestRecordFailure checks the outcome, code and status in the record for each failure, before and
// after the answer was committed. It also checks whether the log blames an upstream.
func TestRecordFailure(t *testing.T) {
	for _, c := range []struct {
		name            string
		f               *failure.Failure
		outcome, broken observe.Outcome
		code            string
		status          int
		logged          bool
	}{
		{"the client has left", failure.FromAbort(failure.ErrClientGone), observe.OutcomeClientGone, observe.OutcomeClientGone, "client_gone", failure.StatusClientGone, false},
		{"shutdown", failure.FromAbort(failure.ErrShuttingDown), observe.OutcomeDrained, observe.OutcomeDrained, "shutting_down", 0, false},
		{"a revoked key", failure.FromAbort(failure.ErrRevoked), observe.OutcomeClientError, observe.OutcomeClientError, "revoked", 0, false},
		{"engine down", failure.EngineDown(), observe.OutcomeUpstreamFail, observe.OutcomeStreamBroken, "upstream_unreachable", 0, true},
		{"engine draining", failure.EngineDraining(), observe.OutcomeNoRoute, observe.OutcomeStreamBroken, "no_healthy_route", 0, false},
		{"engine stalled", failure.EngineStalled(), observe.OutcomeTimeout, observe.OutcomeTimeout, "generation_timeout", 0, false},
		{"a hook", failure.HookUnavailable(upstreams.CauseHookStatus), observe.OutcomeUpstreamFail, observe.OutcomeStreamBroken, "hook_unavailable", 0, false},
		{"a panic", failure.Internal(errors.New("test")), observe.OutcomeInternal, observe.OutcomeInternal, "internal", 0, false},
	} {
		var whole, broken observe.Record
		recordCallFailure(&whole, c.f)
		recordBrokenAnswer(&broken, c.f)
		if whole.Outcome != c.outcome || whole.Code != c.code || whole.Status != c.status || whole.Cause != string(c.f.Cause) {
			t.Errorf("%s: the record is %s, %s, %d, %s; want %s, %s, %d", c.name, whole.Outcome, whole.Code, whole.Status, whole.Cause, c.outcome, c.code, c.status)
		}
		if broken.Outcome != c.broken || broken.Code != c.code {
			t.Errorf("%s, committed: the record is %s, %s; want %s", c.name, broken.Outcome, broken.Code, c.broken)
		}
		core, seen := observer.New(zap.WarnLevel)
		logUpstreamFailure(zap.New(core), nil, &whole, c.f)
		if logged := seen.Len() == 1; logged != c.logged {
			t.Errorf("%s: logged: %t, want %t", c.name, logged, c.logged)
		}
	}
}

// TestRecordFailedAttempt checks that a failed attempt is recorded with its times and its cause,
// and that a canceled attempt is not recorded.
func TestRecordFailedAttempt(t *testing.T) {
	start := time.Now()
	r := observe.Record{Start: start, Upstream: "a", Arm: "new"}
	recordFailedAttempt(&r, failure.FromAbort(failure.ErrClientGone), start, start.Add(time.Second))
	if len(r.Failed) > 0 {
		t.Errorf("a canceled attempt is recorded: %+v", r.Failed)
	}
	recordFailedAttempt(&r, failure.EngineDown(), start.Add(2*time.Second), start.Add(5*time.Second))
	want := observe.FailedAttempt{Upstream: "a", Cause: string(failure.EngineDown().Cause), Arm: "new", Fault: true, After: 2 * time.Second, Took: 3 * time.Second}
	if len(r.Failed) != 1 || r.Failed[0] != want {
		t.Errorf("got %+v, want %+v", r.Failed, want)
	}
}

// TestRecordLimit checks that the record distinguishes a group's limit from a key's limit.
func TestRecordLimit(t *testing.T) {
	for group, want := range map[string]string{"": "concurrency", "team": "group_concurrency"} {
		var r observe.Record
		if e := recordLimitRejection(&r, limit.Decision{LimitName: limit.Concurrency, Limit: 2, Group: group}); r.Limit != want || e.Status != 429 {
			t.Errorf("group %q: got %s and %v, want %s and a 429", group, r.Limit, e, want)
		}
	}
}
