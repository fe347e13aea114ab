package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

type hookCopy struct {
	Hook, Key, Model, Endpoint, Outcome, Code string
	RequestID                                 string `json:"request_id"`
	AnsweredBy                                string `json:"answered_by"`
	Stream                                    bool
	Status                                    int
	Request, Answer                           struct {
		Bytes     int
		Truncated bool
		Body      string
		Base64    string `json:"body_base64"`
	}
}

type copySink struct {
	t    testing.TB
	mu   sync.Mutex
	text string
}

func (s *copySink) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += text
}

func (s *copySink) all() (all []hookCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copiesIn(s.t, s.text)
}

func copiesIn(t testing.TB, text string) (all []hookCopy) {
	t.Helper()
	for line := range strings.Lines(text) {
		var c hookCopy
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%v: %.200q", err, line)
		}
		all = append(all, c)
	}
	return all
}

func newCopySink(t testing.TB) (*copySink, string) {
	s := &copySink{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if text, err := io.ReadAll(r.Body); err == nil {
			s.add(string(text))
		}
	}))
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *copySink) next(n int) hookCopy {
	s.t.Helper()
	rig.WaitFor(s.t, rig.WaitTimeout, "the copy arrives", func() bool { return len(s.all()) >= n })
	return s.all()[n-1]
}

const copiesMetric = "penstock_hook_copies_total"

func copyCount(e *rig.Edge, result string) float64 {
	return e.Metric(copiesMetric, `hook="archive"`, `result="`+result+`"`)
}

// copyHookSetting returns the setting for a sink with additional members.
func copyHookSetting(after, more string) string {
	return `hooks: [{ name: archive, after: "` + after + `", timeout: 60s` + strings.TrimSuffix(", "+more, ", ") + ` }]`
}

const ofTester = "models: [sim], keys: [tester]"

// TestCopies checks the copies of calls in every dialect, including streams, calls that the engine
// refuses, and calls that a hook rewrites. A copy must contain the bytes that the client sent and
// received.
func TestCopies(t *testing.T) {
	t.Parallel()
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			sink, url := newCopySink(t)
			h := newHook(t)
			p := start(t, rig.Setup{
				Top:    fmt.Sprintf("hooks:\n  - { name: archive, after: %q, timeout: 60s, %s }\n  - { name: guard, before: %q, timeout: 60s, send: body }\n", url, ofTester, h.URL),
				Models: twoModels,
			})
			h.rewrites(rig.Canary, "word")
			sent := w.RequestBody("sim", rig.Canary, "")
			r := p.SendPrompt(w, rig.Canary, "").WantStatus(200)
			if r.Header.Get("X-Penstock-Retained") != "true" {
				t.Errorf("the client is not told: %v", r.Header)
			}
			c := sink.next(1)
			if c.Hook != "archive" || c.Key != "tester" || c.Model != "sim" || c.AnsweredBy != "" || c.Endpoint != w.Path || c.Stream != w.Stream ||
				c.Status != 200 || c.Outcome != "ok" || c.RequestID != r.Header.Get("X-Request-Id") {
				t.Errorf("%+v", c)
			}
			if c.Request.Body != sent || c.Request.Bytes != len(sent) || c.Answer.Body != r.Body || c.Answer.Bytes != len(r.Body) {
				t.Errorf("%q, want %q\n%q, want %q", c.Request.Body, sent, c.Answer.Body, r.Body)
			}
			h.setAnswer(`{"action":"route","model":"other"}`)
			p.Edge.SendRequest(w, "").WantStatus(200)
			if c = sink.next(2); c.Model != "sim" || c.AnsweredBy != "other" {
				t.Errorf("%+v", c)
			}
			h.setAnswer(`{"action":"refuse","status":403}`)
			r = p.Edge.SendRequest(w, "")
			if c = sink.next(3); c.Status != 403 || c.Code != "refused_by_hook" || c.Answer.Body != r.Body {
				t.Errorf("%+v, want %q", c, r.Body)
			}
			wantShown(t, p.MetricsText(), func(name string) bool { return name == copiesMetric })
			rig.WaitFor(t, rig.WaitTimeout, "copies are counted", func() bool { return copyCount(p.Edge, "delivered") == 3 })
		})
	}
}

// TestCopiesForms checks the copies of uploads, audio, HTTP/1.0 calls, and a large answer.
func TestCopiesForms(t *testing.T) {
	t.Parallel()
	sink, url := newCopySink(t)
	p := start(t, rig.Setup{
		Top: copyHookSetting(url, `models: ["*"], keys: ["*"]`),
		Models: "- { id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }] }\n" +
			"- { id: voice, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }\n" +
			"- { id: vectors, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }\n",
	})
	upload := rig.Transcription
	r := p.Post(upload.Path, upload.RequestBody("ears", "RIFF", ""), upload.ContentType()).WantStatus(200)
	if c := sink.next(1); c.Request.Bytes != 0 || c.Answer.Body != r.Body {
		t.Errorf("an upload: %+v, want %q", c, r.Body)
	}
	r = p.Post(rig.Speech.Path, rig.Speech.RequestBody("voice", "one", "")).WantStatus(200)
	if c := sink.next(2); c.Answer.Base64 != base64.StdEncoding.EncodeToString([]byte(r.Body)) || c.Request.Body != rig.Speech.RequestBody("voice", "one", "") {
		t.Errorf("speech: %+v", c)
	}
	client := p.Dial()
	_ = client.Send(strings.Replace(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true`)), "HTTP/1.1", "HTTP/1.0", 1))
	r = client.ReadReply("POST").WantStatus(200)
	if c := sink.next(3); c.Answer.Body != r.Body || !strings.Contains(r.Body, "data: ") {
		t.Errorf("HTTP/1.0: %+v, want %q", c, r.Body)
	}
	p.Engines[0].SetFault(sim.Fault{Spec: "padded=10000000"})
	r = p.Post("/v1/embeddings", `{"model":"vectors","input":"a"}`).WantStatus(200)
	if c := sink.next(4); !c.Answer.Truncated || c.Answer.Bytes != len(r.Body) || c.Answer.Bytes < 10_000_000 || c.Answer.Body != r.Body[:1<<20] {
		t.Errorf("10 MB: %d bytes of %d, want %d of %d", len(c.Answer.Body), c.Answer.Bytes, 1<<20, len(r.Body))
	}
}

// TestCopiesByConsent checks that only the calls of the named keys for the named models are copied,
// and that clients can see whether their calls are copied.
func TestCopiesByConsent(t *testing.T) {
	t.Parallel()
	sink, url := newCopySink(t)
	set := func(hooks string) rig.Setup {
		return rig.Setup{
			Top: "catalog: { public: true }\n" + hooks, Models: twoModels, Keys: `- { id: spare, hash: "` + auth.HashKey("spare") + `" }`,
			Model: "supported_features: [tools]",
		}
	}
	p := start(t, set(copyHookSetting(url, ofTester)))
	const spare, nobody = "Authorization: Bearer spare", "Authorization: "
	other := rig.Chat.RequestBody("other", "Hi", "")
	told := func(want bool, body string, header ...string) {
		t.Helper()
		if r := p.Post(chatPath, body, header...).WantStatus(200); (r.Header.Get("X-Penstock-Retained") != "") != want {
			t.Errorf("told: %v, want %v", !want, want)
		}
	}
	features := func(model string, header ...string) string {
		t.Helper()
		var list struct {
			Data []struct {
				ID                string
				SupportedFeatures []string `json:"supported_features"`
			}
		}
		r := p.Get("/v1/models", header...).WantStatus(200)
		if err := json.Unmarshal([]byte(r.Body), &list); err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Data {
			if m.ID == model {
				one := p.Get("/v1/models/"+model, header...).WantStatus(200)
				if got := fmt.Sprint(m.SupportedFeatures); strings.Contains(one.Body, `"retained"`) != strings.Contains(got, "retained") {
					t.Errorf("the list has %s, the entry %s", got, one.Body)
				}
				return fmt.Sprint(m.SupportedFeatures)
			}
		}
		return "no model"
	}
	told(false, p.ChatRequest(""), spare)
	told(false, other)
	told(true, p.ChatRequest(""))
	if c := sink.next(1); c.Key != "tester" || c.Model != "sim" {
		t.Errorf("%+v", c)
	}
	for _, c := range []struct{ got, want string }{
		{features("sim"), "[tools retained]"},
		{features("sim", spare), "[tools]"},
		{features("sim", nobody), "[tools retained]"},
		{features("other"), "[]"},
	} {
		if c.got != c.want {
			t.Errorf("the catalog lists %s, want %s", c.got, c.want)
		}
	}
	p.Reload(set(""))
	told(false, p.ChatRequest(""))
	if got := features("sim"); got != "[tools]" {
		t.Errorf("after the hook is gone: %s", got)
	}
	p.Reload(set(copyHookSetting(url, "models: [other], keys: [spare]")))
	told(false, p.ChatRequest(""), spare)
	told(true, other, spare)
	if c := sink.next(2); c.Key != "spare" || c.Model != "other" {
		t.Errorf("%+v", c)
	}
	if n := len(sink.all()); n != 2 {
		t.Errorf("%d copies, want 2", n)
	}
}

// TestCopiesOfCutStream checks that, if a stream's client disconnects, the copy contains the bytes
// that were sent to the client.
func TestCopiesOfCutStream(t *testing.T) {
	t.Parallel()
	sink, url := newCopySink(t)
	p := start(t, rig.Setup{Top: copyHookSetting(url, ofTester)})
	s := p.OpenStream(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":100000,"delay_ms":20}`))
	if _, ok := s.Next(); !ok {
		t.Fatal("no event")
	}
	s.Disconnect()
	c := sink.next(1)
	if c.Outcome != "client_gone" || c.Answer.Bytes == 0 || c.Answer.Truncated || !strings.HasPrefix(c.Answer.Body, "data: {") {
		t.Errorf("%+v", c)
	}
	p.WaitIdle()
	if l := p.LastAccessLine(); l.BytesOut != int64(c.Answer.Bytes) {
		t.Errorf("the copy has %d bytes, the log %d", c.Answer.Bytes, l.BytesOut)
	}
}

// TestCopiesToFile checks the file's mode and rotation, and that all copies are written before the
// edge exits.
func TestCopiesToFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "copies.jsonl")
	p := start(t, rig.Setup{Top: copyHookSetting(path, ofTester)})
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the copy is written", func() bool { return copyCount(p.Edge, "delivered") == 1 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	p.End()
	for name, want := range map[string]int{path: 20, path + ".1": 1} {
		info, err := os.Stat(name)
		text, _ := os.ReadFile(name)
		if n := len(copiesIn(t, string(text))); err != nil || info.Mode().Perm() != 0o600 || n != want {
			t.Errorf("%s: %d copies, want %d; %v, %v", filepath.Base(name), n, want, info, err)
		}
	}
}

// TestCopiesToSocket checks a sink at a Unix socket.
func TestCopiesToSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	p := start(t, rig.Setup{Top: copyHookSetting("unix:"+path, ofTester)})
	got := make(chan string, 1)
	go func() {
		conn, err := socket.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(conn)
		got <- string(text)
	}()
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "copies are sent", func() bool { return copyCount(p.Edge, "delivered") == 2 })
	p.End()
	rig.WaitFor(t, rig.WaitTimeout, "the socket is closed", func() bool { return len(got) == 1 })
	if all := copiesIn(t, <-got); len(all) != 2 || all[0].Answer.Body == "" {
		t.Errorf("%+v", all)
	}
}

// TestFault102_SinkOfCopies checks that a sink does not affect calls if it hangs, drips, dies,
// rejects copies, is unreachable, or answers with 10 MB. Metrics, verdict and log must report the
// lost copies and the cause, but no content.
func TestFault102_SinkOfCopies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, more, result, why string
		answer                  http.HandlerFunc
	}{
		{
			"hangs", "bytes: 2KiB, memory: 4KiB", "full", "the sink is slower than the calls",
			func(_ http.ResponseWriter, r *http.Request) {
				// The server notices a disconnect only after it has read the body.
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			},
		},
		{
			"refuses", "", "status", "the sink answered with an error",
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, rig.Canary, 500) },
		},
		{
			"drips", "bytes: 2KiB, memory: 4KiB", "full", "the sink is slower than the calls",
			func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for http.NewResponseController(w).Flush() == nil {
					select {
					case <-r.Context().Done():
						return
					case <-time.After(10 * time.Millisecond): // the sink drips bytes
						_, _ = io.WriteString(w, ".")
					}
				}
			},
		},
		{"dies", "", "unreachable", "sink not reachable", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{
			"10 MB", "", "status", "the sink answered with an error",
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat(rig.Canary, 1<<20), 500) },
		},
		{"away", "", "unreachable", "sink not reachable", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			if c.answer == nil {
				server.Close()
			}
			p := start(t, rig.Setup{Top: copyHookSetting(server.URL, strings.TrimSuffix(ofTester+", "+c.more, ", "))})
			for range 2 {
				for _, w := range rig.TextRequestTypes {
					p.SendPrompt(w, rig.Canary, "").WantStatus(200)
				}
			}
			rig.WaitFor(t, rig.WaitTimeout, "what is lost is counted", func() bool { return copyCount(p.Edge, c.result) >= 10 })
			if v := p.Status().Verdict; v.Level != "degraded" || !strings.Contains(v.Text, "the hook archive lost the copies of ") || !strings.Contains(v.Text, c.why) {
				t.Errorf("the verdict does not name the hook: %+v", v)
			}
			p.End()
			if log := p.Log.String(); !strings.Contains(log, `"event":"copies_lost"`) || !strings.Contains(log, `"cause":"`+c.result+`"`) {
				t.Errorf("the log does not say what is lost: %s", log)
			}
		})
	}
}

// TestCopiesCheck checks that penstock check reports which calls are copied to which sink, without
// the path of a URL.
func TestCopiesCheck(t *testing.T) {
	t.Parallel()
	text := "hooks:\n  - { name: archive, after: \"http://127.0.0.1:8090/CANARY\", keys: [team-a], models: [sim] }\n" +
		"  - { name: all, after: copies.jsonl, keys: [\"*\"], models: [\"*\"] }\n" +
		"keys: [{ id: team-a, hash: \"" + auth.HashKey("a") + "\" }]\nupstreams: [{ name: gpu-a, url: \"http://127.0.0.1:8000\" }]\n" +
		"models: [{ id: sim, deployments: [{ upstream: gpu-a }] }]\n"
	out, errs, code := rig.RunProgram(t, text, "check", "-")
	if code != 0 || !strings.Contains(out, "\nhook archive: copies requests and answers of the keys team-a for the models sim, to http://127.0.0.1:8090\n") ||
		!strings.Contains(out, "\nhook all: copies all requests and answers, to the file copies.jsonl\n") || strings.Contains(out, "CANARY") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
