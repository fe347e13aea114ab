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

// Carrier takes over the connections of WebSocket clients and runs their calls. Its methods may be
// called by multiple goroutines.
type Carrier struct {
	terms terms

	mu       sync.Mutex
	sessions map[*session]struct{}
	ofKey    map[string]int // number of sessions, keyed by key id
	opened   uint64
}

// shareOfKey limits the WebSocket connections of one key to 1/4 of limits.connections. A connection
// may stay open without a call, so otherwise a single key could use up all connections.
const shareOfKey = 4

func mostOfKey(connections int) int { return max(1, connections/shareOfKey) }

func (c *Carrier) room(key *auth.Key) bool {
	if key == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofKey[key.ID] < mostOfKey(c.terms.services.Current().Config.Limits.Connections)
}

// New returns a Carrier whose calls use s.
func New(s *call.Services, draining func() bool) *Carrier {
	return &Carrier{
		terms: terms{
			services: s, draining: draining,
			create: s.Handler(carried(endpoint.Responses)), prepare: s.Handler(carried(endpoint.Preparation)),
			memory: memory{bodies: s.Bodies},
		},
		sessions: map[*session]struct{}{}, ofKey: map[string]int{},
	}
}

// carried returns a copy of an endpoint for request bodies that are built from messages. The size
// limit of the copy does not include the bytes that the edge adds.
func carried(ep *endpoint.Endpoint) *endpoint.Endpoint {
	made := *ep
	made.Wrapping = int64(len(inputMember) + len(userStart) + len(userEnd) + len(inputEnd) + 2*len(comma))
	return &made
}

// Wants reports whether a request is a WebSocket upgrade for /v1/responses.
func Wants(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsGet() && string(ctx.URI().PathOriginal()) == endpoint.Responses.Path && IsUpgrade(ctx)
}

// IsUpgrade reports whether a request is a WebSocket upgrade for any path.
func IsUpgrade(ctx *fasthttp.RequestCtx) bool {
	return namesWebSocket(ctx.Request.Header.Peek(fasthttp.HeaderUpgrade))
}

func namesWebSocket(list []byte) bool {
	for protocol := range bytes.SplitSeq(list, []byte{','}) {
		if httptoken.EqualFold(bytes.TrimSpace(protocol), "websocket") {
			return true
		}
	}
	return false
}

// Upgrade takes over the connection of a request, or returns an error. It authenticates the request
// and checks its origin. The server must already have applied its checks.
func (c *Carrier) Upgrade(ctx *fasthttp.RequestCtx) *apierr.Error {
	snap, h := c.terms.services.Current(), &ctx.Request.Header
	if !snap.Config.Responses.WebSocket {
		return c.off(ctx)
	}
	query, from := ctx.URI().QueryString(), listen.SenderOf(ctx.Conn())
	key, err := call.Authenticate(snap, h, query, from, endpoint.Responses, time.Now())
	if a := (*apierr.Error)(nil); errors.As(err, &a) {
		return a
	}
	if browser.ForeignPage(h, snap.Config.CORS.Origins) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"The edge refuses pages of other origins: add the page's origin to cors.origins.")
	}
	if c.terms.draining() {
		e := apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeShuttingDown,
			"The edge is about to end. Connect again.")
		e.RetryAfter = time.Second
		return e
	}
	if !c.room(key) {
		e := apierr.New(fasthttp.StatusTooManyRequests, apierr.CodeRateLimited,
			"This key has reached its limit of WebSocket connections: %d, a quarter of limits.connections. Close some, or send POSTs.",
			mostOfKey(snap.Config.Limits.Connections))
		e.RetryAfter = time.Second
		return e
	}
	p, refused := accept(ctx)
	if refused != nil {
		return refused
	}
	ctx.Hijack(newSession(&c.terms, ctx, key, p, c.add, c.remove).takeConn)
	return nil
}

// off rejects an upgrade if WebSocket is disabled. After a 426, Codex switches to POST immediately.
// After any other status, Codex would retry for seven seconds.
func (c *Carrier) off(ctx *fasthttp.RequestCtx) *apierr.Error {
	ctx.Response.Header.Set(fasthttp.HeaderUpgrade, "HTTP/1.1")
	ctx.Response.Header.Set(fasthttp.HeaderConnection, fasthttp.HeaderUpgrade)
	return apierr.New(fasthttp.StatusUpgradeRequired, apierr.CodeMethodNotAllowed,
		"WebSocket is not served here: send a POST.")
}

// Connections returns the number of open connections and the total number of connections opened so
// far.
func (c *Carrier) Connections() (open int, opened uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions), c.opened
}

// Review closes the connections that may not continue because the edge drains, WebSocket was
// disabled, or the key is no longer valid. If a call is running, the connection is closed after
// that call.
func (c *Carrier) Review() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.sessions {
		if code, reason := c.terms.verdict(s.key); code != 0 && s.calls.endIdle() {
			go c.terms.services.Guard.Once(guard.WebSocket, func() { s.peer.close(code, reason) })
		}
	}
}

func (c *Carrier) add(s *session) {
	c.mu.Lock()
	c.sessions[s] = struct{}{}
	if s.key != nil {
		c.ofKey[s.key.ID]++
	}
	c.opened++
	c.mu.Unlock()
}

func (c *Carrier) remove(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.sessions[s]; !open {
		return
	}
	delete(c.sessions, s)
	if s.key == nil {
		return
	}
	if c.ofKey[s.key.ID]--; c.ofKey[s.key.ID] == 0 {
		delete(c.ofKey, s.key.ID)
	}
}
