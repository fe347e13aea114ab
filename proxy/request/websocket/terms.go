package websocket

import (
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
)

// terms are shared by all connections.
type terms struct {
	services *call.Services
	draining func() bool
	create   fasthttp.RequestHandler
	prepare  fasthttp.RequestHandler // handles a call that generates no output
	memory   memory
}

// verdict returns the close code if a connection with the key must be closed. If the connection may
// continue, verdict returns 0.
func (t *terms) verdict(key *auth.Key) (code websocket.StatusCode, reason string) {
	switch snap := t.services.Current(); {
	case t.draining():
		return websocket.StatusGoingAway, "the edge is about to end"
	case !snap.Config.Responses.WebSocket:
		return websocket.StatusGoingAway, "WebSocket is not served here any more"
	case snap.Open():
	case key == nil, !snap.Keys.Holds(key, time.Now()):
		return websocket.StatusPolicyViolation, reasonKey
	}
	return 0, ""
}

const reasonKey = "the key is not valid any more"

// bodyLimit returns the maximum size of a message sent with a key, which is the limit for a request
// body. It also limits the total size of the messages waiting on a connection, and the total size
// of the connection's conversations.
func (t *terms) bodyLimit(key *auth.Key) int64 {
	return endpoint.Responses.BodyLimit(t.services.Current().Config, key.Bodies())
}
