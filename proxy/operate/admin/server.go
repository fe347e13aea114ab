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

// Options holds the components of an edge that an operator sees and controls.
type Options struct {
	Listener Port
	Log      *zap.Logger
	Guard    *guard.Guard
	Metrics  *metrics.Set // for the counters of refused tokens
	Started  time.Time    // when the process started
	Name     string       // the machine's name

	Runbook string // the troubleshooting document

	SharedPort bool // other processes may listen on the listener's port (SO_REUSEPORT)

	Reloads     *reload.Reloader
	Keys        runkeys.Store // keys made at run time; nil: no keys can be made
	Set         *upstreams.Set
	Calls       *observe.Calls
	Retries     *limit.Retries
	Fleet       *fleet.Fleet               // nil if the edge shares nothing
	FleetUsage  *fleet.Rows                // nil if the edge shares nothing
	Board       *board.Board               // nil if the edge shares nothing
	Certificate func() *status.Certificate // the public listener's certificate; nil without TLS

	Draining    func() bool
	Starting    func() string            // what the edge is waiting for at its start; "": nothing
	Connections func() int64             // number of client connections
	TurnedAway  func(now time.Time) bool // reports whether clients were rejected recently
	Issuers     func(now time.Time) []status.Issuer
	Hooks       func(now time.Time) []status.Hook
	Copies      func(now time.Time) []status.Copies
	InFlight    func(now time.Time) []status.Call         // running calls
	Exposition  func(w io.Writer, openMetrics bool) error // writes the metrics
}

// Port is the listener for operators.
type Port struct {
	net.Listener
	Certificate *listen.Certificate // nil: the listener has no TLS
}

// Server is the admin listener of one edge.
type Server struct {
	opts     Options
	listener *listen.Listener
	http     *fasthttp.Server
	tokens   tokenGate
	port     *portWatch
	watch    status.Watch
	alarms   alarms                         // used by Look
	verdict  atomic.Pointer[status.Verdict] // the verdict of the last check
	pages    atomic.Int64                   // number of open status pages
	closing  chan struct{}                  // closed before the server shuts down
	shut     bool
}

// Listener returns the server's listener.
func (s *Server) Listener() *listen.Listener { return s.listener }

// Serve accepts until Shutdown.
func (s *Server) Serve() error {
	if c := s.opts.Listener.Certificate; c != nil {
		return s.http.Serve(s.listener.TLS(c.Config()))
	}
	return s.http.Serve(s.listener)
}

// LeavePort stops accepting, so that another process on the same port gets the next connections.
func (s *Server) LeavePort() { _ = listen.CloseAfterBacklog(s.opts.Listener.Listener) }

// Shutdown ends the server and waits until its connections close or ctx ends. Idle connections get
// the same time as active connections, and closing them after that time is not an error. A second
// call does nothing. Shutdown must not be called concurrently.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.shut {
		return nil
	}
	s.shut = true
	close(s.closing)
	if err := s.http.ShutdownWithContext(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Release closes the connections that Shutdown has left open, and stops watching them.
func (s *Server) Release() error {
	s.listener.CloseConns()
	return s.listener.Release()
}
