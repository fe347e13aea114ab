package e2e

import (
	"context"
	"encoding/json"
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

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests check the state page, and upstreams that appear, disappear or have more than one
// address.

// state contains the members of /status that tests read.
type state struct {
	Upstreams []struct {
		Name    string
		Label   string
		State   string
		Breaker string
		Engine  string
		Origin  string
		Limits  struct {
			Source string
			Text   int
		}
		Pools       []struct{ Active int }
		Report      *struct{ Source string }
		ReportFresh bool    `json:"report_fresh"`
		ReportAge   float64 `json:"report_age_seconds"`
		ProbeAge    float64 `json:"probe_age_seconds"`
		HalfOpenIn  float64 `json:"breaker_half_open_in_seconds"`
		LastFailure *struct {
			During, Reason string
			Status         int
		} `json:"last_failure"`
		Missing []string
	}
	Models []struct {
		ID      string
		Ready   bool
		Targets []struct {
			Upstream, Served, Why string
			Eligible              bool
		}
	}
	Discoveries []struct {
		Source, Trouble string
		Targets         int
	}
}

func (p *penstock) state() (s state, text string) {
	p.T.Helper()
	res, err := p.Client.Get(p.Admin + "/status")
	if err != nil {
		p.T.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.T.Fatalf("status page = %d, %v; want 200", res.StatusCode, err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		p.T.Fatal(err)
	}
	return s, string(b)
}

// targetReason returns the reason that the page shows for the target at the given upstream.
func (s *state) targetReason(label string) string {
	for _, t := range s.Models[0].Targets {
		if t.Upstream == label {
			if t.Eligible != (t.Why == "") {
				return "eligible and out for a reason"
			}
			return t.Why
		}
	}
	return "no such target"
}

func TestStatePage(t *testing.T) {
	t.Parallel()
	const secret = "engine-secret"
	p := start(t, rig.Setup{
		Engines: []sim.Options{{APIKey: secret}, {APIKey: secret}, {APIKey: secret}, {APIKey: secret}}, Upstream: `api_key: "` + secret + `", probe: { interval: 200ms }`,
		// Calls must avoid a failing engine long before its breaker opens, unless the model has no
		// other engine.
		Model: "policy: round_robin", Models: "- { id: only, deployments: [{ upstream: up-1, served: sim }] }",
	})
	p.Engines[0].Unlisten()
	p.Engines[0].DropConns(1, true)
	p.Engines[1].SetFault(sim.Fault{Spec: "status=500"})
	p.Engines[2].SetModels("another")
	var s state
	var text string
	rig.WaitFor(t, rig.WaitTimeout, "three targets are out", func() bool {
		p.Post(chatPath, p.ChatRequest(""))
		p.Post(chatPath, rig.ChatBody("only", ""))
		s, text = p.state() // the breaker may be half-open a second later
		return s.Upstreams[3].ReportFresh && s.targetReason("up-0") != "" && s.targetReason("up-1") != "" && s.targetReason("up-2") != "" && s.targetReason("up-3") == ""
	})
	for label, want := range map[string][]string{
		"up-0": {"upstream is down", "connect"},
		"up-1": {"breaker is", "call failed (status 500)"},
		"up-2": {"engine", "the model"},
	} {
		for _, part := range want {
			if !strings.Contains(s.targetReason(label), part) {
				t.Errorf("%s is out because %q, want %q", label, s.targetReason(label), part)
			}
		}
	}
	if !s.Models[0].Ready {
		t.Error("the model is not ready although one engine is good")
	}
	for i, u := range s.Upstreams {
		if u.ProbeAge < 0 || u.ProbeAge > 30 || u.Limits.Source == "" || u.Engine != "sim" {
			t.Errorf("%s: probe age %v, limit from %q, engine %q", u.Name, u.ProbeAge, u.Limits.Source, u.Engine)
		}
		if failed := i < 3; failed != (u.LastFailure != nil) {
			t.Errorf("%s: last failure %+v", u.Name, u.LastFailure)
		}
		if u.Report == nil || u.Report.Source != "/metrics" || u.ReportAge < 0 || i == 3 && !u.ReportFresh {
			t.Errorf("%s: load %+v, age %v, fresh %t", u.Name, u.Report, u.ReportAge, u.ReportFresh)
		}
	}
	if u := s.Upstreams[0]; u.State != "down" || u.LastFailure.Reason != "connect" {
		t.Errorf("the dead one is %s, %+v", u.State, u.LastFailure)
	}
	if u := s.Upstreams[1]; u.State != "up" || u.Breaker == "closed" || u.LastFailure.During != "call" {
		t.Errorf("the failing one is %s, breaker %s, %+v", u.State, u.Breaker, u.LastFailure)
	}
	if u := s.Upstreams[2]; u.State != "up" || len(u.Missing) != 1 || u.Missing[0] != "sim" {
		t.Errorf("the one without the model is %s and misses %v", u.State, u.Missing)
	}
	if strings.Contains(text, secret) || strings.Contains(text, p.Key) || strings.Contains(text, rig.Canary) {
		t.Error("the page shows what it must not")
	}
}

// TestResolve checks that every address of a name becomes a separate upstream, and that the
// upstreams change with the addresses.
func TestResolve(t *testing.T) {
	t.Parallel()
	first := rig.StartEngine(t, sim.Options{})
	_, port, _ := net.SplitHostPort(first.Addr())
	second := sim.New(sim.Options{Listen: "127.0.0.2:" + port})
	if err := second.Start(); err != nil {
		t.Skip("this machine has no second loopback address: ", err)
	}
	t.Cleanup(second.Close)
	var answer atomic.Pointer[[]string]
	resolve := func(addresses ...string) { answer.Store(&addresses) }
	resolve("127.0.0.1", "127.0.0.2")
	p := start(t, rig.Setup{Cold: true, Lookup: func(_ context.Context, host string) ([]string, error) {
		if a := *answer.Load(); host == "pool.test" && len(a) > 0 {
			return a, nil
		}
		return nil, errors.New("no such host")
	}, Config: fmt.Sprintf(`
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: pool, url: "http://pool.test:%s", engine: sim, resolve: 1s, probe: { interval: 200ms } }]
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: pool }] }]
`, port)})
	up := func() float64 { return p.Metric("penstock_upstream_up", "pool@") }
	rig.WaitFor(t, rig.WaitTimeout, "both addresses are up", func() bool { return up() == 2 })
	calls := func(n int) (toFirst, toSecond int64) {
		a, b := first.Stats().Requests, second.Stats().Requests
		for range n {
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		}
		return first.Stats().Requests - a, second.Stats().Requests - b
	}
	if a, b := calls(10); a != 5 || b != 5 {
		t.Errorf("%d calls went to one address, %d to the other", a, b)
	}
	first.Unlisten() // one engine dies; the name still has both addresses
	first.DropConns(1, true)
	calls(10)
	rig.WaitFor(t, rig.WaitTimeout, "one address is down", func() bool { return up() == 1 })
	if err := first.Relisten(); err != nil {
		t.Fatal(err)
	}
	rig.WaitFor(t, rig.WaitTimeout, "it is back", func() bool { return up() == 2 })

	resolve("127.0.0.2") // the name loses one address
	rig.WaitFor(t, rig.WaitTimeout, "one upstream is left", func() bool { s, _ := p.state(); return len(s.Upstreams) == 1 })
	if a, b := calls(6); a != 0 || b != 6 {
		t.Errorf("%d calls went to the address that left, %d to the other", a, b)
	}
	resolve() // the resolver fails, so the last good answer stays in use
	time.Sleep(1500 * time.Millisecond)
	if a, b := calls(4); a != 0 || b != 4 {
		t.Errorf("without a resolver %d and %d calls", a, b)
	}
	resolve("127.0.0.1", "127.0.0.2")
	rig.WaitFor(t, rig.WaitTimeout, "both are used", func() bool { a, _ := calls(2); return a > 0 })
}

// TestGhosts checks an engine that continues to work for disconnected clients, and therefore has
// fewer free slots. The state page and the metrics must show this, and calls must not queue in the
// engine. Once the work has ended, the slots must be free again.
func TestGhosts(t *testing.T) {
	fastset.SkipIfShort(t, "requests that an engine has forgotten")
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Slots: 4, TokenRate: 1, CancelOnlyStreams: true}}, Upstream: "concurrency: 4, probe: { interval: 200ms }"})
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			res, err := p.TryOpenResponse(ctx, "POST", chatPath, p.ChatRequest(`"sim":{"tokens":120}`))
			if err == nil {
				res.Body.Close()
			}
		})
	}
	rig.WaitFor(t, rig.WaitTimeout, "the engine works for three", func() bool { return p.Engines[0].Stats().Running == 3 })
	leave()
	wg.Wait()
	rig.WaitFor(t, rig.WaitTimeout, "nobody is served", func() bool { return p.Metric("penstock_upstream_inflight") == 0 })
	type slots struct {
		Ghosts int
		Pools  []struct {
			Pool  string
			Limit int
		}
		Abandoned map[string]int
	}
	read := func() (s slots) {
		var page struct{ Upstreams []slots }
		_, text := p.state()
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		return page.Upstreams[0]
	}
	rig.WaitFor(t, rig.WaitTimeout, "the ghosts are seen", func() bool { return read().Ghosts == 3 })
	if s := read(); s.Pools[0].Limit != 1 || s.Abandoned["held"] != 3 {
		t.Errorf("the state page says %+v", s)
	}
	m := p.Metrics()
	if m[`penstock_upstream_ghosts{upstream="up-0"}`] != 3 || m[`penstock_upstream_limit{upstream="up-0",pool="text"}`] != 1 {
		t.Errorf("ghosts %v, limit %v", m[`penstock_upstream_ghosts{upstream="up-0"}`], m[`penstock_upstream_limit{upstream="up-0",pool="text"}`])
	}
	release := p.hold(1, p.ChatRequest(endlessStream))
	p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full")
	if n := p.Engines[0].Stats().Waiting; n != 0 {
		t.Errorf("%d calls queue in the engine", n)
	}
	hurry, err := sim.ParseAction("slow=0.01") // makes the abandoned work end quickly
	if err != nil {
		t.Fatal(err)
	}
	p.Engines[0].PerformAction(hurry)
	rig.WaitFor(t, rig.WaitTimeout, "the ghosts have gone", func() bool { s := read(); return s.Ghosts == 0 && s.Pools[0].Limit == 4 })
	release()
}
