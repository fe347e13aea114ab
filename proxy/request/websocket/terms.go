package websocket

import (
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
)

// terms holds what all connections share.
type terms struct {
	services *call.Services
	draining func() bool
	create   fasthttp.RequestHandler // for a call
	prepare  fasthttp.RequestHandler // for a call that generates nothing
	memory   memory                  // for conversations
}

// verdict returns the code with which a key's connection must be closed, or 0 if the connection may
// continue.
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

// bodyLimit returns the maximum length of a key's message, which is the limit for a request's body.
// The same limit applies to the total length of a connection's waiting messages, and to that of its
// conversations.
func (t *terms) bodyLimit(key *auth.Key) int64 {
	return endpoint.Responses.BodyLimit(t.services.Current().Config, key.Bodies())
}
