package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
	"penstock/config/testkit/kubeapi"
	"penstock/proxy/e2e/rig"
)

// discoveryMetrics is the prefix of the metrics that exist only if the edge discovers engines
// through DNS or Kubernetes.
const discoveryMetrics = "penstock_discovery_"

// cluster is an edge whose engines are the pods of a simulated API server. Each pod listens on a
// different port.
type cluster struct {
	*penstock
	t       *testing.T
	api     *kubeapi.Server
	engines []*sim.Engine
	ports   []string
}

// startCluster starts n engines, and an edge that discovers the engines that have pods.
func startCluster(t *testing.T, n int, by string) *cluster {
	t.Helper()
	c := &cluster{t: t, api: kubeapi.Start(t)}
	for range n {
		e := rig.StartEngine(t, sim.Options{})
		_, port, _ := net.SplitHostPort(e.Addr())
		c.engines, c.ports = append(c.engines, e), append(c.ports, port)
	}
	c.api.PutObject(kubeapi.PodsPath, c.pod(0))
	c.api.PutObject(kubeapi.PodsPath, c.pod(1))
	if by == "" {
		by = "selector: app=vllm, ports: [" + strings.Join(c.ports, ", ") + "]"
	}
	c.penstock = start(t, rig.Setup{Cold: true, Forgets: true, Config: fmt.Sprintf(`
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: vllm, url: "http://vllm.test", engine: sim, probe: { interval: 200ms }, kubernetes: { %s, server: "%s", account: "%s" } }
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: vllm }] }]
`, by, c.api.URL, c.api.Account)})
	c.waitUp(2)
	return c
}

func (c *cluster) pod(i int, marks ...string) kubeapi.Object {
	marks = append(marks, "llm-d.ai/active-ports="+c.ports[i])
	return kubeapi.NewPod(fmt.Sprintf("vllm-%d", i), fmt.Sprintf("uid-%d", i), "127.0.0.1", marks...)
}

func (c *cluster) waitUp(n float64) {
	c.t.Helper()
	rig.WaitFor(c.t, rig.WaitTimeout, fmt.Sprintf("%v pods are up", n), func() bool {
		return c.Metric("penstock_upstream_up", "vllm@") == n
	})
}

// TestPodsComeAndGo adds, replaces and deletes pods under load, with and without a watch event, and
// stops the API server. No call may fail, and an engine whose pod is being deleted must receive no
// calls.
func TestPodsComeAndGo(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "")
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var calls, failed atomic.Int64
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				res, err := c.TryOpenResponse(context.WithoutCancel(ctx), "POST", chatPath, c.ChatRequest(`"sim":{"tokens":3,"delay_ms":2}`))
				if calls.Add(1); err != nil || res.StatusCode != 200 {
					failed.Add(1)
				}
				if err == nil {
					res.Body.Close()
				}
			}
		})
	}
	t.Cleanup(func() { stop(); load.Wait() })
	served := func(i int) int64 { return c.engines[i].Stats().Requests }
	works := func(i int) {
		t.Helper()
		so := served(i)
		rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("pod %d gets calls", i), func() bool { return served(i) > so })
	}
	// gone waits until the edge has learned that a pod is gone, and checks that the pod's engine
	// receives no more calls. After that, the test can kill the engine.
	gone := func(i int) {
		t.Helper()
		label := fmt.Sprintf("vllm@vllm-%d:%s", i, c.ports[i])
		rig.WaitFor(t, rig.WaitTimeout, "the edge knows that "+label+" is gone", func() bool {
			s, _ := c.state()
			for _, u := range s.Upstreams {
				if u.Label == label && (u.State != "retiring" || u.Pools[0].Active > 0) {
					return false
				}
			}
			return true
		})
		so, all := served(i), calls.Load()
		rig.WaitFor(t, rig.WaitTimeout, "100 calls more", func() bool { return calls.Load() >= all+100 })
		if n := served(i) - so; n != 0 {
			t.Errorf("a pod that is being deleted got %d calls", n)
		}
	}
	works(0)
	c.api.PutObject(kubeapi.PodsPath, c.pod(2))
	c.waitUp(3)
	works(2)
	c.api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(c.pod(0)))
	gone(0)
	c.engines[0].Unlisten()
	c.engines[0].DropConns(1, true)
	c.api.DeleteObject(kubeapi.PodsPath, "vllm-0")

	c.api.SetUnavailable(true)
	rig.WaitFor(t, rig.WaitTimeout, "the edge knows that the API server is away", func() bool {
		s, _ := c.state()
		return len(s.Discoveries) == 1 && s.Discoveries[0].Trouble != "" && s.Discoveries[0].Targets == 2
	})
	works(1)
	works(2)
	c.api.DeleteObject(kubeapi.PodsPath, "vllm-1") // deletes the pod without a watch event
	if err := c.engines[0].Relisten(); err != nil {
		t.Fatal(err)
	}
	again := c.pod(0)
	again["metadata"].(kubeapi.Object)["uid"] = "uid-0-again"
	c.api.PutObject(kubeapi.PodsPath, again)
	c.api.SetUnavailable(false)
	gone(1)
	works(0)
	stop()
	load.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed", n, calls.Load())
	}
	if stale := c.Metric("penstock_discovery_stale_seconds", "pods llm/app=vllm"); stale != 0 {
		t.Errorf("the pods are stale for %v s", stale)
	}
}

// TestNoPods checks that calls find no route if there are no pods, and find a route again once a
// pod appears.
func TestNoPods(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, "")
	c.api.DeleteObject(kubeapi.PodsPath, "vllm-0")
	c.api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(c.pod(1)))
	rig.WaitFor(t, rig.WaitTimeout, "no route", func() bool { return c.Post(chatPath, c.ChatRequest("")).Status == 503 })
	if n := c.engines[1].Stats().Requests; c.Post(chatPath, c.ChatRequest("")).Status != 503 || c.engines[1].Stats().Requests != n {
		t.Error("a pod that is being deleted is called")
	}
	c.api.PutObject(kubeapi.PodsPath, c.pod(0))
	c.waitUp(1)
	rig.WaitFor(t, rig.WaitTimeout, "a route", func() bool { return c.Post(chatPath, c.ChatRequest("")).Status == 200 })
}

// TestInferencePool checks that the edge uses the pool's pods and ports, except pods that only
// prefill.
func TestInferencePool(t *testing.T) {
	t.Parallel()
	api := func(c *cluster) *rig.Reply { return c.Post(chatPath, c.ChatRequest("")) }
	c := &cluster{t: t, api: kubeapi.Start(t)}
	e := rig.StartEngine(t, sim.Options{})
	_, port, _ := net.SplitHostPort(e.Addr())
	c.ports = []string{port}
	number := 0
	fmt.Sscan(port, &number)
	c.api.PutObject(kubeapi.PoolsPath, kubeapi.NewPool("llama", "app", "vllm", number))
	c.api.PutObject(kubeapi.PodsPath, c.pod(0, "llm-d.ai/engine-type=sim", "penstock/concurrency=3"))
	c.api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("prefill-0", "uid-p", "127.0.0.1", "llm-d.ai/role=prefill"))
	c.penstock = start(t, rig.Setup{Cold: true, Config: fmt.Sprintf(`
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: vllm, url: "http://vllm.test", probe: { interval: 200ms }, kubernetes: { pool: llama, server: "%s", account: "%s" } }]
models: [{ id: sim, deployments: [{ upstream: vllm }] }]
`, c.api.URL, c.api.Account)})
	c.waitUp(1)
	api(c).WantStatus(200)
	s, _ := c.state()
	if len(s.Upstreams) != 1 || s.Upstreams[0].Engine != "sim" || s.Upstreams[0].Limits.Text != 3 || s.Upstreams[0].Origin != "pod llm/vllm-0" ||
		s.Discoveries[0].Source != "InferencePool llm/llama" {
		t.Errorf("upstreams = %+v of %+v, want the pod llm/vllm-0 with 3 slots", s.Upstreams, s.Discoveries)
	}
	wantShown(t, c.MetricsText(), func(name string) bool { return strings.HasPrefix(name, discoveryMetrics) })
}

// TestDoctorFindsEngines checks that doctor lists the engines discovered by the upstreams in a
// file, or says why no engines are discovered.
func TestDoctorFindsEngines(t *testing.T) {
	t.Parallel()
	api := kubeapi.Start(t)
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("vllm-0", "uid-0", "10.0.0.1"))
	file := filepath.Join(t.TempDir(), "edge.yaml")
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
auth: none
upstreams:
  - { name: pods, url: "http://vllm.test:8000", kubernetes: { selector: app=vllm, server: "%s", account: "%s" } }
  - { name: local, url: "http://localhost:8001", resolve: 10s }
  - { name: fixed, url: "http://127.0.0.1:8002" }
models: [{ id: m, deployments: [{ upstream: pods }, { upstream: local }, { upstream: fixed }] }]
`, api.URL, api.Account)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, "doctor", "--config", file)
	for _, want := range []string{
		"upstream pods: pods llm/app=vllm:8000: engines found: 1\n  10.0.0.1:8000, pod vllm-0\n",
		"upstream local: DNS localhost: engines found: ", "  127.0.0.1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "fixed") {
		t.Errorf("an upstream that looks for nothing is in\n%s", out)
	}
	api.RotateToken("another", false)
	out, errs := command(t, 1, "doctor", "--config", file)
	if !strings.Contains(out, "upstream pods: pods llm/app=vllm:8000: nothing is found: the API server refuses the token (401)\n") ||
		!strings.Contains(errs, "1 of 2") {
		t.Errorf("doctor = %s%s, want the refused token, and 1 of 2", out, errs)
	}
	if out, _ = command(t, 1, "doctor", "--format", "json", "--config", file); !strings.Contains(out, `"address":"127.0.0.1"`) {
		t.Errorf("as JSON:\n%s", out)
	}
	command(t, 2, "doctor")
}
