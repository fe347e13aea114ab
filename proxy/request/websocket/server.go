package websocket

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/browser"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// Server takes over the connections of WebSocket clients and runs their calls. Its methods may be
// called by multiple goroutines.
type Server struct {
	shared sharedState

	mu          sync.Mutex
	sessions    map[*clientSession]struct{}
	countByKey  map[string]int // number of sessions, keyed by key id
	openedTotal uint64
}

// keyShareDivisor limits the WebSocket connections of one key to 1/4 of limits.connections. A
// connection may stay open without a call, so otherwise a single key could use up all connections.
const keyShareDivisor = 4

func maxConnsPerKey(connections int) int { return max(1, connections/keyShareDivisor) }

func (c *Server) keyMayConnect(key *auth.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isBelowKeyShare(key)
}

// isBelowKeyShare requires that c.mu is held.
func (c *Server) isBelowKeyShare(key *auth.Key) bool {
	return key == nil || c.countByKey[key.ID] < maxConnsPerKey(c.shared.services.Current().Config.Limits.Connections)
}

// New returns a Server whose calls use s.
func New(s *call.Services, draining func() bool) *Server {
	return &Server{
		shared: sharedState{
			services: s, draining: draining,
			createResponse: s.Handler(copyEndpointForMessages(endpoint.ResponsesEndpoint)), warmUp: s.Handler(copyEndpointForMessages(endpoint.ResponsesWarmUpEndpoint)),
			conversations: conversationMemory{bodyMemory: s.Bodies},
		},
		sessions: map[*clientSession]struct{}{}, countByKey: map[string]int{},
	}
}

// copyEndpointForMessages returns a copy of an endpoint for request bodies that are built from
// messages. The size limit of the copy does not include the bytes that the edge adds.
func copyEndpointForMessages(ep *endpoint.Endpoint) *endpoint.Endpoint {
	made := *ep
	made.Wrapping = int64(len(inputArrayStart) + len(userMessageStart) + len(userMessageEnd) + len(inputArrayEnd) + 2*len(commaSeparator))
	return &made
}

// IsResponsesUpgrade reports whether a request is a WebSocket upgrade for /v1/responses.
func IsResponsesUpgrade(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsGet() && string(ctx.URI().PathOriginal()) == endpoint.ResponsesEndpoint.Path && IsUpgrade(ctx)
}

// IsUpgrade reports whether a request is a WebSocket upgrade for any path.
func IsUpgrade(ctx *fasthttp.RequestCtx) bool {
	return hasWebSocketToken(ctx.Request.Header.Peek(fasthttp.HeaderUpgrade))
}

func hasWebSocketToken(list []byte) bool {
	for protocol := range bytes.SplitSeq(list, []byte{','}) {
		if httptoken.EqualFold(bytes.TrimSpace(protocol), "websocket") {
			return true
		}
	}
	return false
}

// Upgrade takes over the connection of a request, or returns an error. It authenticates the request
// and checks its origin. The server must already have made its own checks.
func (c *Server) Upgrade(ctx *fasthttp.RequestCtx) *apierr.Error {
	snap, h := c.shared.services.Current(), &ctx.Request.Header
	if !snap.Config.Responses.WebSocket {
		return c.rejectDisabled(ctx)
	}
	query, from := ctx.URI().QueryString(), listen.AuthConnection(ctx.Conn())
	key, err := call.Authenticate(snap, h, query, from, endpoint.ResponsesEndpoint, time.Now())
	if a := (*apierr.Error)(nil); errors.As(err, &a) {
		return a
	}
	if browser.IsForeignPage(h, snap.Config.CORS.Origins) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"The edge refuses pages of other origins: add the page's origin to cors.origins.")
	}
	if c.shared.draining() {
		e := apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeShuttingDown,
			"The edge is about to end. Connect again.")
		e.RetryAfter = time.Second
		return e
	}
	if !c.keyMayConnect(key) {
		e := apierr.New(fasthttp.StatusTooManyRequests, apierr.CodeRateLimited,
			"This key has reached its limit of WebSocket connections: %d, a quarter of limits.connections. Close some, or send POSTs.",
			maxConnsPerKey(snap.Config.Limits.Connections))
		e.RetryAfter = time.Second
		return e
	}
	p, refused := acceptHandshake(ctx)
	if refused != nil {
		return refused
	}
	ctx.Hijack(newSession(&c.shared, ctx, key, p, c.add, c.remove).takeConn)
	return nil
}

// rejectDisabled rejects an upgrade if WebSocket is disabled. After a 426, Codex immediately
// switches to POST. After any other status, Codex would retry for seven seconds.
func (c *Server) rejectDisabled(ctx *fasthttp.RequestCtx) *apierr.Error {
	ctx.Response.Header.Set(fasthttp.HeaderUpgrade, "HTTP/1.1")
	ctx.Response.Header.Set(fasthttp.HeaderConnection, fasthttp.HeaderUpgrade)
	return apierr.New(fasthttp.StatusUpgradeRequired, apierr.CodeMethodNotAllowed,
		"WebSocket is not served here: send a POST.")
}

// ConnectionCounts returns the number of open connections and the total number of connections
// opened so far.
func (c *Server) ConnectionCounts() (open int, opened uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions), c.openedTotal
}

// CloseDisallowedConns closes the connections that may not continue because the edge is draining,
// WebSocket was disabled, or the key is no longer valid. If a call is running on a connection, the
// connection is closed after the call.
func (c *Server) CloseDisallowedConns() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sessions {
		if code, reason := c.shared.checkConn(s.key); code != 0 && s.calls.endIfIdle() {
			go c.shared.services.Guard.RunWithRecover(guard.PlaceWebSocket, func() { s.peer.closeConn(code, reason) })
		}
	}
}

// add counts a session whose handshake is complete. It returns false if handshakes that ran at the
// same time have used up the key's share since keyMayConnect.
func (c *Server) add(s *clientSession) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isBelowKeyShare(s.key) {
		return false
	}
	c.sessions[s] = struct{}{}
	if s.key != nil {
		c.countByKey[s.key.ID]++
	}
	c.openedTotal++
	return true
}

func (c *Server) remove(s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.sessions[s]; !open {
		return
	}
	delete(c.sessions, s)
	if s.key == nil {
		return
	}
	if c.countByKey[s.key.ID]--; c.countByKey[s.key.ID] == 0 {
		delete(c.countByKey, s.key.ID)
	}
}
