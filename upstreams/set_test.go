package upstreams

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"penstock/config"
	"penstock/upstreams/http1"
)

// registry replaces the metrics package's registry.
type registry struct {
	mu   sync.Mutex
	sets map[*metrics.Set]bool
}

func (r *registry) options() Options {
	r.sets = map[*metrics.Set]bool{}
	return Options{
		Register:   func(s *metrics.Set) { r.mu.Lock(); defer r.mu.Unlock(); r.sets[s] = true },
		Unregister: func(s *metrics.Set) { r.mu.Lock(); defer r.mu.Unlock(); delete(r.sets, s) },
	}
}

func (r *registry) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	for s := range r.sets {
		s.WritePrometheus(&b)
	}
	return b.String()
}

func apply(t *testing.T, s *Set, specs ...config.Upstream) *ChangePlan {
	t.Helper()
	p, err := s.PlanChanges(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Commit(p)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s.WaitFirstProbes(ctx, p)
	s.RetireOmitted(p)
	return p
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 400 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// TestSetLife adds, keeps, changes, retires and revives upstreams, using real HTTP servers on
// loopback.
func TestSetLife(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	vllm, llama := fakeEngine(t, "vllm"), fakeEngine(t, "llamacpp")
	defer vllm.Close()
	defer llama.Close()
	var r registry
	s := newTestSet(t, r.options())
	a, b := config.Upstream{Name: "a", URL: vllm.URL + "/"}, config.Upstream{Name: "b", URL: llama.URL, Weight: 2}

	p := apply(t, s, a, b)
	ua, ub := p.Upstream("a")[0], p.Upstream("b")[0]
	if ua.State() != StateUp || ua.Engine().Name() != "vllm" || ub.State() != StateUp || ub.Engine().Name() != "llamacpp" {
		t.Fatalf("engines: a %v %s, b %v %s; want a up vllm, b up llamacpp", ua.State(), ua.Engine().Name(), ub.State(), ub.Engine().Name())
	}
	// Two calls run, one waits.
	if l := ub.Load(PoolText, time.Now()); l.Limit != 4 || l.Places != 2 || l.Share != 1.0/4 || l.Others != 3 {
		t.Errorf("Load of b = %+v, want limit 4, 2 places, share 0.25 and 3 others", l)
	}
	if p.Upstream("c") != nil || len(s.All()) != 2 {
		t.Error("strangers in the set")
	}
	for _, line := range []string{
		`penstock_upstream_up{upstream="a"} 1`, `penstock_upstream_breaker_open{upstream="a"} 0`, `penstock_upstream_limit{upstream="b",pool="text"} 4`,
		`penstock_upstream_inflight{upstream="b",pool="vision"} 0`, `penstock_upstream_attempts_total{upstream="a",result="ok"} 0`,
		`penstock_upstream_others{upstream="b"} 3`, `penstock_lease_double_release_total 0`,
	} {
		if !strings.Contains(r.text(), line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}

	// If the settings change but the identity does not, the upstream keeps its state.
	lease, ok := ua.TryLease("", PoolText, 10, time.Now())
	if !ok {
		t.Fatal("no lease")
	}
	transport := ua.client.transport.Load()
	p = apply(t, s, config.Upstream{Name: "a", URL: vllm.URL, Concurrency: config.Concurrency{Shared: 1}}, b)
	if p.Upstream("a")[0] != ua || ua.client.transport.Load() != transport {
		t.Fatal("another upstream or transport for the same identity")
	}
	if _, ok := ua.TryLease("", PoolText, 0, time.Now()); ok || ua.Limits().Source != LimitFromConfig {
		t.Error("the new settings are not in force")
	}
	apply(t, s, config.Upstream{Name: "a", URL: vllm.URL, APIKey: "secret"}, b)
	if ua.client.transport.Load() == transport {
		t.Error("the new credential has the old transport")
	}

	// An upstream that is retired while leased grants no new lease. It is removed when its lease is
	// released.
	apply(t, s, b)
	if _, ok := ua.TryLease("", PoolText, 0, time.Now()); ok || ua.State() != StateRetiring || len(s.All()) != 2 {
		t.Errorf("state %v, %d upstreams", ua.State(), len(s.All()))
	}
	lease.Release(OutcomeOK)
	if len(s.All()) != 1 || ua.slots.inFlight() != 0 {
		t.Errorf("%d upstreams, %d in flight", len(s.All()), ua.slots.inFlight())
	}
	if strings.Contains(r.text(), `upstream="a"`) {
		t.Error("the series of a stay")
	}

	// An upstream that is revived while it is retiring stays in service.
	p = apply(t, s, a, b)
	ua = p.Upstream("a")[0]
	lease, _ = ua.TryLease("", PoolText, 0, time.Now())
	apply(t, s, b)
	p = apply(t, s, a, b)
	if p.Upstream("a")[0] != ua || ua.State() != StateUp || ua.slots.inFlight() != 1 {
		t.Errorf("state %v, in flight %d", ua.State(), ua.slots.inFlight())
	}
	lease.Release(OutcomeOK)
	if ua.slots.inFlight() != 0 || len(s.All()) != 2 || !strings.Contains(r.text(), `penstock_upstream_up{upstream="a"} 1`) {
		t.Error("not whole after reviving")
	}

	// If the URL changes, a new upstream with the same name takes over the metric series.
	lease, _ = ua.TryLease("", PoolText, 0, time.Now())
	p = apply(t, s, config.Upstream{Name: "a", URL: llama.URL}, b)
	if p.Upstream("a")[0] == ua || strings.Count(r.text(), `penstock_upstream_up{upstream="a"}`) != 1 {
		t.Error("identity or series")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close with a lease out: %v", err)
	}
	lease.Release(OutcomeOK)
	if len(r.sets) != 0 {
		t.Errorf("%d metric sets left", len(r.sets))
	}
}

// TestOutage stops a real server while calls are running, and restarts it on the same port.
func TestOutage(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	serve := func(l net.Listener) *http.Server {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"data":[{"id":"m","owned_by":"someone"}]}`))
		})}
		go server.Serve(l)
		return server
	}
	server := serve(listener)
	s := newTestSet(t, Options{})
	defer s.Close(t.Context())
	u := apply(t, s, config.Upstream{Name: "a", URL: "http://" + address}).Upstream("a")[0]
	call := func() Outcome {
		l, ok := u.TryLease("", PoolText, 0, time.Now())
		if !ok {
			return OutcomeRefused
		}
		x := l.Exchange()
		defer x.Close()
		err := x.Send(&http1.Request{Method: "GET", Path: "/v1/models", ConnectTimeout: time.Second, WriteTimeout: time.Second})
		if err == nil {
			err = x.Await(time.Now().Add(time.Second))
		}
		outcome := OutcomeOK
		if f := (*http1.Failure)(nil); errors.As(err, &f) {
			outcome = OutcomeBadResponse
			if f.Kind == http1.KindUnreachable {
				outcome = OutcomeUnreachable
			}
			u.Health.RecordFailure(Cause(f.Reason), f.Detail(), 0, time.Now())
		}
		l.Release(outcome)
		return outcome
	}
	if got := call(); got != OutcomeOK {
		t.Fatalf("first call: %v", got)
	}
	server.Close()
	if got := call(); got != OutcomeUnreachable {
		t.Fatalf("call of a stopped server: %v", got)
	}
	eventually(t, "down", func() bool { return u.State() == StateDown })
	if f := u.Status(time.Now()).LastFailure; f == nil || f.Reason != http1.ReasonConnect || !strings.Contains(f.Why(), "connect: dial tcp ") {
		t.Errorf("last failure %+v", f)
	}
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skip("the port was taken meanwhile: ", err)
	}
	defer serve(listener).Close()
	begun := time.Now()
	for u.State() != StateUp && time.Since(begun) < 10*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if u.State() != StateUp || call() != OutcomeOK {
		t.Fatalf("state %v, %v after the restart", u.State(), time.Since(begun))
	}
	t.Logf("back after %v", time.Since(begun))
}

func TestResolve(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	engine := fakeEngine(t, "vllm")
	defer engine.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(engine.URL, "http://"))
	var mu sync.Mutex
	answer, failing := []string{"127.0.0.2", "127.0.0.1"}, false
	changed := make(chan struct{}, 10)
	s := newTestSet(t, Options{
		Lookup: func(_ context.Context, host string) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if failing || host != "engines.test" {
				return nil, errors.New("no such host")
			}
			return append([]string(nil), answer...), nil
		},
		OnAddresses: func() { changed <- struct{}{} },
	})
	defer s.Close(t.Context())
	spec := config.Upstream{Name: "a", URL: "http://engines.test:" + port, Resolve: config.Resolve{Every: config.Duration(20 * time.Millisecond)}}
	ups := apply(t, s, spec).Upstream("a")
	if len(ups) != 2 || ups[0].Label() != "a@127.0.0.1" || ups[1].Label() != "a@127.0.0.2" || ups[0].ID() == ups[1].ID() {
		t.Fatalf("%d upstreams, want a@127.0.0.1 and a@127.0.0.2 with their own ids", len(ups))
	}
	if ups[0].State() != StateUp || ups[0].settings.Load().transport.options.Host != "engines.test:"+port {
		t.Errorf("state %v, host %q", ups[0].State(), ups[0].settings.Load().transport.options.Host)
	}
	mu.Lock()
	failing = true
	mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	if kept := apply(t, s, spec).Upstream("a"); len(kept) != 2 || kept[0] != ups[0] || len(changed) != 0 {
		t.Error("a failing look-up changed the addresses")
	}
	mu.Lock()
	answer, failing = []string{"127.0.0.1"}, false
	mu.Unlock()
	<-changed
	if left := apply(t, s, spec).Upstream("a"); len(left) != 1 || left[0] != ups[0] || len(s.All()) != 1 {
		t.Error("the address that went away stays")
	}
	unknown, err := s.PlanChanges([]config.Upstream{{Name: "b", URL: "http://nowhere.test", Resolve: config.Resolve{Every: config.Duration(time.Minute)}}}, nil)
	if err != nil || len(unknown.Upstream("b")) != 1 || unknown.Upstream("b")[0].Label() != "b" {
		t.Errorf("a name that does not resolve yet: %v", err)
	}
}

func TestPlanRefuses(t *testing.T) {
	dir := t.TempDir()
	notPEM := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newTestSet(t, Options{})
	for _, c := range []struct {
		spec config.Upstream
		want string
	}{
		{config.Upstream{Name: "a", URL: "10.0.0.1:8000"}, "upstream a: url:"},
		{config.Upstream{Name: "a", URL: "ftp://x"}, "must begin with http"},
		{config.Upstream{Name: "a", URL: "http://user:pass@x"}, "api_key"},
		{config.Upstream{Name: "a", URL: "http://x", Engine: "nothing"}, `engine "nothing" is not known`},
		{config.Upstream{Name: "a", URL: "https://x", TLS: config.UpstreamTLS{CA: filepath.Join(dir, "none")}}, "tls.ca"},
		{config.Upstream{Name: "a", URL: "https://x", TLS: config.UpstreamTLS{CA: notPEM}}, "holds no certificate"},
		{config.Upstream{Name: "a", URL: "https://x", TLS: config.UpstreamTLS{Cert: notPEM, Key: notPEM}}, "do not make a pair"},
	} {
		_, err := s.PlanChanges([]config.Upstream{c.spec}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pass") {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestNormalizeURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://Host:80/":              "http://host",
		"HTTPS://Host:443/base//":      "https://host/base",
		"http://[::1]:8000":            "http://[::1]:8000",
		"http://[::1]":                 "http://[::1]",
		"http://10.0.0.1:8000/a%2Fb":   "http://10.0.0.1:8000/a%2Fb",
		"https://host:80":              "https://host:80",
		"http://host:8000/base/v2?x=1": "",
		"http:///x":                    "",
		"":                             "",
	} {
		if got, err := http1.NormalizeURL(in); got != want || (err == nil) != (want != "") {
			t.Errorf("NormalizeURL(%s) = %q, %v; want %q", in, got, err, want)
		}
	}
}

// TestProbesAuthenticate checks that probes send the upstream's credential, like calls do, and are
// never POST requests.
func TestProbesAuthenticate(t *testing.T) {
	var mu sync.Mutex
	var bad []string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != "GET" || r.Header.Get("Authorization") != "Bearer k" || r.UserAgent() != "penstock-probe" {
			bad = append(bad, r.Method+" "+r.URL.Path)
		}
		w.WriteHeader(404)
	}))
	defer engine.Close()
	s := newTestSet(t, Options{})
	defer s.Close(t.Context())
	u := apply(t, s, config.Upstream{Name: "a", URL: engine.URL, APIKey: "k"}).Upstream("a")[0]
	mu.Lock()
	defer mu.Unlock()
	if len(bad) > 0 || u.State() != StateUp {
		t.Errorf("bad requests %v, state %v; want none, and up", bad, u.State())
	}
}

// TestPlanWithOtherProfiles checks that a plan may add, change and remove the user's profiles, and
// that upstreams then use the changed profiles.
func TestPlanWithOtherProfiles(t *testing.T) {
	s := newTestSet(t, Options{})
	defer s.Close(t.Context())
	spec := config.Upstream{Name: "a", URL: fakeEngine(t, "openai").URL}
	u := apply(t, s, spec).Upstream("a")[0]
	if u.Engine().Name() != "openai" {
		t.Fatalf("recognised as %s", u.Engine().Name())
	}
	own := config.Engine{Name: "espeak", Detect: []config.EngineSign{{Path: "/v1/models", Field: "data.*.owned_by", Equals: "espeak-ng"}}, Concurrency: 2}
	with := func(engines ...config.Engine) error {
		p, err := s.PlanChanges([]config.Upstream{spec}, nil, engines...)
		if err == nil {
			s.Commit(p)
			if p.Upstream("a")[0] != u {
				t.Error("another upstream")
			}
		}
		return err
	}
	is := func(engine string, slots int) func() bool {
		return func() bool { return u.Engine().Name() == engine && u.Limits().Text == slots && u.State() == StateUp }
	}
	if err := with(own); err != nil {
		t.Fatal(err)
	}
	eventually(t, "recognised by the new profile", is("espeak", 2))
	wrong := own
	wrong.Like = "nobody"
	if err := with(wrong); err == nil {
		t.Error("a wrong profile was planned")
	}
	if !is("espeak", 2)() {
		t.Error("a failed plan has changed something")
	}
	own.Concurrency = 3
	if err := with(own); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the profile's new limit", is("espeak", 3))
	if err := with(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "generic again", is("openai", 16))
}

// TestPlanWhileRecognising configures an engine while the edge is detecting another engine. A
// detection that began with the old settings must not override the new settings.
func TestPlanWhileRecognising(t *testing.T) {
	inner := fakeEngine(t, "llamacpp").Config.Handler
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-answer
		inner.ServeHTTP(w, r)
	}))
	defer engine.Close()
	s := newTestSet(t, Options{})
	defer s.Close(t.Context())
	commit := func(engineName string) *Upstream {
		p, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: engine.URL, Engine: engineName, Probe: config.Probe{Timeout: config.Duration(10 * time.Second)}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(p)
		return p.Upstream("a")[0]
	}
	u := commit(config.EngineAuto)
	<-asked
	if commit("sglang") != u || u.Engine().Name() != "sglang" {
		t.Fatalf("another upstream, or not the engine that was named: %s", u.Engine().Name())
	}
	close(answer)
	eventually(t, "probed", func() bool { return u.State() == StateUp })
	if got := u.Engine().Name(); got != "sglang" {
		t.Errorf("the engine named sglang is taken for %s", got)
	}
}

// TestOnRoom checks that OnRoom is called after every change that makes a slot available, and
// after every change that makes waiting pointless.
func TestOnRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, freed atomic.Int64
		e := &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}
		s := newTestSet(t, Options{OnFree: func(*Upstream) { freed.Add(1) }, OnRoom: func(*Upstream) { told.Add(1) }})
		spec := config.Upstream{Name: "a", URL: "http://127.0.0.1:1", Engine: "vllm", Concurrency: config.Concurrency{Shared: 2}}
		plan := func() *Upstream {
			p, err := s.PlanChanges([]config.Upstream{spec}, []config.Model{{ID: "m", Deployments: []config.Deployment{{Upstream: "a"}}}})
			if err != nil {
				t.Fatal(err)
			}
			u := p.Upstream("a")[0]
			if s.byID[u.identity.id] == u {
				s.Commit(p)
				return u
			}
			s.byID[u.identity.id] = u // added directly, because Commit would start probes over a socket
			u.Models.FindModel("m")
			u.probeControl.replace(newProber(u, e.get, func() {}))
			return u
		}
		u := plan()
		release := func(o Outcome) {
			l, ok := u.TryLease("", PoolText, 0, time.Now())
			if !ok {
				t.Fatal("no lease")
			}
			l.Release(o)
		}
		step := func(what string, do func()) {
			t.Helper()
			synctest.Wait()
			before := told.Load()
			do()
			synctest.Wait()
			if told.Load() == before {
				t.Errorf("%s: nobody was told", what)
			}
		}
		step("up", func() {
			u.probeControl.prober.start(func() {})
			prober := u.probeControl.currentProber()
			t.Cleanup(func() { prober.stop(); <-prober.done })
		})
		if release(OutcomeRejected); freed.Load() != 1 {
			t.Error("a slot is free: nobody was told")
		}
		step("drained", func() { u.SetMode(ModeDrain) })
		step("ready", func() { u.SetMode(ModeReady) })
		step("more slots", func() { spec.Concurrency.Shared = 3; plan() })
		step("a model again", func() { u.RecordModelGone(FailureSource{Served: "m"}); sleepAndSettle(time.Second) })
		step("a model gone", func() {
			u.Models.mu.Lock()
			defer u.Models.mu.Unlock()
			v := u.Models.view.Load()
			u.Models.applyView(v.profile, v.list, v.listedAt, missingModels{"m": {}})
			u.Models.view.Store(v)
		})
		step("a trial may pass", func() {
			for i := range openAfterFailures {
				u.failFor(t, i, OutcomeBadResponse)
			}
			synctest.Wait()
			before := told.Load()
			sleepAndSettle(breakerCoolDown)
			if told.Load() == before {
				t.Error("the breaker has cooled down: nobody was told")
			}
		})
		step("breaker closed", func() { release(OutcomeOK) })
		step("a ghost has gone", func() {
			u.slots.setObserved(1, 0)
			before := told.Load()
			u.slots.setObserved(2, 0)
			if told.Load() != before {
				t.Error("another ghost is no room")
			}
			u.slots.setObserved(0, 0)
		})
		step("up again", func() {
			before := told.Load()
			e.set(0, 0)
			sleepAndSettle(20 * time.Second)
			if told.Load() == before {
				t.Error("down: nobody was told")
			}
			e.set(200, 0)
			sleepAndSettle(20 * time.Second)
		})
	})
}
