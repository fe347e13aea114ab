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

// fingerprint hashes the body of a call and records whether the body has killed engines. It
// implements attempt.Hasher.
type fingerprint struct {
	requests *poison.Requests
	body     *body.Body
	lost     uint64 // hash of the body if it killed an engine; otherwise 0
	released uint64 // hash of the body when it was released; 0 if unknown
	failed   uint64 // hash of the body if an engine reported a failure for it; otherwise 0
}

func (p *fingerprint) begin(requests *poison.Requests, b *body.Body) {
	p.requests, p.body = requests, b
}

// BodyHash returns the hash of the body. It returns 0 for a form and for a body that was released
// before it was hashed.
func (p *fingerprint) BodyHash() uint64 {
	if p.body.Held() {
		return p.requests.Hash(p.body.Bytes())
	}
	return p.released
}

// keepHash stores the hash of a body before its release, if the engine's breaker may need the hash
// later.
func (p *fingerprint) keepHash(u *upstreams.Upstream) {
	if u.Breaker.Doubted() {
		p.released = p.BodyHash()
	}
}

func (p *fingerprint) blocked(now time.Time) bool {
	return p.body.Held() && p.requests.Blocks(p.body.Bytes(), now)
}

func (p *fingerprint) recordFailure(now time.Time) {
	if p.body.Held() {
		p.failed = p.requests.RecordFailure(p.body.Bytes(), now)
	}
}

// fails reports whether an engine has reported an internal failure for the body, in this call or an
// earlier one.
func (p *fingerprint) fails(now time.Time) bool {
	return p.body.Held() && p.requests.Fails(p.body.Bytes(), now)
}

func (p *fingerprint) answered() {
	if p.lost != 0 {
		p.requests.Clear(p.lost)
	}
	if p.failed != 0 {
		p.requests.ClearFailure(p.failed)
	}
}

// recordLoss records that the body may have killed an engine. It does so only if the connection was
// lost after the request was sent and before the answer started.
func (p *fingerprint) recordLoss(f *failure.Failure, begun bool, u *upstreams.Upstream, now time.Time) {
	var x *http1.Failure
	if begun || !p.body.Held() || !errors.As(f.API.Cause, &x) || !x.Sent {
		return
	}
	switch x.Reason {
	case http1.ReasonReset, http1.ReasonEOF, http1.ReasonTruncated:
	case http1.ReasonSilent:
		// An engine cannot have crashed because of data that its host has not acknowledged. An
		// errno means that the host acknowledged the data.
		if _, acked := errors.AsType[syscall.Errno](x.Err); !acked {
			return
		}
	default:
		return
	}
	p.lost = p.requests.Record(p.body.Bytes(), u, now)
}
