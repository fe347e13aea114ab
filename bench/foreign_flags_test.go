package bench

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
)

// TestForeignFlags holds that flags of other tools are refused with a line that says what to do, wherever they stand and whatever
// follows them, and that none of them is a flag of ours.
func TestForeignFlags(t *testing.T) {
	for line, want := range map[string]string{
		"run http://h:1 --tokenizer meta/llama -n 3": "no tokenizer",
		"--tokenizer=x http://h:1":                   "no tokenizer",
		"run --trust-remote-code --scenario chat":    "no tokenizer",
		"--model m --profile --num-prompts 5":        "start_profile",
		"run --profile":                              "start_profile",
		"--profile http://h:1":                       "start_profile",
		"--use-beam-search":                          "--extra-body",
		"--hf-name x/y":                              "--dataset-path",
		"http://h:1 --tokenizer x":                   "no tokenizer",
	} {
		c := parse(t, strings.Fields(line)...)
		_, err := c.Run.validate()
		var e *ExitError
		if !errors.As(err, &e) || e.Code != ExitUsage || !strings.Contains(e.Text, want) || strings.Contains(e.Text, "\n") {
			t.Errorf("%s: %v, want one line with %q", line, err, want)
		}
	}
	for _, line := range []string{"bench --profile sweep", "bench --profile=search", "bench -- --tokenizer", "bench compare --tokenizer", "serve --tokenizer x", "bench"} {
		if flag := foreignFlag(strings.Fields(line)); flag != "" {
			t.Errorf("%s: --%s is refused", line, flag)
		}
	}
	for _, f := range foreign {
		for _, flag := range f.flags {
			if flag != "profile" && slices.Contains(ownFlags(t), flag) {
				t.Errorf("--%s is ours and is refused", flag)
			}
		}
	}
}

// TestFlagsOfOthers takes command lines of other load testers.
func TestFlagsOfOthers(t *testing.T) {
	c := parse(t, "run", "--endpoint-type", "openai-chat", "--base-url", "http://h:1", "--model", "meta/Llama", "--served-model-name", "llama", "--request-count", "7", "--concurrency", "3",
		"--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "4", "--gsp-system-prompt-len", "100", "--gsp-question-len", "20", "--gsp-output-len", "9",
		"--disable-stream", "--random-seed", "5", "--warmup-requests", "2", "--top-p", "0.9", "--repetition-penalty", "1.1", "--extra-request-body", `{"x":1}`)
	s, err := c.Run.validate()
	if err != nil {
		t.Fatal(err)
	}
	if s.mix[0].d.name != "chat" || s.Model != "llama" || s.NumPrompts != 7 || s.MaxConcurrency[0] != 3 || s.DatasetName != "prefix_repetition" || s.NumPrefixes != 4 || s.PrefixLen != 100 ||
		s.in.String() != "20" || s.out.String() != "9" || !s.NoStream || s.Seed != 5 || s.NumWarmups != 2 || string(s.extra) != `,"top_p":0.9,"repetition_penalty":1.1,"x":1` {
		t.Errorf("%+v, extra %s", s.Options, s.extra)
	}
}

// ownFlags are the names of all flags of `bench run`.
func ownFlags(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, f := range runFlags(t) {
		out = append(append(out, f.Name), f.Aliases...)
	}
	return out
}

// cache is an engine with a prefix cache that can be emptied: by vLLM's page, or SGLang's.
type cache struct {
	engine http.Handler
	page   string // that empties
	tell   string // that tells the engine apart
	status int

	mu      sync.Mutex
	emptied []time.Time
}

func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == c.tell:
		_, _ = io.WriteString(w, "{}")
	case r.URL.Path == c.page && r.Method == http.MethodPost:
		c.mu.Lock()
		c.emptied = append(c.emptied, time.Now())
		c.mu.Unlock()
		w.WriteHeader(c.status)
	case r.Method == http.MethodPost:
		c.engine.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func TestFlushCache(t *testing.T) {
	for name, c := range map[string]*cache{
		"vllm":             {tell: "/version", page: "/reset_prefix_cache", status: 200},
		"sglang":           {tell: "/get_server_info", page: "/flush_cache", status: 200},
		"sglang, busy":     {tell: "/get_server_info", page: "/flush_cache", status: 400},
		"vllm, production": {tell: "/version", page: "/reset_prefix_cache", status: 404},
		"llamacpp":         {tell: "/props"},
		"unknown":          {tell: "/nothing"},
	} {
		c.engine = &stalling{}
		server := httptest.NewServer(c)
		r, _, err := Run(t.Context(), Options{BaseURL: server.URL, Model: "m", NumPrompts: 3, MaxConcurrency: []int{1, 2}, InputLen: "4", OutputLen: "1", NoFloor: true, FlushCache: true}, nil)
		server.Close()
		if c.status == 200 {
			if err != nil || len(c.emptied) != 2 || len(r.Penstock.Events) != 1 || r.Penstock.Events[0].Action != "flush_cache" || r.Penstock.Events[0].Error != "" {
				t.Errorf("%s: %v, emptied %v", name, err, c.emptied)
			}
			continue
		}
		want := map[string]string{"sglang, busy": "status 400", "vllm, production": "VLLM_SERVER_DEV_MODE", "llamacpp": "(llamacpp) has no call", "unknown": "not known"}[name]
		var e *ExitError
		if !errors.As(err, &e) || e.Code != ExitUsage || !strings.Contains(e.Text, want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestProbes asks an engine with few slots, full of long answers, for single tokens beside them: the probes feel the queue.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := engine(t, sim.Options{TokenRate: 20, Slots: 2, KeepAlive: time.Minute})
	r, records := bench(t, Options{BaseURL: e.URL(), NumPrompts: 6, MaxConcurrency: []int{2}, InputLen: "10", OutputLen: "20", ProbeRate: 5, IgnoreEOS: true})
	if r.Completed != 6 || len(records) != 6 || r.MaxConcurrentRequests != 2 {
		t.Errorf("completed %d, %d records, %d at once: probes are in the load's numbers", r.Completed, len(records), r.MaxConcurrentRequests)
	}
	if r.ProbeCompleted == nil || *r.ProbeCompleted < 5 || *r.ProbeFailed != 0 || r.ProbeMaxE2ELMs == nil || *r.ProbeMaxE2ELMs < 200 || *r.ProbeMedianE2ELMs > *r.ProbeMaxE2ELMs {
		t.Errorf("probes: %+v, %+v", r.ProbeCompleted, r.ProbeMaxE2ELMs)
	}
	var text, page bytes.Buffer
	if err := errors.Join(WriteText(&text, r, []string{TTFT}, []float64{99}, false), WriteHTML(&page, r)); err != nil || !strings.Contains(text.String(), "Probes of one token") || !strings.Contains(page.String(), "Probes of one token") {
		t.Errorf("%v: the reports do not tell the probes:\n%s", err, text.String())
	}
	var e2 *ExitError
	if _, _, err := Run(t.Context(), Options{BaseURL: e.URL(), Backend: "embeddings", ProbeRate: 1}, nil); !errors.As(err, &e2) || e2.Code != ExitUsage {
		t.Errorf("probes without tokens: %v", err)
	}
}
