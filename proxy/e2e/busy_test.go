package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests use engines whose health endpoint does not respond while they work. The engines work
// until the test releases them, so the tests do not depend on the machine's speed.

// busyProbe makes three consecutive probes fail within four seconds.
const busyProbe = "concurrency: 1, probe: { interval: 500ms, timeout: 500ms }"

// workKind is a kind of work for which an engine sends no bytes before the complete answer.
type workKind struct {
	name, kind, path, body string
	media                  string // media type of the body; if empty, JSON
}

var workKinds = []workKind{
	{name: "whole answer", path: chatPath, body: rig.ChatBody("sim", "")},
	{name: "long prefill", path: chatPath, body: rig.ChatBody("sim", `"stream":true`)},
	{name: "completion", path: "/v1/completions", body: `{"model":"sim","prompt":"hi"}`},
	{name: "embedding", kind: "kind: embedding", path: "/v1/embeddings", body: `{"model":"sim","input":"hi"}`},
	{name: "rerank", kind: "kind: rerank", path: "/v1/rerank", body: `{"model":"sim","query":"hi","documents":["a","b"]}`},
	{name: "speech", kind: rig.Speech.ModelKind(), path: rig.Speech.Path, body: rig.Speech.RequestBody("sim", "hi", "")},
	{
		name: "transcription", kind: rig.Transcription.ModelKind(), path: rig.Transcription.Path,
		body: rig.Transcription.RequestBody("sim", "hi", ""), media: rig.Transcription.ContentType(),
	},
	{name: "image", kind: "kind: image", path: "/v1/images/generations", body: `{"model":"sim","prompt":"hi"}`},
}

func (k *workKind) ask(p *penstock) *rig.Reply {
	media := k.media
	if media == "" {
		media = "Content-Type: application/json"
	}
	return p.Post(k.path, k.body, media)
}

// serialPainter is an image server that handles one request at a time, including health checks. It
// works until done is closed.
func serialPainter(t *testing.T, done <-chan struct{}) string {
	var one sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.Method == "POST" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-done
			_, _ = io.WriteString(w, `{"created":1,"data":[{"b64_json":"aGk="}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// busyEdge returns an edge with the given number of engines for a kind of work. The engines do not
// complete any answer until finish is called.
func busyEdge(t *testing.T, k *workKind, engines int, model, upstream string) (p *penstock, finish func()) {
	painted := make(chan struct{})
	s := rig.Setup{Model: strings.Trim(k.kind+", "+model, ", "), Upstream: upstream}
	for range engines {
		if k.name == "image" {
			s.Fakes = append(s.Fakes, serialPainter(t, painted))
		} else {
			s.Engines = append(s.Engines, sim.Options{})
		}
	}
	p = start(t, s)
	hold, err := sim.ParseAction("stall=24h")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Engines {
		e.SetFault(sim.Fault{Spec: "busy-health"})
		e.PerformAction(hold)
	}
	finish = sync.OnceFunc(func() {
		close(painted)
		for _, e := range p.Engines {
			e.Reset()
		}
	})
	t.Cleanup(finish) // runs before the edge and its engines stop
	return p, finish
}

func states(p *penstock) (all []string) {
	for _, u := range p.Status().Upstreams {
		all = append(all, u.State)
	}
	return all
}

// TestBusyEngine checks that an engine that does not respond while it works is busy, not down. Its
// running call and the waiting calls must succeed. If the queue is full, a call must be refused
// with the code for a full pool.
func TestBusyEngine(t *testing.T) {
	fastset.SkipIfShort(t, "probes that run out of time")
	for _, k := range workKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p, finish := busyEdge(t, &k, 1, "queue: { depth: 1, wait: 60s }", busyProbe)
			var calls sync.WaitGroup
			call := func() {
				if r := k.ask(p); r.Status != 200 || strings.Contains(r.Body, `"error"`) {
					t.Errorf("answer = %d %.300s, want 200 without an error", r.Status, r.Body)
				}
			}
			calls.Go(call)
			rig.WaitFor(t, rig.WaitTimeout, "the engine is busy", func() bool { return states(p)[0] == "busy" })
			calls.Go(call)
			rig.WaitFor(t, rig.WaitTimeout, "a call waits", func() bool { return p.Status().Models[0].Queue.Waiting == 1 })
			r := k.ask(p).WantStatus(429)
			if !strings.Contains(r.Body, "one of its engines does not answer its probes") || !strings.Contains(r.Body, "capacity_full") || r.Header.Get("Retry-After") == "" {
				t.Errorf("answer = %v %s, want capacity_full because an engine does not answer its probes", r.Header, r.Body)
			}
			if up, busy := p.Metric("penstock_upstream_up"), p.Metric("penstock_upstream_busy"); up != 1 || busy != 1 {
				t.Errorf("up %v, busy %v", up, busy)
			}
			if page := p.Fetch("GET", p.Admin+"/", "Authorization: Bearer "+rig.AdminToken).Body; !strings.Contains(page, "▸ busy") {
				t.Error("the page does not say that the engine is busy")
			}
			if s := p.Status(); !s.Models[0].Ready || s.Verdict.Level == "out" {
				t.Errorf("ready = %t, verdict %+v; want ready and not out", s.Models[0].Ready, s.Verdict)
			}
			finish()
			calls.Wait()
			rig.WaitFor(t, rig.WaitTimeout, "the engine is up", func() bool { return states(p)[0] == "up" })
			if n := p.Status().Upstreams[0].Downs; n != 0 {
				t.Errorf("it was down %d times", n)
			}
		})
	}
}

// TestBusyFleet checks that neither of two busy engines of a model counts as down. If there is no
// queue, a third call must be refused with a 429. If there is an idle engine, the call must be
// served.
func TestBusyFleet(t *testing.T) {
	fastset.SkipIfShort(t, "probes that run out of time")
	t.Parallel()
	p, finish := busyEdge(t, &workKinds[0], 2, "", "concurrency: 2, probe: { interval: 500ms, timeout: 500ms }")
	var calls sync.WaitGroup
	call := func() { workKinds[0].ask(p).WantStatus(200) }
	calls.Go(call)
	rig.WaitFor(t, rig.WaitTimeout, "one is busy", func() bool { return strings.Contains(strings.Join(states(p), " "), "busy") })
	calls.Go(call) // each of these calls finds a free slot
	rig.WaitFor(t, rig.WaitTimeout, "each has a call", func() bool {
		return p.Engines[0].Stats().Running == 1 && p.Engines[1].Stats().Running == 1
	})
	rig.WaitFor(t, rig.WaitTimeout, "both are busy", func() bool { return strings.Join(states(p), " ") == "busy busy" })
	for range 3 {
		if r := workKinds[0].ask(p).WantStatus(429); r.Header.Get("Retry-After") == "" {
			t.Error(r.Header)
		}
	}
	finish()
	calls.Wait()
	rig.WaitFor(t, rig.WaitTimeout, "both are up", func() bool { return strings.Join(states(p), " ") == "up up" })
	if n := p.Status().Upstreams[0].Downs + p.Status().Upstreams[1].Downs; n != 0 {
		t.Errorf("%d were down", n)
	}
}
