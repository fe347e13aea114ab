package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/limit"
	"penstock/proxy/access/runkeys"
	"penstock/proxy/build"
	"penstock/proxy/fleet"
	"penstock/proxy/fleet/board"
	"penstock/proxy/fleet/keystore"
	"penstock/proxy/fleet/sign"
	"penstock/proxy/front/listen"
	"penstock/proxy/operate/admin"
	"penstock/proxy/operate/status"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/hook"
	"penstock/proxy/request/hook/copies"
	"penstock/proxy/request/participant"
	"penstock/proxy/request/poison"
	"penstock/proxy/request/realtime"
	"penstock/proxy/request/shadow"
	"penstock/proxy/request/websocket"
	"penstock/proxy/running/reload"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/ledger"
	"penstock/proxy/telemetry/observe"
	"penstock/routing/queue"
	"penstock/upstreams"
)

// Edge is the complete proxy: both listeners, and all components between the listeners and the
// engines.
type Edge struct {
	opts     Options
	log      *zap.Logger
	guard    *guard.Guard
	metrics  *metrics.Set
	registry observe.Registry
	set      *upstreams.Set
	reloads  *reload.Reloader
	services *call.Services // the components that calls share
	copies   *copies.Copies
	shadows  *shadow.Shadows
	listener *listen.Listener
	bound    connectionBound
	away     turnedAway
	server   *fasthttp.Server
	admin    *admin.Server // nil if there is no admin listener
	ending   *ending
	fleet    *fleet.Fleet // nil if the edge does not share state with other edges
	signer   *sign.Signer // signs messages to other edges; nil if they are unsigned
	// board shows this edge's work to the other edges of a fleet. It is nil if the edge does not
	// share state.
	board  *board.Board
	ledger *ledger.Ledger // nil if no ledger is configured
	keys   *limit.Keys
	shared *keystore.Keys // nil if the store contains no keys
	made   *runkeys.File  // nil if no file for keys created at run time is configured

	fleetUsage *fleet.Rows // nil if the edge does not share state

	websockets *websocket.Carrier
	sessions   *realtime.Sessions
}

// retiredKeys is the maximum number of removed keys whose limit state is retained.
const retiredKeys = 1024

// New creates an edge that serves o.Config, and starts probing the upstreams. The edge does not
// accept connections before Serve.
func New(o Options) (*Edge, error) {
	c := o.Config
	if exposed := c.CheckOpen(o.addresses()).Err(); exposed != nil {
		return nil, exposed
	}
	if o.Guard == nil {
		o.Guard = guard.New()
	}
	o.Guard.LogTo(o.Log)
	e := &Edge{opts: o, log: o.Log, guard: o.Guard, metrics: metrics.NewSet()}
	started, queues := time.Now(), queue.New()
	var err error
	if e.fleet, err = e.newFleet(c, started); err != nil {
		return nil, err
	}
	if e.services, err = e.newServices(started); err != nil {
		return nil, err
	}
	if e.ledger, err = e.openLedger(c); err != nil {
		return nil, err
	}
	e.keys = limit.NewKeys(retiredKeys, started)
	e.ending = newEnding(&o, e.services.Calls.InFlight)
	e.websockets = websocket.New(e.services, e.ending.draining.Load)
	e.sessions = realtime.New(e.services, e.ending.draining.Load)
	if e.set, err = upstreams.NewSet(upstreams.Options{
		Log: o.Log, Guard: e.guard,
		Register: e.registry.Add, Unregister: e.registry.Remove,
		Lookup:      o.Lookup,
		OnAddresses: func() { e.reloads.Trigger(reload.SourceAddresses) },
		OnModels:    func() { e.reloads.Trigger(reload.SourceModels) },
		Stall: func(u *upstreams.Upstream, now time.Time) upstreams.Stall {
			return e.services.Current().Routes.Stall(u, now)
		},
		DrainTime:   func() time.Duration { return e.reloads.Running().Config.Timeouts.Drain.D() },
		SlotAccount: slotAccount(e.fleet, queues),
		OnFree:      queues.SlotFreed,
		OnRoom:      queues.UpstreamChanged,
	}); err != nil {
		return nil, err
	}
	e.board = newBoard(e)
	e.reloads = reload.New(e.reloadOptions(started, queues))
	e.shared = newSharedKeys(e)
	if e.made, err = openMadeKeys(e); err != nil {
		return nil, errors.Join(err, e.set.Close(context.Background()))
	}
	shareCertificates(e)
	if err := e.reloads.Start(c); err != nil {
		if e.made != nil {
			e.made.Close()
		}
		return nil, errors.Join(err, e.set.Close(context.Background()))
	}
	if e.listener, err = listen.New(o.Public, listen.Options{
		MaxConns: e.bound.of(c, o.Log), MaxPerAddress: c.Limits.ConnectionsPerAddress,
		MakeRoom: true, EvictAfter: evictAfter,
		TLS: o.Certificate != nil, KeepSocket: o.InheritedPublic, Guard: e.guard, RequestID: endpoint.AppendRequestID,
	}); err != nil {
		return nil, errors.Join(err, abandon(e))
	}
	e.listener.SetProxies(c.Proxies())
	if o.Admin != nil {
		if e.admin, err = admin.New(e.adminOptions(started)); err != nil {
			return nil, errors.Join(err, e.listener.Release(), abandon(e))
		}
	}
	warnOfCertificates(e)
	e.registerGauges()
	e.server = (&publicAPI{
		services: e.services, websockets: e.websockets, sessions: e.sessions, draining: e.ending.draining.Load,
	}).server(c)
	return e, nil
}

func abandon(e *Edge) error {
	e.copies.Close()
	e.reloads.Running().Issued.Close()
	if e.made != nil {
		e.made.Close()
	}
	return e.set.Close(context.Background())
}

// newServices returns the components that calls share.
func (e *Edge) newServices(started time.Time) (*call.Services, error) {
	c, memory := e.opts.Config, e.opts.MemoryLimit
	s := &call.Services{
		Log: e.log, Guard: e.guard, Current: func() *snapshot.Snapshot { return e.reloads.Running() },
		Calls:     observe.NewCalls(e.metrics, e.log, c.Log),
		Bodies:    limit.NewMemory(c.Limits.BodyMemory.Of(memory)),
		Replies:   limit.NewMemory(c.Limits.ReplyMemory.Of(memory)),
		Retries:   limit.NewRetries(started),
		Counters:  call.NewCounters(e.metrics),
		ServeNext: func(conn net.Conn) error { return e.server.ServeConn(conn) },
		Poison:    poison.New(),
		Hooks:     hook.NewClient(e.metrics),
	}
	e.copies, e.shadows = copies.New(copies.Options{Log: e.log, Guard: e.guard, Metrics: e.metrics}), s.NewShadows()
	s.Features = []participant.Feature{e.copies, e.shadows}
	observe.WarnOfVariables(c.Tracing, e.log)
	if c.Tracing.OTLP == "" {
		return s, nil
	}
	var err error
	instance := hostName() + " " + e.opts.Public.Addr().String()
	s.Tracer, err = observe.NewTracer(c.Tracing, build.Version(), instance, e.log, e.guard)
	return s, err
}

// reloadOptions returns the components and settings that a reload changes.
func (e *Edge) reloadOptions(started time.Time, queues *queue.Queues) reload.Options {
	if e.fleet != nil {
		e.keys.ShareBy(e.fleet.Account)
		e.keys.ShareBudgetsBy(func(id string, by func(limit.Used) limit.Used) limit.Budget {
			return sharedBudget(e, id, by)
		})
	}
	e.keys.BeginWith(inPeriods(e.services.Calls.Usage.Of))
	shared := e.fleet != nil && e.opts.Config.Fleet.Keys.Enabled()
	o := reload.Options{
		Log: e.log, Guard: e.guard, Metrics: e.metrics, Set: e.set, Queues: queues, Started: started,
		Keys: &snapshot.Sources{Limits: e.keys, Shared: shared, Issued: jwks.New(jwks.Options{
			Log: e.log, Guard: e.guard, OnLoss: func() { e.reloads.ReviewKeys() },
		})},
		Load: e.opts.Load, Parse: e.opts.Parse,
		Certificate: e.opts.Certificate, AdminCertificate: e.opts.AdminCertificate,
		Draining: e.ending.draining.Load,
		OnCommit: func(f *config.File, newCertificate bool) {
			if e.opts.ACME != nil {
				e.opts.ACME.SetDomains(f.TLS.ACME.Domains)
			}
			if newCertificate {
				warnOfCertificates(e)
			}
			if e.listener != nil {
				e.listener.SetMax(e.bound.of(f, e.log), f.Limits.ConnectionsPerAddress)
				e.listener.SetProxies(f.Proxies())
			}
		},
		OnSwap: func(f *config.File, newProfiles bool) {
			s := e.services
			s.Calls.Configured(modelNames(f), upstreamNames(f), keyIDs(f))
			s.Calls.SetLog(f.Log)
			e.copies.Apply(f.Hooks)
			s.Bodies.SetLimit(f.Limits.BodyMemory.Of(e.opts.MemoryLimit))
			s.Replies.SetLimit(f.Limits.ReplyMemory.Of(e.opts.MemoryLimit))
			if e.fleet != nil {
				e.fleet.SetEdges(f.Fleet.Edges)
			}
			if newProfiles {
				s.Forget()
			}
			e.websockets.Review()
		},
		OnRevoke: func(keys *auth.Ring) {
			e.listener.EachWaiter(func(w listen.Waiter) { w.(*call.Call).Revoke(keys) })
			e.websockets.Review()
		},
	}
	o.OnKeys = e.websockets.Review
	o.Public, o.Admin = e.opts.addresses()
	return o
}

// adminOptions returns the components that the operator monitors and controls.
func (e *Edge) adminOptions(started time.Time) admin.Options {
	return admin.Options{
		Listener:   admin.Port{Listener: e.opts.Admin, Certificate: e.opts.AdminCertificate},
		SharedPort: e.opts.SharedPort, Runbook: troubleshooting,
		Log: e.log, Guard: e.guard, Metrics: e.metrics, Started: started, Name: hostName(),
		Reloads: e.reloads, Keys: keysAtRunTime(e), Set: e.set, Calls: e.services.Calls, Retries: e.services.Retries,
		Certificate: func() *status.Certificate { return certificateState(&e.opts) },
		Fleet:       e.fleet, FleetUsage: e.fleetUsage, Board: e.board,
		Draining: e.ending.draining.Load, Connections: e.listener.Open, Exposition: e.writeMetrics,
		TurnedAway: e.away.recent,
		Starting:   e.shared.Starting, Issuers: issuersOf(e.reloads), Hooks: hooksOf(e.reloads, e.services.Hooks),
		Copies:   copiesOf(e.reloads, e.copies),
		InFlight: func(now time.Time) []status.Call { return call.InFlight(e.listener, now) },
	}
}

// Reload requests a reload without waiting for it.
func (e *Edge) Reload(source string) { e.reloads.Trigger(source) }

// LastReload returns the result of the last reload, or nil.
func (e *Edge) LastReload() *reload.Result { return e.reloads.Last() }

// Serve accepts connections until ctx ends, and then drains. During the drain, the edge is not
// ready, still accepts connections for timeouts.linger, and lets running calls finish within the
// drain time. After that time, Serve ends the remaining calls with an error. It returns nil after
// an orderly shutdown.
func (e *Edge) Serve(ctx context.Context) error {
	work, stop := context.WithCancel(context.Background())
	defer stop()
	go e.guard.Loop(work.Done(), guard.Reload, func() { e.reloads.Run(work) })
	leave, endLedger := e.share(), e.keepLedger()
	defer followMadeKeys(e)()
	defer leave()
	defer keepCertificates(e)()
	defer endLedger()
	go e.guard.Loop(work.Done(), guard.History, func() { e.tick(work) })
	failed := make(chan error, 1)
	go e.guard.Loop(work.Done(), guard.Accept, func() {
		e.guard.Point("accept.public")
		failed <- e.server.Serve(e.opts.secure(e.listener))
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

// serveAdmin runs the admin listener. If it fails, the edge continues to serve clients.
func (e *Edge) serveAdmin() {
	e.guard.Point("accept.admin")
	if err := e.admin.Serve(); err != nil {
		e.log.Error("the admin listener has failed: clients are still served", zap.Error(err))
	}
}

// historyPeriod is the interval of tick.
const historyPeriod = time.Second

// tick updates the histories of the upstreams and of the status page until ctx ends.
func (e *Edge) tick(ctx context.Context) {
	t := time.NewTicker(historyPeriod)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.guard.Point(guard.History)
			e.services.Calls.Tick(time.Now())
			e.away.look(e.listener.Rejected(), time.Now(), e.listener.Open(), e.listener.Max(), e.log)
			if e.admin != nil {
				e.admin.Look()
			}
		case <-ctx.Done():
			return
		}
	}
}

func warnOfCertificates(e *Edge) {
	warnOfCertificate(e.log, "tls", e.opts.Certificate)
	warnOfCertificate(e.log, "admin.tls", e.opts.AdminCertificate)
}

func warnOfCertificate(log *zap.Logger, setting string, c *listen.Certificate) {
	if t := status.CertificateOf(c.Valid()).Trouble(time.Now()); t != "" {
		log.Warn(t, zap.String("event", "certificate_invalid"), zap.String("setting", setting),
			zap.String("remedy", "replace the files of cert and key: the edge loads them by itself"))
	}
}

// evictAfter is how long a connection must have been idle before it may be closed to make room for
// another one. If this time were shorter, a busy client could send its next request just as the
// connection is closed.
const evictAfter = time.Second

type connectionBound struct{ configured, affordable int }

// of returns the configured number of connections, or a lower number if the descriptor limit
// requires it. A lower number is logged when it changes. of must not be called concurrently.
func (b *connectionBound) of(c *config.File, log *zap.Logger) int {
	next := connectionBound{c.Limits.Connections, listen.AffordableConns(c.Limits.Connections, len(c.Upstreams))}
	if next.affordable < next.configured && next != *b {
		log.Warn("fewer connections than configured: raise the process's limit on open files",
			zap.Int("limits.connections", next.configured), zap.Int("connections", next.affordable))
	}
	*b = next
	return next.affordable
}

func modelNames(f *config.File) (names []string) {
	for i := range f.Models {
		names = append(names, f.Models[i].ID)
	}
	return names
}

func keyIDs(f *config.File) (ids []string) {
	for i := range f.Keys {
		ids = append(ids, f.Keys[i].ID)
	}
	return ids
}

func upstreamNames(f *config.File) (names []string) {
	for i := range f.Upstreams {
		names = append(names, f.Upstreams[i].Name)
	}
	return names
}
