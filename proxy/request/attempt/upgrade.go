package attempt

import (
	"net"
	"time"

	"penstock/translate/engineerror"
	"penstock/upstreams/http1"
)

// AwaitUpgrade waits for the response to the handshake u, which Send has written, and returns the
// connection. ClassifyError converts the error. Abort.End and End close the connection.
func (a *Attempt) AwaitUpgrade(u *http1.Upgrade) (net.Conn, error) {
	r := &a.Reply
	r.timeouts.isStream = true // so that the limit for the first event applies
	if err := r.awaitHead(0); err != nil {
		return nil, err
	}
	if r.x.Status() != 101 {
		return nil, a.statusFailure()
	}
	r.timeouts.headArrived = true
	return r.x.UpgradedConn(u)
}

// UpgradeTimeouts returns the time limits of an upgraded connection. first applies to the first event, and
// idle to silence while the engine owes an answer.
func (a *Attempt) UpgradeTimeouts() (first, idle time.Duration) {
	return a.Reply.timeouts.firstEventTimeout(), a.Reply.timeouts.idleTimeout()
}

// WrapConnError converts an error from an upgraded connection into an error that ClassifyError accepts. The
// connection must not be used afterwards.
func (a *Attempt) WrapConnError(err error) error { return a.Reply.x.ConvertFailure(err) }

// RedactError removes the engine's API key and model name from an error, and returns the error.
func (a *Attempt) RedactError(e *engineerror.Error) *engineerror.Error {
	a.redactError(e)
	return e
}
