package websocket

import (
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/auth"
	"penstock/proxy/call"
	"penstock/proxy/endpoint"
)

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

// bodyLimit is how long a message may be, and the conversations of a connection together: as the
// body of a request. What a key or a model takes less is refused by the call.
func (t *terms) bodyLimit() int64 {
	var all *auth.Key
	return endpoint.Responses.BodyLimit(t.services.Current().Config, all.Bodies())
}
