package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/config/testkit/golden"
)

// simulatedEngine simulates an engine. It serves the recorded pages from an archive, and generates
// the responses to calls.
type simulatedEngine struct {
	// status maps a feature that a request uses to the response status: tools, response_format,
	// reasoning or prefill. "" matches any request.
	status        map[string]int
	plainError    bool   // errors are not JSON
	leaks         string // feature whose markup remains in the text: tools or thinking
	thinks        string // when the model reasons: asked (default), always or never
	calls         int    // number of tool calls in a response
	tool, args    string
	shapeless     bool   // schemas are ignored
	begun         string // reaction to a prefill: continues, echoes, counts (anew) or restarts
	deaf          bool   // the engine continues to generate after its client has disconnected
	posts, active atomic.Int64
	mu            sync.Mutex
	bodies        []string
}

// running maps each engine to its metric for running requests.
var running = map[string]string{"vllm": "vllm:num_requests_running", "llamacpp": "llamacpp:requests_processing"}

func (f *simulatedEngine) serve(t *testing.T, archive string) string {
	t.Helper()
	pages := fakeEngine(t, archive).Config.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			f.posts.Add(1)
			f.answer(w, r)
		case r.URL.Path == "/metrics" && running[archive] != "":
			fmt.Fprintf(w, "%s %d\n", running[archive], f.active.Load())
		default:
			pages.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (f *simulatedEngine) answer(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.bodies = append(f.bodies, string(text))
	f.mu.Unlock()
	var q struct {
		Stream   bool
		Tools    []any
		Messages []struct{ Role, Content string }
		Format   any    `json:"response_format"`
		Effort   string `json:"reasoning_effort"`
		Parallel bool   `json:"parallel_tool_calls"`
	}
	if err := json.Unmarshal(text, &q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	last := q.Messages[len(q.Messages)-1]
	has := map[string]bool{"": true, "tools": q.Tools != nil, "response_format": q.Format != nil, "reasoning": q.Effort == "low", "none": q.Effort == "none", "high": q.Effort == "high" || q.Effort == "max", "prefill": last.Role == "assistant"}
	for what, status := range f.status {
		if has[what] {
			w.WriteHeader(status)
			if !f.plainError {
				fmt.Fprint(w, `{"error":{"message":"secret words of the engine","type":"BadRequestError"}}`)
			}
			return
		}
	}
	switch {
	case has["prefill"]:
		f.stream(w, f.continueAnswer(last.Content))
	case q.Stream:
		f.endless(w, r)
	case has["tools"] && f.leaks == "tools":
		f.writeAnswer(w, `"content":"<tool_call>{\"name\":\"get_weather\"}</tool_call>"`)
	case has["tools"]:
		n := f.calls
		if !q.Parallel {
			n = min(n, 1)
		}
		call := fmt.Sprintf(`{"id":"c","type":"function","function":{"name":%q,"arguments":%q}}`, f.tool, f.args)
		f.writeAnswer(w, `"content":"words","tool_calls":[`+strings.TrimSuffix(strings.Repeat(call+",", n), ",")+`]`)
	case has["response_format"] && !f.shapeless:
		f.writeAnswer(w, `"content":"{\"q7\":\"vo\"}"`)
	case f.thinks != "never" && has["reasoning"] && f.leaks == "thinking":
		f.writeAnswer(w, `"content":"17 and 25</think>42"`)
	case f.thinks == "always" || f.thinks == "" && has["reasoning"]:
		f.writeAnswer(w, `"reasoning_content":"17 and 25","content":"42"`)
	default:
		f.writeAnswer(w, `"content":"Hello"`)
	}
}

func (f *simulatedEngine) continueAnswer(begun string) string {
	next := map[string]string{"1 2 3": " 4 5", "1 2 3 4 5 6 7 8 9 1": "0 11"}[begun]
	switch f.begun {
	case "echoes":
		return begun + next
	case "counts":
		return map[string]string{"1 2 3": "4 5 6", "1 2 3 4 5 6 7 8 9 1": "10 11 12"}[begun]
	case "restarts":
		return "1 2 3 4"
	}
	return next
}

func (f *simulatedEngine) writeAnswer(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",%s}}]}`, message)
}

func (f *simulatedEngine) stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, r := range text {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", string(r))
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// endless streams until the client disconnects. If deaf is true, it continues even then.
func (f *simulatedEngine) endless(w http.ResponseWriter, r *http.Request) {
	f.active.Add(1)
	leave := func() { f.active.Add(-1) }
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"1 \"}}]}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			if !f.deaf {
				leave()
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// goodEngine returns an engine that passes all trials.
func goodEngine() *simulatedEngine {
	return &simulatedEngine{calls: 2, tool: "get_weather", args: `{"city":"Paris"}`}
}

// TestRunTrials simulates engines that each lack one feature. All trials that are not in want must
// succeed.
func TestRunTrials(t *testing.T) {
	for name, c := range map[string]struct {
		engine  string
		change  func(*simulatedEngine)
		want    map[string]TrialVerdict
		advises string // part of the text of the first trial that fails
	}{
		"all there":                {"vllm", func(*simulatedEngine) {}, nil, ""},
		"vLLM without a parser":    {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"tools": 400} }, map[string]TrialVerdict{"tool call": TrialBad, "two calls": TrialSkipped}, "--enable-auto-tool-choice --tool-call-parser"},
		"llama.cpp without jinja":  {"llamacpp", func(f *simulatedEngine) { f.status = map[string]int{"tools": 500} }, map[string]TrialVerdict{"tool call": TrialBad, "two calls": TrialSkipped}, "--jinja"},
		"SGLang without a parser":  {"sglang", func(f *simulatedEngine) { f.leaks = "tools" }, map[string]TrialVerdict{"tool call": TrialBad, "two calls": TrialSkipped, "abort": TrialUnclear}, "--tool-call-parser NAME"},
		"thoughts in the text":     {"vllm", func(f *simulatedEngine) { f.leaks = "thinking" }, map[string]TrialVerdict{"reasoning on": TrialBad, "reasoning off": TrialSkipped}, "--reasoning-parser NAME"},
		"no flag for it":           {"ollama", func(f *simulatedEngine) { f.leaks = "thinking" }, map[string]TrialVerdict{"reasoning on": TrialBad, "reasoning off": TrialSkipped, "abort": TrialSkipped}, "no parser"},
		"does not reason":          {"vllm", func(f *simulatedEngine) { f.thinks = "never" }, map[string]TrialVerdict{"reasoning on": TrialUnclear, "reasoning off": TrialSkipped}, ""},
		"cannot stop reasoning":    {"vllm", func(f *simulatedEngine) { f.thinks = "always" }, map[string]TrialVerdict{"reasoning off": TrialUnclear}, "leave none out"},
		"refuses efforts":          {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"reasoning": 422} }, map[string]TrialVerdict{"efforts": TrialBad, "reasoning on": TrialUnclear, "reasoning off": TrialSkipped}, "422"},
		"a template of Qwen 3.8":   {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"high": 500} }, map[string]TrialVerdict{"efforts": TrialBad}, "fails on high, max: answered with status 500; write supported_reasoning_efforts: [none, low, medium, xhigh]"},
		"refuses effort none":      {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"none": 400} }, map[string]TrialVerdict{"reasoning off": TrialUnclear}, "none is refused"},
		"calls nothing":            {"vllm", func(f *simulatedEngine) { f.calls = 0 }, map[string]TrialVerdict{"tool call": TrialUnclear, "two calls": TrialSkipped}, ""},
		"calls something else":     {"vllm", func(f *simulatedEngine) { f.tool = "x" }, map[string]TrialVerdict{"tool call": TrialUnclear, "two calls": TrialSkipped}, ""},
		"arguments cut off":        {"vllm", func(f *simulatedEngine) { f.args = `{"city"` }, map[string]TrialVerdict{"tool call": TrialUnclear, "two calls": TrialSkipped}, ""},
		"one call at a time":       {"vllm", func(f *simulatedEngine) { f.calls = 1 }, map[string]TrialVerdict{"two calls": TrialUnclear}, ""},
		"schemas ignored":          {"vllm", func(f *simulatedEngine) { f.shapeless = true }, map[string]TrialVerdict{"schema": TrialBad}, "structured_outputs"},
		"schemas refused":          {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"response_format": 400} }, map[string]TrialVerdict{"schema": TrialBad}, "structured_outputs"},
		"begins anew":              {"vllm", func(f *simulatedEngine) { f.begun = "restarts" }, map[string]TrialVerdict{"prefill": TrialUnclear}, ""},
		"shows what was begun":     {"vllm", func(f *simulatedEngine) { f.begun = "echoes" }, map[string]TrialVerdict{"prefill": TrialUnclear}, ""},
		"counts on by itself":      {"vllm", func(f *simulatedEngine) { f.begun = "counts" }, map[string]TrialVerdict{"prefill": TrialUnclear}, "8 9 1"},
		"refuses what is begun":    {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"prefill": 400} }, map[string]TrialVerdict{"prefill": TrialUnclear}, ""},
		"works for the departed":   {"vllm", func(f *simulatedEngine) { f.deaf = true }, map[string]TrialVerdict{"abort": TrialBad}, "keeps generating"},
		"fails everything":         {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"": 500} }, map[string]TrialVerdict{"text": TrialBad, "": TrialSkipped}, "500"},
		"fails without a word":     {"vllm", func(f *simulatedEngine) { f.status, f.plainError = map[string]int{"": 502}, true }, map[string]TrialVerdict{"text": TrialBad, "": TrialSkipped}, "502"},
		"is full":                  {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"": 503} }, map[string]TrialVerdict{"text": TrialUnclear, "": TrialSkipped}, "no room"},
		"a key that is not enough": {"vllm", func(f *simulatedEngine) { f.status = map[string]int{"": 401} }, map[string]TrialVerdict{"text": TrialBad, "": TrialSkipped}, "401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := goodEngine()
			c.change(f)
			d, err := Detect(t.Context(), f.serve(t, c.engine), "", mustProfiles(t))
			if err != nil || f.posts.Load() != 0 {
				t.Fatalf("%v, and %d calls before anything is tried", err, f.posts.Load())
			}
			if err := d.runTrials(t.Context(), "", "", 200*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			advised := false
			for _, r := range d.Tried {
				want := c.want[r.Name]
				if want == "" {
					want = TrialOK
				}
				if r.Verdict != want || r.Text == "" || strings.Contains(r.Text, "secret") {
					t.Errorf("%s: %s (%s), want %s", r.Name, r.Verdict, r.Text, want)
				}
				if r.Verdict != TrialOK && !advised {
					if advised = true; !strings.Contains(r.Text, c.advises) {
						t.Errorf("%s: %s, which does not say %q", r.Name, r.Text, c.advises)
					}
				}
			}
			if n := len(d.Tried); c.want[""] == TrialSkipped && n != 1 || c.want[""] == "" && n != 9 {
				t.Errorf("%d things were tried", n)
			}
		})
	}
}

// TestTriedReport checks that the report lists the trials, both as text and as JSON, and that a
// failed trial causes an error. If the prefill trial succeeds, the report suggests an additional
// configuration line. Without --try, no trial is sent.
func TestTriedReport(t *testing.T) {
	archive := "vllm"
	ask := func(f *simulatedEngine, o DoctorOptions) (string, error) {
		url := f.serve(t, archive)
		o.URLs = []string{url}
		var b bytes.Buffer
		err := RunDoctor(t.Context(), &b, &o)
		port := url[strings.LastIndex(url, ":")+1:]
		if err != nil {
			err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), port, "8000"))
		}
		return strings.ReplaceAll(b.String(), port, "8000"), err
	}
	f := goodEngine()
	if out, err := ask(f, DoctorOptions{}); err != nil || f.posts.Load() != 0 || strings.Contains(out, "tried") {
		t.Errorf("without --try: %d calls, %v\n%s", f.posts.Load(), err, out)
	}
	f.leaks = "tools"
	out, err := ask(f, DoctorOptions{Try: true, Model: "org/m"})
	if err == nil || !strings.Contains(err.Error(), "1 of 9 trials") {
		t.Errorf("the error is %v", err)
	}
	out = out[strings.Index(out, "  tried with"):]
	before, after, _ := strings.Cut(out, "slot is free after ")
	_, after, _ = strings.Cut(after, " ms")
	golden.CompareFile(t, filepath.Join("testdata", "doctor", "tried.txt"), []byte(before+"slot is free after N ms"+after))
	for _, body := range f.bodies {
		if !strings.Contains(body, `"model":"org/m"`) {
			t.Errorf("another model is tried: %s", body)
		}
	}
	out, err = ask(goodEngine(), DoctorOptions{Try: true, JSON: true})
	var found []struct {
		URL, Engine string
		Tried       []FeatureTrial
		TriedModel  string `json:"tried_model"`
	}
	if jsonErr := json.Unmarshal([]byte(out), &found); err != nil || jsonErr != nil || len(found) != 1 || found[0].Engine != "vllm" ||
		found[0].TriedModel != "org/m" || len(found[0].Tried) != 9 || found[0].Tried[0].Verdict != TrialOK {
		t.Errorf("report: %v, %v: %s; want one vllm with 9 trials of org/m", err, jsonErr, out)
	}
	// The report suggests the line only for an engine that is not known to continue a prefill.
	archive = "ollama"
	for begun, want := range map[string]bool{"": true, "counts": false} {
		f := goodEngine()
		f.begun = begun
		if out, _ := ask(f, DoctorOptions{Try: true}); strings.Contains(out, "\n    prefill: proven ") != want {
			t.Errorf("an engine that %q what is begun:\n%s", begun, out)
		}
	}
}
