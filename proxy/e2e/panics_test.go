//go:build testing

package e2e

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/admin"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
)

// waitPanics waits until n panics have been counted for a place.
func waitPanics(t *testing.T, g *guard.Guard, place string, n uint64) {
	t.Helper()
	rig.WaitFor(t, rig.WaitTimeout, "the panic of "+place, func() bool { return g.PanicCount(place) >= n })
}

// TestPanicOfACall checks that a panic anywhere in a call ends only that call. The slot, the key's
// concurrency and the body's memory must be released exactly once. The stream must look complete
// only if it was complete.
func TestPanicOfACall(t *testing.T) {
	t.Parallel()
	const whole, stream = "", `"stream":true,"sim":{"text":"hello there"}`
	for _, test := range []struct {
		point, place string
		more         string
		status       int  // status of the panicking call; 0 if the connection ends without a status
		ends         bool // true if the stream ends normally
	}{
		{"call.run", guard.PlaceHandler, whole, 500, false},
		{"call.run", guard.PlaceHandler, stream, 500, false},
		{"head.received", guard.PlaceConnection, whole, 200, false},
		{"framing", guard.PlaceConnection, whole, 400, false},
		{"stream.leave", guard.PlaceStream, stream, 0, false},
		{"stream.http10", guard.PlaceStream, stream, 0, false},
		{"relay.run", guard.PlaceStream, stream, 0, false},
		{"stream.serve", guard.PlaceStream, stream, 200, true},
		{"relay.close", guard.PlaceStream, stream, 200, true},
		{"attempt.end", guard.PlaceHandler, whole, 500, false},
		{"attempt.end", guard.PlaceStream, stream, 200, true},
		{"call.release", guard.PlaceEnd, whole, 200, false},
		{"call.release", guard.PlaceEnd, stream, 200, true},
		{"call.end", guard.PlaceEnd, whole, 200, false},
		{"call.end", guard.PlaceEnd, stream, 200, true},
	} {
		name := test.point + " whole"
		if test.more != whole {
			name = test.point + " stream"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard.New()
			p := start(t, rig.Setup{Guard: g, Untidy: true, Upstream: "concurrency: 1", Key: "limits: { concurrency: 1 }"})
			p.Post(chatPath, p.ChatRequest(test.more)).WantStatus(200)
			p.WaitIdle() // the slot is free shortly after the last byte
			g.Inject(test.point, 1)
			c := p.Dial()
			request := p.RequestBytes(chatPath, p.ChatRequest(test.more))
			if test.point == "stream.http10" {
				request = strings.Replace(request, "HTTP/1.1", "HTTP/1.0", 1)
			}
			if err := c.Send(request); err != nil {
				t.Fatal(err)
			}
			status, ends := 0, false
			if r, err := c.TryReadReply("POST"); err == nil {
				status, ends = r.Status, r.Err == nil && test.more != whole && r.Status == 200
			}
			if status != test.status || ends != test.ends {
				t.Errorf("status %d, the stream ends well: %v; want %d and %v", status, ends, test.status, test.ends)
			}
			waitPanics(t, g, test.place, 1) // the panic may be counted after the answer
			if n := g.PanicCount(test.place); n != 1 || g.RemainingInjectedPanics(test.point) != 0 {
				t.Errorf("%d panics of %s", n, test.place)
			}
			p.WaitIdle()
			for range 3 {
				p.Post(chatPath, p.ChatRequest(test.more)).WantStatus(200)
			}
			p.WaitIdle()
			if n := p.Metric("penstock_panics_total", "where", test.place); n != 1 {
				t.Errorf("%v panics in the metrics", n)
			}
			if n := p.Metric("penstock_lease_double_release_total"); n != 0 {
				t.Errorf("%v leases were released twice", n)
			}
			if n := p.Metric("penstock_body_memory_bytes"); n != 0 {
				t.Errorf("%v bytes of bodies are held", n)
			}
			rig.WaitFor(t, rig.WaitTimeout, "every call that ended is counted", func() bool {
				return p.Metric("penstock_calls_finished_total") == p.Metric("penstock_calls_total")
			})
		})
	}
}

// TestPanicOfAHead checks that functions that fasthttp calls before the handler also catch panics.
func TestPanicOfAHead(t *testing.T) {
	t.Parallel()
	g := guard.New()
	p := start(t, rig.Setup{Guard: g, Untidy: true})
	for i, test := range []struct{ point, request, want string }{
		{"head.error", "GET\r\n\r\n", "HTTP/1.1 500"},
		{"expect", p.RequestBytes(chatPath, p.ChatRequest(""), "Expect: 100-continue"), "HTTP/1.1 500"},
	} {
		g.Inject(test.point, 1)
		c := p.Dial()
		if err := c.Send(test.request); err != nil {
			t.Fatal(err)
		}
		if text, closed := c.WaitClosed(rig.WaitTimeout); !closed || !strings.HasPrefix(text, test.want) {
			t.Errorf("%s: closed %v after %.200q, want %q", test.point, closed, text, test.want)
		}
		waitPanics(t, g, guard.PlaceConnection, uint64(i+1)) // the panic may be counted after the answer
		if n := g.PanicCount(guard.PlaceConnection); n != uint64(i+1) {
			t.Errorf("%s: %d panics, want %d", test.point, n, i+1)
		}
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

// TestPanicOfAWorker checks that a background worker that panics loses only one round of its work
// and starts again.
func TestPanicOfAWorker(t *testing.T) {
	t.Parallel()
	type provoke func(t *testing.T, g *guard.Guard, p *penstock)
	again := func(what string, f func(p *penstock) bool) provoke {
		return func(t *testing.T, _ *guard.Guard, p *penstock) {
			t.Helper()
			rig.WaitFor(t, rig.WaitTimeout, what, func() bool { return f(p) })
		}
	}
	for _, test := range []struct {
		point, place string
		setup        rig.Setup
		armed        bool    // the panic is armed before the edge starts
		provoke      provoke // makes the worker run; nil if the worker runs periodically anyway
		after        provoke // shows that the worker continues
	}{
		{point: "accept.public", place: guard.PlaceAccept, armed: true},
		{point: "accept.admin", place: guard.PlaceAccept, armed: true},
		{
			point: guard.PlaceProbe, place: guard.PlaceProbe, setup: rig.Setup{Upstream: "probe: { interval: 200ms, timeout: 10s }"},
			after: again("a later probe", func(p *penstock) bool {
				before := p.Engines[0].Stats().Probes
				time.Sleep(300 * time.Millisecond)
				return p.Engines[0].Stats().Probes > before
			}),
		},
		{
			point: guard.PlaceHistory, place: guard.PlaceHistory,
		},
		{
			point: guard.PlaceStatusPage, place: guard.PlaceStatusPage,
			provoke: func(_ *testing.T, _ *guard.Guard, p *penstock) {
				if res, err := http.Get(p.Admin + "/status/events"); err == nil {
					_ = res.Body.Close()
				}
			},
			after: func(t *testing.T, _ *guard.Guard, p *penstock) {
				res, err := http.Get(p.Admin + "/status/events")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				var first [10]byte
				if _, err := res.Body.Read(first[:]); err != nil || res.StatusCode != 200 {
					t.Fatalf("status = %d, %v; want 200", res.StatusCode, err)
				}
			},
		},
		{
			point: guard.PlaceClients, place: guard.PlaceClients,
			provoke: func(_ *testing.T, _ *guard.Guard, p *penstock) {
				s := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
				s.Next()
				s.Disconnect()
			},
			after: func(t *testing.T, _ *guard.Guard, p *penstock) {
				p.WaitIdle()
				// The edge must notice when this client disconnects.
				s := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
				s.Next()
				s.Disconnect()
				p.WaitIdle()
			},
		},
		{
			point: guard.PlaceLinger, place: guard.PlaceLinger,
			provoke: func(t *testing.T, _ *guard.Guard, p *penstock) {
				c := p.Dial()
				body := p.ChatRequest("")
				head := "POST " + chatPath + " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
				if err := c.Send(head + body); err != nil {
					t.Fatal(err)
				}
				_, _ = c.WaitClosed(rig.WaitTimeout)
			},
		},
		{
			point: guard.PlaceGeneration, place: guard.PlaceGeneration, setup: rig.Setup{Upstream: "concurrency: 1"},
			provoke: func(_ *testing.T, _ *guard.Guard, p *penstock) {
				for range 5 {
					p.Post(chatPath, p.ChatRequest(failingFault))
				}
			},
			after: again("a later generation probe", func(p *penstock) bool {
				for range 5 {
					p.Post(chatPath, p.ChatRequest(failingFault))
				}
				return p.Metric("penstock_upstream_generation_probes_total", `result="ok"`) > 0
			}),
		},
		{
			point: guard.PlaceReload, place: guard.PlaceReload,
			provoke: func(t *testing.T, _ *guard.Guard, p *penstock) {
				if r := p.ReloadAndWait(); r.OK || !strings.Contains(strings.Join(r.Problems, ""), "a bug of the edge") {
					t.Errorf("the reload that panicked says %+v", r)
				}
			},
			after: func(t *testing.T, _ *guard.Guard, p *penstock) {
				if r := p.ReloadAndWait(); !r.OK {
					t.Errorf("the reload after it says %+v", r)
				}
			},
		},
	} {
		t.Run(test.point, func(t *testing.T) {
			t.Parallel()
			g := guard.New()
			s := test.setup
			s.Guard, s.Untidy = g, true
			if test.armed {
				g.Inject(test.point, 1)
			}
			p := start(t, s)
			if !test.armed {
				g.Inject(test.point, 1)
			}
			if test.provoke != nil {
				test.provoke(t, g, p)
			}
			waitPanics(t, g, test.place, 1)
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
			p.Post(chatPath, p.ChatRequest(`"stream":true`)).WantStatus(200)
			if test.after != nil {
				test.after(t, g, p)
			}
			p.WaitIdle()
			if n := g.PanicCount(test.place); n != 1 {
				t.Errorf("%d panics of %s", n, test.place)
			}
		})
	}
}

// TestPanicOfALookup checks that a lookup that panics leaves the addresses unchanged, and that the
// next lookup takes effect.
func TestPanicOfALookup(t *testing.T) {
	t.Parallel()
	g := guard.New()
	engine := rig.StartEngine(t, sim.Options{})
	var asked atomic.Int64
	p := start(t, rig.Setup{
		Guard: g, Untidy: true, Cold: true,
		Lookup: func(context.Context, string) ([]string, error) {
			asked.Add(1)
			return []string{"127.0.0.1"}, nil
		},
		Config: `
auth: none
upstreams: [{ name: up, url: "` + strings.Replace(engine.URL(), "127.0.0.1", "engine.test", 1) + `", engine: sim, resolve: 1s }]
models: [{ id: sim, deployments: [{ upstream: up }] }]
`,
	})
	rig.WaitFor(t, rig.WaitTimeout, "the upstream is up", func() bool { return p.Upstream("up").State == "up" })
	g.Inject(guard.PlaceAddresses, 2)
	waitPanics(t, g, guard.PlaceAddresses, 2)
	before := asked.Load()
	rig.WaitFor(t, rig.WaitTimeout, "the name is looked up again", func() bool { return asked.Load() > before })
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

// TestPanicOfTheLog checks that, if the log writer panics, the lost lines are counted and later
// lines are written.
func TestPanicOfTheLog(t *testing.T) {
	t.Parallel()
	g := guard.New()
	name := t.TempDir() + "/log"
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sink := observe.NewLogSink(file, g)
	defer sink.Close() //nolint:errcheck // it has no error to give
	log, err := observe.NewLogger(config.Log{Level: "info", Format: "json", Access: true}, sink)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, rig.Setup{Guard: g, Untidy: true, Log: log})
	g.Inject(guard.PlaceLog, 1)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	waitPanics(t, g, guard.PlaceLog, 1)
	rig.WaitFor(t, rig.WaitTimeout, "lines are written again", func() bool {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), `"where":"log"`)
	})
	if sink.Dropped() == 0 {
		t.Error("the lines that were lost are not counted")
	}
}

// TestPanicOfSpans checks that, if the span exporter panics, the lost batch is counted and the next
// batch is sent.
func TestPanicOfSpans(t *testing.T) {
	t.Parallel()
	g := guard.New()
	r := startReceiver(t)
	p := start(t, rig.Setup{Guard: g, Untidy: true, Top: "tracing: { otlp: \"" + r.url + "\" }"})
	g.Inject(guard.PlaceSpans, 1)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	waitPanics(t, g, guard.PlaceSpans, 1)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "a span has come", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.spans) > 0
	})
	if p.Metric("penstock_spans_dropped_total") == 0 {
		t.Error("the spans that were lost are not counted")
	}
}

// TestPanicWhileDraining checks that a drain ends even if a panic occurs.
func TestPanicWhileDraining(t *testing.T) {
	t.Parallel()
	g := guard.New()
	p := start(t, rig.Setup{Guard: g, Untidy: true})
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	g.Inject("shutdown.patience", 1)
	p.End()
	waitPanics(t, g, guard.PlaceShutdown, 1)
}

// TestPanicsTurnReadiness checks that ten panics at one place make the edge unready, that nine do
// not, and that the readiness response names the place.
func TestPanicsTurnReadiness(t *testing.T) {
	t.Parallel()
	g := guard.New()
	p := start(t, rig.Setup{Guard: g, Untidy: true})
	ready := func() *rig.Reply { return p.Fetch(http.MethodGet, p.Admin+"/-/ready") }
	g.Inject("call.run", 9)
	for range 9 {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(500)
	}
	ready().WantStatus(200)
	g.Inject("call.run", 1)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(500)
	if r := ready().WantStatus(503); !strings.Contains(r.Body, guard.PlaceHandler) {
		t.Errorf("the reason is not there: %s", r.Body)
	}
	if v := p.Status().Verdict; v.Level != "failing" || !strings.Contains(v.Text, "panics") {
		t.Errorf("the status says %+v", v)
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if err := admin.CheckReady(admin.Edge{Admin: p.Admin}); err == nil || !strings.Contains(err.Error(), guard.PlaceHandler) {
		t.Errorf("penstock ready says %v", err)
	}
}
