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

// ChallengeServer is the HTTP server for HTTP-01 challenges. It answers challenges, redirects
// browsers to https, and rejects all other requests.
type ChallengeServer struct {
	manager  *Manager
	guard    *guard.Guard
	listener *listen.Listener
	http     *fasthttp.Server
	port     string // port in the https URL, such as ":8443"; empty for port 443
}

const challengePath = "/.well-known/acme-challenge/"

// NewServer returns a ChallengeServer. Serve starts it.
func NewServer(m *Manager, ln net.Listener, f *config.File, g *guard.Guard) (*ChallengeServer, error) {
	s := &ChallengeServer{manager: m, guard: g, port: httpsRedirectPort(f)}
	var err error
	s.listener, err = listen.New(ln, listen.Options{MaxConns: listen.AdminConnLimit(), MakeRoom: true, Guard: g})
	if err != nil {
		return nil, err
	}
	s.http = httpserver.New(f, g)
	s.http.Handler = s.handleRequest
	s.http.ErrorHandler = s.handleParseError
	s.http.WriteTimeout = f.Timeouts.Write.D()
	s.http.MaxRequestBodySize = 1 // no accepted request has a body
	return s, nil
}

// httpsRedirectPort returns the port for redirects. If the HTTP listener does not use port 80, it
// must be behind a forwarder. httpsRedirectPort then assumes that the https listener is behind a
// forwarder too.
func httpsRedirectPort(f *config.File) string {
	_, port, _ := net.SplitHostPort(f.Listen)
	if _, own, _ := net.SplitHostPort(f.TLS.ACME.HTTP); port == "443" || own != "80" {
		return ""
	}
	return ":" + port
}

// Serve accepts connections until Close.
func (s *ChallengeServer) Serve() error { return s.http.Serve(s.listener) }

// Close closes the server and its connections.
func (s *ChallengeServer) Close() error {
	err := s.listener.Close()
	s.listener.CloseConns()
	_ = s.listener.StopDisconnectWatch() // an error does not matter, because the process exits
	return err
}

func (s *ChallengeServer) handleRequest(ctx *fasthttp.RequestCtx) {
	defer s.guard.Catch(guard.PlaceACME, func() { writePlainStatus(ctx, fasthttp.StatusInternalServerError) })
	listen.MarkHeadersReceived(ctx.Conn())
	if err := httpserver.CheckRequest(ctx); err != nil {
		ctx.SetConnectionClose()
		writePlainStatus(ctx, err.Status)
		return
	}
	if httpserver.AnswerOptionsStar(ctx, "GET, HEAD") {
		return
	}
	if token, ok := strings.CutPrefix(string(ctx.RequestURI()), challengePath); ok && isGetOrHead(ctx) {
		answer, ok := s.manager.httpChallengeAnswer(string(ctx.Host()), token)
		if !ok {
			writePlainStatus(ctx, fasthttp.StatusNotFound)
			return
		}
		ctx.SetContentType("application/octet-stream")
		ctx.SetBodyString(answer)
		return
	}
	base, ok := s.httpsBase(ctx)
	switch {
	case !ok:
		if !isGetOrHead(ctx) {
			ctx.SetConnectionClose()
		}
		writePlainStatus(ctx, fasthttp.StatusNotFound)
	case !isGetOrHead(ctx) || isAPICall(ctx):
		rejectAPICall(ctx, base)
	default: // the query string is dropped: pages do not need it, and it may contain a credential
		ctx.Response.Header.Set("Location", base+string(ctx.URI().PathOriginal()))
		ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
	}
}

// handleParseError responds to a request that could not be parsed. It treats a request with a body
// as an API call.
func (s *ChallengeServer) handleParseError(ctx *fasthttp.RequestCtx, err error) {
	if errors.Is(err, fasthttp.ErrBodyTooLarge) && httpserver.CheckRequest(ctx) == nil {
		if base, ok := s.httpsBase(ctx); ok {
			rejectAPICall(ctx, base)
			return
		}
	}
	writePlainStatus(ctx, fasthttp.StatusBadRequest)
}

// httpsBase returns the edge's https URL for the domain in a request. ok is false if the edge does
// not serve that domain.
func (s *ChallengeServer) httpsBase(ctx *fasthttp.RequestCtx) (url string, ok bool) {
	host := string(ctx.Host())
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	d := s.manager.domains.Load().byName[normalizeDomain(host)]
	if d == nil {
		return "", false
	}
	return "https://" + d.name + s.port, true
}

func isGetOrHead(ctx *fasthttp.RequestCtx) bool { return ctx.IsGet() || ctx.IsHead() }

// isAPICall reports whether a request is an API call by a program. If such requests were
// redirected, the program would send its key over plain HTTP every time, and the operator would not
// notice.
func isAPICall(ctx *fasthttp.RequestCtx) bool {
	path, h := string(ctx.URI().PathOriginal()), &ctx.Request.Header
	return path == apiPath || strings.HasPrefix(path, apiPath+"/") ||
		len(h.Peek("Authorization")) > 0 || len(h.Peek("X-Api-Key")) > 0
}

const apiPath = "/v1"

// rejectAPICall responds to an API call. It does not read the request body, but the connection
// lingers. A client that sends the whole body first can therefore still read the response.
func rejectAPICall(ctx *fasthttp.RequestCtx, base string) {
	if c, ok := ctx.Conn().(*listen.Conn); ok {
		c.LingerOnClose()
	}
	e := apierr.HTTPSRequired(base)
	ctx.Response.Reset()
	ctx.SetConnectionClose()
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.SetBody(e.AppendBody(nil))
}

func writePlainStatus(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Reset()
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(fasthttp.StatusMessage(status) + "\n")
}

// httpChallengeAnswer returns the answer to an HTTP-01 challenge, even if another edge placed the
// order. It uses certmagic's net/http handler.
func (m *Manager) httpChallengeAnswer(host, token string) (string, bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ctx, cancel := context.WithTimeout(context.Background(), challengeLookupTimeout)
	defer cancel()
	if !m.opts.HTTP || !m.hasOpenChallenge(ctx, normalizeDomain(host)) {
		return "", false
	}
	r := &http.Request{Method: http.MethodGet, Host: normalizeDomain(host), URL: &url.URL{Path: challengePath + token}}
	var w challengeAnswerWriter
	if !m.issuer.HandleHTTPChallenge(&w, r.WithContext(ctx)) {
		return "", false
	}
	return w.body.String(), true
}

// challengeLookupTimeout is how long the fleet's store may take to return the answer to a
// challenge.
const challengeLookupTimeout = 5 * time.Second

type challengeAnswerWriter struct {
	header http.Header
	body   strings.Builder
}

func (w *challengeAnswerWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *challengeAnswerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// WriteHeader implements http.ResponseWriter. It ignores the status, because certmagic always
// answers 200.
func (w *challengeAnswerWriter) WriteHeader(int) {}
