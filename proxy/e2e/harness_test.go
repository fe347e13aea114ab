package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/auth"
	"penstock/proxy/observe"
	"penstock/upstreams"
)

// This file is the harness of the black-box tests: an edge in this process on loopback, simulated engines behind it, and
// what every test ends with. A test that only needs a good chat is four lines:
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

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		at := "16" // the tests wait most of the time; on two processors two at once would take minutes
		if raceOn {
			at = "6" // the race detector makes them work, and clocks of 300 ms must still be met
		}
		_ = f.Value.Set(at)
	}
	code := m.Run()
	removeBinary()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		// fasthttp's own: one ticks for the Date header for ever, one sleeps up to ten seconds after its server has ended.
		err := goleak.Find(goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

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
	p := &penstock{t: t, log: new(logBuffer), served: make(chan error, 1), untidy: s.untidy, client: newClient(t)}
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
	e := sim.New(o)
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
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

// newClient is an HTTP client with connections of its own, closed when the test ends.
func newClient(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
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

// reply is a whole answer of the edge, read to its end.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
	err    error // how reading the body ended, nil for a whole one
	took   time.Duration
}

// post sends body as JSON under the key of the setup and reads the whole answer. header are further "Name: value" lines; one
// that names Authorization replaces the key.
func (p *penstock) post(path, body string, header ...string) *reply {
	p.t.Helper()
	return p.do("POST", path, body, header...)
}

// get is post for GET, without the key.
func (p *penstock) get(path string, header ...string) *reply {
	p.t.Helper()
	return p.do("GET", path, "", append([]string{"Authorization: "}, header...)...)
}

func (p *penstock) do(method, path, body string, header ...string) *reply {
	p.t.Helper()
	begun := time.Now()
	res := p.open(context.Background(), method, path, body, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	r := &reply{t: p.t, status: res.StatusCode, header: res.Header, body: string(b), err: err, took: time.Since(begun)}
	if err == nil {
		r.conforms(method, path) // to the published OpenAPI document
	}
	return r
}

// open sends a request and returns the answer unread. The caller closes its body.
func (p *penstock) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	p.t.Helper()
	res, err := p.try(ctx, method, path, body, header...)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

// try is open for requests that may fail.
func (p *penstock) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	return p.client.Do(req)
}

// wantStatus fails the test unless the status is the wanted one.
func (r *reply) wantStatus(want int) *reply {
	r.t.Helper()
	if r.status != want {
		r.t.Fatalf("status %d, want %d\n%s", r.status, want, r.body)
	}
	return r
}

// apiError is the contract's error record.
type apiError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     string          `json:"code"`
	Param    *string         `json:"param"`
	Metadata json.RawMessage `json:"metadata"`
}

// wantError checks an error answer: JSON with a length, the request id, the Retry-After that the status demands, and no
// word that should have stayed inside.
func (r *reply) wantError(status int, kind, code string) *apiError {
	r.t.Helper()
	r.wantStatus(status)
	var e struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error == nil {
		r.t.Fatalf("the error is not the contract's record: %q", r.body)
	}
	if e.Error.Type != kind || e.Error.Code != code {
		r.t.Errorf("error is %s / %s, want %s / %s: %s", e.Error.Type, e.Error.Code, kind, code, e.Error.Message)
	}
	if e.Error.Message == "" {
		r.t.Error("the error has no message")
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		r.t.Errorf("Content-Type %q", ct)
	}
	if r.header.Get("Content-Length") == "" {
		r.t.Error("the error has no Content-Length")
	}
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Request-Id") != r.header.Get("Request-Id") {
		r.t.Error("the error has no request id, or two different ones")
	}
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	switch status {
	case 429, 503, 504, 529:
		if err != nil || after < 1 || after > 60 {
			r.t.Errorf("Retry-After is %q, want an integer from 1 to 60", r.header.Get("Retry-After"))
		}
	}
	wantNoLeak(r.t, r.body)
	return e.Error
}

// wantNoLeak checks that text has nothing of what faulty engines and prompts carry.
func wantNoLeak(t testing.TB, text string) {
	t.Helper()
	for _, secret := range []string{canary, sim.LeakedHost, sim.LeakedPath, sim.LeakedSecret, sim.ForgedText, "127.0.0.1:"} {
		if strings.Contains(text, secret) {
			t.Errorf("the client was shown %q: %.300s", secret, text)
		}
	}
}

// event is one event of a stream.
type event struct{ name, data string }

// events reads a whole stream.
func (r *reply) events() []event {
	r.t.Helper()
	if ct := r.header.Get("Content-Type"); ct != "text/event-stream" {
		r.t.Fatalf("Content-Type %q, want a stream\n%s", ct, r.body)
	}
	return parseEvents(r.body)
}

// parseEvents is deliberately another parser than the edge's: blank lines end events, comments are dropped.
func parseEvents(text string) []event {
	var out []event
	for block := range strings.SplitSeq(text, "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

// stream is an answer that is being read event by event. Comments are skipped.
type stream struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// openStream sends a streamed request and returns when its head has come.
func (p *penstock) openStream(path, body string, header ...string) *stream {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	res := p.open(ctx, "POST", path, body, header...)
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		p.t.Fatalf("status %d\n%s", res.StatusCode, b)
	}
	return &stream{t: p.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
}

// next returns the next event; false at the end.
func (s *stream) next() (e event, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && e.data != "":
			return e, true
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e.data += line[len("data: "):]
		}
	}
}

// leave closes the client's connection in the middle of the answer.
func (s *stream) leave() {
	s.cancel()
	s.res.Body.Close()
}

// text is the visible text of a chat stream, put together, and whether [DONE] came.
func chatText(t testing.TB, events []event) (text string, done bool) {
	t.Helper()
	for _, e := range events {
		if e.data == "[DONE]" {
			done = true
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatalf("an event is not JSON: %q", e.data)
		}
		for _, ch := range c.Choices {
			text += ch.Delta.Content
		}
	}
	return text, done
}

// metrics reads the admin listener's metrics: the whole line up to the value is the name.
func (p *penstock) metrics() map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(p.metricsText()) {
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out
}

func (p *penstock) metricsText() string {
	p.t.Helper()
	res, err := p.client.Get(p.admin + "/metrics")
	if err != nil {
		p.t.Fatalf("metrics: %v", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		p.t.Fatalf("metrics: status %d, %v", res.StatusCode, err)
	}
	return string(b)
}

// metric is the sum of the series whose line holds name and every one of labels.
func (p *penstock) metric(name string, labels ...string) float64 {
	p.t.Helper()
	sum := 0.0
	for line, v := range p.metrics() {
		base, _, _ := strings.Cut(line, "{")
		if base == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			sum += v
		}
	}
	return sum
}

// series are the names of all series, without those of the Go runtime and the process.
func (p *penstock) series() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.metrics())) {
		if strings.HasPrefix(name, "penstock_") {
			out = append(out, name)
		}
	}
	return out
}

// callLine is one line of the access log.
type callLine struct {
	Msg              string  `json:"msg"`
	RequestID        string  `json:"request_id"`
	Key              string  `json:"key"`
	Dialect          string  `json:"dialect"`
	Model            string  `json:"model"`
	Upstream         string  `json:"upstream"`
	Pool             string  `json:"pool"`
	Stream           bool    `json:"stream"`
	Status           int     `json:"status"`
	Code             string  `json:"code"`
	Outcome          string  `json:"outcome"`
	Attempts         int     `json:"attempts"`
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	TokensEstimated  bool    `json:"tokens_estimated"`
	QueueMS          float64 `json:"queue_ms"`
	BytesIn          int64   `json:"bytes_in"`
	BytesOut         int64   `json:"bytes_out"`
}

// calls are the access lines so far.
func (p *penstock) calls() []callLine {
	p.t.Helper()
	var out []callLine
	for line := range strings.Lines(p.log.String()) {
		var l callLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.t.Errorf("a log line is not JSON: %s", line)
			continue
		}
		if l.Msg == "call" {
			out = append(out, l)
		}
	}
	return out
}

// lastCall waits for the edge to be at rest and returns the newest access line.
func (p *penstock) lastCall() callLine {
	p.t.Helper()
	p.rest()
	all := p.calls()
	if len(all) == 0 {
		p.t.Fatal("there is no access line")
	}
	return all[len(all)-1]
}

// waitFor polls until cond holds, and fails the test when it does not within limit. It returns how long it took.
func waitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !cond() {
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(begun)
}

// raw is a plain connection to the edge, for clients that no library would be.
type raw struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

// dial connects to the public listener. The connection is closed when the test ends.
func (p *penstock) dial() *raw {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &raw{p.t, c, bufio.NewReader(c)}
}

// send writes text as it is. Failing is allowed: the edge may have hung up.
func (c *raw) send(text string) error {
	_, err := io.WriteString(c.Conn, text)
	return err
}

// sendf is send with a format.
func (c *raw) sendf(format string, args ...any) error { return c.send(fmt.Sprintf(format, args...)) }

// reply reads one answer, also one that is cut.
func (c *raw) reply(method string) *reply {
	c.t.Helper()
	r, err := c.tryReply(method)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return r
}

func (c *raw) tryReply(method string) (*reply, error) {
	begun := time.Now()
	for {
		res, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		return &reply{t: c.t, status: res.StatusCode, header: withLength(res), body: string(b), err: err, took: time.Since(begun)}, nil
	}
}

// withLength puts the length back that http.ReadResponse takes out of the header.
func withLength(res *http.Response) http.Header {
	if res.ContentLength >= 0 && res.Header.Get("Content-Length") == "" {
		res.Header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	return res.Header
}

// rest reads what else comes until the edge closes the connection; false: it did not within limit.
func (c *raw) closed(limit time.Duration) (rest string, ok bool) {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	b, err := io.ReadAll(c.in)
	var timeout net.Error
	return string(b), !(errors.As(err, &timeout) && timeout.Timeout())
}

// reset closes the connection with a RST.
func (c *raw) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// head is a request's head up to the blank line, with the key.
func (p *penstock) head(method, target string, header ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer " + p.key + "\r\n" +
		strings.Join(append(header, ""), "\r\n") + "\r\n"
}

// request is a whole chat request as bytes.
func (p *penstock) request(body string, header ...string) string {
	h := append([]string{"Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body))}, header...)
	return p.head("POST", "/v1/chat/completions", h...) + body
}

// logBuffer is the log of an edge in memory.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Sync implements zapcore.WriteSyncer.
func (l *logBuffer) Sync() error { return nil }

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// recording is one engine that keeps the requests it gets.
func recording() []sim.Options { return []sim.Options{{Record: true}} }
