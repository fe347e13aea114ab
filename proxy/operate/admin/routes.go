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

// New returns the server of the admin listener. It does not accept connections before Serve.
func New(o Options) (*Server, error) {
	s := &Server{opts: o, tokens: newTokenGate(o.Log, o.Metrics), port: newPortWatch(&o), closing: make(chan struct{})}
	var err error
	if s.listener, err = listen.New(o.Listener.Listener, listen.Options{
		MaxConns: listen.AdminConns(), MakeRoom: true, TLS: o.Listener.Certificate != nil,
		Guard: o.Guard, RequestID: endpoint.AppendRequestID,
	}); err != nil {
		return nil, err
	}
	f := o.Reloads.Running().Config
	s.http = httpserver.New(f, o.Guard)
	s.http.Handler = s.everyRequest(s.routes())
	s.http.ErrorHandler = s.headError
	s.http.WriteTimeout = f.Timeouts.Write.D()
	s.http.MaxRequestBodySize = config.MaxFile // the largest possible body is a configuration to check
	return s, nil
}

func (s *Server) routes() fasthttp.RequestHandler {
	r := httpserver.NewRouter()
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		refuse(ctx, apierr.NotFound(apierr.CodeNotFound,
			nothingHere+" "+ownPages+" the status page at /, /status, /runbook, /metrics, /-/usage, /-/arms, /-/process, /-/goroutines, /-/heap, /-/keys, /-/ready, /-/reload and /-/mode."))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		allow, err := httpserver.WrongMethod(ctx)
		refuse(ctx, err)
		ctx.Response.Header.Set("Allow", allow)
	}
	for path, h := range map[string]fasthttp.RequestHandler{
		"/":          s.operator(config.RoleRead, s.statusPage),
		"/call/{id}": s.operator(config.RoleRead, s.callPage),
		"/metrics":   s.operator(config.RoleRead, s.metrics),
		"/status":    s.operator(config.RoleRead, s.statusJSON),
		"/usage":     s.operator(config.RoleRead, s.usage(true)),
		"/runbook":   s.operator(config.RoleRead, s.runbook),
		"/-/usage":   s.operator(config.RoleRead, s.usage(false)),
		"/-/arms":    s.operator(config.RoleRead, func(ctx *fasthttp.RequestCtx) { respondJSON(ctx, armsOf(&s.opts)) }),
		"/-/ready":   s.ready,

		"/-/keys":      s.operator(config.RoleRead, s.listKeys),
		"/-/keys/{id}": s.operator(config.RoleRead, s.oneKey),

		"/-/process":    s.operator(config.RoleRead, func(ctx *fasthttp.RequestCtx) { respondJSON(ctx, factsOf(&s.opts)) }),
		"/-/goroutines": s.operator(config.RoleRead, profile(process.WriteStacks)),
		"/-/heap":       s.operator(config.RoleRead, profile(process.WriteHeap)),
	} {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	r.GET("/status/events", s.operator(config.RoleRead, s.statusEvents)) // no HEAD, because the response never ends
	r.POST("/-/reload", s.operator(config.RoleAll, s.reload))
	r.POST("/-/keys", s.keeper(s.createKey))
	r.PATCH("/-/keys/{id}", s.keeper(s.patchKey))
	r.DELETE("/-/keys/{id}", s.keeper(s.deleteKey))
	r.POST("/-/keys/{id}/rotate", s.keeper(s.rotateKey))
	r.POST("/-/mode", s.operator(config.RoleAll, s.mode))
	return r.Handler
}

// everyRequest wraps every handler. It catches panics and checks the request.
func (s *Server) everyRequest(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer s.opts.Guard.Catch(guard.Admin, func() { refuse(ctx, apierr.Internal(failure.ErrPanicked)) })
		listen.RequestReceived(ctx.Conn())
		s.nameProcess(ctx)
		if err := httpserver.Check(ctx); err != nil {
			ctx.SetConnectionClose()
			refuse(ctx, err)
			return
		}
		if !browser.LocalRequest(&ctx.Request.Header, s.opts.Listener.Addr()) {
			refuse(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
				"The admin listener answers its own pages only, and on loopback its own address."))
			return
		}
		if httpserver.AnswerWholeServer(ctx, "GET, HEAD, POST, PATCH, DELETE") {
			return
		}
		next(ctx)
	}
}

func (s *Server) headError(ctx *fasthttp.RequestCtx, err error) {
	defer s.opts.Guard.Catch(guard.Admin, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	refusal, _ := httpserver.Unparsed(ctx, err)
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		refusal = apierr.TooLarge(config.MaxFile)
		if c, ok := ctx.Conn().(*listen.Conn); ok {
			c.Linger()
		}
	}
	refuse(ctx, refusal)
}

const callerValue = "caller"

// whoAsks returns the caller of a request, which the operator wrapper has stored.
func whoAsks(ctx *fasthttp.RequestCtx) caller {
	who, _ := ctx.UserValue(callerValue).(caller)
	return who
}

// operator wraps a handler. It passes a request on if the admin token has at least the given role,
// or if the configuration has no tokens.
func (s *Server) operator(role string, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		who, err := s.tokens.check(ctx, &s.opts.Reloads.Running().Config.Admin, time.Now())
		if err != nil {
			refuse(ctx, err)
			if err.Status == fasthttp.StatusUnauthorized && acceptsHTML(&ctx.Request.Header) {
				ctx.Response.Header.Set("WWW-Authenticate", `Basic realm="penstock admin", charset="UTF-8"`)
			}
			return
		}
		if !config.RoleMay(who.role, role) {
			refuse(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
				"The admin token %q has the role %s, and this needs the role %s.", who.name, who.role, role))
			return
		}
		ctx.SetUserValue(callerValue, who)
		next(ctx)
	}
}

// keeper wraps a handler. It passes a request on if the caller may change keys and the body has at
// most runkeys.MaxBody bytes.
func (s *Server) keeper(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return s.operator(config.RoleKeys, func(ctx *fasthttp.RequestCtx) {
		if len(ctx.PostBody()) > runkeys.MaxBody {
			refuse(ctx, apierr.TooLarge(runkeys.MaxBody))
			return
		}
		next(ctx)
	})
}

// These texts are the responses for unknown paths. A command recognizes the admin listener by
// ownPages.
const (
	nothingHere = "There is nothing at this path."
	ownPages    = "The admin listener has"
)
