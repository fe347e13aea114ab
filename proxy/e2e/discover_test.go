package e2e

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// discoverySetup returns a setup with an Ollama and two vLLMs. The edge reads their model lists
// every 200 ms.
func discoverySetup(more string) rig.Setup {
	const probe = "probe: { interval: 200ms, timeout: 15s }"
	return rig.Setup{
		Engines: []sim.Options{
			{Profile: "ollama", Models: []string{"qwen:7b", "llama:latest"}, Record: true},
			{Profile: "vllm", Models: []string{"base"}, Record: true},
			{Profile: "vllm", Models: []string{"base"}, Record: true},
		},
		Forgets: true,
		Config: `timeouts: { linger: 0s }
keys:
  - { id: tester, hash: "{{hash}}", models: ["box/*", "lora/*", mine] }
upstreams:
  - { name: box, url: "{{up-0}}", engine: ollama, ` + probe + ` }
  - { name: gpu-a, url: "{{up-1}}", engine: vllm, concurrency: 8, ` + probe + ` }
  - { name: gpu-b, url: "{{up-2}}", engine: vllm, concurrency: 8, ` + probe + ` }
models:
  - { id: mine, deployments: [{ upstream: gpu-a, served: base }, { upstream: gpu-b, served: base }], context_length: 8192 }
discover:
  - { upstream: box, prefix: "box/", match: "q*" }
  - { upstream: box, prefix: "other/" }
  - { upstream: gpu-a, prefix: "lora/" }
  - { upstream: gpu-b, prefix: "lora/" }
` + more,
	}
}

func (p *penstock) publishedIDs() string {
	var ids []string
	for _, m := range p.Catalog() {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (p *penstock) waitPublished(want string) {
	p.T.Helper()
	rig.WaitFor(p.T, rig.WaitTimeout, "the catalog has "+want, func() bool { return p.publishedIDs() == want })
}

// TestDiscover checks that, while an engine lists a model, keys with a matching pattern can call
// it.
func TestDiscover(t *testing.T) {
	t.Parallel()
	p := start(t, discoverySetup(""))
	if got := p.publishedIDs(); got != "box/qwen:7b mine other/llama:latest" {
		t.Errorf("after the start the catalog has %s", got)
	}
	for _, w := range streamModes {
		if r := p.Post(chatPath, rig.ChatBody("box/qwen:7b", w.more)).WantStatus(200); !strings.Contains(r.Body, `"model":"box/qwen:7b"`) {
			t.Errorf("the answer is %s", r.Body)
		}
	}
	if last := p.Engines[0].Stats().LastRequest; !strings.Contains(string(last.Body), `"qwen:7b"`) {
		t.Errorf("the engine got %s", last.Body)
	}
	p.Post(chatPath, rig.ChatBody("other/llama:latest", "")).WantStatus(403)
	p.Post(chatPath, rig.ChatBody("lora/x", "")).WantStatus(404)
	for _, m := range p.Status().Models {
		if m.Found != (m.ID != "mine") {
			t.Errorf("%s: discovered is %t", m.ID, m.Found)
		}
	}
	p.Engines[0].SetModels("qwen:7b", "qwen:14b", "q\x1b[31m", "llama:latest")
	p.waitPublished("box/qwen:14b box/qwen:7b mine other/llama:latest")
	if n := p.Metric("penstock_discovered_models_left_out", "upstream", "box"); n != 1 {
		t.Errorf("%v are left out", n)
	}
	p.Post(chatPath, rig.ChatBody("box/qwen:14b", "")).WantStatus(200)
	p.Engines[0].SetModels("llama:latest")
	p.waitPublished("mine other/llama:latest")
	p.Post(chatPath, rig.ChatBody("box/qwen:7b", "")).WantStatus(404)
	wantShown(t, p.MetricsText(), func(name string) bool { return strings.HasPrefix(name, "penstock_discovered_") })
	if n := p.Metric("penstock_discovered_models", "upstream", "box"); n != 1 {
		t.Errorf("%v are discovered", n)
	}
	p.Engines[0].SetModels()
	p.waitPublished("mine")
}

// TestDiscoveredStays checks that neither a failing engine nor a reload removes discovered models
// from the catalog, even if the reload changes the engine's address.
func TestDiscoveredStays(t *testing.T) {
	t.Parallel()
	p := start(t, discoverySetup(""))
	all := p.publishedIDs()
	p.Engines[0].SetFault(sim.Fault{Spec: "status=500", Path: "/v1/models"})
	probes := p.Engines[0].Stats().Faults
	rig.WaitFor(t, rig.WaitTimeout, "the list has failed again and again", func() bool { return p.Engines[0].Stats().Faults > probes+5 })
	if got := p.publishedIDs(); got != all {
		t.Errorf("while the list fails the catalog has %s", got)
	}
	p.Engines[0].SetFault()
	p.Engines[0].Unlisten()
	p.Engines[0].DropConns(1, true)
	rig.WaitFor(t, rig.WaitTimeout, "it is down", func() bool { return p.Upstream("box").State == "down" })
	p.Reload(discoverySetup("retry: { attempts: 1 }\n"))
	if got := p.publishedIDs(); got != all {
		t.Errorf("after a reload the catalog has %s", got)
	}
	for _, m := range p.Catalog() {
		if m.IsReady != (m.ID == "mine") {
			t.Errorf("%s: ready is %t", m.ID, m.IsReady)
		}
	}
	p.Post(chatPath, rig.ChatBody("box/qwen:7b", "")).WantStatus(503)
	if err := p.Engines[0].Relisten(); err != nil {
		t.Fatal(err)
	}
	rig.WaitFor(t, rig.WaitTimeout, "it is back", func() bool { return p.Upstream("box").State == "up" })
	moved := discoverySetup("")
	moved.Config = strings.Replace(moved.Config, "{{up-0}}", strings.Replace(p.Engines[0].URL(), "127.0.0.1", "localhost", 1), 1)
	p.Reload(moved)
	if got := p.publishedIDs(); got != all {
		t.Errorf("at another address the catalog has %s", got)
	}
	without := discoverySetup("")
	without.Config, _, _ = strings.Cut(without.Config, "discover:")
	p.Reload(without)
	if got := p.publishedIDs(); got != "mine" {
		t.Errorf("without discover the catalog has %s", got)
	}
}

// TestAdapters checks that an adapter loaded by vLLM at run time is published under its name, with
// the settings of its base model. Calls for the adapter must go to an engine that has loaded it.
func TestAdapters(t *testing.T) {
	t.Parallel()
	p := start(t, discoverySetup(""))
	tell := func(engine int, what, name string) {
		t.Helper()
		r, err := http.Post(p.Engines[engine].URL()+"/v1/"+what, "application/json", strings.NewReader(`{"lora_name":"`+name+`","lora_path":"/`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if body, _ := io.ReadAll(r.Body); r.StatusCode != 200 {
			t.Fatalf("status = %d, want 200: %s", r.StatusCode, body)
		}
	}
	adapter := rig.ChatBody("lora/x", "")
	tell(1, "load_lora_adapter", "x")
	p.waitPublished("box/qwen:7b lora/x mine other/llama:latest")
	for range 6 {
		p.Post(chatPath, adapter).WantStatus(200)
	}
	if a, b := p.Engines[1].Stats().Requests, p.Engines[2].Stats().Requests; a != 6 || b != 0 {
		t.Errorf("%d and %d calls", a, b)
	}
	if r := p.Get("/v1/models/lora/x").WantStatus(200); !strings.Contains(r.Body, `"context_length":8192`) || !strings.Contains(r.Body, `"total_concurrency":8`) {
		t.Errorf("its entry is %s", r.Body)
	}
	ctx, leave := context.WithCancel(t.Context())
	held := p.OpenResponse(ctx, "POST", chatPath, rig.ChatBody("lora/x", `"stream":true,"sim":{"tokens":100000,"delay_ms":50}`))
	probes := p.Engines[1].Stats().Probes
	rig.WaitFor(t, rig.WaitTimeout, "the engine's report has it", func() bool { return p.Engines[1].Stats().Probes > probes+20 })
	leave()
	_ = held.Body.Close()
	tell(2, "load_lora_adapter", "x")
	targets := func() int {
		for _, m := range p.Status().Models {
			if m.ID == "lora/x" {
				return len(m.Targets)
			}
		}
		return 0
	}
	rig.WaitFor(t, rig.WaitTimeout, "both have it", func() bool { return targets() == 2 })
	probes = p.Engines[2].Stats().Probes
	rig.WaitFor(t, rig.WaitTimeout, "the other's report has none", func() bool { return p.Engines[2].Stats().Probes > probes+20 })
	for range 10 {
		p.Post(chatPath, adapter).WantStatus(200)
	}
	if n := p.Engines[2].Stats().Requests; n != 0 {
		t.Errorf("%d of 10 calls went where the adapter is not at hand", n)
	}
	tell(1, "unload_lora_adapter", "x")
	tell(2, "unload_lora_adapter", "x")
	p.waitPublished("box/qwen:7b mine other/llama:latest")
}
