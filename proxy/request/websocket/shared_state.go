package websocket

import (
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
)

// sharedState is shared by all connections.
type sharedState struct {
	services       *call.Services
	draining       func() bool
	createResponse fasthttp.RequestHandler
	warmUp         fasthttp.RequestHandler // handles a call that generates no output
	conversations  conversationMemory
}

// checkConn returns the close code if a connection with the key must be closed. If the connection
// may continue, checkConn returns 0.
func (t *sharedState) checkConn(key *auth.Key) (code websocket.StatusCode, reason string) {
	switch snap := t.services.Current(); {
	case t.draining():
		return websocket.StatusGoingAway, "the edge is about to end"
	case !snap.Config.Responses.WebSocket:
		return websocket.StatusGoingAway, "WebSocket is not served here any more"
	case snap.AllowsAnonymous():
	case key == nil, !snap.Keys.MayContinue(key, time.Now()):
		return websocket.StatusPolicyViolation, reasonInvalidKey
	}
	return 0, ""
}

const reasonInvalidKey = "the key is not valid any more"

// bodyLimit returns the maximum size of a message sent with a key. It is the limit for a request
// body. The same limit applies to the total size of the messages waiting on a connection, and to
// the total size of the connection's conversations.
func (t *sharedState) bodyLimit(key *auth.Key) int64 {
	return endpoint.ResponsesEndpoint.BodyLimit(t.services.Current().Config, key.BodyLimits())
}
