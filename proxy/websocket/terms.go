package websocket

import (
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/auth"
	"penstock/proxy/call"
	"penstock/proxy/endpoint"
)

// maxMessage is the limit on a message, where limits.request_body is not less.
const maxMessage = 8 << 20

// terms are what all connections share.
type terms struct {
	services *call.Services
	draining func() bool
	create   fasthttp.RequestHandler // of a call
	prepare  fasthttp.RequestHandler // of one of which nothing is generated
	memory   memory                  // of conversations
}

// verdict says with what code a connection of a key ends; 0: it may go on.
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

// messageLimit is the limit on a message, in bytes.
func (t *terms) messageLimit() int64 { return min(maxMessage, t.conversationLimit()) }

// conversationLimit is how long the conversations of a connection may be together: as one request.
func (t *terms) conversationLimit() int64 {
	return endpoint.Responses.BodyLimit(t.services.Current().Config)
}
