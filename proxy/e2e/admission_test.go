package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/config/testkit/raced"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 85 and 88 of the fault matrix. They also check the invariants of
// admission: limits are exact, all outputs report the same numbers, and no call leaks slots or
// tokens, regardless of how it ends.

// catalogModel is the part of a catalog entry that tests read.
type catalogModel struct {
	ID       string
	IsReady  bool `json:"is_ready"`
	Capacity struct {
		Available   int     `json:"available_concurrency"`
		Total       int     `json:"total_concurrency"`
		Active      int     `json:"active_requests"`
		Utilization float64 `json:"utilization_percent"`
		Modalities  map[string]struct {
			Available int `json:"available_concurrency"`
			Total     int `json:"total_concurrency"`
			Active    int `json:"active_requests"`
		}
	}
}

// catalog returns the catalog entry of a model. The list is rendered once a second, so catalog
// repeats the request until the entry is up to date.
func (p *penstock) catalog(id string) catalogModel {
	p.T.Helper()
	var list struct{ Data []catalogModel }
	if err := json.Unmarshal([]byte(p.Get("/v1/models").WantStatus(200).Body), &list); err != nil {
		p.T.Fatal(err)
	}
	i := slices.IndexFunc(list.Data, func(m catalogModel) bool { return m.ID == id })
	if i < 0 {
		p.T.Fatalf("the catalog does not list %q", id)
	}
	return list.Data[i]
}

func (p *penstock) hold(n int, body string) (release func()) {
	p.T.Helper()
	var streams []*rig.Stream
	for range n {
		s := p.OpenStream(chatPath, body)
		s.Next()
		streams = append(streams, s)
	}
	return func() {
		for _, s := range streams {
			s.Disconnect()
		}
	}
}

const endlessStream = `"stream":true,"sim":{"tokens":100000,"delay_ms":200}`

// TestOneLedger sends calls from 1,000 clients to a model with 4 slots. The engine must never
// process a fifth request at the same time, and refusals, catalog and metrics must report the same
// numbers. The test is not parallel, because it needs the whole machine.
func TestOneLedger(t *testing.T) {
	const clients, slots = 1000, 4
	calls := 10
	if raced.Enabled {
		calls = 2
	}
	p := start(t, rig.Setup{Engines: []sim.Options{{Slots: 64}}, Upstream: "concurrency: { text: 2, vision: " + strconv.Itoa(slots) + " }", Model: "input_modalities: [text, image]"})
	body := rig.VisionBody(rig.PictureDataURL("png"), `"sim":{"tokens":3,"delay_ms":2}`)
	var wg sync.WaitGroup
	var ok, full atomic.Int64
	begin := make(chan struct{})
	for range clients {
		wg.Go(func() {
			<-begin
			for range calls {
				r := p.Post(chatPath, body)
				switch r.Status {
				case 200:
					ok.Add(1)
				case 429:
					full.Add(1)
					var e struct {
						Error struct {
							Metadata struct {
								Active    int `json:"active_requests"`
								Total     int `json:"total_concurrency"`
								Available int `json:"available_concurrency"`
							}
						}
					}
					// The numbers in the metadata are read shortly after the refusal, so a slot may
					// already be free again.
					if err := json.Unmarshal([]byte(r.Body), &e); err != nil || e.Error.Metadata.Total != slots || e.Error.Metadata.Active > slots ||
						e.Error.Metadata.Active+e.Error.Metadata.Available != slots {
						t.Errorf("metadata = %s, want %d slots in all, active or available", r.Body, slots)
					}
				default:
					t.Errorf("status %d: %s", r.Status, r.Body)
				}
			}
		})
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if n := p.Metric("penstock_upstream_inflight", `pool="vision"`); n > slots {
				t.Errorf("the metrics say %v of %d", n, slots)
			}
			if c := p.catalog("sim").Capacity.Modalities["vision"]; c.Active > slots || c.Active+c.Available != slots {
				t.Errorf("the catalog says %+v", c)
			}
		}
	})
	close(begin)
	wg.Wait()
	close(done)
	watch.Wait()
	s := p.Engines[0].Stats()
	if s.Peak > slots {
		t.Errorf("%d requests at the engine at once, the limit is %d", s.Peak, slots)
	}
	if s.Requests != ok.Load() || ok.Load()+full.Load() != clients*int64(calls) || ok.Load() < slots {
		t.Errorf("%d served, %d refused, %d at the engine", ok.Load(), full.Load(), s.Requests)
	}
	// Once the edge is idle again, all numbers agree.
	release := p.hold(3, rig.VisionBody(rig.PictureDataURL("png"), endlessStream))
	rig.WaitFor(t, rig.WaitTimeout, "the catalog shows it", func() bool { return p.catalog("sim").Capacity.Active == 3 })
	if n := p.Metric("penstock_upstream_inflight"); n != 3 || p.Engines[0].Stats().Running != 3 {
		t.Errorf("metrics %v, engine %d, want 3", n, p.Engines[0].Stats().Running)
	}
	release()
}

func TestFault85_OneKeyFloods(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	keys := `- { id: other, hash: "` + hash + `" }`
	t.Run("limit of the key", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Key: "limits: { concurrency: 3 }", Keys: keys, Upstream: "concurrency: 8"})
		release := p.hold(3, p.ChatRequest(endlessStream))
		p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "rate_limited")
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+other).WantStatus(200)
		release()
		rig.WaitFor(t, rig.WaitTimeout, "the places of the key are free again", func() bool { return p.Post(chatPath, p.ChatRequest("")).Status == 200 })
	})
	t.Run("requests per minute", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 5 }", Keys: keys})
		for range 5 {
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		}
		e := p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "rate_limited")
		if !strings.Contains(e.Message, "requests per minute") {
			t.Errorf("message = %q, want requests per minute", e.Message)
		}
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+other).WantStatus(200)
	})
	t.Run("fair queue", func(t *testing.T) {
		t.Parallel()
		// There is one slot, and one key has filled the queue. Another key's call must be served
		// second.
		p := start(t, rig.Setup{Engines: recordingEngine(), Keys: keys, Upstream: "concurrency: 1", Model: "queue: { depth: 20, wait: 5m }"})
		release := p.hold(1, p.ChatRequest(endlessStream))
		var wg sync.WaitGroup
		queued := 1.0
		ask := func(who, key string) {
			wg.Go(func() {
				p.Post(chatPath, p.ChatRequest(`"user":"`+who+`","sim":{"ttft_ms":20}`), "Authorization: Bearer "+key).WantStatus(200)
			})
			queued++
			rig.WaitFor(t, rig.WaitTimeout, "queued", func() bool { return p.Metric("penstock_calls_inflight") == queued })
		}
		for range 12 {
			ask("flood", p.Key)
		}
		ask("other", other)
		ask("other", other)
		release()
		wg.Wait()
		// Compare the order in which the engine received the calls, because replies may be read in
		// any order.
		var order []string
		for _, r := range p.Engines[0].Recorded() {
			for _, who := range []string{"flood", "other"} {
				if strings.Contains(string(r.Body), `"user":"`+who+`"`) {
					order = append(order, who)
				}
			}
		}
		if i := slices.Index(order, "other"); i > 1 || len(order) != 14 {
			t.Errorf("the order was %v", order)
		}
	})
}

// TestQueue checks that the waiting time and the depth of the queue are limited, and that a waiting
// call gets a slot once one is free.
func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("served", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Upstream: "concurrency: 1", Model: "queue: { depth: 2, wait: 30s }"})
		release := p.hold(1, p.ChatRequest(endlessStream))
		got := make(chan *rig.Reply, 2)
		for range 2 {
			go func() { got <- p.Post(chatPath, p.ChatRequest("")) }()
		}
		rig.WaitFor(t, rig.WaitTimeout, "two wait", func() bool { return p.Metric("penstock_calls_inflight") == 3 })
		p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full")
		release()
		for range 2 {
			rig.Receive(t, rig.WaitTimeout, "the answer to a call that waited", got).WantStatus(200)
		}
		waited := 0
		for _, l := range p.AccessLinesWhenIdle() {
			if l.Status == 200 && l.QueueMS > 0 {
				waited++
			}
		}
		if waited != 2 {
			t.Errorf("%d calls say that they waited, want 2", waited)
		}
	})
	t.Run("after a failure", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: "concurrency: 1", Model: "queue: { depth: 2, wait: 30s }"})
		p.Engines[1].SetFault(sim.Fault{Spec: "status=502"})
		// The call uses the first engine, regardless of which engine was used last.
		release := p.hold(1, p.ChatRequest(endlessStream))
		got := make(chan *rig.Reply, 1)
		go func() { got <- p.Post(chatPath, p.ChatRequest("")) }()
		rig.WaitFor(t, rig.WaitTimeout, "it has failed and waits", func() bool {
			return p.Metric("penstock_calls_inflight") == 2 && p.Metric("penstock_upstream_inflight") == 1 && p.Engines[1].Stats().Requests > 0
		})
		release()
		rig.Receive(t, rig.WaitTimeout, "the answer to the call that waited", got).WantStatus(200)
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Upstream: "concurrency: 1", Model: "queue: { depth: 2, wait: 300ms }"})
		release := p.hold(1, p.ChatRequest(endlessStream))
		r := p.Post(chatPath, p.ChatRequest(""))
		r.WantError(429, "rate_limit_error", "capacity_full")
		if r.WantWithin(time.Second); r.Took < 300*time.Millisecond {
			t.Errorf("waited %v", r.Took)
		}
		release()
	})
}

// TestQueueNoticesRoom checks that a waiting call is served as soon as a slot becomes available,
// even if no other call has released one.
func TestQueueNoticesRoom(t *testing.T) {
	t.Parallel()
	s := rig.Setup{Engines: rig.TwoEngines(), Upstream: "concurrency: 1, probe: { interval: 500ms }", Model: "queue: { depth: 8, wait: 60s }", Retry: "budget: 100%"}
	// waiting starts an edge and a call. The call waits, because the first engine is full and
	// trouble has made the second engine fail.
	waiting := func(t *testing.T, trouble func(p *penstock)) (p *penstock, got chan *rig.Reply) {
		p = start(t, s)
		trouble(p)
		t.Cleanup(p.hold(1, p.ChatRequest(endlessStream)))
		got = make(chan *rig.Reply, 1)
		held := p.Metric("penstock_calls_inflight")
		go func() { got <- p.Post(chatPath, p.ChatRequest("")) }()
		rig.WaitFor(t, rig.WaitTimeout, "a call waits", func() bool { return p.Metric("penstock_calls_inflight") == held+1 })
		return p, got
	}
	served := func(t *testing.T, got chan *rig.Reply) {
		t.Helper()
		rig.Receive(t, 2*rig.WaitTimeout, "the call is answered", got).WantStatus(200)
	}
	t.Run("an engine comes up", func(t *testing.T) {
		t.Parallel()
		p, got := waiting(t, func(p *penstock) {
			p.Engines[1].SetHealthy(false)
			p.Engines[1].Unlisten()
			p.Engines[1].DropConns(1, true)
			rig.WaitFor(t, rig.WaitTimeout, "one engine is down", func() bool { return p.Metric("penstock_upstream_up") == 1 })
		})
		p.Engines[1].SetHealthy(true)
		if err := p.Engines[1].Relisten(); err != nil {
			t.Fatal(err)
		}
		served(t, got)
	})
	t.Run("a model is back", func(t *testing.T) {
		t.Parallel()
		p, got := waiting(t, func(p *penstock) {
			p.Engines[1].SetModels("another")
			rig.WaitFor(t, rig.WaitTimeout, "one engine has lost the model", func() bool { s, _ := p.state(); return s.targetReason("up-1") != "" })
		})
		p.Engines[1].SetModels("sim")
		served(t, got)
	})
	t.Run("a breaker lets a trial through", func(t *testing.T) {
		t.Parallel()
		p := start(t, s)
		p.Engines[1].SetFault(sim.Fault{Spec: "status=502"}) // the generation probe also fails
		t.Cleanup(p.hold(1, p.ChatRequest(endlessStream)))
		// each call fails at this engine, immediately or as a trial, and then waits for the other
		// engine
		for range 5 {
			go p.Post(chatPath, p.ChatRequest(""))
		}
		rig.WaitFor(t, rig.WaitTimeout, "the breaker opens", func() bool { s, _ := p.state(); return s.Upstreams[1].Breaker != "closed" })
		p.Engines[1].SetFault()
		got := make(chan *rig.Reply, 1)
		// On a slow machine, the breaker may already be half-open.
		go func() { got <- p.Post(chatPath, p.ChatRequest("")) }()
		served(t, got)
	})
	t.Run("more slots", func(t *testing.T) {
		t.Parallel()
		p, got := waiting(t, func(p *penstock) {
			p.Engines[1].SetModels("another")
			rig.WaitFor(t, rig.WaitTimeout, "one engine has lost the model", func() bool { s, _ := p.state(); return s.targetReason("up-1") != "" })
		})
		more := s
		more.Upstream = "concurrency: 2, probe: { interval: 500ms }"
		p.Reload(more)
		served(t, got)
	})
	t.Run("other engines since the head came", func(t *testing.T) {
		t.Parallel()
		one := s
		one.Engines, one.Forgets = nil, true
		p := start(t, one)
		conn, request := p.Dial(), p.RequestBytes(chatPath, p.ChatRequest(""))
		conn.Send(request[:len(request)-2])
		rig.WaitFor(t, rig.WaitTimeout, "the head is taken", func() bool { return p.Metric("penstock_calls_inflight") == 1 })
		p.Engines = []*sim.Engine{rig.StartEngine(t, sim.Options{})}
		p.Reload(one)
		release := p.hold(1, p.ChatRequest(endlessStream))
		conn.Send(request[len(request)-2:])
		rig.WaitFor(t, rig.WaitTimeout, "the call waits for the engine that there is now", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
		release()
		conn.ReadReply("POST").WantStatus(200)
	})
	t.Run("another engine", func(t *testing.T) {
		t.Parallel()
		p, got := waiting(t, func(p *penstock) { t.Cleanup(p.hold(1, p.ChatRequest(endlessStream))) })
		other := rig.StartEngine(t, sim.Options{})
		p.Engines = append(p.Engines, other)
		p.Reload(s)
		served(t, got)
	})
}

// TestTokensSettleOnDisconnect checks that the tokens reserved for a call are released from the
// key's limit when the client disconnects.
func TestTokensSettleOnDisconnect(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { tokens_per_minute: 4000, concurrency: 2 }"})
	// Each call reserves about 2,000 tokens. If they were not released, the third call would be
	// refused.
	for range 6 {
		s := p.OpenStream(chatPath, p.ChatRequest(`"stream":true,"max_tokens":1900,"sim":{"tokens":1900,"delay_ms":500}`))
		s.Next()
		s.Disconnect()
		rig.WaitFor(t, rig.WaitTimeout, "the call is over", func() bool { return p.Metric("penstock_calls_inflight") == 0 })
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

// TestTokensOfAnAbandonedAnswer checks a client that disconnects before it receives an unstreamed
// answer. The client must be charged for the expected work, because the engine has already worked.
func TestTokensOfAnAbandonedAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { tokens_per_minute: 1000 }"})
	abandoned := func(more string) { // only a call that has reached the engine is charged
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if res, err := p.TryOpenResponse(ctx, "POST", chatPath, p.ChatRequest(more)); err == nil {
				res.Body.Close()
			}
		}()
		rig.WaitFor(t, rig.WaitTimeout, "the engine works", func() bool { return p.Engines[0].Stats().Running == 1 })
		cancel()
		<-gone
		rig.WaitFor(t, rig.WaitTimeout, "the call is over", func() bool {
			return p.Metric("penstock_calls_inflight") == 0 && p.Engines[0].Stats().Running == 0
		})
	}
	for _, stream := range []string{"", `"stream":true,`} { // streams are also abandoned before the first token
		abandoned(stream + `"max_tokens":300,"sim":{"ttft_ms":60000}`)
		l := p.LastAccessLine()
		if l.Outcome != "client_gone" || l.PromptTokens == 0 || !l.TokensEstimated || l.CompletionTokens != map[string]int{"": 300}[stream] {
			t.Errorf("stream %q: the log says %+v", stream, l)
		}
	}
	for range 2 {
		abandoned(`"max_tokens":300,"sim":{"ttft_ms":60000}`)
	}
	p.Post(chatPath, p.ChatRequest(`"max_tokens":300`)).WantStatus(429)
}

// TestFault88_AbortsInEveryPhase disconnects clients at random times in every phase. At the end of
// the test, the rig checks that the edge is idle and that every call has one access line.
func TestFault88_AbortsInEveryPhase(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines:  []sim.Options{{Slots: 6}, {Slots: 6}},
		Upstream: "concurrency: 8", Model: "queue: { depth: 16, wait: 2s }", Key: "limits: { concurrency: 64 }",
	})
	bodies := []string{
		p.ChatRequest(`"sim":{"ttft_ms":30,"tokens":5,"delay_ms":5}`), p.ChatRequest(`"stream":true,"sim":{"ttft_ms":30,"tokens":5,"delay_ms":5}`),
		p.ChatRequest(`"stream":true,"sim":{"tokens":50,"delay_ms":1}`), p.ChatRequest(`"sim":{"fault":"stall-after"}`), p.ChatRequest(`"stream":true,"sim":{"fault":"stall-after=1"}`),
		p.ChatRequest(`"sim":{"fault":"blackhole"}`),
	}
	const workers = 32
	calls := 40
	if raced.Enabled {
		calls = 10
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range calls {
				body := bodies[(w+i)%len(bodies)]
				after := time.Duration((w*7+i*13)%60) * time.Millisecond
				if (w+i)%2 == 0 {
					ctx, cancel := context.WithTimeout(context.Background(), after+time.Millisecond)
					if res, err := p.TryOpenResponse(ctx, "POST", chatPath, body); err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					cancel()
					continue
				}
				c := p.Dial()
				_ = c.Send(p.RequestBytes(chatPath, body))
				_ = c.SetReadDeadline(time.Now().Add(after))
				_, _ = io.Copy(io.Discard, c.In)
				if i%3 == 0 {
					c.Reset()
				} else {
					c.Close()
				}
			}
		})
	}
	wg.Wait()
	p.WaitIdle()
	p.Client.CloseIdleConnections()
	rig.WaitFor(t, rig.WaitTimeout, "all client connections are gone", func() bool { return p.Metric("penstock_client_connections") == 0 })
	for i, e := range p.Engines {
		rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("engine %d has few connections", i), func() bool { return e.Stats().Conns <= 24 })
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if n := p.Metric("penstock_upstream_breaker_open"); n != 0 {
		t.Error("the clients' leaving opened a breaker")
	}
	lines, counted := len(p.AccessLinesWhenIdle()), p.Metric("penstock_calls_total")
	if float64(lines) != counted {
		t.Errorf("%d lines, %v calls counted", lines, counted)
	}
}

// TestManyStreams checks that 2,000 simultaneous streams all complete. It is not parallel.
func TestManyStreams(t *testing.T) {
	fastset.SkipIfShort(t, "2,000 streams at once")
	const streams = 2000
	engines := make([]sim.Options, 4)
	for i := range engines {
		engines[i].Slots = streams
	}
	p := start(t, rig.Setup{Engines: engines, Upstream: "concurrency: " + strconv.Itoa(streams) + ", " + rig.QuietProbes, Limits: "connections: 5000", Timeouts: "connect: 1m"})
	for _, e := range p.Engines {
		e.SetSlots(0) // no call is answered until all have been received
	}
	client := rig.NewClient(t)
	client.Transport.(*http.Transport).MaxConnsPerHost = 0
	body := p.ChatRequest(`"stream":true,"sim":{"tokens":12,"delay_ms":20}`)
	want := ""
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			r := p.Post(chatPath, body)
			if r.Status != 200 {
				t.Errorf("status = %d, want 200: %s", r.Status, r.Body)
				return
			}
			text, done := rig.StreamText(t, rig.ChatStream, r.Events())
			mu.Lock()
			defer mu.Unlock()
			if want == "" {
				want = text
			}
			if text != want || !done || r.Err != nil {
				t.Errorf("text %q, done %v, %v", text, done, r.Err)
			}
		})
	}
	rig.WaitFor(t, 6*rig.WaitTimeout, "all streams are at the engines", func() bool {
		time.Sleep(50 * time.Millisecond)
		return p.Metric("penstock_upstream_inflight") == streams
	})
	for _, e := range p.Engines {
		e.SetSlots(streams)
	}
	wg.Wait()
	// A call's line is written after the client has received the last byte.
	rig.WaitFor(t, rig.WaitTimeout, "every call has its access line", func() bool {
		time.Sleep(50 * time.Millisecond)
		return len(p.AccessLines()) == streams
	})
}

// TestFramingIsNotObservable checks that the client receives the same bytes, regardless of how the
// engine's bytes are split.
func TestFramingIsNotObservable(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]string{
		"text":           `"text":"Größe: 漢字 👩🏽‍🚀 and more"`,
		"reasoning":      `"reasoning":5,"tokens":5`,
		"empty":          `"tokens":0`,
		"error":          `"tokens":9,"fault":"error-in-stream=3"`,
		"error, no done": `"tokens":9,"fault":"error-in-stream=3;done=0"`,
		"no finish":      `"tokens":9,"fault":"no-finish"`,
		"no done":        `"tokens":9,"fault":"no-done"`,
		"usage":          `"tokens":4,"fault":"usage-every-chunk"`,
		"broken event":   `"tokens":9,"fault":"invalid-json=2"`,
		"wrong done":     `"tokens":9,"fault":"no-finish;done=1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{}) // a separate edge: five consecutive failures open a breaker
			shapes := map[string][]string{}
			for _, cut := range []string{"", "split", "byte-by-byte", "split;gap=0s", "close-delimited"} {
				c := control
				switch {
				case cut == "":
				case strings.Contains(c, `"fault":"`):
					c = strings.Replace(c, `"fault":"`, `"fault":"`+cut+`+`, 1)
				default:
					c += `,"fault":"` + cut + `"`
				}
				r := p.Post(chatPath, p.ChatRequest(`"stream":true,"stream_options":{"include_usage":true},"sim":{`+c+`}`))
				shape := fmt.Sprintf("%d %v\n%s", r.Status, r.Err, stripVariable(r.Body))
				shapes[shape] = append(shapes[shape], cut)
			}
			if len(shapes) != 1 {
				for shape, cuts := range shapes {
					t.Errorf("%q:\n%s", cuts, shape)
				}
			}
		})
	}
}

func stripVariable(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			b.WriteString(line)
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte("{"+data), &m); err != nil {
			b.WriteString(line)
			continue
		}
		delete(m, "id")
		delete(m, "created")
		out, _ := json.Marshal(m)
		b.Write(out)
		b.WriteByte('\n')
	}
	return b.String()
}
