package attempt

import (
	"net"
	"time"

	"penstock/translate/engineerror"
	"penstock/upstreams/http1"
)

// Upgraded waits for the answer to the handshake u, which Send has written, and returns the
// connection, or an error for FailureOf. The connection belongs to the attempt: Abort.End closes it
// at once, and End closes it.
func (a *Attempt) Upgraded(u *http1.Upgrade) (net.Conn, error) {
	r := &a.Reply
	r.clock.streams = true // the limit for the first event applies
	if err := r.await(0); err != nil {
		return nil, err
	}
	if r.x.Status() != 101 {
		return nil, a.refusal()
	}
	r.clock.headed = true
	return r.x.Upgraded(u)
}

// Limits returns how long an upgraded connection may take for its first event, and how long it may
// then be silent while the engine owes an answer.
func (a *Attempt) Limits() (first, idle time.Duration) {
	return a.Reply.clock.firstEvent(), a.Reply.clock.idle()
}

// Lost returns the failure, for FailureOf, of an upgraded connection that has returned err. Nothing
// may read from or write to the connection any more.
func (a *Attempt) Lost(err error) error { return a.Reply.x.Failure(err) }

// Redact removes from an engine's complaint what a client may not see, and returns the complaint.
func (a *Attempt) Redact(e *engineerror.Error) *engineerror.Error {
	a.redact(e)
	return e
}
