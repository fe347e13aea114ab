package call

import (
	"errors"
	"syscall"
	"time"

	"penstock/proxy/request/body"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/poison"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// bodyFingerprint hashes the body of a call and records whether the body has killed engines. It
// implements attempt.BodyHasher.
type bodyFingerprint struct {
	tracker      *poison.BodyTracker
	body         *body.Body
	suspectHash  uint64 // hash of the body if it killed an engine; otherwise 0
	releasedHash uint64 // hash of the body when it was released; 0 if unknown
	failedHash   uint64 // hash of the body if an engine reported a failure for it; otherwise 0
}

func (p *bodyFingerprint) initForBody(requests *poison.BodyTracker, b *body.Body) {
	p.tracker, p.body = requests, b
}

// BodyHash returns the hash of the body. It returns 0 for a form and for a body that was released
// before it was hashed.
func (p *bodyFingerprint) BodyHash() uint64 {
	if p.body.HasBytes() {
		return p.tracker.Hash(p.body.Bytes())
	}
	return p.releasedHash
}

// storeHash stores the hash of a body before the body is released, if the engine's breaker may need
// the hash later.
func (p *bodyFingerprint) storeHash(u *upstreams.Upstream) {
	if u.Breaker.HasFailures() {
		p.releasedHash = p.BodyHash()
	}
}

func (p *bodyFingerprint) isBlocked(now time.Time) bool {
	return p.body.HasBytes() && p.tracker.IsBlocked(p.body.Bytes(), now)
}

func (p *bodyFingerprint) recordFailure(now time.Time) {
	if p.body.HasBytes() {
		p.failedHash = p.tracker.RecordInternalFailure(p.body.Bytes(), now)
	}
}

// hasFailed reports whether an engine has reported an internal failure for the body, in this call
// or an earlier one.
func (p *bodyFingerprint) hasFailed(now time.Time) bool {
	return p.body.HasBytes() && p.tracker.HasInternalFailure(p.body.Bytes(), now)
}

func (p *bodyFingerprint) clearSuspicion() {
	if p.suspectHash != 0 {
		p.tracker.ClearLoss(p.suspectHash)
	}
	if p.failedHash != 0 {
		p.tracker.ClearFailure(p.failedHash)
	}
}

// recordLoss records that the body may have killed an engine. It does so only if the connection was
// lost after the request was sent and before the answer started.
func (p *bodyFingerprint) recordLoss(f *failure.Failure, begun bool, u *upstreams.Upstream, now time.Time) {
	var x *http1.Failure
	if begun || !p.body.HasBytes() || !errors.As(f.API.Cause, &x) || !x.Sent {
		return
	}
	switch x.Reason {
	case http1.ReasonReset, http1.ReasonEOF, http1.ReasonTruncated:
	case http1.ReasonSilent:
		// Data that the engine's host has not acknowledged cannot have crashed the engine. An errno
		// means that the host acknowledged the data.
		if _, acked := errors.AsType[syscall.Errno](x.Err); !acked {
			return
		}
	default:
		return
	}
	p.suspectHash = p.tracker.RecordEngineLoss(p.body.Bytes(), u, now)
}
