package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// startOrdered starts an edge whose engine orders its queue by the priorities that the edge sends. first
// is the credential of a key in the first of three classes. The default key belongs to the last
// class.
func startOrdered(t *testing.T, profile, model string) (p *penstock, first string) {
	t.Helper()
	key, hash, _ := auth.NewKey()
	return start(t, rig.Setup{
		Engines: []sim.Options{{Profile: profile, Models: []string{"sim"}, Slots: 1, Record: true, Priorities: true}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
classes: [{ name: people }, { name: reports }, { name: nightly }]
keys:
  - { id: tester, hash: "{{hash}}", class: nightly }
  - { id: other, hash: %q }
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: %s, concurrency: 8, priorities: true, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: up-0 }]%s }
`, hash, profile, model),
	}), "Authorization: Bearer " + key
}

// lastPriority returns the priority in the engine's last request, or "".
func (p *penstock) lastPriority() (path, number string) {
	p.T.Helper()
	all := p.Engines[0].Recorded()
	last := all[len(all)-1]
	var body struct{ Priority json.Number }
	if err := json.Unmarshal(last.Body, &body); err != nil {
		p.T.Fatal(err)
	}
	return last.Target, body.Priority.String()
}

// TestEngineGetsPriorities checks that the engine receives the class of a call as a number in every
// dialect. Some engines serve low numbers first, and others high numbers.
func TestEngineGetsPriorities(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"Hi"}]`
	for _, profile := range []struct{ name, first, last string }{{"vllm", "0", "2"}, {"sglang", "0", "-2"}} {
		for _, c := range []struct{ path, engine, body string }{
			{chatPath, chatPath, messages},
			{"/v1/messages", chatPath, `"max_tokens":9,` + messages},
			{"/v1/responses", chatPath, `"input":"Hi"`},
			{"/v1/completions", "/v1/completions", `"prompt":"Hi"`},
		} {
			t.Run(profile.name+c.path, func(t *testing.T) {
				t.Parallel()
				p, first := startOrdered(t, profile.name, "")
				for _, stream := range []string{"", `"stream":true,`} {
					body := `{"model":"sim",` + stream + c.body + `}`
					p.Post(c.path, body).WantStatus(200)
					if path, n := p.lastPriority(); n != profile.last || path != c.engine {
						t.Errorf("%s: priority %q, want %s", path, n, profile.last)
					}
					p.Post(c.path, body, first).WantStatus(200)
					if path, n := p.lastPriority(); n != profile.first || path != c.engine {
						t.Errorf("%s: the first class has priority %q", path, n)
					}
				}
			})
		}
	}
}

// TestClientsPriority checks that a priority from the client is rejected unless the model allows
// the member.
func TestClientsPriority(t *testing.T) {
	t.Parallel()
	p, _ := startOrdered(t, "vllm", "")
	p.Post(chatPath, p.ChatRequest(`"priority":-5`)).WantError(400, "invalid_request_error", "unsupported_parameter")
	p.Post("/v1/responses", `{"model":"sim","input":"Hi","priority":-5}`).WantError(400, "invalid_request_error", "unsupported_parameter")
	p, _ = startOrdered(t, "vllm", ", allow_members: [priority]")
	p.Post(chatPath, p.ChatRequest(`"priority":-5`)).WantStatus(200)
	if _, n := p.lastPriority(); n != "-5" {
		t.Errorf("the engine was told %q, where clients may say it", n)
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if _, n := p.lastPriority(); n != "2" {
		t.Errorf("the engine was told %q of a client that says nothing", n)
	}
}

// TestEngineServesFirstClassFirst checks that a call overtakes a call of a later class in the
// engine's queue.
func TestEngineServesFirstClassFirst(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vllm", "sglang"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p, first := startOrdered(t, profile, "")
			release := p.hold(1, p.ChatRequest(endlessStream))
			served := make(chan string, 2)
			next := make(chan struct{})
			var calls sync.WaitGroup
			send := func(class string, waiting int64, header ...string) {
				calls.Go(func() { // occupies the engine with a stream until the client disconnects
					s := p.OpenStream(chatPath, p.ChatRequest(endlessStream), header...)
					s.Next()
					served <- class
					<-next
					s.Disconnect()
				})
				rig.WaitFor(t, rig.WaitTimeout, class+" waits at the engine", func() bool { return int64(p.Engines[0].Stats().Waiting) == waiting })
			}
			send("nightly", 1)
			send("people", 2, first)
			release()
			one := rig.Receive(t, rig.WaitTimeout, "a call is served", served)
			close(next)
			if other := rig.Receive(t, rig.WaitTimeout, "the other call is served", served); one != "people" || other != "nightly" {
				t.Errorf("served %s, then %s", one, other)
			}
			calls.Wait()
		})
	}
}

// TestEngineWithoutPriorities checks that the edge sends no priorities by default. If it is
// configured to send them, an engine that was started without the flag rejects calls of later
// classes.
func TestEngineWithoutPriorities(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		p := start(t, rig.Setup{
			Engines: []sim.Options{{Profile: "vllm", Models: []string{"sim"}, Record: true}}, Key: "class: batch",
			Upstream: fmt.Sprintf("priorities: %v", told),
		})
		r := p.Post(chatPath, p.ChatRequest(""))
		if told {
			r.WantStatus(400)
			continue
		}
		r.WantStatus(200)
		if _, n := p.lastPriority(); n != "" {
			t.Errorf("the engine was told %q", n)
		}
	}
}
