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

// fingerprint identifies a call's body, and records whether the body has brought down engines. It
// implements attempt.Hasher.
type fingerprint struct {
	requests *poison.Requests
	body     *body.Body
	lost     uint64 // hash of a body that brought down an engine; 0: none
	released uint64 // hash of a body that was released; 0: unknown
	failed   uint64 // hash of a body for which an engine reported a failure; 0: none
}

func (p *fingerprint) begin(requests *poison.Requests, b *body.Body) {
	p.requests, p.body = requests, b
}

// BodyHash returns the hash of a body that failed. It returns 0 for a form, and for a body that
// was released before it was hashed.
func (p *fingerprint) BodyHash() uint64 {
	if p.body.Held() {
		return p.requests.Hash(p.body.Bytes())
	}
	return p.released
}

// keepHash keeps the hash of a body that is about to be released if the engine's breaker is in
// doubt.
func (p *fingerprint) keepHash(u *upstreams.Upstream) {
	if u.Breaker.Doubted() {
		p.released = p.BodyHash()
	}
}

// blocked reports whether the body has brought down two engines that are still down.
func (p *fingerprint) blocked(now time.Time) bool {
	return p.body.Held() && p.requests.Blocks(p.body.Bytes(), now)
}

// recordFailure records that an engine reported an internal failure for the body.
func (p *fingerprint) recordFailure(now time.Time) {
	if p.body.Held() {
		p.failed = p.requests.RecordFailure(p.body.Bytes(), now)
	}
}

// fails reports whether an engine has reported an internal failure for the body, in this call or
// another one.
func (p *fingerprint) fails(now time.Time) bool {
	return p.body.Held() && p.requests.Fails(p.body.Bytes(), now)
}

// answered clears a body after an engine has answered it, if another engine was brought down by the
// body or reported a failure for it.
func (p *fingerprint) answered() {
	if p.lost != 0 {
		p.requests.Clear(p.lost)
	}
	if p.failed != 0 {
		p.requests.ClearFailure(p.failed)
	}
}

// recordLoss records the loss of an engine whose connection ended after it had received the request
// and before its answer had started.
func (p *fingerprint) recordLoss(f *failure.Failure, begun bool, u *upstreams.Upstream, now time.Time) {
	var x *http1.Failure
	if begun || !p.body.Held() || !errors.As(f.API.Cause, &x) || !x.Sent {
		return
	}
	switch x.Reason {
	case http1.ReasonReset, http1.ReasonEOF, http1.ReasonTruncated:
	case http1.ReasonSilent:
		// Data that was not acknowledged cannot have crashed the engine. An errno means that the
		// host acknowledged the data first.
		if _, took := errors.AsType[syscall.Errno](x.Err); !took {
			return
		}
	default:
		return
	}
	p.lost = p.requests.Record(p.body.Bytes(), u, now)
}
