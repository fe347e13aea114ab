package attempt

import (
	"net"
	"time"

	"penstock/translate/engineerror"
	"penstock/upstreams/http1"
)

// AwaitUpgrade waits for the response to the handshake u, which Send has written, and returns the
// connection. An error must be passed to ClassifyError. Abort.Cancel and End close the connection.
func (a *Attempt) AwaitUpgrade(u *http1.WebSocketHandshake) (net.Conn, error) {
	r := &a.Reply
	// Only streams have a limit for the first event.
	r.timeouts.isStream = true
	if err := r.awaitHead(0); err != nil {
		return nil, err
	}
	if r.x.Status() != 101 {
		return nil, a.statusFailure()
	}
	r.timeouts.headArrived = true
	return r.x.UpgradedConn(u)
}

// UpgradeTimeouts returns the time limits for an upgraded connection. first is the limit for the
// first event. idle is the limit for silence while the engine has not completed an answer.
func (a *Attempt) UpgradeTimeouts() (first, idle time.Duration) {
	return a.Reply.timeouts.firstEventTimeout(), a.Reply.timeouts.idleTimeout()
}

// WrapConnError wraps an error from an upgraded connection so that ClassifyError can classify it.
// The connection must not be used afterwards.
func (a *Attempt) WrapConnError(err error) error { return a.Reply.x.ConvertFailure(err) }

// RedactError removes the engine's API key and model name from an error, and returns the error.
func (a *Attempt) RedactError(e *engineerror.Error) *engineerror.Error {
	a.redactError(e)
	return e
}
