package acme

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/front/httpserver"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

// Server is the HTTP server for HTTP-01 challenges. It answers challenges, redirects browsers to
// https, and rejects all other requests.
type Server struct {
	manager  *Manager
	guard    *guard.Guard
	listener *listen.Listener
	http     *fasthttp.Server
	port     string // port in the https URL, such as ":8443"; empty for port 443
}

const challengePath = "/.well-known/acme-challenge/"

// NewServer returns a Server. Serve starts it.
func NewServer(m *Manager, ln net.Listener, f *config.File, g *guard.Guard) (*Server, error) {
	s := &Server{manager: m, guard: g, port: httpsPort(f)}
	var err error
	s.listener, err = listen.New(ln, listen.Options{MaxConns: listen.AdminConns(), MakeRoom: true, Guard: g})
	if err != nil {
		return nil, err
	}
	s.http = httpserver.New(f, g)
	s.http.Handler = s.answer
	s.http.ErrorHandler = s.fail
	s.http.WriteTimeout = f.Timeouts.Write.D()
	s.http.MaxRequestBodySize = 1 // no accepted request has a body
	return s, nil
}

// httpsPort returns the port for redirects. If the HTTP listener does not use port 80, a forwarder
// must be in front of it. httpsPort then assumes that the https listener is also behind a
// forwarder.
func httpsPort(f *config.File) string {
	_, port, _ := net.SplitHostPort(f.Listen)
	if _, own, _ := net.SplitHostPort(f.TLS.ACME.HTTP); port == "443" || own != "80" {
		return ""
	}
	return ":" + port
}

// Serve accepts connections until Close.
func (s *Server) Serve() error { return s.http.Serve(s.listener) }

// Close closes the server and its connections.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.listener.CloseConns()
	_ = s.listener.Release() // an error does not matter, because the process exits
	return err
}

func (s *Server) answer(ctx *fasthttp.RequestCtx) {
	defer s.guard.Catch(guard.ACME, func() { refuse(ctx, fasthttp.StatusInternalServerError) })
	listen.RequestReceived(ctx.Conn())
	if err := httpserver.Check(ctx); err != nil {
		ctx.SetConnectionClose()
		refuse(ctx, err.Status)
		return
	}
	if httpserver.AnswerWholeServer(ctx, "GET, HEAD") {
		return
	}
	if token, ok := strings.CutPrefix(string(ctx.RequestURI()), challengePath); ok && reads(ctx) {
		answer, ok := s.manager.httpAnswer(string(ctx.Host()), token)
		if !ok {
			refuse(ctx, fasthttp.StatusNotFound)
			return
		}
		ctx.SetContentType("application/octet-stream")
		ctx.SetBodyString(answer)
		return
	}
	base, ok := s.base(ctx)
	switch {
	case !ok:
		if !reads(ctx) {
			ctx.SetConnectionClose()
		}
		refuse(ctx, fasthttp.StatusNotFound)
	case !reads(ctx) || callsAPI(ctx):
		refuseCall(ctx, base)
	default: // the query string is dropped: pages do not need it, and it may contain a credential
		ctx.Response.Header.Set("Location", base+string(ctx.URI().PathOriginal()))
		ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
	}
}

// fail responds to a request that could not be parsed. It treats a request with a body as an API
// call.
func (s *Server) fail(ctx *fasthttp.RequestCtx, err error) {
	if errors.Is(err, fasthttp.ErrBodyTooLarge) && httpserver.Check(ctx) == nil {
		if base, ok := s.base(ctx); ok {
			refuseCall(ctx, base)
			return
		}
	}
	refuse(ctx, fasthttp.StatusBadRequest)
}

// base returns the edge's https URL for the domain in a request. ok is false if the edge does not
// serve that domain.
func (s *Server) base(ctx *fasthttp.RequestCtx) (url string, ok bool) {
	host := string(ctx.Host())
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	d := s.manager.set.Load().byName[plainName(host)]
	if d == nil {
		return "", false
	}
	return "https://" + d.name + s.port, true
}

func reads(ctx *fasthttp.RequestCtx) bool { return ctx.IsGet() || ctx.IsHead() }

// callsAPI reports whether a request is an API call by a program. If such requests were redirected,
// the program would send its key over plain HTTP every time, and the operator would not notice.
func callsAPI(ctx *fasthttp.RequestCtx) bool {
	path, h := string(ctx.URI().PathOriginal()), &ctx.Request.Header
	return path == apiPath || strings.HasPrefix(path, apiPath+"/") ||
		len(h.Peek("Authorization")) > 0 || len(h.Peek("X-Api-Key")) > 0
}

const apiPath = "/v1"

// refuseCall responds to an API call. It does not read the request body, but the connection
// lingers. A client that sends the whole body first can therefore still read the response.
func refuseCall(ctx *fasthttp.RequestCtx, base string) {
	if c, ok := ctx.Conn().(*listen.Conn); ok {
		c.Linger()
	}
	e := apierr.HTTPSRequired(base)
	ctx.Response.Reset()
	ctx.SetConnectionClose()
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.SetBody(e.Append(nil))
}

func refuse(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Reset()
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(fasthttp.StatusMessage(status) + "\n")
}

// httpAnswer returns the answer to an HTTP-01 challenge, even if another edge placed the order. It
// uses certmagic's net/http handler.
func (m *Manager) httpAnswer(host, token string) (string, bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if !m.opts.HTTP || !m.open(ctx, plainName(host)) {
		return "", false
	}
	r := &http.Request{Method: http.MethodGet, Host: plainName(host), URL: &url.URL{Path: challengePath + token}}
	var w answerWriter
	if !m.issuer.HandleHTTPChallenge(&w, r.WithContext(ctx)) {
		return "", false
	}
	return w.body.String(), true
}

// answerTime is how long the fleet's store may take to return the answer to a challenge.
const answerTime = 5 * time.Second

type answerWriter struct {
	header http.Header
	body   strings.Builder
}

func (w *answerWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *answerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// WriteHeader implements http.ResponseWriter. It ignores the status, because certmagic always
// answers 200.
func (w *answerWriter) WriteHeader(int) {}
