package admin

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/runkeys"
	"penstock/proxy/front/browser"
	"penstock/proxy/front/httpserver"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/process"
	"penstock/translate/apierr"
)

// New returns the server of the admin listener. It accepts no connections until Serve is called.
func New(o Options) (*Server, error) {
	s := &Server{opts: o, tokens: newTokenGate(o.Log, o.Metrics), sharedPort: newPortWatch(&o), closing: make(chan struct{})}
	var err error
	if s.listener, err = listen.New(o.Listener.Listener, listen.Options{
		MaxConns: listen.AdminConnLimit(), MakeRoom: true, TLS: o.Listener.Certificate != nil,
		Guard: o.Guard, RequestID: endpoint.AppendNewRequestID,
	}); err != nil {
		return nil, err
	}
	f := o.Reloads.RunningSnapshot().Config
	s.http = httpserver.New(f, o.Guard)
	s.http.Handler = s.withRequestChecks(s.newRouter())
	s.http.ErrorHandler = s.handleHeadError
	s.http.WriteTimeout = f.Timeouts.Write.D()
	s.http.MaxRequestBodySize = config.MaxFileBytes // the largest possible body is a configuration to check
	return s, nil
}

func (s *Server) newRouter() fasthttp.RequestHandler {
	r := httpserver.NewEmptyRouter()
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		respondError(ctx, apierr.NotFound(apierr.CodeNotFound,
			notFoundText+" "+adminPagesText+" the status page at /, /status, /runbook, /metrics, /-/usage, /-/arms, /-/process, /-/goroutines, /-/heap, /-/keys, /-/ready, /-/reload and /-/mode."))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		allow, err := httpserver.MethodNotAllowed(ctx)
		respondError(ctx, err)
		ctx.Response.Header.Set("Allow", allow)
	}
	for path, h := range map[string]fasthttp.RequestHandler{
		"/":          s.requireRole(config.AdminRoleRead, s.serveStatusPage),
		"/call/{id}": s.requireRole(config.AdminRoleRead, s.serveCallPage),
		"/metrics":   s.requireRole(config.AdminRoleRead, s.serveMetrics),
		"/status":    s.requireRole(config.AdminRoleRead, s.serveStatusJSON),
		"/usage":     s.requireRole(config.AdminRoleRead, s.usageHandler(true)),
		"/runbook":   s.requireRole(config.AdminRoleRead, s.serveRunbook),
		"/-/usage":   s.requireRole(config.AdminRoleRead, s.usageHandler(false)),
		"/-/arms":    s.requireRole(config.AdminRoleRead, func(ctx *fasthttp.RequestCtx) { respondJSON(ctx, modelArms(&s.opts)) }),
		"/-/ready":   s.serveReady,

		"/-/keys":      s.requireRole(config.AdminRoleRead, s.handleListKeys),
		"/-/keys/{id}": s.requireRole(config.AdminRoleRead, s.handleGetKey),

		"/-/process":    s.requireRole(config.AdminRoleRead, func(ctx *fasthttp.RequestCtx) { respondJSON(ctx, collectProcessFacts(&s.opts)) }),
		"/-/goroutines": s.requireRole(config.AdminRoleRead, profileHandler(process.WriteGoroutineStacks)),
		"/-/heap":       s.requireRole(config.AdminRoleRead, profileHandler(process.WriteHeapProfile)),
	} {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	// HEAD is not supported, because the response never ends.
	r.GET("/status/events", s.requireRole(config.AdminRoleRead, s.streamPageUpdates))
	r.POST("/-/reload", s.requireRole(config.AdminRoleAll, s.handleReload))
	r.POST("/-/keys", s.requireKeysRole(s.handleCreateKey))
	r.PATCH("/-/keys/{id}", s.requireKeysRole(s.handlePatchKey))
	r.DELETE("/-/keys/{id}", s.requireKeysRole(s.handleDeleteKey))
	r.POST("/-/keys/{id}/rotate", s.requireKeysRole(s.handleRotateKey))
	r.POST("/-/mode", s.requireRole(config.AdminRoleAll, s.handleSetMode))
	return r.Handler
}

// withRequestChecks wraps every handler. It catches panics and checks the request.
func (s *Server) withRequestChecks(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer s.opts.Guard.Catch(guard.PlaceAdmin, func() { respondError(ctx, apierr.InternalError(failure.ErrPanicked)) })
		listen.MarkHeadersReceived(ctx.Conn())
		s.setProcessHeaders(ctx)
		if err := httpserver.CheckRequest(ctx); err != nil {
			ctx.SetConnectionClose()
			respondError(ctx, err)
			return
		}
		if !browser.IsLocalRequest(&ctx.Request.Header, s.opts.Listener.Addr()) {
			respondError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
				"The admin listener answers its own pages only, and on loopback its own address."))
			return
		}
		if httpserver.AnswerOptionsStar(ctx, "GET, HEAD, POST, PATCH, DELETE") {
			return
		}
		next(ctx)
	}
}

func (s *Server) handleHeadError(ctx *fasthttp.RequestCtx, err error) {
	defer s.opts.Guard.Catch(guard.PlaceAdmin, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	refusal, _ := httpserver.RequestParseError(ctx, err)
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		refusal = apierr.TooLarge(config.MaxFileBytes)
		if c, ok := ctx.Conn().(*listen.Conn); ok {
			c.LingerOnClose()
		}
	}
	respondError(ctx, refusal)
}

const callerValueKey = "caller"

// requestCaller returns the caller of a request, as stored by requireRole.
func requestCaller(ctx *fasthttp.RequestCtx) authenticatedCaller {
	who, _ := ctx.UserValue(callerValueKey).(authenticatedCaller)
	return who
}

// requireRole wraps a handler. It passes a request on if the admin token has at least the given
// role, or if the configuration has no tokens.
func (s *Server) requireRole(role string, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		who, err := s.tokens.authenticate(ctx, &s.opts.Reloads.RunningSnapshot().Config.Admin, time.Now())
		if err != nil {
			respondError(ctx, err)
			if err.Status == fasthttp.StatusUnauthorized && acceptsHTML(&ctx.Request.Header) {
				ctx.Response.Header.Set("WWW-Authenticate", `Basic realm="penstock admin", charset="UTF-8"`)
			}
			return
		}
		if !config.AdminRoleAllows(who.role, role) {
			respondError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
				"The admin token %q has the role %s, and this needs the role %s.", who.name, who.role, role))
			return
		}
		ctx.SetUserValue(callerValueKey, who)
		next(ctx)
	}
}

// requireKeysRole wraps a handler. It passes a request on if the caller may change keys and the
// body has at most runkeys.MaxRequestBytes bytes.
func (s *Server) requireKeysRole(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return s.requireRole(config.AdminRoleKeys, func(ctx *fasthttp.RequestCtx) {
		if len(ctx.PostBody()) > runkeys.MaxRequestBytes {
			respondError(ctx, apierr.TooLarge(runkeys.MaxRequestBytes))
			return
		}
		next(ctx)
	})
}

// These texts are the responses for unknown paths. A command recognizes the admin listener by
// adminPagesText.
const (
	notFoundText   = "There is nothing at this path."
	adminPagesText = "The admin listener has"
)
