// Package participant defines how a feature takes part in calls without deciding about them. A
// feature that copies or measures calls is one package that implements Feature, and one entry in
// call.Services.Features. The loop that sends a call to engines does not know which features exist.
//
// A configuration that does not use a feature does not pay for it: Feature.Uses is asked once a
// configuration, and Feature.Join once a call.
package participant

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// Feature takes part in calls. Any number of goroutines may call its methods.
type Feature interface {
	// Uses reports whether a configuration uses the feature.
	Uses(s *snapshot.Snapshot) bool
	// Join is called once a call has passed the limits of its key, before hooks can change its
	// request. It returns the feature's part in the call, or nil if the feature takes no part.
	Join(c *Call) Participant
}

// Participant is a feature's part in one call. Its methods run on the call's goroutine. If
// the call is sent to another engine after keep-alives or a part of the answer, Sent is called after
// Shown. They must not block, and must not keep the *Call or what it points to.
type Participant interface {
	// Sent is called after each attempt to send the request to another engine, even if sending has
	// failed. A request that is sent to the same engine again is not reported.
	Sent(c *Call)
	// Shown is called with the bytes of each part of the answer that was written to the client.
	Shown(b []byte)
	// End is called once the call has ended and its record is complete. It is not called for a call
	// whose end has panicked.
	End(c *Call, r *observe.Record)
}

// Nothing implements Participant and does nothing. A Participant embeds it to implement only the
// methods that it needs.
type Nothing struct{}

// Sent implements Participant.
func (Nothing) Sent(*Call) {}

// Shown implements Participant.
func (Nothing) Shown([]byte) {}

// End implements Participant.
func (Nothing) End(*Call, *observe.Record) {}

// Call is what a participant may know about a call at the time of the event.
type Call struct {
	Snapshot  *snapshot.Snapshot
	Model     *snapshot.Model // the model that answers: a hook or a fallback may have changed it
	Endpoint  *endpoint.Endpoint
	Request   endpoint.Request
	Body      *body.Body
	RequestID []byte
	Key       *auth.Key      // nil: the client needs no key
	Pool      upstreams.Pool // the pool of the model's slots that the call uses
	Tiers     uint8          // the external tiers that the key may use
	Tokens    int            // the prompt's tokens, estimated
	Engines   int            // how many engines the call was sent to
	Fallback  bool           // Model is a fallback for the requested model
	Now       time.Time
	Abort     *attempt.Abort
	// Response is the head of the response, which Join may add headers to. It is nil once the head
	// has been written.
	Response *fasthttp.ResponseHeader
}
