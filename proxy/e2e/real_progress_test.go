//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check stalls, and silence that must not count as a stall. They use real engines and
// default settings.

// processesOf returns the processes in an engine's process group whose command line contains a
// word.
func (e *realEngine) processesOf(word string) (with []int) {
	e.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		e.t.Fatal(err)
	}
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if group, gone := syscall.Getpgid(pid); err == nil && gone == nil && group == e.cmd.Process.Pid && strings.Contains(string(line), word) {
			with = append(with, pid)
		}
	}
	return with
}

// TestRealRouterChildStops suspends the child of llama.cpp's router that runs the model, while the
// router still responds to health checks. The engine must be taken out of service in time, no call
// may fail, and the engine must return to service soon after the child continues.
func TestRealRouterChildStops(t *testing.T) {
	router, ok := tryRealEngine(t, realPort(t), "llama", "markov", "-m", "", "--models-dir", "/models", "--models-max", "1")
	if !ok {
		t.Fatalf("the router did not start:\n%s", router.out)
	}
	other := startLlama(t, realPort(t), "markov")
	p := startReal(t, 2, fmt.Sprintf(`log: { debug_headers: true }
upstreams: [{ name: router, url: %q }, { name: other, url: %q }]
models: [{ id: talk, queue: { depth: 64, wait: 30s }, deployments: [{ upstream: router, served: markov }, { upstream: other, served: markov }] }]`, router.url, other.url))
	load := p.startLoad(8)
	for _, up := range []string{"router", "other"} {
		load.waitServed(60*time.Second, up, time.Now())
	}
	time.Sleep(3 * time.Second)                   // lets the edge learn how the engine makes progress
	children := router.processesOf("--model\x00") // the router does not have this flag
	if len(children) != 1 {
		t.Fatalf("the router has the children %v", children)
	}
	t.Cleanup(func() { _ = syscall.Kill(children[0], syscall.SIGCONT) })
	_ = syscall.Kill(children[0], syscall.SIGSTOP)
	stopped := time.Now()
	out := rig.WaitFor(t, 30*time.Second, "the router is out", func() bool { return p.Metric("penstock_upstream_stalled", `upstream="router"`) == 1 })
	if res, err := p.Client.Get(router.url + "/health"); err != nil || res.StatusCode != 200 {
		t.Errorf("the router's health: %v", err)
	} else {
		res.Body.Close()
	}
	time.Sleep(5 * time.Second)
	_ = syscall.Kill(children[0], syscall.SIGCONT)
	mended := time.Now()
	back := rig.WaitFor(t, 30*time.Second, "the router is back", func() bool { return p.Metric("penstock_upstream_stalled", `upstream="router"`) == 0 })
	load.waitServed(realPatience, "router", mended)
	all := load.stop()
	for _, s := range all {
		if s.failure != "" {
			t.Errorf("failed: %+v", s)
		}
	}
	t.Logf("out after %v, back after %v; %d calls in %v, %v moved", out.Round(100*time.Millisecond), back.Round(100*time.Millisecond), len(all),
		time.Since(stopped).Round(time.Second), p.Metric("penstock_calls_moved_total", `reason="stalled"`))
	if out > 20*time.Second { // usually 15 s, but more on a busy machine
		t.Errorf("out after %v", out)
	}
}

// TestRealLongPrefill makes an engine read a prompt as long as its context, which takes a minute or
// more without output. Another engine, which is simulated, holds back a tool call for 100 s. Both
// must stay in service, even though other engines could answer the calls.
func TestRealLongPrefill(t *testing.T) {
	slow, ok := tryRealEngine(t, realPort(t), "llama", "markov-slow", "-np", "1", "-c", "8192")
	if !ok {
		t.Fatalf("llama.cpp did not start:\n%s", slow.out)
	}
	other := startLlama(t, realPort(t), "markov")
	var tools [2]*sim.Engine
	for i := range tools {
		tools[i] = rig.StartEngine(t, sim.Options{})
	}
	p := startReal(t, 4, fmt.Sprintf(`upstreams: [{ name: slow, url: %q }, { name: other, url: %q }, { name: tools-0, engine: sim, url: %q }, { name: tools-1, engine: sim, url: %q }]
models:
  - { id: talk, deployments: [{ upstream: slow, served: markov-slow }, { upstream: other, served: markov }] }
  - { id: tools, policy: round_robin, deployments: [{ upstream: tools-0, served: sim }, { upstream: tools-1, served: sim }] }`, slow.url, other.url, tools[0].URL(), tools[1].URL()))
	prompt := strings.Repeat("The river turns twice before it meets the sea and ", 700)
	begun, done := time.Now(), make(chan struct{})
	var took time.Duration
	var usage realChunk
	var calls sync.WaitGroup
	calls.Go(func() {
		body := fmt.Sprintf(`{"model":"talk","stream":true,"stream_options":{"include_usage":true},"max_tokens":16,"messages":[{"role":"user","content":%q}]}`, prompt)
		r := p.Post(chatPath, body).WantStatus(200)
		took = time.Since(begun)
		for _, ev := range r.Events() {
			if rig.IsErrorEvent(ev) {
				t.Errorf("the long prompt: %s", ev.Data)
			}
			if strings.Contains(ev.Data, `"usage":{`) {
				if err := json.Unmarshal([]byte(ev.Data), &usage); err != nil {
					t.Errorf("%v: %s", err, ev.Data)
				}
			}
		}
	})
	for range 2 {
		calls.Go(func() {
			r := p.Post(chatPath, rig.ChatBody("tools", `"stream":true,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],"sim":{"fault":"buffered-call=100s"}`))
			if r.Status != 200 || strings.Contains(r.Body, `"error"`) {
				t.Errorf("the tool call: %d %s", r.Status, r.Body)
			}
		})
	}
	go func() { calls.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(500 * time.Millisecond):
		}
		if up, stalled, open := p.Metric("penstock_upstream_up"), p.Metric("penstock_upstream_stalled"), p.Metric("penstock_upstream_breaker_open"); up != 4 || stalled != 0 || open != 0 {
			t.Fatalf("a false alarm after %v: %v up, %v stalled, %v breakers open", time.Since(begun), up, stalled, open)
		}
	}
	if n := p.Metric("penstock_calls_moved_total"); n != 0 {
		t.Errorf("%v calls were moved", n)
	}
	if usage.Usage == nil || usage.Usage.PromptTokens < 6000 {
		t.Fatalf("usage %+v", usage.Usage)
	}
	t.Logf("%d tokens were read in %v", usage.Usage.PromptTokens, took.Round(time.Second))
}
