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
)

// Rows 80 to 84: engines that are all away, shared, slow or full.

// endless makes an answer that lasts until somebody leaves.
const endless = `"tokens":100000,"delay_ms":20`

// hold opens n streams that last, in any way's dialect, and returns when all of them have begun. release ends them.
func (e *edge) hold(n int, w way, body string) (release func()) {
	e.t.Helper()
	var all []*stream
	for range n {
		s := e.openStream(w.path, body)
		s.next()
		all = append(all, s)
	}
	return func() {
		for _, s := range all {
			s.leave()
		}
	}
}

func TestFault80_AllDownThenUp(t *testing.T) {
	t.Parallel()
	inWays(t, allWays, setup{engines: two(), upstream: "probe: { interval: 1s }"}, func(e *edge, w way) {
		for i, engine := range e.engines {
			engine.SetHealthy(false)
			e.retire(i)
		}
		waitFor(e.t, patience, "nobody is up", func() bool {
			r := e.ask(w, "")
			return strings.Contains(r.body, "no_healthy_route") && e.metric("penstock_upstream_up") == 0
		})
		after, took := map[string]bool{}, []time.Duration{}
		for range 20 {
			r := e.ask(w, "")
			r.wantRefused(w, noRoute)
			after[r.header.Get("Retry-After")] = true
			took = append(took, r.took)
		}
		slices.Sort(took)
		if took[10] > 50*time.Millisecond {
			e.t.Errorf("half of the refusals take more than %v", took[10])
		}
		if len(after) < 2 {
			e.t.Errorf("every client is told to come back at the same time: %v", after)
		}
		if m := e.catalog()[0]; m.IsReady {
			e.t.Error("the catalog has the model as ready")
		}
		probes := e.engines[0].Stats().Probes + e.engines[1].Stats().Probes
		for _, engine := range e.engines {
			engine.SetHealthy(true)
			if err := engine.Relisten(); err != nil {
				e.t.Fatal(err)
			}
		}
		back := waitFor(e.t, patience, "requests are served again", func() bool {
			time.Sleep(10 * time.Millisecond)
			return e.ask(w, "").status == 200
		})
		if back > 6*time.Second {
			e.t.Errorf("back after %v", back)
		}
		// One probe of each engine finds it well; health, models and load are asked together.
		if n := e.engines[0].Stats().Probes + e.engines[1].Stats().Probes - probes; n > 20 {
			e.t.Errorf("%d probe requests until the first answer", n)
		}
	})
	t.Run("slow start", func(t *testing.T) { // an engine that is back does not get everything at once
		t.Parallel()
		e := start(t, setup{engines: two(), upstream: "concurrency: 40, probe: { interval: 200ms, rise: 1 }"})
		e.retire(0)
		waitFor(t, patience, "one is down", func() bool { e.ask(chat, ""); return e.metric("penstock_upstream_up") == 1 })
		release := e.hold(6, chatStream, chatStream.body("sim", prompt, endless))
		defer release()
		back := time.Now()
		if err := e.engines[0].Relisten(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, patience, "both are up", func() bool { return e.metric("penstock_upstream_up") == 2 })
		more := e.hold(3, chatStream, chatStream.body("sim", prompt, endless))
		defer more()
		// It looks a quarter full, ten of forty, and less and less so for three seconds; the other one has six.
		if n := e.engines[0].Stats().Running; n != 0 && time.Since(back) < time.Second {
			t.Errorf("%d of the first three went to the engine that was away, which was idle and cold", n)
		}
	})
}

// TestFault81_TwoProxies: limits are each proxy's own. The documentation says so; here is that it is true.
func TestFault81_TwoProxies(t *testing.T) {
	t.Parallel()
	first := start(t, setup{upstream: "concurrency: 2", engines: []sim.Options{{Slots: 8}}})
	second := start(t, setup{upstream: "concurrency: 2", fakes: []string{first.engines[0].URL()}})
	for i, e := range []*edge{first, second} {
		release := e.hold(2, chatStream, chatStream.body("sim", prompt, endless))
		defer release()
		for _, w := range allWays {
			e.ask(w, "").wantRefused(w, capacityFull)
		}
		if n := first.engines[0].Stats().Running; n != 2+2*i {
			t.Errorf("%d at the engine with %d proxies full", n, i+1)
		}
	}
}

// TestFault82_SlowUnderLoad: an engine that is slow gets less and is never taken out for it; one that times out is.
func TestFault82_SlowUnderLoad(t *testing.T) {
	t.Parallel()
	for _, w := range allWays {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			e := start(t, setup{
				engines:  []sim.Options{{Slots: 2, Latency: 150 * time.Millisecond}, {Slots: 16, Latency: 15 * time.Millisecond}},
				upstream: "concurrency: 16, " + quiet, timeouts: "first_event: 8s, answer: 8s",
			})
			const clients, each = 8, 10
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for range each {
						e.ask(w, `"tokens":3`).text(w)
					}
				})
			}
			group.Wait()
			slow, fast := e.engines[0].Stats().Completed, e.engines[1].Stats().Completed
			if slow+fast != clients*each || slow == 0 || fast < 2*slow {
				t.Errorf("the slow engine did %d, the fast one %d of %d", slow, fast, clients*each)
			}
			for _, u := range e.status().Upstreams {
				if u.Breaker != "closed" || u.State != "up" {
					t.Errorf("%s is %s, its breaker %s: it is slow, not broken", u.Name, u.State, u.Breaker)
				}
			}
		})
	}
	t.Run("timeouts open the breaker", func(t *testing.T) {
		t.Parallel()
		inWays(t, allWays, setup{upstream: quiet, timeouts: "first_event: 400ms, answer: 400ms"}, func(e *edge, w way) {
			e.fault("blackhole")
			for range 5 { // in a row
				e.ask(w, "").wantRefused(w, tooSlow)
			}
			waitFor(e.t, patience, "the breaker is open", func() bool { return e.status().Upstreams[0].Breaker != "closed" })
			e.wantSent(5)
		})
	})
	t.Run("others go on", func(t *testing.T) {
		t.Parallel()
		inWays(t, allWays, setup{engines: two(), upstream: quiet, timeouts: "first_event: 400ms, answer: 400ms"}, func(e *edge, w way) {
			e.engines[0].SetFault(sim.Fault{Spec: "blackhole"})
			late := 0
			for range 40 {
				if r := e.ask(w, ""); r.status != 200 {
					r.wantRefused(w, tooSlow)
					late++
				}
			}
			if late > 8 { // a failure is load: it is asked less with each
				e.t.Errorf("%d of 40 calls went to an engine that does not answer", late)
			}
		})
	})
}

func TestFault83_ModelIsFull(t *testing.T) {
	t.Parallel()
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		const slots = 4
		inWays(t, allWays, setup{upstream: "concurrency: 4", models: "- { id: other, deployments: [{ upstream: spare, served: sim }] }"}.spare(t), func(e *edge, w way) {
			release := e.hold(slots, chatStream, chatStream.body("sim", prompt, endless))
			var took []time.Duration
			for range 20 {
				r := e.ask(w, "")
				got := r.wantRefused(w, capacityFull)
				if !strings.Contains(strings.ToLower(got.Message), "retry after") {
					e.t.Errorf("the message does not say when to retry: %q", got.Message)
				}
				took = append(took, r.took)
			}
			slices.Sort(took)
			if took[10] > time.Second { // at once, and not after a wait
				e.t.Errorf("half of the refusals take more than %v", took[10])
			}
			e.post(w.path, w.body("other", prompt, "")).text(w)
			waitFor(e.t, patience, "the catalog shows it", func() bool { return e.catalog()[0].Capacity.Active == slots })
			if m := e.catalog()[0]; m.ID != "sim" || m.Capacity.Available != 0 || m.Capacity.Total != slots || !m.IsReady {
				e.t.Errorf("the catalog says %+v", m)
			}
			if n := e.engines[0].Stats().Peak; n != slots {
				e.t.Errorf("%d at the engine at once", n)
			}
			release()
			waitFor(e.t, patience, "the slots are free", func() bool { return e.catalog()[0].Capacity.Available == slots })
			e.ask(w, "").text(w)
		})
	})
	t.Run("vision", func(t *testing.T) {
		t.Parallel()
		inWays(t, allWays, setup{
			upstream: "concurrency: { text: 3, vision: 2 }",
			model:    "input_modalities: [text, image], vision: { retry_after_seconds: 7 }",
		}, func(e *edge, w way) {
			release := e.hold(2, chatStream, chatStream.look(endless))
			r := e.post(w.path, w.look(""))
			full := capacityFull
			full.after = "7"
			got := r.wantRefused(w, full)
			var meta map[string]any
			if err := json.Unmarshal(got.Metadata, &meta); err != nil {
				e.t.Fatalf("metadata %s: %v", got.Metadata, err)
			}
			want := map[string]any{"retry_after": 7.0, "modality": "vision", "state": "saturated", "active_requests": 2.0, "total_concurrency": 2.0, "available_concurrency": 0.0}
			for k, v := range want {
				if meta[k] != v {
					e.t.Errorf("metadata.%s is %v, want %v", k, meta[k], v)
				}
			}
			if len(meta) != len(want) || !strings.Contains(got.Message, "2 active of 2") {
				e.t.Errorf("metadata %s, message %q", got.Metadata, got.Message)
			}
			e.ask(w, "").text(w) // text has a pool of its own
			release()
			waitFor(e.t, patience, "the slots are free", func() bool { return e.post(w.path, w.look("")).status == 200 })
		})
	})
	t.Run("never one too many", func(t *testing.T) {
		t.Parallel()
		const slots, clients = 3, 60
		inWays(t, allWays, setup{upstream: "concurrency: " + strconv.Itoa(slots)}, func(e *edge, w way) {
			var group sync.WaitGroup
			var served atomic.Int64
			begin := make(chan struct{})
			for range clients {
				group.Go(func() {
					<-begin
					switch r := e.ask(w, `"tokens":3,"delay_ms":5`); r.status {
					case 200:
						served.Add(1)
					default:
						r.wantRefused(w, capacityFull)
					}
				})
			}
			close(begin)
			group.Wait()
			s := e.engines[0].Stats()
			if s.Peak > slots || s.Requests != served.Load() || served.Load() < slots {
				e.t.Errorf("%d served, %d at the engine, %d at once", served.Load(), s.Requests, s.Peak)
			}
		})
	})
}

// spare adds an upstream "spare" to a setup.
func (s setup) spare(t *testing.T) setup {
	s.upstreams = "- { name: spare, url: \"" + startEngine(t, sim.Options{}).URL() + "\", engine: sim }"
	return s
}

// look is a request about a picture.
func (w way) look(control string) string {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 16, 16)))
	data := base64.StdEncoding.EncodeToString(b.Bytes())
	stream := ""
	if w.stream {
		stream = `,"stream":true`
	}
	text, _ := json.Marshal(prompt + " [[sim {" + control + "}]]")
	switch w.dialect {
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

// TestFault84_TenTimesCapacity: ten times as many clients as slots, and the engine does as much as with the right number of
// them, while the others are turned away at once. Clients, edge and engine share a few processors with whatever else runs on
// the machine: the test is not parallel, one of three rounds must show it, and the slowest refusals have room.
func TestFault84_TenTimesCapacity(t *testing.T) {
	const slots, rounds = 4, 3
	const work = `"tokens":1,"ttft_ms":100`
	for _, w := range []way{chat, messagesStream, responsesStream} {
		t.Run(w.String(), func(t *testing.T) {
			e := start(t, setup{engines: []sim.Options{{Slots: slots}}, upstream: "concurrency: " + strconv.Itoa(slots)})
			for round := 1; ; round++ {
				fair, _ := e.load(w, slots, work, time.Second)
				flood, refusals := e.load(w, 10*slots, work, time.Second)
				if len(refusals) < 2*slots {
					t.Fatalf("%d refusals: that is no overload", len(refusals))
				}
				half, p99 := refusals[len(refusals)/2], refusals[len(refusals)*99/100]
				t.Logf("served %d at the limit, %d at ten times that; %d refusals, half within %v, p99 %v", fair, flood, len(refusals), half, p99)
				if 10*flood >= 9*fair && half <= 50*time.Millisecond && p99 <= time.Second {
					break
				}
				if round == rounds {
					t.Errorf("in none of %d rounds goodput was 90%% and refusals came at once", rounds)
					break
				}
			}
			if n := e.engines[0].Stats().Peak; n > slots {
				t.Errorf("%d at the engine at once", n)
			}
		})
	}
}

// load runs clients for a while and returns how many requests were served, and how long each refusal took, sorted. A client
// that is refused waits a moment: what comes in is many times what the engine can do, not what the machine can send.
func (e *edge) load(w way, clients int, control string, length time.Duration) (served int, refusals []time.Duration) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for end := time.Now().Add(length); clients > 0; clients-- {
		group.Go(func() {
			for time.Now().Before(end) {
				r := e.ask(w, control)
				if r.status != 200 {
					r.wantRefused(w, capacityFull)
				}
				mu.Lock()
				if r.status == 200 {
					served++
				} else {
					refusals = append(refusals, r.took)
				}
				mu.Unlock()
				if r.status != 200 {
					time.Sleep(40 * time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	slices.Sort(refusals)
	return served, refusals
}

// TestFault90_RequestThatKills: a request that ends its engine's process takes two with it, and no third while those are
// down, however often its client asks; other requests are served, and with an engine back the request is sent again.
func TestFault90_RequestThatKills(t *testing.T) {
	t.Parallel()
	inWays(t, allWays, setup{engines: append(two(), two()...), upstream: "probe: { interval: 200ms, fall: 1, rise: 1 }"}, func(e *edge, w way) {
		const lethal = `"fault":"reset-before"`
		killed := map[int]bool{}
		kill := func() { // what has read a request that it did not survive is dead
			for i, engine := range e.engines {
				if engine.Stats().Faults > 0 && !killed[i] {
					killed[i] = true
					e.retire(i)
				}
			}
			waitFor(e.t, patience, "the dead are known", func() bool { return e.metric("penstock_upstream_up") == float64(len(e.engines)-len(killed)) })
		}
		e.ask(w, lethal).wantRefused(w, unreachable)
		e.wantTold(w, unreachable, "upstream_fail", 2)
		kill()
		if len(killed) != 2 {
			e.t.Fatalf("%d engines were asked", len(killed))
		}
		e.wantSent(2)
		for range 3 {
			e.ask(w, lethal).wantRefused(w, engineFailed)
			e.wantTold(w, engineFailed, "upstream_fail", 0)
		}
		e.wantSent(2)
		e.ask(w, "").text(w)
		for i := range killed { // whichever comes first
			if err := e.engines[i].Relisten(); err != nil {
				e.t.Fatal(err)
			}
			break
		}
		waitFor(e.t, patience, "one is back", func() bool { return e.metric("penstock_upstream_up") == 3 })
		e.ask(w, lethal).wantRefused(w, unreachable)
	})
}
