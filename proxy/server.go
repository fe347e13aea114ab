package proxy

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/admin"
	"penstock/proxy/auth"
	"penstock/proxy/build"
	"penstock/proxy/guard"
	"penstock/proxy/httpserver"
	"penstock/proxy/limit"
	"penstock/proxy/listen"
	"penstock/proxy/observe"
	"penstock/proxy/reload"
	"penstock/proxy/snapshot"
	"penstock/proxy/status"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// Options is what an Edge is made from.
type Options struct {
	Config *config.File // validated
	Log    *zap.Logger
	// MemoryLimit is what the process may use, in bytes; the shares for request bodies and replies
	// are taken from it.
	MemoryLimit int64
	// Public and Admin are the listeners. Admin may be nil.
	Public, Admin net.Listener
	// InheritedPublic says that Public's socket is a service manager's and outlives the process;
	// SharedPort that another process may be listening on the same ports.
	InheritedPublic, SharedPort bool
	// Guard catches panics; nil: one of the edge's own.
	Guard *guard.Guard
	// Hurry is closed when a drain that runs is to end at once; nil: never.
	Hurry <-chan struct{}
	// Certificate makes the public listener speak TLS; may be nil.
	Certificate *listen.Certificate
	LogDropped  func() uint64 // lines lost by the log's sink; may be nil
	// Lookup resolves the names of upstreams with `resolve`; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Load reads the configuration again, for reloads: the file, or nil with what is wrong. Nil:
	// there is no file.
	Load func() (*config.File, config.Problems)
	// Parse reads a configuration that is to be compared with the running one, as Load does the
	// file in place. Nil: that is not done.
	Parse func(src []byte) (*config.File, config.Problems)
}

// secure puts TLS in front of ln when there is a certificate. The handshake runs on the
// connection's own goroutine, under the header's clock.
func (o *Options) secure(ln *listen.Listener) net.Listener {
	if o.Certificate == nil {
		return ln
	}
	return ln.TLS(o.Certificate.Config())
}

// addresses are where the two listeners are, which need not be where the configuration says; the
// admin's is empty without one.
func (o *Options) addresses() (public, admin string) {
	if o.Admin != nil {
		admin = o.Admin.Addr().String()
	}
	return o.Public.Addr().String(), admin
}

// Edge is the proxy as deployed: the public listener, the admin listener and everything between
// them and the engines.
type Edge struct {
	opts    Options
	log     *zap.Logger
	guard   *guard.Guard
	set     *upstreams.Set
	metrics *metrics.Set
	keys    *limit.Keys
	// services are what calls know of the edge.
	services *Services

	started  time.Time
	registry observe.Registry // metrics of the upstreams
	queues   *limit.Queues
	reloads  *reload.Reloader
	bound    connectionBound

	draining atomic.Bool
	public   *fasthttp.Server
	admin    *admin.Server // nil without an admin listener
	hasty    bool          // Hurry has ended a wait of the drain; touched by Serve's goroutine only
	cut      atomic.Int64  // calls that ran then
	watch    *listen.Listener
}

// New builds an edge that serves o.Config. Upstreams are probed from here on; nothing is accepted
// before Serve.
func New(o Options) (*Edge, error) {
	e := &Edge{opts: o, log: o.Log, guard: o.Guard, metrics: metrics.NewSet(), started: time.Now(), queues: limit.NewQueues()}
	c := o.Config
	if exposed := c.CheckOpen(o.addresses()).Err(); exposed != nil {
		return nil, exposed
	}
	if e.guard == nil {
		e.guard = guard.New()
	}
	e.guard.LogTo(o.Log)
	e.services = &Services{
		Log: o.Log, Guard: e.guard, Current: func() *snapshot.Snapshot { return e.reloads.Running() },
		Calls:     observe.NewCalls(e.metrics, o.Log, c.Log),
		Bodies:    limit.NewMemory(c.Limits.BodyMemory.Of(o.MemoryLimit)),
		Replies:   limit.NewMemory(c.Limits.ReplyMemory.Of(o.MemoryLimit)),
		Retries:   limit.NewRetries(e.started),
		Counters:  NewCallCounters(e.metrics),
		ServeNext: func(conn net.Conn) error { return e.public.ServeConn(conn) },
		poison:    newPoisonRequests(),
	}
	if c.Tracing.OTLP != "" {
		var err error
		if e.services.Tracer, err = observe.NewTracer(c.Tracing.OTLP, build.Version(), e.guard); err != nil {
			return nil, err
		}
	}
	e.keys = limit.NewKeys(retiredKeys, e.started)
	var err error
	if e.set, err = upstreams.NewSet(upstreams.Options{
		Log: o.Log, Guard: e.guard,
		Register: e.registry.Add, Unregister: e.registry.Remove,
		Lookup:      o.Lookup,
		OnAddresses: func() { e.reloads.Trigger(reload.SourceAddresses) },
		OnFree:      e.queues.SlotFreed,
		OnRoom:      e.queues.UpstreamChanged,
	}); err != nil {
		return nil, err
	}
	e.reloads = reload.New(e.reloadOptions())
	if err := e.reloads.Start(c); err != nil {
		return nil, errors.Join(err, e.set.Close(context.Background()))
	}
	if e.watch, err = listen.New(o.Public, listen.Options{MaxConns: e.bound.of(c, o.Log), TLS: o.Certificate != nil, KeepSocket: o.InheritedPublic, Guard: e.guard, RequestID: appendRequestID}); err != nil {
		return nil, errors.Join(err, e.set.Close(context.Background()))
	}
	if o.Admin != nil {
		if e.admin, err = admin.New(e.adminOptions()); err != nil {
			return nil, errors.Join(err, e.watch.Release(), e.set.Close(context.Background()))
		}
	}
	e.warnOfCertificate()
	e.observeSelf()
	e.public = e.publicServer(c)
	return e, nil
}

// connectionBound is the bound on connections that was computed last, as configured and as the
// limit on descriptors affords it.
type connectionBound struct{ configured, affordable int }

// of computes how many clients may be connected. It logs when the configured number cannot be had,
// unless it has logged the same numbers before. Callers must not call it at the same time.
func (b *connectionBound) of(c *config.File, log *zap.Logger) int {
	next := connectionBound{c.Limits.Connections, listen.AffordableConns(c.Limits.Connections, len(c.Upstreams))}
	if next.affordable < next.configured && next != *b {
		log.Warn("fewer connections than configured: raise the process's limit on open files", zap.Int("limits.connections", next.configured), zap.Int("connections", next.affordable))
	}
	*b = next
	return next.affordable
}

// reloadOptions says what a reload works on, and what the edge changes with the configuration.
func (e *Edge) reloadOptions() reload.Options {
	o := reload.Options{
		Log: e.log, Guard: e.guard, Metrics: e.metrics, Set: e.set, Keys: e.keys, Queues: e.queues, Started: e.started,
		Load: e.opts.Load, Parse: e.opts.Parse, Certificate: e.opts.Certificate,
		Draining: e.draining.Load,
		OnCommit: func(f *config.File, newCertificate bool) {
			if newCertificate {
				e.warnOfCertificate()
			}
			if e.watch != nil {
				e.watch.SetMax(e.bound.of(f, e.log))
			}
		},
		OnSwap: func(f *config.File, newProfiles bool) {
			s := e.services
			s.Calls.Configured(modelNames(f), upstreamNames(f))
			s.Calls.LogAccess(f.Log.Access)
			s.Calls.SetLog(f.Log)
			s.Bodies.SetLimit(f.Limits.BodyMemory.Of(e.opts.MemoryLimit))
			s.Replies.SetLimit(f.Limits.ReplyMemory.Of(e.opts.MemoryLimit))
			if newProfiles {
				s.Forget()
			}
		},
		OnRevoke: func(keys *auth.Ring) {
			e.watch.EachWaiter(func(w listen.Waiter) { w.(*Call).Revoke(keys) })
		},
	}
	o.Public, o.Admin = e.opts.addresses()
	return o
}

// Reload asks for a reload and returns at once.
func (e *Edge) Reload(source string) { e.reloads.Trigger(source) }

// LastReload returns how the last reload ended, or nil when there was none.
func (e *Edge) LastReload() *reload.Result { return e.reloads.Last() }

// retiredKeys is how many keys that are no longer configured have their limits' state remembered.
const retiredKeys = 1024

// now is the edge's clock.
func (e *Edge) now() time.Time { return time.Now() }

// writeBuffer holds a small answer or an event whole, so that it is one write; every held stream
// has one.
const writeBuffer = 2 << 10

func (e *Edge) publicServer(c *config.File) *fasthttp.Server {
	s := httpserver.New(c, e.guard)
	s.Handler, s.ErrorHandler = e.routes(), e.headError
	s.HeaderReceived, s.ExpectHandler = e.headReceived, e.expectContinue
	s.StreamRequestBody, s.DisablePreParseMultipartForm = true, true
	s.MaxRequestBodySize = 1 // what fasthttp may read ahead; the limits are ours (body.go)
	s.WriteBufferSize = writeBuffer
	s.Concurrency = math.MaxInt32 // the listener's own bound counts, and follows reloads
	s.ReduceMemoryUsage = true
	s.LazyRequestTime = true // calls have their own clock
	return s
}

// adminOptions are the parts of the edge that its operator sees and steers.
func (e *Edge) adminOptions() admin.Options {
	return admin.Options{
		Listener: e.opts.Admin, Log: e.log, Guard: e.guard, Metrics: e.metrics, Started: e.started,
		Reloads: e.reloads, Set: e.set, Calls: e.services.Calls, Retries: e.services.Retries, Certificate: e.opts.Certificate,
		Draining: e.draining.Load, Connections: e.watch.Open, InFlight: e.callsInFlight, Exposition: e.writeMetrics,
		RequestID: appendRequestID,
		Unparsed: func(ctx *fasthttp.RequestCtx, err error) *apierr.Error {
			a, _ := headFault(ctx, err)
			return a
		},
		Respond: admin.Responder{
			Headers: func(h *fasthttp.ResponseHeader) { commonHeaders(h, appendRequestID(nil)) },
			Error: func(ctx *fasthttp.RequestCtx, err *apierr.Error) {
				writeError(ctx, dialectChat, dialectChat.errorOf(err))
			},
		},
	}
}

// headError answers a request whose head did not parse, or that ended before the first byte of its
// body; the connection ends with it.
func (e *Edge) headError(ctx *fasthttp.RequestCtx, err error) {
	defer e.guard.Catch(guard.Connection, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	e.guard.Point("head.error")
	a, d := headFault(ctx, err)
	if c := listen.ConnOf(ctx.Conn()); c != nil {
		c.SetWriteTimeout(e.reloads.Running().Config.Timeouts.Write.D())
		c.Linger()
	}
	if !e.rejectConnect(ctx) {
		e.respondError(ctx, d, a)
	}
}

// headFault says what is wrong with a request whose head did not parse, and in which dialect.
func headFault(ctx *fasthttp.RequestCtx, err error) (*apierr.Error, *dialect) {
	var small *fasthttp.ErrSmallBuffer
	a, d := badHead("The request could not be parsed as HTTP/1.1."), dialectChat
	wrong := listen.FramingError(ctx.Conn())
	path, whole := listen.RequestPath(ctx.Conn())
	switch {
	case wrong != nil:
		a = httpserver.Misframed(wrong)
	case whole && (timedOut(err) || listen.RequestTruncated(ctx.Conn())):
		a, d = bodyBroken(ctx.Conn(), err), dialectAt(path)
	case errors.As(err, &small):
		d = dialectAt(path)
		a = apierr.New(fasthttp.StatusRequestHeaderFieldsTooLarge, apierr.CodeRequestTooLarge, "The request head is larger than the limit.")
	case timedOut(err):
		a = apierr.New(fasthttp.StatusRequestTimeout, apierr.CodeRequestTimeout, "The request came too slowly.")
	}
	return a, d
}

// Serve accepts until ctx ends, then drains: readiness turns, accepting goes on for the linger,
// running calls end by themselves within the drain time and are ended with an error after it. It
// returns nil after an orderly end.
func (e *Edge) Serve(ctx context.Context) error {
	work, stop := context.WithCancel(context.Background())
	defer stop()
	go e.guard.Loop(work.Done(), guard.Reload, func() { e.reloads.Run(work) })
	go e.guard.Loop(work.Done(), guard.History, func() { e.tick(work) })
	failed := make(chan error, 1)
	go e.guard.Loop(work.Done(), guard.Accept, func() {
		e.guard.Point("accept.public")
		failed <- e.public.Serve(e.opts.secure(e.watch))
	})
	if e.admin != nil {
		go e.guard.Loop(work.Done(), guard.Accept, e.serveAdmin)
	}
	var err error
	select {
	case <-ctx.Done():
		e.drain()
	case err = <-failed:
	}
	return errors.Join(err, e.close())
}

// serveAdmin serves the operators until the edge drains. Clients are served on without them.
func (e *Edge) serveAdmin() {
	e.guard.Point("accept.admin")
	if err := e.admin.Serve(); err != nil {
		e.log.Error("the admin listener has failed: clients are still served", zap.Error(err))
	}
}

// historyPeriod is how often the upstreams' short history moves on.
const historyPeriod = time.Second

// tick keeps the short history of the upstreams moving while streams run.
func (e *Edge) tick(ctx context.Context) {
	t := time.NewTicker(historyPeriod)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.guard.Point(guard.History)
			e.services.Calls.Tick(e.now())
		case <-ctx.Done():
			return
		}
	}
}

// warnOfCertificate logs when clients will not accept the certificate in use.
func (e *Edge) warnOfCertificate() {
	if t := status.CertificateOf(e.opts.Certificate.Valid()).Trouble(e.now()); t != "" {
		e.log.Warn(t, zap.String("remedy", "put a new pair where tls.cert and tls.key say: it is taken up by itself"))
	}
}
