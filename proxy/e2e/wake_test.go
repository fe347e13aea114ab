package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// wakeScript simulates an operator's script at wake.url. When the script receives a request, it starts
// an engine after a delay.
type wakeScript struct {
	*httptest.Server
	requests    atomic.Int32
	lastRequest atomic.Pointer[string] // the last request, without its Host header
	fail        atomic.Bool
	once        sync.Once
}

func newScript(t *testing.T, start func()) *wakeScript {
	s := &wakeScript{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		said := fmt.Sprint(r.Method, " ", r.URL, " ", r.ContentLength, " ", r.Header)
		s.lastRequest.Store(&said)
		if s.fail.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		s.once.Do(func() { time.AfterFunc(500*time.Millisecond, start) })
	}))
	t.Cleanup(s.Close)
	return s
}

// stopped returns an edge with one engine that is not running yet, and the script that starts the
// engine.
func stopped(t *testing.T, model string, more rig.Setup) (*penstock, *wakeScript) {
	address := rig.ReusableAddress()
	s := newScript(t, func() { rig.StartEngine(t, sim.Options{Listen: address}) })
	more.Fakes, more.Cold, more.Model = []string{"http://" + address}, true, model
	more.Upstream = fmt.Sprintf("probe: { interval: 200ms }, wake: { url: %q }", s.URL+"/start?engine=a")
	return start(t, more), s
}

// TestWakeOneForMany checks that calls that find no engine wait in their queue, that a single wake
// request starts the engine, and that all calls are then served.
func TestWakeOneForMany(t *testing.T) {
	t.Parallel()
	p, s := stopped(t, "queue: { depth: 20, wait: 60s }", rig.Setup{})
	p.wantDown()
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			stream := ""
			if i%2 == 0 {
				stream = `"stream":true`
			}
			p.Post(chatPath, p.ChatRequest(stream)).WantStatus(200)
		})
	}
	calls.Wait()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests for the engine", n)
	}
	if said := *s.lastRequest.Load(); !strings.HasPrefix(said, "POST /start?engine=a 0 ") || strings.Contains(said, "Bearer") || strings.Contains(said, "Request") {
		t.Errorf("it was asked with %s", said)
	}
	if n := p.Metric("penstock_upstream_wakes_total", `result="asked"`); n != 1 {
		t.Errorf("%v are counted", n)
	}
}

// TestWakeWithoutQueue checks a model without a queue. A call must start the engine for later
// calls, and must be refused with a Retry-After that is the engine's expected start time.
func TestWakeWithoutQueue(t *testing.T) {
	t.Parallel()
	p, s := stopped(t, "", rig.Setup{})
	p.wantDown()
	r := p.Post(chatPath, p.ChatRequest("")).WantStatus(503)
	// 30 s plus jitter, because no start has been observed yet.
	if after := r.Header.Get("Retry-After"); len(after) != 2 {
		t.Errorf("Retry-After %s", after)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the engine is up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests for the engine", n)
	}
}

// TestWakeFails checks that a failed wake request ends the wait of all calls with a Retry-After and
// is not repeated for each call.
func TestWakeFails(t *testing.T) {
	t.Parallel()
	p, s := stopped(t, "queue: { depth: 20, wait: 60s }", rig.Setup{})
	s.fail.Store(true)
	p.wantDown()
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			if r := p.Post(chatPath, p.ChatRequest("")).WantStatus(503); r.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	calls.Wait()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests for the engine", n)
	}
}

func (p *penstock) wantDown() {
	rig.WaitFor(p.T, rig.WaitTimeout, "the upstream is down", func() bool {
		s := p.Status()
		return len(s.Upstreams) == 1 && s.Upstreams[0].State == "down"
	})
}
