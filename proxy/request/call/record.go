package call

import (
	"cmp"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// These functions write the outcome of a call into its record. The record becomes the call's line
// in the log, its metrics and its row on the status page.

func recordCallFailure(r *observe.Record, f *failure.Failure) {
	r.Outcome = f.Result
	r.Code = f.API.Code
	if f.Label != "" {
		r.Code = f.Label
	}
	r.Cause, r.EngineStatus = string(f.Cause), f.Status
	if f.Result == observe.OutcomeClientGone {
		r.Status = failure.StatusClientGone
	}
}

// recordBrokenAnswer is recordCallFailure for a call whose answer has been committed.
func recordBrokenAnswer(r *observe.Record, f *failure.Failure) {
	recordCallFailure(r, f)
	if f.Result == observe.OutcomeUpstreamFail || f.Result == observe.OutcomeLimited || f.Result == observe.OutcomeNoRoute {
		r.Outcome = observe.OutcomeStreamBroken
	}
}

// recordFailedAttempt records an attempt that began at begun and failed. If the client or the edge
// canceled the attempt, the failure has no cause and is not recorded.
func recordFailedAttempt(r *observe.Record, f *failure.Failure, begun, now time.Time) {
	if f.Cause == "" {
		return
	}
	r.Failed = append(r.Failed, observe.FailedAttempt{
		Upstream: r.Upstream, Cause: string(f.Cause), EngineStatus: f.Status, Arm: r.Arm,
		Rejected: f.Cause == upstreams.CauseRejected, Fault: f.Outcome.IsFailure(),
		After: begun.Sub(r.Start), Took: now.Sub(begun),
	})
}

// recordLimitRejection records the limit that rejected a call, and returns the error for the
// client.
func recordLimitRejection(r *observe.Record, d limit.Decision) *apierr.Error {
	r.Limit = limitLabels[d.LimitName]
	if d.Group != "" {
		r.Limit = groupLimitLabels[d.LimitName]
	}
	return limitError(d)
}

// isCountedByArm reports whether the model's calls are counted by arm. They are if the model has arms
// or a shadow.
func isCountedByArm(m *snapshot.Model) bool { return m.Shadow != nil || routing.HasArms(m.Route) }

// recordArm records the arm of the target to which a call is sent, and the arm that it missed. The
// model's calls must be counted by arm.
func recordArm(r *observe.Record, route *routing.Route, arms routing.ArmSet, target *routing.Target) {
	r.Arm = cmp.Or(r.Arm, observe.NoArm)
	if own, missed := routing.FindMissedArm(route, arms, target); missed {
		r.MissedArm = cmp.Or(own, observe.NoArm)
	}
}

// logUpstreamFailure logs a failure for which an upstream is to blame.
func logUpstreamFailure(log *zap.Logger, requestID []byte, r *observe.Record, f *failure.Failure) {
	if f.Result != observe.OutcomeUpstreamFail || f.API.Code == apierr.CodeHookUnavailable {
		return
	}
	log.Warn("upstream failed",
		zap.ByteString("request_id", requestID), zap.String("upstream", r.Upstream),
		zap.String("code", r.Code), zap.String("cause", r.Cause), zap.Int("engine_status", r.EngineStatus))
}
