package acme

import (
	"net"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/guard"
	"penstock/proxy/httpserver"
	"penstock/proxy/listen"
)

// Server is the listener of HTTP-01 challenges. It answers them, sends GET and HEAD for the edge's
// domains to https, and knows nothing else.
type Server struct {
	manager  *Manager
	guard    *guard.Guard
	listener *listen.Listener
	http     *fasthttp.Server
	port     string // of https, as ":8443"; empty for 443
}

const challengePath = "/.well-known/acme-challenge/"

// NewServer makes the listener of a manager's challenges. Nothing is accepted before Serve.
func NewServer(m *Manager, ln net.Listener, f *config.File, g *guard.Guard) (*Server, error) {
	s := &Server{manager: m, guard: g, port: httpsPort(f)}
	var err error
	s.listener, err = listen.New(ln, listen.Options{MaxConns: listen.AdminConns(), MakeRoom: true, Guard: g})
	if err != nil {
		return nil, err
	}
	s.http = httpserver.New(f, g)
	s.http.Handler = s.answer
	s.http.ErrorHandler = func(ctx *fasthttp.RequestCtx, _ error) { refuse(ctx, fasthttp.StatusBadRequest) }
	s.http.WriteTimeout = f.Timeouts.Write.D()
	s.http.MaxRequestBodySize = 1 // nothing that is answered has one
	return s, nil
}

// httpsPort is the port that clients are sent to. A listener that is not at port 80 itself has it
// forwarded, and so has the one of https.
func httpsPort(f *config.File) string {
	_, port, _ := net.SplitHostPort(f.Listen)
	if _, own, _ := net.SplitHostPort(f.TLS.ACME.HTTP); port == "443" || own != "80" {
		return ""
	}
	return ":" + port
}

// Serve accepts until Close.
func (s *Server) Serve() error { return s.http.Serve(s.listener) }

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.listener.CloseConns()
	_ = s.listener.Release() // the process ends
	return err
}

// answer answers a request.
func (s *Server) answer(ctx *fasthttp.RequestCtx) {
	defer s.guard.Catch(guard.ACME, func() { refuse(ctx, fasthttp.StatusInternalServerError) })
	listen.RequestReceived(ctx.Conn())
	if err := httpserver.Check(ctx); err != nil {
		ctx.SetConnectionClose()
		refuse(ctx, err.Status)
		return
	}
	if !ctx.IsGet() && !ctx.IsHead() {
		ctx.SetConnectionClose()
		refuse(ctx, fasthttp.StatusNotFound)
		return
	}
	if token, ok := strings.CutPrefix(string(ctx.RequestURI()), challengePath); ok {
		answer, ok := s.manager.httpAnswer(token)
		if !ok {
			refuse(ctx, fasthttp.StatusNotFound)
			return
		}
		ctx.SetContentType("application/octet-stream")
		ctx.SetBodyString(answer)
		return
	}
	host := string(ctx.Host())
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	d := s.manager.set.Load().byName[plainName(host)]
	if d == nil {
		refuse(ctx, fasthttp.StatusNotFound)
		return
	}
	ctx.Response.Header.Set("Location", "https://"+d.name+s.port+string(ctx.RequestURI()))
	ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
}

func refuse(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Reset()
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(fasthttp.StatusMessage(status) + "\n")
}
