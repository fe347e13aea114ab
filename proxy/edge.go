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
	opts            Options
	log             *zap.Logger
	guard           *guard.Guard
	metrics         *metrics.Set
	registry        observe.UpstreamMetricsRegistry
	upstreamSet     *upstreams.Set
	reloads         *reload.Reloader
	services        *call.Services // the components that calls share
	hookCopies      *copies.CopySinks
	shadows         *shadow.Shadows
	listener        *listen.Listener
	connectionLimit connectionLimit
	rejections      rejectionMonitor
	server          *fasthttp.Server
	admin           *admin.Server // nil if there is no admin listener
	shutdown        *shutdownState
	fleet           *fleet.Fleet // nil if the edge does not share state with other edges
	signer          *sign.Signer // signs messages to other edges; nil if they are unsigned
	// board exchanges load and facts with the other edges of a fleet. It is nil if the edge does
	// not share state.
	board       *board.Board
	ledger      *ledger.Ledger // nil if no ledger is configured
	keyLimits   *limit.KeyUsages
	storeKeys   *keystore.Keys   // nil if keys in the store are not configured
	runtimeKeys *runkeys.KeyFile // nil if no file for keys created at run time is configured

	fleetUsage *fleet.UsageExchange // nil if the edge does not share state

	websockets *websocket.Server
	sessions   *realtime.Sessions
}

// maxRemovedKeyStates is the maximum number of removed keys whose limit state is retained.
const maxRemovedKeyStates = 1024

// New creates an edge that serves o.Config, and starts probing the upstreams. The edge accepts no
// connections until Serve is called.
func New(o Options) (*Edge, error) {
	c := o.Config
	if exposed := c.CheckAlreadyOpenPorts(o.addresses()).Err(); exposed != nil {
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
	e.keyLimits = limit.NewKeyUsages(maxRemovedKeyStates, started)
	e.shutdown = newShutdownState(&o, e.services.Calls.InFlight)
	e.websockets = websocket.New(e.services, e.shutdown.draining.Load)
	e.sessions = realtime.New(e.services, e.shutdown.draining.Load)
	if e.upstreamSet, err = upstreams.NewSet(upstreams.Options{
		Log: o.Log, Guard: e.guard,
		Register: e.registry.Add, Unregister: e.registry.Remove,
		Lookup:      o.Lookup,
		OnAddresses: func() { e.reloads.Trigger(reload.SourceUpstreamAddresses) },
		OnModels:    func() { e.reloads.Trigger(reload.SourceUpstreamModels) },
		Stall: func(u *upstreams.Upstream, now time.Time) upstreams.StallDecision {
			return e.services.Current().Routes.DecideStall(u, now)
		},
		DrainTime:   func() time.Duration { return e.reloads.RunningSnapshot().Config.Timeouts.Drain.D() },
		SlotAccount: slotAccountFactory(e.fleet, queues),
		OnFree:      queues.OnSlotFreed,
		OnRoom:      queues.OnUpstreamChanged,
	}); err != nil {
		return nil, err
	}
	e.board = newBoard(e)
	e.reloads = reload.New(e.reloadOptions(started, queues))
	e.storeKeys = newStoreKeys(e)
	if e.runtimeKeys, err = openRuntimeKeys(e); err != nil {
		return nil, errors.Join(err, e.upstreamSet.Close(context.Background()))
	}
	shareCertificates(e)
	if err := e.reloads.Start(c); err != nil {
		if e.runtimeKeys != nil {
			e.runtimeKeys.Close()
		}
		return nil, errors.Join(err, e.upstreamSet.Close(context.Background()))
	}
	if e.listener, err = listen.New(o.Public, listen.Options{
		MaxConns: e.connectionLimit.effectiveLimit(c, o.Log), MaxPerAddress: c.Limits.ConnectionsPerAddress,
		MakeRoom: true, EvictAfter: minEvictionIdleTime,
		TLS: o.Certificate != nil, KeepSocket: o.InheritedPublic, ServeAgain: e.services.ServeNext, Guard: e.guard, RequestID: endpoint.AppendNewRequestID,
	}); err != nil {
		return nil, errors.Join(err, closeAfterFailedStart(e))
	}
	e.listener.SetProxies(c.TrustedProxies())
	if o.Admin != nil {
		if e.admin, err = admin.New(e.adminOptions(started)); err != nil {
			return nil, errors.Join(err, e.listener.StopDisconnectWatch(), closeAfterFailedStart(e))
		}
	}
	warnInvalidCertificates(e)
	e.registerGauges()
	e.server = (&publicAPI{
		services: e.services, websockets: e.websockets, sessions: e.sessions, draining: e.shutdown.draining.Load,
	}).newServer(c)
	return e, nil
}

func closeAfterFailedStart(e *Edge) error {
	e.hookCopies.Close()
	e.reloads.RunningSnapshot().Issued.Close()
	if e.runtimeKeys != nil {
		e.runtimeKeys.Close()
	}
	return e.upstreamSet.Close(context.Background())
}

// newServices returns the components that calls share.
func (e *Edge) newServices(started time.Time) (*call.Services, error) {
	c, memory := e.opts.Config, e.opts.MemoryLimit
	s := &call.Services{
		Log: e.log, Guard: e.guard, Current: func() *snapshot.Snapshot { return e.reloads.RunningSnapshot() },
		Calls:     observe.NewCalls(e.metrics, e.log, c.Log),
		Bodies:    limit.NewMemoryBudget(c.Limits.BodyMemory.Of(memory)),
		Replies:   limit.NewMemoryBudget(c.Limits.ReplyMemory.Of(memory)),
		Retries:   limit.NewRetryBudget(started),
		Counters:  call.NewCounters(e.metrics),
		ServeNext: func(conn net.Conn) error { return e.server.ServeConn(conn) },
		Poison:    poison.New(),
		Hooks:     hook.NewClient(e.metrics, nil),
	}
	e.hookCopies, e.shadows = copies.New(copies.Options{Log: e.log, Guard: e.guard, Metrics: e.metrics}), s.NewShadows()
	s.Features = []participant.Feature{e.hookCopies, e.shadows}
	observe.WarnOverriddenVariables(c.Tracing, e.log)
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
		e.keyLimits.SetAccounts(e.fleet.NewAccount)
		e.keyLimits.SetFleetBudgets(func(id string, by func(limit.UsageFunc) limit.UsageFunc) limit.UsageBudget {
			return newFleetUsageBudget(e, id, by)
		})
	}
	e.keyLimits.SetInitialUsage(periodUsageFunc(e.services.Calls.Usage.UsageBetween))
	shared := e.fleet != nil && e.opts.Config.Fleet.Keys.Enabled()
	o := reload.Options{
		Log: e.log, Guard: e.guard, Metrics: e.metrics, Set: e.upstreamSet, Queues: queues, Started: started,
		Keys: &snapshot.ClientCredentialSources{Limits: e.keyLimits, HasSharedStore: shared, Issued: jwks.New(jwks.Options{
			Log: e.log, Guard: e.guard, OnLoss: func() { e.reloads.AbortRevokedCalls() },
		})},
		Load: e.opts.Load, Parse: e.opts.Parse,
		Certificate: e.opts.Certificate, AdminCertificate: e.opts.AdminCertificate,
		Draining: e.shutdown.draining.Load,
		OnCommit: func(f *config.File, newCertificate bool) {
			if e.opts.ACME != nil {
				e.opts.ACME.SetDomains(f.TLS.ACME.Domains)
			}
			if newCertificate {
				warnInvalidCertificates(e)
			}
			if e.listener != nil {
				e.listener.SetMaxConns(e.connectionLimit.effectiveLimit(f, e.log), f.Limits.ConnectionsPerAddress)
				e.listener.SetProxies(f.TrustedProxies())
			}
		},
		OnSwap: func(f *config.File, newProfiles bool) {
			s := e.services
			s.Calls.SetConfigured(modelNames(f), upstreamNames(f), keyIDs(f))
			s.Calls.SetLog(f.Log)
			e.hookCopies.Apply(f.Hooks)
			s.Bodies.SetLimit(f.Limits.BodyMemory.Of(e.opts.MemoryLimit))
			s.Replies.SetLimit(f.Limits.ReplyMemory.Of(e.opts.MemoryLimit))
			if e.fleet != nil {
				e.fleet.SetExpectedEdges(f.Fleet.Edges)
			}
			if newProfiles {
				s.ForgetProfiles()
			}
			e.websockets.CloseDisallowedConns()
		},
		OnRevoke: func(keys *auth.KeyRing) {
			e.listener.EachWaiter(func(w listen.DisconnectWaiter) { w.(*call.Call).CancelIfRevoked(keys) })
			e.websockets.CloseDisallowedConns()
		},
	}
	o.OnKeys = e.websockets.CloseDisallowedConns
	o.Public, o.Admin = e.opts.addresses()
	return o
}

// adminOptions returns the components that operators monitor and control.
func (e *Edge) adminOptions(started time.Time) admin.Options {
	return admin.Options{
		Listener:   admin.AdminPort{Listener: e.opts.Admin, Certificate: e.opts.AdminCertificate},
		SharedPort: e.opts.SharedPort, Runbook: troubleshooting,
		Log: e.log, Guard: e.guard, Metrics: e.metrics, Started: started, Name: hostName(),
		Reloads: e.reloads, Keys: runtimeKeyStore(e), Set: e.upstreamSet, Calls: e.services.Calls, Retries: e.services.Retries,
		Certificate: func() *status.Certificate { return certificateState(&e.opts) },
		Fleet:       e.fleet, FleetUsage: e.fleetUsage, Board: e.board,
		Draining: e.shutdown.draining.Load, Connections: e.listener.OpenConnCount, Exposition: e.writeMetrics,
		TurnedAway: e.rejections.hasRecentRejections,
		Starting:   e.storeKeys.NotReadyReason, Issuers: issuerStatuses(e.reloads), Hooks: recentlyUndecidedHooks(e.reloads, e.services.Hooks),
		Copies:   hooksWithLostCopies(e.reloads, e.hookCopies),
		InFlight: func(now time.Time) []status.Call { return call.InFlightCalls(e.listener, now) },
	}
}

// TriggerReload requests a reload without waiting for it.
func (e *Edge) TriggerReload(source string) { e.reloads.Trigger(source) }

// LastReload returns the result of the last reload, or nil.
func (e *Edge) LastReload() *reload.Result { return e.reloads.LastResult() }

// Serve accepts connections until ctx ends, and then drains. During the drain, the edge is not
// ready, still accepts connections for timeouts.linger, and lets running calls finish within the
// drain time. After that time, Serve ends the remaining calls with an error. It returns nil after
// an orderly shutdown.
func (e *Edge) Serve(ctx context.Context) error {
	work, stop := context.WithCancel(context.Background())
	defer stop()
	go e.guard.Loop(work.Done(), guard.PlaceReload, func() { e.reloads.Run(work) })
	leave, endLedger := e.joinFleet(), e.startLedger()
	defer followRuntimeKeys(e)()
	defer leave()
	defer startCertificateRenewal(e)()
	defer endLedger()
	go e.guard.Loop(work.Done(), guard.PlaceHistory, func() { e.recordHistory(work) })
	failed := make(chan error, 1)
	go e.guard.Loop(work.Done(), guard.PlaceAccept, func() {
		e.guard.PanicIfInjected("accept.public")
		failed <- e.server.Serve(e.opts.wrapTLS(e.listener))
	})
	if e.admin != nil {
		go e.guard.Loop(work.Done(), guard.PlaceAccept, e.serveAdmin)
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
	e.guard.PanicIfInjected("accept.admin")
	if err := e.admin.Serve(); err != nil {
		e.log.Error("the admin listener has failed: clients are still served", zap.Error(err))
	}
}

// historyInterval is the time between two updates by recordHistory.
const historyInterval = time.Second

// recordHistory updates the histories of the upstreams and of the status page until ctx ends.
func (e *Edge) recordHistory(ctx context.Context) {
	t := time.NewTicker(historyInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.guard.PanicIfInjected(guard.PlaceHistory)
			e.services.Calls.UpdateHistory(time.Now())
			e.rejections.logNewRejections(e.listener.RejectedCount(), time.Now(), e.listener.OpenConnCount(), e.listener.MaxConns(), e.log)
			if e.admin != nil {
				e.admin.CheckState()
			}
		case <-ctx.Done():
			return
		}
	}
}

func warnInvalidCertificates(e *Edge) {
	warnInvalidCertificate(e.log, "tls", e.opts.Certificate)
	warnInvalidCertificate(e.log, "admin.tls", e.opts.AdminCertificate)
}

func warnInvalidCertificate(log *zap.Logger, setting string, c *listen.Certificate) {
	if t := status.CertificateOf(c.ValidityPeriod()).Trouble(time.Now()); t != "" {
		log.Warn(t, zap.String("event", "certificate_invalid"), zap.String("setting", setting),
			zap.String("remedy", "replace the files of cert and key: the edge loads them by itself"))
	}
}

// minEvictionIdleTime is how long a connection must have been idle before it may be closed to make
// room for another connection. If this time were shorter, a busy client could send its next request
// just as the connection is closed.
const minEvictionIdleTime = time.Second

type connectionLimit struct{ configured, affordable int }

// effectiveLimit returns the configured number of connections, or a lower number if the descriptor
// limit requires it. A lower number is logged when it changes. effectiveLimit must not be called
// concurrently.
func (b *connectionLimit) effectiveLimit(c *config.File, log *zap.Logger) int {
	next := connectionLimit{c.Limits.Connections, listen.AffordableConns(c.Limits.Connections, len(c.Upstreams))}
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
