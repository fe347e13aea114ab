package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

type hookServer struct {
	*httptest.Server
	mu        sync.Mutex
	questions []hookQuestion
	answer    http.HandlerFunc
}

type hookQuestion struct {
	Version      int             `json:"version"`
	Hook         string          `json:"hook"`
	RequestID    string          `json:"request_id"`
	Endpoint     string          `json:"endpoint"`
	Model        string          `json:"model"`
	Key          string          `json:"key"`
	PromptTokens int             `json:"prompt_tokens"`
	BodyBytes    int             `json:"body_bytes"`
	Stream       bool            `json:"stream"`
	Body         json.RawMessage `json:"body"`
}

// newHook starts a hook that allows every call.
func newHook(t testing.TB) *hookServer {
	h := &hookServer{}
	h.setAnswer(`{"action":"allow"}`)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q hookQuestion
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(text, &q)
		}
		if err != nil && r.Context().Err() == nil {
			t.Errorf("a question that is not JSON: %v", err)
		}
		h.mu.Lock()
		h.questions = append(h.questions, q)
		answer := h.answer
		h.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) setHandler(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func (h *hookServer) setAnswer(answer string) {
	h.setHandler(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) })
}

func (h *hookServer) rewrites(old, with string) {
	h.setHandler(func(w http.ResponseWriter, _ *http.Request) {
		q := h.last()
		fmt.Fprintf(w, `{"action":"rewrite","body":%s}`, bytes.ReplaceAll(q.Body, []byte(old), []byte(with)))
	})
}

func (h *hookServer) last() hookQuestion {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.questions[len(h.questions)-1]
}

func (h *hookServer) questionCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.questions)
}

// setting returns the setting for this hook, with additional members.
func (h *hookServer) setting(more string) string {
	return `hooks: [{ name: guard, before: "` + h.URL + `/decide", timeout: 60s` + strings.TrimSuffix(", "+more, ", ") + ` }]`
}

// hookMetrics is the prefix of the metrics that exist only if the edge has called hooks.
const hookMetrics = "penstock_hook_"

// decisionCount returns how many hook answers had the given result.
func decisionCount(e *rig.Edge, result string) float64 {
	return e.Metric("penstock_hook_decisions_total", `hook="guard"`, `result="`+result+`"`)
}

// twoModels adds a second model at the same engine, and a key that may not use it.
const twoModels = "- { id: other, deployments: [{ upstream: up-0, served: sim }] }\n"

// TestHookDecisions checks every decision in every dialect, unstreamed and streamed.
func TestHookDecisions(t *testing.T) {
	t.Parallel()
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			p := start(t, rig.Setup{Top: h.setting("send: body, token: hook-token"), Models: twoModels, Engines: recordingEngine()})
			p.SendPrompt(w, rig.Canary, "").WantStatus(200)
			q := h.last()
			sent := w.RequestBody("sim", rig.Canary, "")
			if q.Version != 1 || q.Hook != "guard" || q.Endpoint != w.Path || q.Model != "sim" || q.Key != "tester" || q.PromptTokens == 0 ||
				q.BodyBytes != len(sent) || q.Stream != w.Stream || string(q.Body) != sent || !strings.HasPrefix(q.RequestID, "req_") {
				t.Errorf("question = %+v, want version 1 of guard with the request of sim", q)
			}

			for _, status := range []int{400, 403, 422, 429, 451} {
				h.setAnswer(fmt.Sprintf(`{"action":"refuse","status":%d,"message":"Not here: 100%% \"no\"."}`, status))
				kind := map[int]string{403: "permission_error", 429: "rate_limit_error"}[status]
				e := p.Edge.SendRequest(w, "").WantRefused(w, rig.Refusal{Status: status, Kind: cmp.Or(kind, "invalid_request_error"), Code: "refused_by_hook"})
				if e.Message != `Not here: 100% "no".` {
					t.Errorf("message = %q, want Not here: 100%% \"no\".", e.Message)
				}
			}
			h.setAnswer(`{"action":"refuse"}`)
			p.Edge.SendRequest(w, "").WantRefused(w, rig.Refusal{Status: 403, Kind: "permission_error", Code: "refused_by_hook"})

			before := p.Engines[0].Stats().Requests
			h.rewrites("swordfish", "word")
			p.SendPrompt(w, "the swordfish", "").WantStatus(200)
			h.setAnswer(`{"action":"route","model":"other"}`)
			r := p.Edge.SendRequest(w, "").WantStatus(200)
			if !strings.Contains(r.Body, `"model":"other"`) {
				t.Errorf("the answer does not name the model: %s", r.Body)
			}
			p.WaitIdle()
			if n := p.Engines[0].Stats().Requests - before; n != 2 {
				t.Errorf("the engine got %d requests, want 2", n)
			}
			for _, line := range p.Engines[0].Recorded() {
				if strings.Contains(string(line.Body), "swordfish") {
					t.Errorf("the engine got what the hook had replaced: %s", line.Body)
				}
			}
			if got := p.LastAccessLine(); got.Model != "other" {
				t.Errorf("the call is logged for %s", got.Model)
			}
			wantShown(t, p.MetricsText(), func(name string) bool {
				return strings.HasPrefix(name, hookMetrics) && name != copiesMetric
			})
			for result, want := range map[string]float64{"allow": 1, "refuse": 6, "rewrite": 1, "route": 1, "error": 0, "timeout": 0} {
				if got := decisionCount(p.Edge, result); got != want {
					t.Errorf("%s %v, want %v", result, got, want)
				}
			}
		})
	}
}

// checkHook checks that a hook can refuse, route and rewrite calls to the surface. An upload must
// not be sent to the hook. TestStatuses calls checkHook, because only a hook can cause some of the
// statuses.
func (s *surface) checkHook(t *testing.T, h *hookServer, seen *sentStatuses) {
	p := s.start(t, rig.Setup{Top: h.setting("send: body")}, "200")
	for _, status := range []int{422, 451} {
		h.setAnswer(fmt.Sprintf(`{"action":"refuse","status":%d}`, status))
		s.wantStatus(t, seen, s.ask(p, "works", false), status, "invalid_request_error", "refused_by_hook")
	}
	if sent := h.last().Body != nil; sent == s.upload {
		t.Errorf("the hook was sent a body: %v", sent)
	}
	h.setAnswer(`{"action":"route","model":"other"}`)
	s.wantStatus(t, seen, s.ask(p, "works", false), 200, "", "")
	if got := p.LastAccessLine(); got.Model != "other" {
		t.Errorf("the call is logged for %s", got.Model)
	}
	if s.upload {
		h.setAnswer(`{"action":"rewrite","body":{"model":"works"}}`)
		s.wantStatus(t, seen, s.ask(p, "works", false), 503, "api_error", "hook_unavailable")
		return
	}
	h.rewrites(rig.Canary, "another text")
	s.wantStatus(t, seen, s.ask(p, "works", false), 200, "", "")
	h.setAnswer(`{"action":"rewrite","body":{"model":1}}`)
	if r := s.ask(p, "works", false); r.Status != 400 {
		t.Errorf("a rewritten body that the endpoint does not take: %d %s", r.Status, r.Body)
	}
}

// TestHookAdmitsAnew checks that a hook's decision cannot give a client more rights than its key
// has.
func TestHookAdmitsAnew(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	p := start(t, rig.Setup{
		Top: h.setting("send: body"), Models: twoModels + "- { id: short, context_length: 64, deployments: [{ upstream: up-0, served: sim }] }\n",
		Keys: `- { id: narrow, hash: "` + auth.HashKey("narrow") + `", models: [sim, short], limits: { concurrency: 1, tokens_per_minute: 3000, request_body: 2KiB } }`,
	})
	const narrow = "Authorization: Bearer narrow"
	ask := func(prompt string) *rig.Reply {
		return p.Post(chatPath, rig.Chat.RequestBody("sim", prompt, ""), narrow)
	}
	rewrite := func(body string) { h.setAnswer(`{"action":"rewrite","body":` + body + `}`) }
	for range 3 { // each call releases the memory that it used
		h.setAnswer(`{"action":"route","model":"other"}`)
		ask("Hi").WantError(403, "permission_error", "model_not_allowed")
		rewrite(`{"model":"other","messages":[{"role":"user","content":"Hi"}]}`)
		ask("Hi").WantError(403, "permission_error", "model_not_allowed")
		h.setAnswer(`{"action":"route","model":"nobody"}`)
		ask("Hi").WantError(404, "not_found_error", "model_not_found")
		rewrite(`{"model":"sim","messages":"` + rig.Canary + `"}`)
		ask("Hi").WantError(400, "invalid_request_error", "invalid_type")
		rewrite(`{"model":"sim","messages":[{"role":"user","content":"` + strings.Repeat("x", 3<<10) + `"}]}`)
		ask("Hi").WantError(413, "request_too_large", "request_too_large")
		rewrite(`{"model":"short","max_tokens":1000,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 300) + `"}]}`)
		if r := ask("Hi"); r.Status != 400 && r.Status != 200 {
			t.Errorf("answer = %d %s, want 400 or 200", r.Status, r.Body)
		}
		// The client expects JSON.
		rewrite(`{"model":"sim","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
		ask("Hi").WantError(503, "api_error", "hook_unavailable")
	}
	rewrite(`{"model":"sim","max_tokens":600,"messages":[{"role":"user","content":"[[sim {\"tokens\":600}]]"}]}`)
	ask("Hi").WantStatus(200) // while a key has unused tokens, it may send one request of any size
	rewrite(`{"model":"sim","max_tokens":2900,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 380) + `"}]}`)
	ask("Hi").WantError(429, "rate_limit_error", "rate_limited")
	h.setAnswer(`{"action":"route","model":"other"}`)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	h.setAnswer(`{"action":"allow"}`)
	ask("Hi").WantStatus(200)
}

// TestFault101_HookGivesNoDecision checks that calls for which a hook returns no decision are
// refused or continued, as configured. The log must not contain text from the hook's request or
// answer.
func TestFault101_HookGivesNoDecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cause, detail, more string
		answer                    http.HandlerFunc // if nil, no server listens
	}{
		{"refuses connections", "hook_unreachable", "", "", nil},
		{"dies in its answer", "hook_answer", "breaks_off", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "18")
			io.WriteString(w, `{"action":`)
		}},
		{"1 GB", "hook_answer", "too_long", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1073741824")
			io.WriteString(w, `{"action":`)
		}},
		{"other member", "hook_answer", "other_member", "", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"action":"allow","reason":"`+rig.Canary+`"}`)
		}},
		{"status", "hook_status", "", "", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, rig.Canary, 500) }},
		{"redirect", "hook_status", "", "", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+rig.Canary, http.StatusTemporaryRedirect)
		}},
		{"garbage", "hook_answer", "not_json", "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>"+rig.Canary) }},
		{"unknown action", "hook_answer", "unknown_action", "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"action":"`+rig.Canary+`"}`) }},
		{"10 MB of garbage", "hook_answer", "not_json", "", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"action":"`+strings.Repeat("x", 10<<20))
		}},
		{"100 MB", "hook_answer", "too_long", "", func(w http.ResponseWriter, _ *http.Request) {
			piece := bytes.Repeat([]byte("x"), 1<<20)
			for range 100 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}},
		{"hangs up", "hook_unreachable", "", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"silent", "hook_timeout", "", "timeout: 50ms", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"drips", "hook_timeout", "", "timeout: 50ms", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"action":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
	} {
		for _, onError := range []string{"closed", "open"} {
			t.Run(c.name+" "+onError, func(t *testing.T) {
				t.Parallel()
				h := newHook(t)
				if h.setHandler(c.answer); c.answer == nil {
					h.Close()
				}
				members := `hooks: [{ name: guard, before: "` + h.URL + `", send: body, on_error: ` + onError + ", " + cmp.Or(c.more, "timeout: 60s") + ` }]`
				p := start(t, rig.Setup{Top: members})
				for _, w := range rig.TextRequestTypes {
					r := p.SendPrompt(w, rig.Canary, "")
					if onError == "open" {
						r.WantStatus(200)
						continue
					}
					r.WantRefused(w, rig.Refusal{Status: 503, Kind: "api_error", Code: "hook_unavailable"})
					p.WaitIdle()
					if got := p.LastAccessLine(); got.Cause != c.cause || got.Code != "hook_unavailable" || got.Attempts != 0 {
						t.Errorf("last call = %+v, want hook_unavailable because of %s, without an attempt", got, c.cause)
					}
				}
				result := "error"
				if c.cause == "hook_timeout" {
					result = "timeout"
				}
				if got := decisionCount(p.Edge, result); got != float64(len(rig.TextRequestTypes)) {
					t.Errorf("decisions %s = %v, want %d", result, got, len(rig.TextRequestTypes))
				}
				then := map[string]string{"closed": "so they were refused", "open": "so they passed unchecked"}[onError]
				if v := p.Status().Verdict; v.Level == "ok" || !strings.Contains(v.Text, "the hook guard gave no decision on ") || !strings.Contains(v.Text, then) {
					t.Errorf("the verdict does not name the hook: %+v", v)
				}
				p.End()
				if log := p.Log.String(); strings.Count(log, `"hook failed"`) != len(rig.TextRequestTypes) || !strings.Contains(log, `"cause":"`+c.cause+`"`) {
					t.Errorf("the log does not say what failed: %s", log)
				}
				if log := p.Log.String(); c.detail != "" && (strings.Count(log, `"detail":"`+c.detail+`"`) != len(rig.TextRequestTypes) ||
					strings.Count(log, `"hook_detail":"`+c.detail+`"`) != len(rig.TextRequestTypes)) || strings.Count(log, `"hook_ms":`) != len(rig.TextRequestTypes) {
					t.Errorf("the log does not say what was wrong, or how long it took: %s", log)
				}
			})
		}
	}
}

// TestHookAtASocket checks a hook at a Unix socket, with and without a path. The hook must decide,
// even after a restart, and calls must be refused while the hook is down.
func TestHookAtASocket(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "h")
	asked := make(chan string, 10)
	serve := func() (end func()) {
		socket, err := net.Listen("unix", file)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Host + r.URL.Path
			io.WriteString(w, `{"action":"refuse","status":403}`)
		})}
		go func() { _ = server.Serve(socket) }()
		return func() { server.Close() }
	}
	for address, target := range map[string]string{"unix:" + file: "localhost/", "unix:" + file + ":/v1/decide/": "localhost/v1/decide/"} {
		end := serve()
		p := start(t, rig.Setup{Top: `hooks: [{ name: guard, before: "` + address + `", timeout: 60s }]`})
		refused := func(status int, code string) {
			t.Helper()
			p.Post(chatPath, p.ChatRequest("")).WantError(status, map[int]string{403: "permission_error", 503: "api_error"}[status], code)
		}
		refused(403, "refused_by_hook")
		refused(403, "refused_by_hook")
		end()
		refused(503, "hook_unavailable")
		end = serve()
		refused(403, "refused_by_hook")
		end()
		for range 3 {
			if got := rig.Receive(t, rig.WaitTimeout, "the hook is asked", asked); got != target {
				t.Errorf("the hook was asked for %s, want %s", got, target)
			}
		}
	}
}

// TestHookClientLeaves checks that, if a client disconnects, the edge stops waiting for the hook,
// and that this does not count as a hook failure.
func TestHookClientLeaves(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	left := make(chan struct{}, 1)
	h.setHandler(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		left <- struct{}{}
	})
	p := start(t, rig.Setup{Top: h.setting("")})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := p.TryOpenResponse(ctx, "POST", chatPath, p.ChatRequest("")); err == nil {
			res.Body.Close()
		}
	}()
	// If the client disconnected before the hook has read its request, the hook might not notice.
	rig.WaitFor(t, rig.WaitTimeout, "the hook has the question", func() bool { return h.questionCount() == 1 })
	leave()
	<-done
	rig.Receive(t, rig.WaitTimeout, "the hook's request ends", left)
	p.WaitIdle()
	if got := p.LastAccessLine(); got.Outcome != "client_gone" || got.Status != 499 {
		t.Errorf("last call = %+v, want client_gone with 499", got)
	}
	if n := decisionCount(p.Edge, "error") + decisionCount(p.Edge, "timeout"); n != 0 {
		t.Errorf("%v failures are blamed on the hook", n)
	}
}

// TestHookDrain checks that a drain ends a call that is waiting for a hook.
func TestHookDrain(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.setHandler(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p := start(t, rig.Setup{Untidy: true, Top: h.setting(""), Timeouts: "linger: 0s, drain: 100ms"})
	replies := make(chan *rig.Reply, 1)
	go func() { replies <- p.Post(chatPath, p.ChatRequest("")) }()
	rig.WaitFor(t, rig.WaitTimeout, "the call waits for the hook", func() bool { return p.Status().CountCalls("hook") == 1 })
	p.End()
	rig.Receive(t, rig.WaitTimeout, "the call is answered", replies).WantError(503, "api_error", "shutting_down")
}

// TestHookOrder checks the order of two hooks with different models and keys, before and after a
// reload.
func TestHookOrder(t *testing.T) {
	t.Parallel()
	first, second := newHook(t), newHook(t)
	set := func(one, two string) rig.Setup {
		return rig.Setup{
			Top: fmt.Sprintf("hooks:\n  - { name: first, before: %q, timeout: 60s, send: body%s }\n  - { name: second, before: %q, timeout: 60s, send: body%s }\n",
				first.URL, one, second.URL, two),
			Models: twoModels, Keys: `- { id: spare, hash: "` + auth.HashKey("spare") + `" }`,
		}
	}
	p := start(t, set("", ", models: [other]"))
	asked := func(one, two int, header ...string) {
		t.Helper()
		a, b := first.questionCount(), second.questionCount()
		p.Post(chatPath, p.ChatRequest(""), header...).WantStatus(200)
		if a, b = first.questionCount()-a, second.questionCount()-b; a != one || b != two {
			t.Errorf("asked %d and %d times, want %d and %d", a, b, one, two)
		}
	}
	asked(1, 0)
	first.setAnswer(`{"action":"route","model":"other"}`)
	asked(1, 1)
	if q := second.last(); q.Model != "other" || !strings.Contains(string(q.Body), `"model":"other"`) {
		t.Errorf("the second hook does not see what the first has left: %+v", q)
	}
	p.Reload(set(", keys: [spare]", ", models: [sim]"))
	asked(0, 1)
	asked(1, 0, "Authorization: Bearer spare")
	p.Reload(rig.Setup{Models: twoModels, Keys: set("", "").Keys})
	asked(0, 0)
}

// TestHookMemory checks that a hook's answer counts against the memory for bodies.
func TestHookMemory(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	h.setAnswer(`{"action":"rewrite","body":{"model":"sim","messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<20) + `"}]}}`)
	p := start(t, rig.Setup{Top: h.setting(""), Limits: "body_memory: 0.1%"})
	p.Post(chatPath, p.ChatRequest("")).WantError(503, "api_error", "no_body_memory")
	h.setAnswer(`{"action":"allow"}`)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

// TestHookCheck checks that `penstock check` reports which hook receives prompts.
func TestHookCheck(t *testing.T) {
	t.Parallel()
	text := "hooks:\n  - { name: guard, before: \"http://127.0.0.1:8090/\", send: body, keys: [team-a] }\n" +
		"  - { name: meter, before: \"http://127.0.0.1:8091/\" }\n" +
		"keys: [{ id: team-a, hash: \"" + auth.HashKey("a") + "\" }]\nupstreams: [{ name: gpu-a, url: \"http://127.0.0.1:8000\" }]\n" +
		"models: [{ id: sim, deployments: [{ upstream: gpu-a }] }]\n"
	out, errs, code := rig.RunProgram(t, text, "check", "-")
	if code != 0 || !strings.Contains(out, "\nhook guard: receives the prompts of the keys team-a\n") || strings.Contains(out, "meter") {
		t.Errorf("check = code %d: %s%s; want 0 and the hook guard alone", code, out, errs)
	}
	out, errs, code = rig.RunProgram(t, "", "explain", "hook_unavailable")
	if code != 0 || !strings.Contains(out, "503") || !strings.Contains(out, "on_error") {
		t.Errorf("command = code %d: %s%s; want 0, 503 and on_error", code, out, errs)
	}
}

// TestHookExamples checks the hooks in .deploy/examples. Each hook refuses one word and replaces
// another.
func TestHookExamples(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..", ".deploy", "examples")
	for name, command := range map[string]func(t *testing.T) []string{
		"go": func(t *testing.T) []string {
			program := filepath.Join(t.TempDir(), "hook")
			if out, err := exec.Command("go", "build", "-o", program, "./"+filepath.Join(top, "hook-go")).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v, want no error: %s", err, out)
			}
			return []string{program}
		},
		"python": func(t *testing.T) []string {
			python, err := exec.LookPath("python3")
			if err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip("there is no python3 here")
			}
			return []string{python, filepath.Join(top, "hook-python", "hook.py")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(command(t), "--listen", "127.0.0.1:0", "--refuse", "swordfish", "--mask", "Bond")
			hook := rig.StartCommand(t, exec.Command(args[0], args[1:]...))
			address := hook.WaitOutput(`listening at (\S+)`)[1]
			p := start(t, rig.Setup{
				Engines: []sim.Options{{Record: true}},
				Top:     `hooks: [{ name: guard, before: "http://` + address + `/decide", send: body, timeout: 60s }]`,
			})
			for _, w := range rig.TextRequestTypes {
				p.SendPrompt(w, "Hello", "").WantStatus(200)
				p.SendPrompt(w, "my swordfish", "").WantRefused(w, rig.Refusal{Status: 403, Kind: "permission_error", Code: "refused_by_hook"})
				p.SendPrompt(w, "my name is Bond", "").WantStatus(200)
			}
			p.WaitIdle()
			for _, r := range p.Engines[0].Recorded() {
				if text := string(r.Body); strings.Contains(text, "swordfish") || strings.Contains(text, "Bond") {
					t.Errorf("the engine got %s", text)
				}
			}
			if n := decisionCount(p.Edge, "rewrite"); n != float64(len(rig.TextRequestTypes)) {
				t.Errorf("%v are rewritten", n)
			}
		})
	}
}
