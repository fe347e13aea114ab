// Package calltest runs calls without sockets. Engines and hooks are functions behind pipes. There
// are two kinds of clients. A Client is a Go value that is passed to a handler directly. A
// Connection is a pipe that fasthttp serves like a connection of a listener. In a testing/synctest
// bubble, the test controls the clock.
package calltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/hook"
	"penstock/proxy/request/hook/copies"
	"penstock/proxy/request/participant"
	"penstock/proxy/request/poison"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/routing/queue"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Edge is the part of an edge that runs calls.
type Edge struct {
	Services *call.Services
	Set      *upstreams.Set
	Metrics  *metrics.Set
	Copies   *copies.CopySinks
	Log      *observer.ObservedLogs // lines about the process and about calls

	t       testing.TB
	running atomic.Pointer[snapshot.Snapshot]
	keys    *snapshot.ClientCredentialSources
	queues  *queue.Queues
	engines map[string]*Engine // keyed by the address that the edge dials
	// Replaces engine names in URLs with addresses, because no resolver exists.
	hosts *strings.Replacer

	server      *fasthttp.Server
	connections []*Connection
	served      sync.WaitGroup
}

// New returns an edge with the given configuration. The configuration refers to an Engine by the
// URL http://NAME, as an upstream or as a hook. Every upstream needs an Engine, because there is no
// resolver. New returns after the engines have been probed. The edge is closed when the test ends.
func New(t testing.TB, yaml string, engines ...*Engine) *Edge {
	t.Helper()
	e := &Edge{t: t, Metrics: metrics.NewSet(), queues: queue.New(), engines: map[string]*Engine{}}
	var hosts []string
	for i, engine := range engines {
		at := fmt.Sprintf("10.0.0.%d", i+1)
		e.engines[at+":80"] = engine
		hosts = append(hosts, "//"+engine.Name, "//"+at)
	}
	e.hosts = strings.NewReplacer(hosts...)
	g := guard.New()
	g.LogTo(zap.NewNop())
	var err error
	e.Set, err = upstreams.NewSet(upstreams.Options{
		Guard: g, Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {},
		DrainTime: func() time.Duration { return e.running.Load().Config.Timeouts.Drain.D() },
		Dial:      e.dial, OnFree: e.queues.OnSlotFreed, OnRoom: e.queues.OnUpstreamChanged,
	})
	if err != nil {
		t.Fatal(err)
	}
	replies := limit.NewMemoryBudget(256 << 20)
	core, seen := observer.New(zap.DebugLevel)
	log := zap.New(core)
	e.Log = seen
	calls := observe.NewCalls(e.Metrics, log, config.Log{Access: true})
	e.Services = &call.Services{
		Log: log, Guard: g, Current: e.running.Load, Calls: calls,
		Bodies: limit.NewMemoryBudget(256 << 20), Replies: replies, Retries: limit.NewRetryBudget(time.Now()),
		Counters: call.NewCounters(e.Metrics), Poison: poison.New(), Hooks: hook.NewClient(e.Metrics, e.dial),
	}
	e.server = e.newServer()
	e.Services.ServeNext = e.server.ServeConn
	e.Copies = copies.New(copies.Options{Log: zap.NewNop(), Guard: g, Metrics: e.Metrics})
	e.Services.Features = []participant.Feature{e.Copies, e.Services.NewShadows()}
	e.keys = &snapshot.ClientCredentialSources{
		Limits: limit.NewKeyUsages(16, time.Now()), Issued: jwks.New(jwks.Options{Log: zap.NewNop(), Guard: g, OnLoss: func() {}}),
	}
	t.Cleanup(e.close)
	e.ReloadConfig(yaml)
	time.Sleep(probesFinishedAfter)
	return e
}

// probesFinishedAfter is the time after which the first probes have finished and the engines are up.
const probesFinishedAfter = 5 * time.Second

// ReloadConfig applies a configuration as a reload does.
func (e *Edge) ReloadConfig(yaml string) {
	e.t.Helper()
	f, problems := config.ParseValid("penstock.yaml", []byte(e.hosts.Replace(yaml)), engine.KnownEngines())
	if f == nil {
		e.t.Fatal(problems)
	}
	plan, err := e.Set.PlanChanges(f.Upstreams, f.Models, f.Engines...)
	if err != nil {
		e.t.Fatal(err)
	}
	keys, err := snapshot.NewCredentials(f, &snapshot.StoreKeys{}, e.keys)
	if err != nil {
		e.t.Fatal(err)
	}
	next, err := snapshot.New(&snapshot.BuildInput{
		File: f, Plan: plan, Credentials: keys, Running: e.running.Load(),
		Queues: e.queues, Started: time.Now(), Now: time.Now(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.Set.Commit(plan)
	e.Set.WaitFirstProbes(context.Background(), plan)
	e.queues.ApplyConfigs(next.QueueConfigs())
	e.running.Store(next)
	e.Copies.Apply(f.Hooks)
	e.Set.RetireOmitted(plan)
	e.queues.OfferAllSlots()
	e.Services.Calls.SetConfigured(sortedIDs(f.Models, func(m *config.Model) string { return m.ID }),
		sortedIDs(f.Upstreams, func(u *config.Upstream) string { return u.Name }), sortedIDs(f.Keys, func(k *config.Key) string { return k.ID }))
}

func sortedIDs[T any](all []T, id func(*T) string) (out []string) {
	for i := range all {
		out = append(out, id(&all[i]))
	}
	return out
}

func (e *Edge) close() {
	for _, c := range e.connections {
		_ = c.Close()
	}
	e.served.Wait()
	e.Services.Hooks.Close()
	e.Copies.Close()
	if s := e.running.Load(); s != nil {
		s.Issued.Close()
	}
	if err := e.Set.Close(context.Background()); err != nil {
		e.t.Error(err)
	}
	for _, engine := range e.engines {
		engine.Stop()
		engine.runs.Wait()
	}
}

func (e *Edge) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	at := e.engines[addr]
	if at == nil {
		return nil, errors.New("no engine is at this address")
	}
	return at.connect(ctx)
}

// LastCall returns the fields of the newest line about a call in the log.
func (e *Edge) LastCall() map[string]any {
	e.t.Helper()
	lines := e.Log.FilterMessage("call").All()
	if len(lines) == 0 {
		e.t.Fatal("no call has ended")
	}
	return lines[len(lines)-1].ContextMap()
}

// CounterValue returns the value of a counter.
func (e *Edge) CounterValue(name string) int { return int(e.Metrics.GetOrCreateCounter(name).Get()) }

// Client receives an answer. The zero Client reads the complete answer.
type Client struct {
	// Called for each write at the time at; may be nil.
	Lines func(at time.Duration, piece string)
	// Number of writes after which the client disconnects; 0 means that it does not disconnect.
	Stays int

	begun  time.Time
	writes int
	body   bytes.Buffer
	conn   clientConn
}

// InspectCall calls f with the client's running call. If the client has no running call, InspectCall
// returns false. The call does not end before f returns.
func (c *Client) InspectCall(f func(*call.Call)) bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	running, ok := c.conn.waiter.(*call.Call)
	if ok {
		f(running)
	}
	return ok
}

// Write implements io.Writer.
func (c *Client) Write(p []byte) (int, error) {
	c.writes++
	if c.Stays > 0 && c.writes > c.Stays {
		return 0, net.ErrClosed
	}
	if c.Lines != nil {
		c.Lines(time.Since(c.begun), string(p))
	}
	return c.body.Write(p)
}

// Answer is the response received by a client.
type Answer struct {
	Status int
	Header *fasthttp.ResponseHeader
	Body   string
	Err    error
	Took   time.Duration
}

// Post sends body to the endpoint at path. Each header has the form "Name: value". Post returns the
// complete answer.
func (e *Edge) Post(path, body string, headers ...string) *Answer {
	return e.Send(&Client{}, path, body, headers...)
}

// Send is Post with a given Client.
func (e *Edge) Send(to *Client, path, body string, headers ...string) *Answer {
	e.t.Helper()
	ep := endpoint.EndpointByPath([]byte(path))
	if ep == nil {
		e.t.Fatalf("no endpoint is at %s", path)
	}
	return e.SendTo(to, ep, body, headers...)
}

// SendTo is Send to a given endpoint, which need not be the one that EndpointByPath finds.
func (e *Edge) SendTo(to *Client, ep *endpoint.Endpoint, body string, headers ...string) *Answer {
	e.t.Helper()
	ctx := to.newRequestContext(ep.Path, body, headers)
	e.Services.Handler(ep)(ctx)
	a := &Answer{Status: ctx.Response.StatusCode(), Header: &ctx.Response.Header}
	if stream, ok := ctx.Response.BodyStream().(io.WriterTo); ok {
		_, a.Err = stream.WriteTo(to)
		if err := ctx.Response.CloseBodyStream(); err != nil {
			e.t.Error(err)
		}
	} else if _, err := to.Write(ctx.Response.Body()); err != nil {
		a.Err = err
	}
	a.Body, a.Took = to.body.String(), time.Since(to.begun)
	return a
}

// OpenDialogue opens a dialogue with a model. It returns the response if the call fails.
func (e *Edge) OpenDialogue(to *Client, model string, meet func(*call.DialogueEngine) error, headers ...string) (*call.Dialogue, *Answer) {
	ctx := to.newRequestContext(endpoint.RealtimeEndpoint.Path, `{"model":"`+model+`"}`, headers)
	if d := e.Services.OpenDialogue(ctx, meet); d != nil {
		return d, nil
	}
	return nil, &Answer{Status: ctx.Response.StatusCode(), Header: &ctx.Response.Header, Body: string(ctx.Response.Body()), Took: time.Since(to.begun)}
}

// newRequestContext returns the context of a request.
func (c *Client) newRequestContext(path, body string, headers []string) *fasthttp.RequestCtx {
	var request fasthttp.Request
	request.Header.SetMethod("POST")
	request.SetRequestURI(path)
	request.Header.SetContentType("application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	c.begun = time.Now()
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(&c.conn, quietLogger{}, false)
	request.CopyTo(&ctx.Request)
	ctx.Request.SetBodyStream(strings.NewReader(body), len(body))
	return ctx
}

type clientConn struct {
	net.Conn
	mu     sync.Mutex
	waiter listen.DisconnectWaiter
}

func (c *clientConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2)} }

func (c *clientConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }
func (c *clientConn) SetReadDeadline(time.Time) error  { return nil }
func (c *clientConn) SetWriteDeadline(time.Time) error { return nil }
func (c *clientConn) SetWriteTimeout(time.Duration)    {}
func (c *clientConn) MarkAuthenticated()               {}
func (c *clientConn) LingerOnClose()                   {}

func (c *clientConn) WatchDisconnect(w listen.DisconnectWaiter) (gone bool) {
	c.setWaiter(w)
	return false
}

func (c *clientConn) UnwatchDisconnect(listen.DisconnectWaiter) { c.setWaiter(nil) }

func (c *clientConn) setWaiter(w listen.DisconnectWaiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiter = w
}

type quietLogger struct{}

func (quietLogger) Printf(string, ...any) {}

// Engine is an engine whose answers are defined by the test.
type Engine struct {
	Name   string // host in the upstream's URL
	Models []string
	// Answer answers all requests except GET requests without an Upgrade header, such as probes. If
	// Answer is nil, TextHandler("ok") is used.
	Answer http.HandlerFunc
	// Pages maps paths to the responses for GET requests. The model list is always available.
	Pages map[string]string

	mu            sync.Mutex
	refusing      bool
	requestBodies []string
	server        *http.Server
	pipes         *pipeListener
	runs          sync.WaitGroup
}

// SetRefusing makes the engine reject connections, or accept them again.
func (e *Engine) SetRefusing(yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusing = yes
}

// RequestBodies returns the bodies of the POST requests, including generation probes.
func (e *Engine) RequestBodies() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.requestBodies...)
}

func (e *Engine) connect(ctx context.Context) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusing {
		return nil, &net.OpError{Op: "dial", Err: errRefused}
	}
	if e.server == nil {
		e.pipes = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		e.server = &http.Server{Handler: http.HandlerFunc(e.serve)} //nolint:gosec // its only client is the test's
		server, at := e.server, e.pipes
		go func() { _ = server.Serve(at) }()
	}
	near, far := net.Pipe()
	select {
	case e.pipes.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errRefused = refusedError{}

type refusedError struct{}

func (refusedError) Error() string { return "connection refused" }

func (e *Engine) serve(w http.ResponseWriter, r *http.Request) {
	e.runs.Add(1)
	defer e.runs.Done()
	if r.Method != http.MethodPost && r.Header.Get("Upgrade") == "" {
		e.serveGet(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.requestBodies = append(e.requestBodies, string(body))
	e.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := e.Answer
	if answer == nil {
		answer = TextHandler("ok")
	}
	answer(w, r)
}

func (e *Engine) serveGet(w http.ResponseWriter, r *http.Request) {
	if text, ok := e.Pages[r.URL.Path]; ok {
		_, _ = io.WriteString(w, text)
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		var list []string
		for _, m := range e.Models {
			list = append(list, `{"id":"`+m+`","object":"model"}`)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[`+strings.Join(list, ",")+`]}`)
	case "/health":
	default:
		http.NotFound(w, r)
	}
}

// Stop closes the engine and its connections.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		_ = e.server.Close()
		e.server = nil
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// HashKey returns the hash of a key in the form used by configurations.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
