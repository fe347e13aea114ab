package realtime

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/browser"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	socket "penstock/proxy/request/websocket"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/translate/realtime"
)

// Sessions manages the open sessions of an edge. Its methods may be called by multiple goroutines.
type Sessions struct {
	services *call.Services
	draining func() bool

	mu         sync.Mutex
	open       map[*session]struct{}
	countByKey map[string]int // number of sessions, keyed by key id
	opened     uint64
}

// New returns a Sessions without open sessions.
func New(s *call.Services, draining func() bool) *Sessions {
	return &Sessions{services: s, draining: draining, open: map[*session]struct{}{}, countByKey: map[string]int{}}
}

// keyShareDivisor limits the sessions of one key to 1/4 of limits.connections. The same limit
// applies to other WebSocket connections. The limit is needed because a session without a model
// does not count against the key's concurrency.
const keyShareDivisor = 4

// Serve takes over the connection of a request for endpoint.RealtimeEndpoint.Path, or returns an
// error. It authenticates the request and checks its origin. The server must already have made its
// own checks.
func (s *Sessions) Serve(ctx *fasthttp.RequestCtx) *apierr.Error {
	snap, h := s.services.Current(), &ctx.Request.Header
	if snap.Config.Strict {
		return apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path.")
	}
	if !socket.IsUpgrade(ctx) {
		ctx.Response.Header.Set(fasthttp.HeaderUpgrade, "websocket")
		ctx.Response.Header.Set(fasthttp.HeaderConnection, fasthttp.HeaderUpgrade)
		return apierr.New(fasthttp.StatusUpgradeRequired, apierr.CodeMethodNotAllowed, "This path is served over WebSocket only.")
	}
	side := socket.NewSocket(ctx, s.services)
	if key, ok := subprotocolKey(h.PeekAll("Sec-Websocket-Protocol")); ok && len(h.Peek(fasthttp.HeaderAuthorization)) == 0 {
		h.Set(fasthttp.HeaderAuthorization, "Bearer "+key)
		side.SetKey(key)
	}
	args := ctx.URI().QueryArgs()
	key, err := call.Authenticate(snap, h, ctx.URI().QueryString(), listen.AuthConnection(ctx.Conn()), endpoint.RealtimeEndpoint, time.Now())
	if a := (*apierr.Error)(nil); errors.As(err, &a) {
		return a
	}
	if browser.IsForeignPage(h, snap.Config.CORS.Origins) {
		return apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"The edge refuses pages of other origins: add the page's origin to cors.origins.")
	}
	if s.draining() {
		e := apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeShuttingDown, "The edge is about to end. Connect again.")
		e.RetryAfter = time.Second
		return e
	}
	if intent := args.Peek("intent"); len(intent) > 0 && string(intent) != "transcription" {
		return apierr.Invalid("intent", apierr.CodeUnsupportedParameter, "intent must be transcription: the edge has no other realtime sessions.")
	}
	if refused := s.checkKeyLimit(key); refused != nil {
		return refused
	}
	return s.upgrade(ctx, side, key, string(args.Peek("model")))
}

// upgrade completes the handshake. If the model is known, it first connects the call to an engine.
func (s *Sessions) upgrade(ctx *fasthttp.RequestCtx, side *socket.Socket, key *auth.Key, model string) *apierr.Error {
	if refused := side.Accept(ctx, "realtime"); refused != nil {
		return refused
	}
	one := newSession(s, side, key, ctx.URI().QueryString())
	if model != "" {
		one.protocol.SetModel(model)
		if answer := one.startCall(model); answer != nil {
			side.CloseUnupgraded()
			replaceWithRefusal(&ctx.Response, answer)
			return nil
		}
	}
	// All responses have this header, but Serve sends this response before the header would be
	// added.
	if origin := browser.AllowedOrigin(ctx, s.services.Current().Config.CORS.Origins); origin != "" {
		browser.SetAllowedOrigin(&ctx.Response.Header, origin)
	}
	side.Serve(ctx, one.serve)
	return nil
}

func replaceWithRefusal(dst, refusal *fasthttp.Response) {
	for _, name := range [...]string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Accept", "Sec-Websocket-Protocol"} {
		dst.Header.Del(name)
	}
	dst.SetStatusCode(refusal.StatusCode())
	for name, value := range refusal.Header.All() {
		if string(name) != fasthttp.HeaderContentLength {
			dst.Header.SetCanonical(name, value)
		}
	}
	dst.SetBody(refusal.Body())
}

// subprotocolKey returns the key offered in a subprotocol. A browser cannot set headers for a
// WebSocket, so OpenAI's clients offer the subprotocol openai-insecure-api-key.KEY.
func subprotocolKey(offered [][]byte) (key string, found bool) {
	for _, list := range offered {
		for one := range bytes.SplitSeq(list, []byte{','}) {
			if key, ok := strings.CutPrefix(string(bytes.TrimSpace(one)), "openai-insecure-api-key."); ok {
				return key, true
			}
		}
	}
	return "", false
}

func (s *Sessions) checkKeyLimit(key *auth.Key) *apierr.Error {
	if key == nil {
		return nil
	}
	most := max(1, s.services.Current().Config.Limits.Connections/keyShareDivisor)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.countByKey[key.ID] < most {
		return nil
	}
	e := apierr.New(fasthttp.StatusTooManyRequests, apierr.CodeRateLimited,
		"This key has reached its limit of realtime sessions: %d, a quarter of limits.connections. Close some.", most)
	e.RetryAfter = time.Second
	return e
}

// SessionCounts returns the number of open sessions and the total number of sessions opened so far.
func (s *Sessions) SessionCounts() (open int, opened uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.opened
}

// EndWithoutModel ends the sessions without a model if the edge is draining. Sessions that have a
// model are calls, and are drained like all calls.
func (s *Sessions) EndWithoutModel() {
	if !s.draining() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.open {
		go s.services.Guard.RunWithRecover(guard.PlaceWebSocket, one.closeIfNoCall)
	}
}

func (s *Sessions) add(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[one] = struct{}{}
	s.opened++
	if one.key != nil {
		s.countByKey[one.key.ID]++
	}
}

func (s *Sessions) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[one]; !open {
		return
	}
	delete(s.open, one)
	if one.key == nil {
		return
	}
	if s.countByKey[one.key.ID]--; s.countByKey[one.key.ID] == 0 {
		delete(s.countByKey, one.key.ID)
	}
}

func newSession(s *Sessions, side *socket.Socket, key *auth.Key, query []byte) *session {
	one := &session{sessions: s, clientSocket: side, key: key, query: bytes.Clone(query), protocol: realtime.NewSessionState(rand.Text()), startedAt: time.Now()}
	one.changed.L = &one.mu
	one.lastMessage.Store(one.startedAt.UnixNano())
	return one
}

// These are the close codes, and the close reason during a drain.
const (
	closeNormal        = int(websocket.StatusNormalClosure)
	closeGoingAway     = int(websocket.StatusGoingAway)
	closePolicy        = int(websocket.StatusPolicyViolation)
	closeTooBig        = int(websocket.StatusMessageTooBig)
	closeInternalError = int(websocket.StatusInternalError)
	closeTryAgain      = int(websocket.StatusTryAgainLater)
	reasonShutdown     = "the edge is about to end"
)
