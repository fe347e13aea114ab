package faults

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 80 to 84: engines that are all down, shared, slow or full.

// endless makes the simulator send an answer that continues until one side disconnects.
const endless = `"tokens":100000,"delay_ms":20`

// hold opens n streams that continue until release is called, and waits until all of them have
// started.
func (e *edge) hold(n int, w rig.RequestType, body string) (release func()) {
	e.T.Helper()
	var all []*rig.Stream
	for range n {
		s := e.OpenStream(w.Path, body)
		s.Next()
		all = append(all, s)
	}
	return func() {
		for _, s := range all {
			s.Disconnect()
		}
	}
}

func TestFault80_AllDownThenUp(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Engines: rig.TwoEngines(), Upstream: "probe: { interval: 1s }"}, func(e *edge, w rig.RequestType) {
		for i, engine := range e.Engines {
			engine.SetHealthy(false)
			e.stopEngine(i)
		}
		rig.WaitFor(e.T, rig.WaitTimeout, "nobody is up", func() bool {
			r := e.SendRequest(w, "")
			return strings.Contains(r.Body, "no_healthy_route") && e.Metric("penstock_upstream_up") == 0
		})
		after, took, begun := map[string]bool{}, []time.Duration{}, rig.StartWatch()
		for range 20 {
			r := e.SendRequest(w, "")
			r.WantRefused(w, rig.RefusalNoRoute)
			after[r.Header.Get("Retry-After")] = true
			took = append(took, r.Took)
		}
		// A systematic wait would delay all requests.
		if least := slices.Min(took); least > 50*time.Millisecond+begun.StepDelay() {
			e.T.Errorf("all refusals take more than %v", least)
		}
		if len(after) < 2 {
			e.T.Errorf("every client is told to come back at the same time: %v", after)
		}
		if m := e.Catalog()[0]; m.IsReady {
			e.T.Error("the catalog has the model as ready")
		}
		probes := e.Engines[0].Stats().Probes + e.Engines[1].Stats().Probes
		for _, engine := range e.Engines {
			engine.SetHealthy(true)
			if err := engine.Relisten(); err != nil {
				e.T.Fatal(err)
			}
		}
		back := rig.WaitFor(e.T, rig.WaitTimeout, "requests are served again", func() bool {
			time.Sleep(10 * time.Millisecond)
			return e.SendRequest(w, "").Status == 200
		})
		if back > 6*time.Second+rig.TimingTolerance {
			e.T.Errorf("back after %v", back)
		}
		// One probe of each engine is enough to find it healthy. A probe requests health, models
		// and load.
		if n := e.Engines[0].Stats().Probes + e.Engines[1].Stats().Probes - probes; n > 20+10*int64(back/time.Second) {
			e.T.Errorf("%d probe requests until the first answer", n)
		}
	})
	// a recovered engine must not receive all calls immediately
	t.Run("slow start", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: "concurrency: 40, probe: { interval: 500ms, rise: 1 }"})
		e.stopEngine(0)
		rig.WaitFor(t, rig.WaitTimeout, "one is down", func() bool { e.SendRequest(rig.Chat, ""); return e.Metric("penstock_upstream_up") == 1 })
		release := e.hold(6, rig.ChatStream, rig.ChatStream.RequestBody("sim", rig.Prompt, endless))
		defer release()
		back := time.Now()
		if err := e.Engines[0].Relisten(); err != nil {
			t.Fatal(err)
		}
		rig.WaitFor(t, rig.WaitTimeout, "both are up", func() bool { return e.Metric("penstock_upstream_up") == 2 })
		more := e.hold(3, rig.ChatStream, rig.ChatStream.RequestBody("sim", rig.Prompt, endless))
		defer more()
		// At first, the recovered engine counts as a quarter full (ten of forty slots). This share
		// decreases over three seconds. The other engine has six calls.
		if n := e.Engines[0].Stats().Running; n != 0 && time.Since(back) < time.Second {
			t.Errorf("%d of the first three went to the engine that was away, which was idle and cold", n)
		}
	})
}

// TestFault81_TwoProxies checks that each proxy has separate limits, as documented.
func TestFault81_TwoProxies(t *testing.T) {
	t.Parallel()
	first := start(t, rig.Setup{Upstream: "concurrency: 2", Engines: []sim.Options{{Slots: 8}}})
	second := start(t, rig.Setup{Upstream: "concurrency: 2", Fakes: []string{first.Engines[0].URL()}})
	for i, e := range []*edge{first, second} {
		release := e.hold(2, rig.ChatStream, rig.ChatStream.RequestBody("sim", rig.Prompt, endless))
		defer release()
		for _, w := range rig.TextRequestTypes {
			e.SendRequest(w, "").WantRefused(w, rig.RefusalCapacityFull)
		}
		if n := first.Engines[0].Stats().Running; n != 2+2*i {
			t.Errorf("%d at the engine with %d proxies full", n, i+1)
		}
	}
}

// TestFault82_SlowUnderLoad checks that a slow engine receives fewer calls but stays in service,
// and that an engine is taken out of service if its calls time out.
func TestFault82_SlowUnderLoad(t *testing.T) {
	t.Parallel()
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			e := start(t, rig.Setup{
				Engines:  []sim.Options{{Slots: 2, Latency: 3 * time.Second}, {Slots: 16, Latency: 15 * time.Millisecond}},
				Upstream: "concurrency: 16, " + rig.QuietProbes, Timeouts: "first_event: 30s, answer: 30s",
			})
			const clients, each = 8, 10
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for range each {
						e.SendRequest(w, `"tokens":3`).VisibleText(w)
					}
				})
			}
			group.Wait()
			slow, fast := e.Engines[0].Stats().Completed, e.Engines[1].Stats().Completed
			if slow+fast != clients*each || slow == 0 || fast < 2*slow {
				t.Errorf("the slow engine did %d, the fast one %d of %d", slow, fast, clients*each)
			}
			for _, u := range e.Status().Upstreams {
				if u.Breaker != "closed" || u.State != "up" {
					t.Errorf("%s is %s, its breaker %s: it is slow, not broken", u.Name, u.State, u.Breaker)
				}
			}
		})
	}
	t.Run("timeouts open the breaker", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Upstream: rig.QuietProbes, Timeouts: "first_event: 1s, answer: 1s"}, func(e *edge, w rig.RequestType) {
			e.fault("blackhole")
			late := 0
			for late < 5 { // five calls, one after another
				r := e.SendRequest(w, "")
				if late >= 2 && r.Status == rig.RefusalNoRoute.Status {
					break // between two calls, a generation probe has opened the breaker
				}
				r.WantRefused(w, rig.RefusalTooSlow)
				late++
			}
			rig.WaitFor(e.T, rig.WaitTimeout, "the breaker is open", func() bool { return e.Status().Upstreams[0].Breaker != "closed" })
			e.wantSent(int64(late))
		})
	})
	t.Run("others go on", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Timeouts: "first_event: 2s, answer: 2s"}, func(e *edge, w rig.RequestType) {
			e.Engines[0].SetFault(sim.Fault{Spec: "blackhole"})
			late := 0
			for range 40 {
				if r := e.SendRequest(w, ""); r.Status != 200 {
					r.WantRefused(w, rig.RefusalTooSlow)
					late++
				}
			}
			if late > 8 { // after each failure, which counts as load, the engine is chosen less often
				e.T.Errorf("%d of 40 calls went to an engine that does not answer", late)
			}
		})
	})
}

func TestFault83_ModelIsFull(t *testing.T) {
	t.Parallel()
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		const slots = 4
		forEachRequestType(t, rig.TextRequestTypes, spare(rig.Setup{Upstream: "concurrency: 4", Models: "- { id: other, deployments: [{ upstream: spare, served: sim }] }"}, t), func(e *edge, w rig.RequestType) {
			release := e.hold(slots, rig.ChatStream, rig.ChatStream.RequestBody("sim", rig.Prompt, endless))
			begun := rig.StartWatch()
			var took []time.Duration
			for range 20 {
				r := e.SendRequest(w, "")
				got := r.WantRefused(w, rig.RefusalCapacityFull)
				if !strings.Contains(strings.ToLower(got.Message), "retry after") {
					e.T.Errorf("the message does not say when to retry: %q", got.Message)
				}
				took = append(took, r.Took)
			}
			slices.Sort(took)
			if took[10] > time.Second+begun.StepDelay() { // refused immediately, without a wait
				e.T.Errorf("half of the refusals take more than %v", took[10])
			}
			e.Post(w.Path, w.RequestBody("other", rig.Prompt, "")).VisibleText(w)
			rig.WaitFor(e.T, rig.WaitTimeout, "the catalog shows it", func() bool { return e.Catalog()[0].Capacity.Active == slots })
			if m := e.Catalog()[0]; m.ID != "sim" || m.Capacity.Available != 0 || m.Capacity.Total != slots || !m.IsReady {
				e.T.Errorf("the catalog says %+v", m)
			}
			if n := e.Engines[0].Stats().Peak; n != slots {
				e.T.Errorf("%d at the engine at once", n)
			}
			release()
			rig.WaitFor(e.T, rig.WaitTimeout, "the slots are free", func() bool { return e.Catalog()[0].Capacity.Available == slots })
			e.SendRequest(w, "").VisibleText(w)
		})
	})
	t.Run("vision", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.TextRequestTypes, rig.Setup{
			Upstream: "concurrency: { text: 3, vision: 2 }",
			Model:    "input_modalities: [text, image], vision: { retry_after_seconds: 7 }",
		}, func(e *edge, w rig.RequestType) {
			release := e.hold(2, rig.ChatStream, visionBody(rig.ChatStream, endless))
			r := e.Post(w.Path, visionBody(w, ""))
			full := rig.RefusalCapacityFull
			full.After = "7"
			got := r.WantRefused(w, full)
			var meta map[string]any
			if err := json.Unmarshal(got.Metadata, &meta); err != nil {
				e.T.Fatalf("metadata = %s, %v; want JSON", got.Metadata, err)
			}
			want := map[string]any{"retry_after": 7.0, "modality": "vision", "state": "saturated", "active_requests": 2.0, "total_concurrency": 2.0, "available_concurrency": 0.0}
			for k, v := range want {
				if meta[k] != v {
					e.T.Errorf("metadata.%s is %v, want %v", k, meta[k], v)
				}
			}
			if len(meta) != len(want) || !strings.Contains(got.Message, "2 active of 2") {
				e.T.Errorf("metadata %s, message %q", got.Metadata, got.Message)
			}
			e.SendRequest(w, "").VisibleText(w) // text uses a separate pool
			release()
			rig.WaitFor(e.T, rig.WaitTimeout, "the slots are free", func() bool { return e.Post(w.Path, visionBody(w, "")).Status == 200 })
		})
	})
	t.Run("never one too many", func(t *testing.T) {
		t.Parallel()
		const slots, clients = 3, 60
		forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Upstream: "concurrency: " + strconv.Itoa(slots)}, func(e *edge, w rig.RequestType) {
			var group sync.WaitGroup
			var served atomic.Int64
			begin := make(chan struct{})
			for range clients {
				group.Go(func() {
					<-begin
					switch r := e.SendRequest(w, `"tokens":3,"delay_ms":5`); r.Status {
					case 200:
						served.Add(1)
					default:
						r.WantRefused(w, rig.RefusalCapacityFull)
					}
				})
			}
			close(begin)
			group.Wait()
			s := e.Engines[0].Stats()
			if s.Peak > slots || s.Requests != served.Load() || served.Load() < slots {
				e.T.Errorf("%d served, %d at the engine, %d at once", served.Load(), s.Requests, s.Peak)
			}
		})
	})
}

func spare(s rig.Setup, t *testing.T) rig.Setup {
	s.Upstreams = "- { name: spare, url: \"" + rig.StartEngine(t, sim.Options{}).URL() + "\", engine: sim }"
	return s
}

func visionBody(w rig.RequestType, control string) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 16, 16)))
	data := base64.StdEncoding.EncodeToString(b.Bytes())
	stream := ""
	if w.Stream {
		stream = `,"stream":true`
	}
	text, _ := json.Marshal(rig.Prompt + " [[sim {" + control + "}]]")
	switch w.Dialect {
	case "messages":
		return `{"model":"sim","max_tokens":1000` + stream + `,"messages":[{"role":"user","content":[{"type":"text","text":` + string(text) +
			`},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}]}`
	case "responses":
		return `{"model":"sim"` + stream + `,"input":[{"role":"user","content":[{"type":"input_text","text":` + string(text) +
			`},{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]}]}`
	default:
		return `{"model":"sim"` + stream + `,"messages":[{"role":"user","content":[{"type":"text","text":` + string(text) +
			`},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}]}]}`
	}
}

// TestFault84_TenTimesCapacity checks that the engine does as much work for ten clients per slot as
// for one client per slot. Calls that find no slot must be refused immediately. Clients, edge and
// engine share a few processors. The test is therefore not parallel, passes if one of three rounds
// passes, and adds the measured delay of the machine to its limits.
func TestFault84_TenTimesCapacity(t *testing.T) {
	const slots, rounds = 4, 3
	const work = `"tokens":1,"ttft_ms":100`
	for _, w := range []rig.RequestType{rig.Chat, rig.MessagesStream, rig.ResponsesStream} {
		t.Run(w.String(), func(t *testing.T) {
			e := start(t, rig.Setup{Engines: []sim.Options{{Slots: slots}}, Upstream: "concurrency: " + strconv.Itoa(slots)})
			for round := 1; ; round++ {
				begun := rig.StartWatch()
				fair, _ := e.load(w, slots, work, time.Second)
				flood, refusals := e.load(w, 10*slots, work, time.Second)
				if len(refusals) < 2*slots {
					t.Fatalf("%d refusals: that is no overload", len(refusals))
				}
				half, p99, step := refusals[len(refusals)/2], refusals[len(refusals)*99/100], begun.StepDelay()
				t.Logf("served %d at the limit, %d at ten times that; %d refusals, half within %v, p99 %v; a step may be delayed by %v", fair, flood, len(refusals), half, p99, step)
				if keepsGoodput(slots*time.Second, fair, flood, step) && half <= 50*time.Millisecond+step && p99 <= time.Second+10*step {
					break
				}
				if round == rounds {
					t.Errorf("in none of %d rounds goodput was 90%% and refusals came at once", rounds)
					break
				}
			}
			if n := e.Engines[0].Stats().Peak; n > slots {
				t.Errorf("%d at the engine at once", n)
			}
		})
	}
}

// keepsGoodput reports whether the slots served about as many requests under flood as at the limit.
// fair and flood are the numbers of served requests. A request under flood may use at most 10/9 of
// the slot time of a request at the limit, plus step, the delay that the machine may have caused.
func keepsGoodput(slotTime time.Duration, fair, flood int, step time.Duration) bool {
	return fair > 0 && flood > 0 && slotTime/time.Duration(flood) <= slotTime/time.Duration(fair)*10/9+step
}

func TestKeepsGoodput(t *testing.T) {
	for _, c := range []struct {
		fair, flood int
		step        time.Duration
		want        bool
	}{
		{40, 36, 0, true},
		{40, 35, 0, false},
		{40, 30, 20 * time.Millisecond, false}, // 133 ms instead of 100 ms
		{40, 30, 25 * time.Millisecond, true},
		{40, 0, time.Hour, false},
		{0, 40, time.Hour, false},
	} {
		if got := keepsGoodput(4*time.Second, c.fair, c.flood, c.step); got != c.want {
			t.Errorf("keepsGoodput(%d, %d, %v) = %v", c.fair, c.flood, c.step, got)
		}
	}
}

// load runs clients for a while and returns how many requests were served, and the sorted times of
// refusals. A refused client pauses, so that the load exceeds the engine's capacity many times
// without overloading the machine.
func (e *edge) load(w rig.RequestType, clients int, control string, length time.Duration) (served int, refusals []time.Duration) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for end := time.Now().Add(length); clients > 0; clients-- {
		group.Go(func() {
			for time.Now().Before(end) {
				r := e.SendRequest(w, control)
				if r.Status != 200 {
					r.WantRefused(w, rig.RefusalCapacityFull)
				}
				mu.Lock()
				if r.Status == 200 {
					served++
				} else {
					refusals = append(refusals, r.Took)
				}
				mu.Unlock()
				if r.Status != 200 {
					time.Sleep(40 * time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	slices.Sort(refusals)
	return served, refusals
}

// TestFault90_RequestThatKills sends a request that crashes engines. Even if the client repeats the
// request many times, it must not take down more than two engines at a time. Other requests must be
// served. Once an engine has recovered, the edge must send the request again.
func TestFault90_RequestThatKills(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Engines: append(rig.TwoEngines(), rig.TwoEngines()...), Upstream: "probe: { interval: 500ms, fall: 1, rise: 1 }"}, func(e *edge, w rig.RequestType) {
		const lethal = `"fault":"reset-before"`
		killed := map[int]bool{}
		kill := func() { // kills an engine that has read the request
			for i, engine := range e.Engines {
				if engine.Stats().Faults > 0 && !killed[i] {
					killed[i] = true
					e.stopEngine(i)
				}
			}
			rig.WaitFor(e.T, rig.WaitTimeout, "the dead are known", func() bool { return e.Metric("penstock_upstream_up") == float64(len(e.Engines)-len(killed)) })
		}
		e.SendRequest(w, lethal).WantRefused(w, rig.RefusalUnreachable)
		e.wantAccessLine(w, rig.RefusalUnreachable, "upstream_fail", 2)
		kill()
		if len(killed) != 2 {
			e.T.Fatalf("%d engines were asked", len(killed))
		}
		e.wantSent(2)
		for range 3 {
			e.SendRequest(w, lethal).WantRefused(w, rig.RefusalEngineFailed)
			e.wantAccessLine(w, rig.RefusalEngineFailed, "upstream_fail", 0)
		}
		e.wantSent(2)
		e.SendRequest(w, "").VisibleText(w)
		for i := range killed { // restarts any one of them
			if err := e.Engines[i].Relisten(); err != nil {
				e.T.Fatal(err)
			}
			break
		}
		rig.WaitFor(e.T, rig.WaitTimeout, "one is back", func() bool { return e.Metric("penstock_upstream_up") == 3 })
		e.SendRequest(w, lethal).WantRefused(w, rig.RefusalUnreachable)
	})
}
