package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"penstock/config"
	"penstock/config/testkit/pages"
)

// fakeEngine serves the recorded pages from an archive in testdata/engines.
func fakeEngine(t testing.TB, name string) *httptest.Server {
	return pages.Serve(t, filepath.Join("testdata", "engines", name+".txtar"))
}

func mustProfiles(t testing.TB, user ...config.Engine) *Profiles {
	t.Helper()
	p, err := LoadProfiles(user)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustProfile(t testing.TB, name string) *Profile {
	t.Helper()
	p, ok := mustProfiles(t).ByName(name)
	if !ok {
		t.Fatalf("no profile %s", name)
	}
	return p
}

// TestDetect checks that each engine's pages are recognized only by the profile for that engine,
// and that all information in the pages is read.
func TestDetect(t *testing.T) {
	profiles := mustProfiles(t)
	type facts struct {
		Engine, Version string
		Models          string // ids with context and vision
		Slots           int
		Running         int
		Waiting         int
		KVUsage         float64
		Healthy         bool
	}
	for _, want := range []facts{
		{Engine: "vllm", Version: "0.11.1", Models: "org/m:32768 adapter:32768", Running: 5, Waiting: 1, KVUsage: 0.375, Healthy: true},
		{Engine: "sim", Models: "sim-model:0", Healthy: true},
		{Engine: "sglang", Version: "0.5.5", Models: "org/v:16384:vision", Slots: 24, Running: 3, Waiting: 1, KVUsage: 0.3, Healthy: true},
		{Engine: "llamacpp", Version: "b11669-Debian", Models: "markov:2048", Slots: 4, Running: 2, Waiting: 1, Healthy: true},
		{Engine: "llamacpp-router", Version: "b11669-Debian", Models: "alpha:8192:unloaded beta:2048", Healthy: true},
		{Engine: "ollama", Version: "0.33.0-rc2", Models: "markov-slow:latest:0 markov:latest:2048", Healthy: true},
		{Engine: "tgi", Version: "3.0.0", Models: "org/t:4096", Slots: 128, Running: 9, Waiting: 4, Healthy: true},
		{Engine: "tei", Version: "1.9.0", Models: "BAAI/bge-reranker-large:512", Healthy: true},
		{Engine: "trtllm", Version: "1.1", Models: "m:0", Healthy: true},
		{Engine: "lmstudio", Models: "qwen2-vl:32768:vision:unloaded nomic:2048", Healthy: true},
		{Engine: "whisper", Healthy: true},
		{Engine: "whisper-openai", Healthy: true},
		{Engine: "speaches", Models: "Systran/faster-whisper-small:0 speaches-ai/piper-en:0", Healthy: true},
		{Engine: "kokoro", Models: "tts-1:0", Healthy: true},
		{Engine: "openai", Models: "espeak:0", Healthy: true},
	} {
		t.Run(want.Engine, func(t *testing.T) {
			d, err := Detect(t.Context(), fakeEngine(t, want.Engine).URL, "", profiles)
			if err != nil {
				t.Fatal(err)
			}
			got := facts{Engine: d.Profile.Name(), Version: d.Version, Slots: d.Slots, Healthy: d.Healthy}
			var models []string
			for _, m := range d.Models {
				word := m.ID + ":" + strconv.Itoa(m.Context)
				if m.Vision {
					word += ":vision"
				}
				if m.LoadedKnown && !m.Loaded {
					word += ":unloaded"
				}
				models = append(models, word)
			}
			got.Models = strings.Join(models, " ")
			if d.Load != nil {
				got.Running, got.Waiting, got.KVUsage = d.Load.Running, d.Load.Waiting, d.Load.KVUsage
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if d.Recognised == (want.Engine == "openai") {
				t.Errorf("Recognised = %t for engine %s, want %t", d.Recognised, want.Engine, !d.Recognised)
			}
		})
	}
}

// TestDetectWhileLoading checks that a llama.cpp server is detected while it is still loading and
// answers 503 on every path.
func TestDetectWhileLoading(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(503)
		w.Write([]byte(`{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`))
	}))
	defer s.Close()
	d, err := Detect(t.Context(), s.URL, "", mustProfiles(t))
	if err != nil || d.Profile.Name() != "llamacpp" || d.Healthy || d.Health != 503 {
		t.Errorf("Detect = %+v, %v; want an unhealthy llamacpp with status 503", d, err)
	}
}

// TestDetectHandwritten checks that all common forms of a base URL are accepted.
func TestDetectHandwritten(t *testing.T) {
	engine := fakeEngine(t, "vllm").URL
	address := strings.TrimPrefix(engine, "http://")
	for _, written := range []string{engine + "/", engine + "/v1", engine + "/v1/", engine + "/v1/chat/completions", address, address + "/v1"} {
		d, err := Detect(t.Context(), written, "", mustProfiles(t))
		if err != nil || d.URL != engine || d.Profile.Name() != "vllm" {
			t.Errorf("Detect(%q): URL %q, %v; want vllm at %q", written, d.URL, err, engine)
		}
	}
}

func TestDetectNobody(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if _, err := Detect(t.Context(), s.URL, "", mustProfiles(t)); err == nil {
		t.Error("no error")
	}
}

func TestDiscover(t *testing.T) {
	engine, other := fakeEngine(t, "ollama"), httptest.NewServer(http.NotFoundHandler())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer other.Close()
	defer silent.Close()
	var addresses []string
	for _, s := range []*httptest.Server{silent, other, engine} {
		addresses = append(addresses, strings.TrimPrefix(s.URL, "http://"))
	}
	var begun time.Time
	var found []Detection
	for range 20 { // on a busy machine, an engine may respond after Discover's timeout
		begun = time.Now()
		if found = Discover(t.Context(), append(addresses, "127.0.0.1:1"), mustProfiles(t)); len(found) == 1 && len(found[0].Models) == 2 {
			break
		}
	}
	if len(found) != 1 || found[0].Engine != "ollama" || found[0].URL != engine.URL || len(found[0].Models) != 2 {
		t.Errorf("found = %+v, want one ollama at %s with 2 models", found, engine.URL)
	}
	if took := time.Since(begun); took > maxDiscoverTime+5*time.Second {
		t.Errorf("took %v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found := Discover(ended, addresses, mustProfiles(t)); found != nil {
		t.Errorf("found %v after the end", found)
	}
}

func TestUsualAddresses(t *testing.T) {
	got := mustProfiles(t).UsualAddresses("0.0.0.0:8080", ":1234")
	want := []string{"127.0.0.1:3000", "127.0.0.1:8000", "127.0.0.1:8091", "127.0.0.1:8880", "127.0.0.1:11434", "127.0.0.1:30000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProfileAnswers(t *testing.T) {
	llama, router, whisper, ollama, vllm, sglang := mustProfile(t, "llamacpp"), mustProfile(t, "llamacpp-router"), mustProfile(t, "whisper"), mustProfile(t, "ollama"), mustProfile(t, "vllm"), mustProfile(t, "sglang")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"transcriptions of whisper", whisper.Path(config.OpTranscriptions), "/inference"},
		{"chat of whisper", whisper.Path(config.OpChat), ""},
		{"variant of whisper", mustProfile(t, "whisper-openai").Path(config.OpTranscriptions), "/v1/audio/transcriptions"},
		{"chat of vllm", vllm.Path(config.OpChat), "/v1/chat/completions"},
		{"count_tokens of vllm", vllm.Path(OpCountTokens), "/v1/messages/count_tokens"},
		{"count_tokens of ollama", ollama.Path(OpCountTokens), ""},
		{"token limit of ollama", ollama.TokenLimitMember(), "max_tokens"},
		{"token limit of vllm", vllm.TokenLimitMember(), ""},
		{"cancel of llama.cpp", llama.HasQuirk(config.QuirkCancelOnlyStreams), true},
		{"cancel of its router", mustProfile(t, "llamacpp-router").HasQuirk(config.QuirkCancelOnlyStreams), true},
		{"cancel of vllm", vllm.HasQuirk(config.QuirkCancelOnlyStreams), false},
		{"usage of vllm", vllm.HasQuirk(config.QuirkContinuousUsage), true},
		{"usage of the simulator", mustProfile(t, "sim").HasQuirk(config.QuirkContinuousUsage), true},
		{"host of ollama", ollama.HasQuirk(config.QuirkOwnHost), true},
		{"keep-alive of ollama", ollama.KeepAlive(), 30 * time.Second},
		{"keep-alive of llama.cpp", llama.KeepAlive(), 4 * time.Second},
		{"refused by sglang", slices.Contains(sglang.RefusedMembers(), "bootstrap_*"), true},
		{"refused by vllm", slices.Contains(vllm.RefusedMembers(), "kv_transfer_params"), true},
		{"bad tools", llama.IsClientFault(500, "server_error", "Failed to parse tools: Missing tool function"), true},
		{"a call in the history", llama.IsClientFault(500, "server_error", "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error"), true},
		{"a large input", llama.IsClientFault(500, "server_error", "input (1203 tokens) is too large to process. increase the physical batch size (current batch size: 256)"), true},
		{"another edge's reasoning format", llama.IsClientFault(500, "server_error", "Unknown reasoning format: parsed"), true},
		{"a video", llama.IsClientFault(500, "server_error", "video input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), true},
		{"two grammars", llama.IsClientFault(500, "server_error", "Cannot use both json_schema and grammar"), true},
		{"no messages", llama.IsClientFault(500, "server_error", "'messages' is required"), true},
		{"echo", llama.IsClientFault(500, "server_error", "Only no echo is supported"), true},
		{"a prompt of an object", llama.IsClientFault(500, "server_error", `"prompt" must not be empty`), true},
		{"a large input behind ollama", ollama.IsClientFault(500, "api_error", "input (1203 tokens) is too large to process. increase the physical batch size (current batch size: 256)"), true},
		{"a child that is not there", router.IsTemporary(500, "server_error", "proxy error: Could not establish connection"), true},
		{"a child that has just come", router.IsTemporary(400, "", ""), true},
		{"a bad request behind a router", router.IsTemporary(400, "invalid_request_error", "Input content cannot be empty"), false},
		{"another error of a router", router.IsTemporary(500, "server_error", "Compute error."), false},
		{"not now, of one engine", llama.IsTemporary(400, "", ""), false},
		{"a fault of llama.cpp", llama.IsClientFault(500, "server_error", "Compute error."), false},
		{"an image for ollama", ollama.IsClientFault(500, "api_error", `{"error":{"message":"image input is not supported - hint"}}`), true},
		{"embeddings of a chat server", llama.IsClientFault(501, "not_supported_error", ""), true},
		{"whisper's numbers", whisper.IsClientFault(500, "", "500 Internal Server Error\nstof"), true},
		{"busy ollama", ollama.IsOverload(503, "api_error", "server busy, please try again.  maximum pending requests exceeded"), true},
		{"loading llama.cpp", llama.IsOverload(503, "unavailable_error", "Loading model"), false},
		{"title", mustProfile(t, "sim").Title(), "Penstock simulator"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestReasoningForm(t *testing.T) {
	for _, c := range []struct{ engine, off, on string }{
		{"openai", "", ""},
		{"ollama", "", ""},
		{"llamacpp", `chat_template_kwargs={"enable_thinking":false}`, `chat_template_kwargs={"enable_thinking":true}`},
		{"vllm", `chat_template_kwargs={"enable_thinking":false,"thinking":false}`, ""},
	} {
		r := mustProfile(t, c.engine).Reasoning()
		if membersText(r.Off) != c.off || membersText(r.On) != c.on {
			t.Errorf("%s: off %s, on %s", c.engine, membersText(r.Off), membersText(r.On))
		}
	}
}

// TestReasoningHistory checks the member from which each engine reads the reasoning of earlier
// turns.
func TestReasoningHistory(t *testing.T) {
	for engine, want := range map[string]string{
		"openai": "reasoning_content", "sglang": "reasoning_content", "llamacpp": "reasoning_content",
		"llamacpp-router": "reasoning_content", "trtllm": "reasoning_content", "lmstudio": "reasoning_content",
		"penstock": "reasoning_content", "vllm": "reasoning", "sim": "reasoning", "ollama": "reasoning", "tgi": "",
	} {
		if got := mustProfile(t, engine).Reasoning().History; got != want {
			t.Errorf("%s: %q, want %q", engine, got, want)
		}
	}
}

// TestPrefill checks the request members that make some engines treat a final assistant message as
// the start of the response.
func TestPrefill(t *testing.T) {
	for engine, want := range map[string]string{
		"vllm":     "add_generation_prompt=false chat_template_kwargs={\"enable_thinking\":false,\"thinking\":false} continue_final_message=true",
		"sglang":   "add_generation_prompt=false chat_template_kwargs={\"enable_thinking\":false,\"thinking\":false} continue_final_message=true",
		"llamacpp": "", "ollama": "", "tgi": "", "openai": "",
	} {
		if got := membersText(mustProfile(t, engine).PrefillMembers()); got != want {
			t.Errorf("%s: Prefill = %q, want %q", engine, got, want)
		}
	}
	none, _ := mustProfiles(t, config.Engine{Name: "mine", Like: "vllm", Prefill: map[string]any{}}).ByName("mine")
	if got := membersText(none.PrefillMembers()); got != "" {
		t.Errorf("taken away: %s", got)
	}
}

func membersText(members []RequestMember) string {
	var out []string
	for _, m := range members {
		out = append(out, m.Name+"="+string(m.Value))
	}
	return strings.Join(out, " ")
}

func TestUserProfiles(t *testing.T) {
	own := config.Engine{Name: "mine", Like: "llamacpp", Quirks: []string{}, Detect: []config.EngineSign{{Path: "/mine", Contains: []string{"x"}}}}
	p := mustProfiles(t, own)
	mine, _ := p.ByName("mine")
	if mine.HasQuirk(config.QuirkCancelOnlyStreams) || mine.Path(OpCountTokens) == "" || mine.spec.Health.Path != "/health" {
		t.Errorf("not merged: %+v", mine.spec)
	}
	if p.All()[0] != mine {
		t.Error("a user's profile is not tried first")
	}
	if !slices.Contains(EngineNames([]config.Engine{own}), "mine") || !slices.Contains(EngineNames(nil), "auto") {
		t.Error("names are missing")
	}
	replaced := mustProfiles(t, config.Engine{Name: "vllm", Concurrency: 7})
	if v, _ := replaced.ByName("vllm"); v.spec.Concurrency != 7 || v.HasQuirk(config.QuirkContinuousUsage) {
		t.Errorf("a bundled profile was not replaced: %+v", v.spec)
	}
	for _, c := range []struct {
		user []config.Engine
		want string
	}{
		{[]config.Engine{{Name: "a", Like: "nothing"}}, `engine profile "a": like: there is no profile "nothing"`},
		{[]config.Engine{{Name: "a", Like: "b"}, {Name: "b", Like: "a"}}, "derives from itself"},
		{[]config.Engine{{Name: "a"}, {Name: "a"}}, "given twice"},
		{[]config.Engine{{Name: "a", TokenLimit: "tokens"}}, `engine profile "a": token_limit: "tokens" is not one of`},
		{[]config.Engine{{Name: "a", Load: []config.EngineLoad{{Path: "metrics"}}}}, `load[0].path: "metrics" is not a path`},
		{[]config.Engine{{Name: "a", Quirks: []string{"odd"}}}, `quirks[0]: "odd" is not one of`},
		{[]config.Engine{{Name: "a", Paths: map[string]string{"talk": "/x"}}}, "paths.talk: not an operation"},
	} {
		if _, err := LoadProfiles(c.user); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestBundledProfiles checks that every bundled profile is in detectionOrder, and that every file
// is named after its profile.
func TestBundledProfiles(t *testing.T) {
	files, _ := filepath.Glob("profiles/*.yaml")
	if len(files) != len(detectionOrder) {
		t.Errorf("%d files, %d in the order of detection", len(files), len(detectionOrder))
	}
	p := mustProfiles(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if _, ok := p.ByName(name); !ok || !slices.Contains(detectionOrder, name) {
			t.Errorf("%s: profile %s is missing", file, name)
		}
	}
}

// TestKnownEnginesAreParsedOnce checks that a reload does not parse the bundled profiles again.
func TestKnownEnginesAreParsedOnce(t *testing.T) {
	KnownEngines()
	if n := testing.AllocsPerRun(10, func() { KnownEngines() }); n > 0 {
		t.Errorf("Known allocates %v times", n)
	}
}
