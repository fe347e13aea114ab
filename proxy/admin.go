package proxy

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/admin"
	"penstock/proxy/browser"
	"penstock/proxy/guard"
	"penstock/proxy/listen"
	"penstock/proxy/reload"
	"penstock/translate/apierr"
)

// The admin listener is the operator's: metrics, state, readiness and reloads. It is a listener of
// its own, so that no path of it can be reached from the public side.

func (e *Edge) adminServer(c *config.File) *fasthttp.Server {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		adminError(ctx, apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path. The admin listener has the status page at /, /status, /metrics, /-/usage, /-/ready, /-/reload and /-/mode."))
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		allow, err := wrongMethod(ctx)
		adminError(ctx, err)
		ctx.Response.Header.Set("Allow", allow)
	}
	for path, h := range map[string]fasthttp.RequestHandler{
		"/":        e.operator(e.statusPage),
		"/metrics": e.operator(e.writeMetrics),
		"/status":  e.operator(e.writeStatus),
		"/-/usage": e.operator(e.writeUsage),
		"/-/ready": e.ready,
	} {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	r.GET("/status/events", e.operator(e.statusEvents)) // no HEAD: it has no end that a head could tell of
	r.POST("/-/reload", e.operator(e.reloadRequested))
	r.POST("/-/mode", e.operator(e.modeRequested))
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			defer e.guard.Catch(guard.Admin, func() { adminError(ctx, internalError(errPanicked).api) })
			listen.RequestReceived(ctx.Conn())
			err := checkHead(&ctx.Request.Header)
			if wrong := listen.FramingError(ctx.Conn()); wrong != nil {
				err = misframed(wrong)
			}
			if err != nil {
				ctx.SetConnectionClose()
				adminError(ctx, err)
				return
			}
			if !browser.LocalRequest(&ctx.Request.Header, e.opts.Admin.Addr()) {
				adminError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "The admin listener answers its own pages only, and on loopback its own address."))
				return
			}
			r.Handler(ctx)
		},
		ConnState:             e.connState,
		ErrorHandler:          e.adminHeadError,
		ReadBufferSize:        int(c.Limits.Header),
		ReadTimeout:           c.Timeouts.ClientHeader.D(),
		IdleTimeout:           c.Timeouts.ClientIdle.D(),
		WriteTimeout:          c.Timeouts.Write.D(),
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		Logger:                discardLogger{},
	}
}

// adminHeadError answers a request whose head did not parse.
func (e *Edge) adminHeadError(ctx *fasthttp.RequestCtx, err error) {
	defer e.guard.Catch(guard.Admin, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	a, _ := headFault(ctx, err)
	adminError(ctx, a)
}

// adminError answers a request at the admin listener. It is not counted: the API's errors are what
// clients meet.
func adminError(ctx *fasthttp.RequestCtx, err *apierr.Error) {
	writeError(ctx, dialectChat, dialectChat.errorOf(err))
}

// operator lets a request pass that carries the admin token, when there is one: as a bearer, or,
// from a browser, as the password of Basic.
func (e *Edge) operator(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		token := e.reloads.Running().Config.Admin.Token.Value()
		peer := addressOf(ctx)
		if token != "" {
			if wait := e.adminGuesses.Wait(peer, e.now()); wait > 0 {
				e.counters.adminBraked.Inc()
				err := apierr.New(fasthttp.StatusTooManyRequests, apierr.CodeRateLimited, "Too many wrong admin tokens came from this address. Retry in %d seconds.", int(wait/time.Second)+1)
				err.RetryAfter = wait
				adminError(ctx, err)
				return
			}
		}
		if token != "" && subtle.ConstantTimeCompare(adminCredential(ctx), []byte(token)) != 1 {
			e.wrongToken(ctx, peer)
			adminError(ctx, apierr.New(fasthttp.StatusUnauthorized, apierr.CodeInvalidAPIKey, "The admin token is missing or wrong: send it as \"Authorization: Bearer TOKEN\", or give it to the browser as the password."))
			if bytes.Contains(ctx.Request.Header.Peek(fasthttp.HeaderAccept), []byte("text/html")) {
				ctx.Response.Header.Set("WWW-Authenticate", `Basic realm="penstock admin", charset="UTF-8"`)
			}
			return
		}
		next(ctx)
	}
}

// wrongToken records a wrong admin token. A request without one is not a guess: a browser learns
// from the answer that a token is needed.
func (e *Edge) wrongToken(ctx *fasthttp.RequestCtx, peer netip.Addr) {
	if len(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)) == 0 {
		return
	}
	e.counters.adminWrong.Inc()
	if now := e.now(); e.adminGuesses.Wrong(peer, now) && now.Sub(time.Unix(0, e.guessesLogged.Load())) > time.Minute {
		e.guessesLogged.Store(now.UnixNano())
		e.log.Warn("admin tokens are being guessed: an address that is wrong too often is not listened to for a while")
	}
}

// addressOf is where a request comes from, without the port.
func addressOf(ctx *fasthttp.RequestCtx) netip.Addr {
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

// adminCredential returns what a request offers as the token. The names of schemes are not
// case-sensitive (RFC 9110, 11.1).
func adminCredential(ctx *fasthttp.RequestCtx) []byte {
	scheme, given, _ := bytes.Cut(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization), []byte(" "))
	given = bytes.TrimLeft(given, " ")
	if bytes.EqualFold(scheme, []byte("bearer")) {
		return given
	}
	if !bytes.EqualFold(scheme, []byte("basic")) {
		return nil
	}
	pair, err := base64.StdEncoding.DecodeString(string(given))
	if err != nil {
		return nil
	}
	_, password, _ := bytes.Cut(pair, []byte{':'})
	return password
}

// ready says whether a balancer may send new requests: 503 while draining, and while a panic comes
// again and again.
func (e *Edge) ready(ctx *fasthttp.RequestCtx) {
	commonHeaders(&ctx.Response.Header, appendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	answer := admin.Readiness{Status: "ready"}
	if e.draining.Load() {
		answer.Status = "draining"
	} else if where := e.guard.Storm(e.now()); where != "" {
		answer = admin.Readiness{Status: "failing", Reason: "it panics again and again (" + where + "); its log has the stacks"}
	}
	if answer.Status != "ready" {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	body, _ := json.Marshal(answer) // strings alone
	ctx.Response.SetBody(body)
}

// reloadRequested reloads and answers with what changed, or with what is wrong. ?force=true applies
// a configuration that leaves a model without a slot, ?dry_run=true applies nothing. A dry run
// looks at the configuration in its body, if it has one.
func (e *Edge) reloadRequested(ctx *fasthttp.RequestCtx) {
	q := reload.Request{Source: reload.SourceRequest}
	args := ctx.QueryArgs()
	for name, value := range args.All() {
		into := map[string]*bool{"force": &q.Force, "dry_run": &q.DryRun}[string(name)]
		on, err := strconv.ParseBool(string(value))
		if into == nil || err != nil {
			adminError(ctx, apierr.Invalid(string(name), apierr.CodeInvalidValue, "A reload takes force=true and dry_run=true, and nothing else."))
			return
		}
		*into = on
	}
	candidate := ctx.PostBody() // the server bounds it
	switch {
	case len(candidate) > 0 && !q.DryRun:
		adminError(ctx, apierr.Invalid("dry_run", apierr.CodeInvalidValue, "A configuration in the body is only compared with the running one: send it with dry_run=true. To apply it, write it to the edge's file."))
		return
	case len(candidate) > 0:
		q.Candidate = candidate
	}
	r := e.reloads.Reload(q)
	if !r.OK {
		ctx.SetStatusCode(fasthttp.StatusUnprocessableEntity)
	}
	respondJSON(ctx, r)
}

// writeUsage answers with the account of keys and models since the start.
func (e *Edge) writeUsage(ctx *fasthttp.RequestCtx) {
	respondJSON(ctx, e.services.Calls.Usage.Report(e.started, e.now()))
}

func respondJSON(ctx *fasthttp.RequestCtx, v any) {
	commonHeaders(&ctx.Response.Header, appendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.SetBody(append(body, '\n'))
}
