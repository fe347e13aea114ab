package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/auth"
	"penstock/proxy/observe"
	"penstock/upstreams"
)

// This file and its neighbours (client, events, raw and books_test.go) are the harness of the in-process tests: an edge in
// this process on loopback, simulated engines behind it, and what every test ends with. The fault matrix has a harness of its
// own, with the built program (faults). A test that only needs a good chat is four lines:
//
//	p := start(t, setup{})                             // one engine, one model "sim", one key
//	r := p.post("/v1/chat/completions", p.chat(""))    // the key is sent by itself
//	r.wantStatus(200)
//	p.engines[0].Stats()                               // what the engine saw
//
// When the test is over the harness waits for rest and then checks what must hold after every test: no call, lease,
// engine slot or body byte is left, every call has exactly one log line with its own request id and is counted once, no
// panic was recovered, no canary of the prompts is in the log or the metrics, and Serve returns without an error. No
// goroutine may be left when the package ends (TestMain).

// canary is in every prompt that the harness writes. It must never be seen in a log, a metric or an error.
const canary = "CANARY-7f3a-prompt"

// setup says what stands between the client and the engines. Its zero value is one engine and one model "sim".
type setup struct {
	// engines are the simulated engines to start; empty: one with everything at its default. Upstream i is called "up-i",
	// serves the model "sim" and is addressed by p.engines[i].
	engines []sim.Options

	// What is added to the configuration, each as members of a flow mapping without the braces:
	// upstream for every upstream ("concurrency: 4"), model for the model ("queue: { depth: 2, wait: 1s }"), key for the
	// first key, limits, timeouts, stream and retry for those sections.
	upstream, model, key, limits, timeouts, stream, retry string

	// top is further YAML of the top level; keys and models are further list entries ("- { id: … }" lines).
	top, keys, models string

	// config replaces all of the above but engines: a whole configuration, in which {{up-0}}, {{up-1}}, … stand for the URLs of
	// the engines and {{hash}} for the hash of the key.
	config string

	// log takes the edge's log in the place of the one that the harness reads.
	log *zap.Logger

	// lookup answers for the names of upstreams with `resolve`; nil: the system does.
	lookup func(ctx context.Context, host string) ([]string, error)

	// cold skips the wait for the first probe of every upstream: for upstreams that will not come up.
	cold bool

	// untidy switches off the checks at the end that a test breaks on purpose.
	untidy bool
}

// penstock is an edge under test with its engines.
type penstock struct {
	t       testing.TB
	engines []*sim.Engine
	url     string // http://127.0.0.1:PORT, no /v1
	addr    string // 127.0.0.1:PORT
	admin   string // base URL of the admin listener
	key     string
	hash    string // of the key
	edge    *proxy.Edge
	next    *config.File // what a reload brings, see reload
	log     *logBuffer
	logger  *zap.Logger // setup.log
	client  *http.Client

	stop   context.CancelFunc
	served chan error
	ended  bool
	untidy bool
}

// start runs engines and an edge until the test ends.
func start(t testing.TB, s setup) *penstock {
	t.Helper()
	if len(s.engines) == 0 {
		s.engines = []sim.Options{{}}
	}
	p := &penstock{t: t, log: new(logBuffer), logger: s.log, served: make(chan error, 1), untidy: s.untidy, client: newClient(t)}
	for _, o := range s.engines {
		p.engines = append(p.engines, startEngine(t, o))
	}
	plain, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p.key, p.hash = plain, hash
	p.run(p.parse(s), s.lookup)
	if !s.cold {
		waitFor(t, patience, "all upstreams up", func() bool { return int(p.metric("penstock_upstream_up")) == len(p.engines) })
	}
	return p
}

// parse makes the configuration of a setup in front of the engines.
func (p *penstock) parse(s setup) *config.File {
	p.t.Helper()
	text := s.render(p.engines, p.hash)
	f, problems := config.ParseValid("test.yaml", []byte(text), config.Known{Engines: upstreams.EngineNames(nil)})
	if f == nil {
		p.t.Fatalf("the test's configuration is wrong:\n%v\n%s", problems, text)
	}
	return f
}

// reload gives the running edge the configuration of another setup in front of the same engines.
func (p *penstock) reload(s setup) {
	p.t.Helper()
	f := p.parse(s)
	f.Listen, f.Admin.Listen = p.next.Listen, p.next.Admin.Listen
	p.next = f
	before := p.edge.LastReload()
	p.edge.Reload("test")
	waitFor(p.t, patience, "the configuration has been reloaded", func() bool { return p.edge.LastReload() != before })
	if r := p.edge.LastReload(); !r.OK {
		p.t.Fatalf("not reloaded: %v", r.Problems)
	}
}

// run serves f.
func (p *penstock) run(f *config.File, lookup func(context.Context, string) ([]string, error)) {
	t := p.t
	t.Helper()
	public, admin := listenLoopback(t), listenLoopback(t)
	f.Listen, f.Admin.Listen = public.Addr().String(), admin.Addr().String()
	log, err := observe.NewLogger(config.Log{Level: "debug", Format: "json"}, p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.next = f
	if p.logger != nil {
		log = p.logger
	}
	e, err := proxy.New(proxy.Options{
		Config: f, Log: log, MemoryLimit: 1 << 30, Public: public, Admin: admin, Lookup: lookup,
		Load: func() (*config.File, config.Problems) { return p.next, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.edge, p.addr = e, public.Addr().String()
	p.url, p.admin = "http://"+p.addr, "http://"+admin.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.served <- e.Serve(ctx) }()
	t.Cleanup(p.end)
}

// end checks that the edge is at rest and stops it.
func (p *penstock) end() {
	if p.ended {
		return
	}
	p.ended = true
	p.client.CloseIdleConnections()
	if !p.untidy {
		p.checkRest()
	}
	p.stop()
	select {
	case err := <-p.served:
		if err != nil {
			p.t.Errorf("Serve: %v", err)
		}
	case <-time.After(20 * time.Second):
		p.t.Error("Serve has not returned 20 s after its context ended")
	}
	if !p.untidy {
		p.checkLog()
	}
}

// checkRest waits until nothing is going on and checks the numbers that must be zero then.
func (p *penstock) checkRest() {
	t := p.t
	p.rest()
	m := p.metrics()
	for name, v := range m {
		switch {
		case strings.HasPrefix(name, "penstock_panics_total"), strings.Contains(name, "double_release"):
			if v != 0 {
				t.Errorf("%s is %v", name, v)
			}
		}
	}
	if text := p.metricsText(); strings.Contains(text, canary) {
		t.Error("the metrics hold a piece of a prompt")
	}
	var lines, counted int
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) { // a call is counted, then told of
		lines, counted = len(p.calls()), int(p.metric("penstock_calls_finished_total"))
		if lines == counted || lines == 0 || time.Now().After(deadline) { // no lines at all: the access log is off
			break
		}
	}
	if lines != counted && lines > 0 {
		t.Errorf("%d access lines, and %d calls were counted", lines, counted)
	}
}

// rest waits until no call is in flight, nothing is held for one, and no engine works.
func (p *penstock) rest() {
	p.t.Helper()
	var left string
	deadline := time.Now().Add(patience)
	for {
		left = p.busy()
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			p.t.Errorf("not at rest: %s", left)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// patience is how long the harness waits for what should come at once: long, because the machine may be busy.
const patience = 10 * time.Second

// busy says what is still going on, or nothing.
func (p *penstock) busy() string {
	for i, e := range p.engines {
		if s := e.Stats(); s.Running+s.Waiting > 0 {
			return fmt.Sprintf("engine %d: %d running, %d waiting", i, s.Running, s.Waiting)
		}
	}
	for name, v := range p.metrics() {
		inflight := strings.Contains(name, "inflight") || name == "penstock_body_memory_bytes"
		if inflight && v != 0 {
			return fmt.Sprintf("%s = %v", name, v)
		}
	}
	return ""
}

// checkLog checks that every call has been told of exactly once, and nothing that must not be told.
func (p *penstock) checkLog() {
	t := p.t
	text := p.log.String()
	for _, secret := range []string{canary, p.key, sim.LeakedHost, sim.LeakedPath, sim.LeakedSecret} {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	ids := map[string]bool{}
	for _, l := range p.calls() {
		if ids[l.RequestID] {
			t.Errorf("two access lines for %s", l.RequestID)
		}
		ids[l.RequestID] = true
		if l.Outcome == "" || l.Outcome == "internal" {
			t.Errorf("a call ended as %q: %+v", l.Outcome, l)
		}
	}
}

// render writes the configuration.
func (s *setup) render(engines []*sim.Engine, hash string) string {
	if s.config != "" {
		text := strings.ReplaceAll(s.config, "{{hash}}", hash)
		for i, e := range engines {
			text = strings.ReplaceAll(text, "{{up-"+strconv.Itoa(i)+"}}", e.URL())
		}
		return text
	}
	var b strings.Builder
	more := func(member string) string {
		if member == "" {
			return ""
		}
		return ", " + member
	}
	fmt.Fprintf(&b, "timeouts: { linger: 0s, drain: 5s%s }\n", more(s.timeouts))
	for _, section := range [][2]string{{"limits", s.limits}, {"stream", s.stream}, {"retry", s.retry}} {
		if section[1] != "" {
			fmt.Fprintf(&b, "%s: { %s }\n", section[0], section[1])
		}
	}
	fmt.Fprintf(&b, "%s\nkeys:\n  - { id: tester, hash: %q%s }\n%s", s.top, hash, more(s.key), indent(s.keys))
	b.WriteString("upstreams:\n")
	if !strings.Contains(s.upstream, "probe:") { // on a busy machine even a good engine may be late
		s.upstream = strings.TrimPrefix(s.upstream+", probe: { timeout: 15s }", ", ")
	}
	for i, e := range engines {
		fmt.Fprintf(&b, "  - { name: up-%d, url: %q, engine: sim%s }\n", i, e.URL(), more(s.upstream))
	}
	b.WriteString("models:\n  - { id: sim, deployments: [")
	for i := range engines {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "{ upstream: up-%d }", i)
	}
	fmt.Fprintf(&b, "]%s }\n%s", more(s.model), indent(s.models))
	return b.String()
}

// indent puts two blanks before every line.
func indent(entries string) string {
	if entries == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(entries, "\n") + "\n") {
		b.WriteString("  " + line)
	}
	return b.String()
}

// startEngine runs a simulated engine until the test ends.
func startEngine(t testing.TB, o sim.Options) *sim.Engine {
	t.Helper()
	anywhere := o.Listen == ""
	for tries := 0; ; tries++ {
		if anywhere {
			// Below the ports that the kernel gives to connections: an engine that goes away finds its port free when it comes back.
			o.Listen = fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(17000))
		}
		e := sim.New(o)
		err := e.Start()
		if err == nil {
			t.Cleanup(e.Close)
			return e
		}
		if !anywhere || tries == 20 {
			t.Fatal(err)
		}
	}
}

// listenLoopback opens a listener on a free port.
func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// chat returns the body of a chat request for the model "sim", with the canary in its prompt. more is added as further
// members: `"stream":true,"sim":{"tokens":5}`. The simulator obeys the member "sim" (see bench/sim, controls.go).
func (p *penstock) chat(more string) string { return chatBody("sim", more) }

func chatBody(model, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":"Say something about ` + canary + `."}]` + more + `}`
}

// recording is one engine that keeps the requests it gets.
func recording() []sim.Options { return []sim.Options{{Record: true}} }

// Rows 1 to 11 and 18 to 32 of the fault matrix: an engine fails before the client has seen a byte, so the client gets a
// clean status. Rows 12 to 17 are in broken_test.go. Each test is named by its row.

// quietProbes keeps probes out of what a test counts; the first one has passed when start returns.
const quietProbes = "probe: { interval: 1h, timeout: 15s }"

// ways are a plain request and a stream: nearly every row holds for both.
var ways = []struct{ name, more string }{{"json", ""}, {"stream", `"stream":true`}}

// both runs f for a plain request and for a stream, each with an edge and engines of its own.
func both(t *testing.T, s setup, f func(t *testing.T, p *penstock, body string)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, s)
			f(t, p, p.chat(w.more))
		})
	}
}

const chatPath = "/v1/chat/completions"

func two() []sim.Options { return []sim.Options{{}, {}} }
