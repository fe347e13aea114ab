package faults

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover row 26, for an engine that was started without a flag. It therefore refuses
// requests that the model's other engines answer.

const chatPath = "/v1/chat/completions"

// refuser is a proxy in front of a simulated engine that refuses some requests.
type refuser struct {
	url      string
	refused  atomic.Int64 // number of refused requests
	passed   atomic.Int64 // number of answered requests
	disabled atomic.Bool  // if true, the proxy refuses no requests
}

// noParser is the error from a vLLM that was started without the flags for tools.
const noParser = `{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}}`

func startRefuser(t *testing.T, status int, answer string, refuses func(path, body string) bool) *refuser {
	behind, err := url.Parse(rig.StartEngine(t, sim.Options{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	pass, r := httputil.NewSingleHostReverseProxy(behind), &refuser{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		switch {
		case q.Method != "POST":
		case refuses(q.URL.Path, string(body)) && !r.disabled.Load():
			r.refused.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
			return
		default:
			r.passed.Add(1)
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func hasTools(_, body string) bool { return strings.Contains(body, `"tools"`) }

// toolCall returns a chat call with a tool. i makes the body unique.
func toolCall(i int) string {
	return fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"call %d"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`, i)
}

func setupWithRefusers(good int, bad ...*refuser) rig.Setup {
	s := rig.Setup{Model: "policy: round_robin", Upstream: rig.QuietProbes}
	for range good {
		s.Engines = append(s.Engines, sim.Options{})
	}
	for _, r := range bad {
		s.Fakes = append(s.Fakes, r.url)
	}
	return s
}

// vllmConfig returns a configuration with a refuser and working engines. All engines have vLLM's
// profile, which names the flag.
func vllmConfig(refuser string, good int) string {
	upstreams, deployments := fmt.Sprintf("  - { name: fake-0, url: %q, engine: vllm, %s }\n", refuser, rig.QuietProbes), "{ upstream: fake-0 }"
	for i := range good {
		upstreams += fmt.Sprintf("  - { name: up-%d, url: \"{{up-%d}}\", engine: vllm, %s }\n", i, i, rig.QuietProbes)
		deployments += fmt.Sprintf(", { upstream: up-%d }", i)
	}
	return "timeouts: { linger: 0s, drain: 5s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n" + upstreams +
		"models: [{ id: sim, policy: round_robin, deployments: [" + deployments + "] }]\n"
}

// TestFault26_OneEngineRefusesAFeature sends many bodies with one key. Only the refusing engine may
// lose this feature, and it must not lose any other feature. The operator must learn which flag is
// missing.
func TestFault26_OneEngineRefusesAFeature(t *testing.T) {
	t.Parallel()
	for _, engines := range []int{2, 4} {
		t.Run(fmt.Sprint(engines), func(t *testing.T) {
			t.Parallel()
			bad := startRefuser(t, 400, noParser, hasTools)
			s := setupWithRefusers(engines-1, bad)
			s.Config = vllmConfig(bad.url, engines-1)
			e := start(t, s)
			failed, calls := 0, 0
			lacks := func() bool { return e.Metric("penstock_upstream_lacks") > 0 }
			for ; calls < 60*engines && !lacks(); calls++ {
				if e.Post(chatPath, toolCall(calls)).Status != 200 {
					failed++
				}
			}
			t.Logf("%d of %d calls failed", failed, calls)
			if !lacks() || failed > 31 {
				t.Fatalf("%d of %d calls failed", failed, calls)
			}
			before, plain := bad.refused.Load(), bad.passed.Load()
			for i := range 10 * engines {
				e.Post(chatPath, toolCall(1000+i)).WantStatus(200)
			}
			for range 10 * engines {
				e.Post(chatPath, rig.ChatBody("sim", "")).WantStatus(200)
			}
			if n := bad.refused.Load() - before; n != 0 {
				t.Errorf("%d calls with tools went to the engine that refuses them", n)
			}
			if n := bad.passed.Load() - plain; n < 5 {
				t.Errorf("%d calls without tools went there", n)
			}
			if n := e.Metric("penstock_upstream_lacks", `upstream="fake-0"`, `feature="tools"`, `flag="--enable-auto-tool-choice --tool-call-parser NAME"`); n != 1 {
				t.Errorf("no flag in\n%s", e.MetricsText())
			}
			page := e.Fetch("GET", e.Admin+"/", "Authorization: Bearer "+rig.AdminToken).Body
			if !strings.Contains(page, "no tools") || !strings.Contains(page, "--enable-auto-tool-choice") {
				t.Error("the page does not name the flag")
			}
			for _, u := range e.Status().Upstreams {
				if u.State != "up" || u.Breaker != "closed" {
					t.Errorf("upstream = %+v, want up with a closed breaker", u)
				}
			}
		})
	}
}

// TestFault26_OneBodyProvesNothing checks that repeating a single refused request does not remove a
// feature from the engine.
func TestFault26_OneBodyProvesNothing(t *testing.T) {
	t.Parallel()
	bad := startRefuser(t, 400, noParser, hasTools)
	e := start(t, setupWithRefusers(1, bad))
	for range 150 {
		e.Post(chatPath, toolCall(1))
	}
	if n := e.Metric("penstock_upstream_lacks"); n != 0 {
		t.Error("a feature was taken for one body")
	}
}

// TestFault26_AllRefuseAFeature checks that, if every engine refuses, no engine loses the feature,
// the client receives the refusal, and only a few calls are sent twice.
func TestFault26_AllRefuseAFeature(t *testing.T) {
	t.Parallel()
	a, b := startRefuser(t, 400, noParser, hasTools), startRefuser(t, 400, noParser, hasTools)
	e := start(t, setupWithRefusers(0, a, b))
	const calls = 100
	for i := range calls {
		if r := e.Post(chatPath, toolCall(i)).WantStatus(400); !strings.Contains(r.Body, "--enable-auto-tool-choice") {
			t.Error(r.Body)
		}
	}
	if n := a.refused.Load() + b.refused.Load(); n > calls+calls/10 {
		t.Errorf("%d requests of %d calls", n, calls)
	}
	if n := e.Metric("penstock_upstream_lacks"); n != 0 {
		t.Error("a feature was taken")
	}
}

// TestFault26_OneEngineLacksTheEndpoint checks that requests for a path that one engine lacks are
// soon sent only to the other engines, and that other paths are not affected.
func TestFault26_OneEngineLacksTheEndpoint(t *testing.T) {
	t.Parallel()
	for status, answer := range map[int]string{404: `{"detail":"Not Found"}`, 405: `{"detail":"Method Not Allowed"}`} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			bad := startRefuser(t, status, answer, func(path, _ string) bool { return path == "/v1/completions" })
			e := start(t, setupWithRefusers(3, bad))
			failed := 0
			for i := range 40 {
				if e.Post("/v1/completions", fmt.Sprintf(`{"model":"sim","prompt":"number %d"}`, i)).Status != 200 {
					failed++
				}
			}
			if n := bad.refused.Load(); n > 4 || failed > 0 {
				t.Errorf("%d calls failed, %d reached the engine", failed, n)
			}
			for range 8 {
				e.Post(chatPath, rig.ChatBody("sim", "")).WantStatus(200)
			}
			if bad.passed.Load() == 0 {
				t.Error("no chat call reached the engine")
			}
		})
	}
}

// TestFault26_OneEngineDeniesItsModel checks an engine that lists a model but refuses calls to it.
// The other engine must answer the clients, even if the retry budget is exhausted.
func TestFault26_OneEngineDeniesItsModel(t *testing.T) {
	t.Parallel()
	const noModel = "{\"error\":{\"message\":\"The model `sim` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"
	bad := startRefuser(t, 404, noModel, func(path, _ string) bool { return path == chatPath })
	e := start(t, setupWithRefusers(1, bad))
	for i := range 40 {
		e.Post(chatPath, fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"number %d"}]}`, i)).WantStatus(200)
	}
	if bad.refused.Load() == 0 {
		t.Error("no call reached the engine that denies its model")
	}
}

// TestFault26_TheLastEngineIsAsked checks that calls still go to the engine that lacks the feature
// if it is the only one left. Its refusal tells the client more than an error saying that no engine
// is available. Once the engine may have been restarted, the edge must try the feature again.
func TestFault26_TheLastEngineIsAsked(t *testing.T) {
	t.Parallel()
	bad := startRefuser(t, 400, noParser, hasTools)
	s := setupWithRefusers(1, bad)
	s.Upstream = "probe: { interval: 500ms }"
	e := start(t, s)
	for i := 0; i < 200 && e.Metric("penstock_upstream_lacks") == 0; i++ {
		e.Post(chatPath, toolCall(i))
	}
	e.Post(chatPath, toolCall(1000)).WantStatus(200)
	e.Engines[0].Unlisten()
	e.Engines[0].DropConns(1, true)
	rig.WaitFor(t, rig.WaitTimeout, "the good engine is down", func() bool { return e.Upstream("up-0").State == "down" })
	e.Post(chatPath, toolCall(1001)).WantStatus(400)
	bad.disabled.Store(true)
	e.Post(chatPath, toolCall(1002)).WantStatus(200)
}
