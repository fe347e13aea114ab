package admin

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/access/limit"
	"penstock/proxy/access/runkeys"
	"penstock/proxy/fleet"
	"penstock/proxy/fleet/board"
	"penstock/proxy/front/listen"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/reload"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// Options contains the components that an operator sees and controls.
type Options struct {
	Listener AdminPort
	Log      *zap.Logger
	Guard    *guard.Guard
	Metrics  *metrics.Set // for the counters of rejected tokens
	Started  time.Time
	Name     string

	Runbook string

	SharedPort bool // other processes may listen on the listener's port (SO_REUSEPORT)

	Reloads     *reload.Reloader
	Keys        runkeys.KeyStore // keys created at run time; nil if keys cannot be created at run time
	Set         *upstreams.Set
	Calls       *observe.Calls
	Retries     *limit.RetryBudget
	Fleet       *fleet.Fleet               // nil if the edge does not share state
	FleetUsage  *fleet.UsageExchange       // nil if the edge does not share state
	Board       *board.Board               // nil if the edge does not share state
	Certificate func() *status.Certificate // the public listener's certificate; nil without TLS

	Draining    func() bool
	Starting    func() string // what a starting edge is waiting for, or ""
	Connections func() int64
	TurnedAway  func(now time.Time) bool // reports whether clients were rejected recently
	Issuers     func(now time.Time) []status.Issuer
	Hooks       func(now time.Time) []status.Hook
	Copies      func(now time.Time) []status.Copies
	InFlight    func(now time.Time) []status.Call
	Exposition  func(w io.Writer, openMetrics bool) error
}

// AdminPort is the listener for operators.
type AdminPort struct {
	net.Listener
	Certificate *listen.Certificate // nil if the listener does not use TLS
}

// Server is the admin listener of one edge.
type Server struct {
	opts           Options
	listener       *listen.Listener
	http           *fasthttp.Server
	tokens         tokenGate
	sharedPort     *portWatch
	watch          status.StateWatch
	problemLog     problemLogger
	lastVerdict    atomic.Pointer[status.Verdict]
	openPages      atomic.Int64
	closing        chan struct{} // closed when Shutdown starts
	shutdownCalled bool
}

// Listener returns the server's listener.
func (s *Server) Listener() *listen.Listener { return s.listener }

// Serve accepts connections until Shutdown.
func (s *Server) Serve() error {
	if c := s.opts.Listener.Certificate; c != nil {
		return s.http.Serve(s.listener.WithTLS(c.TLSConfig()))
	}
	return s.http.Serve(s.listener)
}

// CloseSocket closes the listening socket, so that another process on the same port accepts all new
// connections.
func (s *Server) CloseSocket() { _ = listen.CloseAfterBacklog(s.opts.Listener.Listener) }

// Shutdown stops the server and waits until its connections close or ctx ends. It does not return
// an error if connections are still open. A second call does nothing. Shutdown must not be called
// concurrently.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.shutdownCalled {
		return nil
	}
	s.shutdownCalled = true
	close(s.closing)
	if err := s.http.ShutdownWithContext(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// CloseConns closes the connections that are still open after Shutdown.
func (s *Server) CloseConns() error {
	s.listener.CloseConns()
	return s.listener.StopDisconnectWatch()
}
