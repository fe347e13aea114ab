package attempt

import (
	"net"
	"time"

	"penstock/translate/engineerror"
	"penstock/upstreams/http1"
)

// Upgraded waits for the response to the handshake u, which Send has written, and returns the
// connection. FailureOf converts the error. Abort.End and End close the connection.
func (a *Attempt) Upgraded(u *http1.Upgrade) (net.Conn, error) {
	r := &a.Reply
	r.clock.streams = true // so that the limit for the first event applies
	if err := r.await(0); err != nil {
		return nil, err
	}
	if r.x.Status() != 101 {
		return nil, a.refusal()
	}
	r.clock.headed = true
	return r.x.Upgraded(u)
}

// Limits returns the time limits of an upgraded connection. first applies to the first event, and
// idle to silence while the engine owes an answer.
func (a *Attempt) Limits() (first, idle time.Duration) {
	return a.Reply.clock.firstEvent(), a.Reply.clock.idle()
}

// Lost converts an error from an upgraded connection into an error that FailureOf accepts. The
// connection must not be used afterwards.
func (a *Attempt) Lost(err error) error { return a.Reply.x.Failure(err) }

// Redact removes the engine's API key and model name from an error, and returns the error.
func (a *Attempt) Redact(e *engineerror.Error) *engineerror.Error {
	a.redact(e)
	return e
}
