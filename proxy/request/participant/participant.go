// Package participant defines how a feature can take part in calls without making decisions about
// them. A feature that copies or measures calls consists of one package that implements Feature,
// and one entry in call.Services.Features. The loop that sends a call to engines does not know
// which features exist.
//
// A feature costs nothing in a configuration that does not use it. Feature.IsEnabled is called once
// per configuration, and Feature.Join once per call.
package participant

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// Feature takes part in calls. Its methods may be called by multiple goroutines.
type Feature interface {
	// IsEnabled reports whether a configuration uses the feature.
	IsEnabled(s *snapshot.Snapshot) bool
	// Join is called once a call has passed the limits of its key and before hooks can change the
	// request. It returns the feature's Participant in the call, or nil if the feature does not
	// join the call.
	Join(c *Call) Participant
}

// Participant is a feature's part in one call. Its methods run on the call's goroutine. If the call
// is sent to another engine after keep-alives or part of the answer, OnSent is called after
// OnAnswerWritten. The methods must not block, and must not retain the *Call or anything that it
// points to.
type Participant interface {
	// OnSent is called after each attempt to send the request to another engine, even if sending
	// failed. It is not called if a request is sent to the same engine again.
	OnSent(c *Call)
	// OnAnswerWritten is called with the bytes of each part of the answer that has been written to
	// the client.
	OnAnswerWritten(b []byte)
	// OnEnd is called once the call has ended and its record is complete. It is not called if
	// ending the call panicked.
	OnEnd(c *Call, r *observe.Record)
}

// NoopParticipant is a Participant whose methods do nothing. A type that embeds NoopParticipant
// implements only the methods that it needs.
type NoopParticipant struct{}

// OnSent implements Participant.
func (NoopParticipant) OnSent(*Call) {}

// OnAnswerWritten implements Participant.
func (NoopParticipant) OnAnswerWritten([]byte) {}

// OnEnd implements Participant.
func (NoopParticipant) OnEnd(*Call, *observe.Record) {}

// Call describes a call to a participant. Its fields have the values at the time of the
// notification.
type Call struct {
	Snapshot  *snapshot.Snapshot
	Model     *snapshot.Model // model that answers; a hook or a fallback may have changed it
	Endpoint  *endpoint.Endpoint
	Request   endpoint.Request
	Body      *body.Body
	RequestID []byte
	Key       *auth.Key          // nil if no key is required
	Pool      upstreams.SlotPool // pool of the model's slots that the call uses
	Tiers     config.TierSet     // the tiers that the key may use
	Tokens    int                // estimated number of prompt tokens
	Engines   int                // number of engines to which the call was sent
	Fallback  bool               // whether Model is a fallback for the requested model
	Now       time.Time
	Abort     *attempt.Canceler
	// Response contains the response headers, to which Join may add headers. It is nil once the
	// headers have been written.
	Response *fasthttp.ResponseHeader
}
