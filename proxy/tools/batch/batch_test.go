package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCheckInput checks that all mistakes are reported with their line numbers, and that no text
// from a line is quoted.
func TestCheckInput(t *testing.T) {
	good := `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}`
	path := write(t, "in.jsonl", strings.Join([]string{
		good,
		``,
		`{"custom_id":"secret"`,
		strings.Replace(good, `"a"`, `""`, 1),
		strings.Replace(good, "POST", "GET", 1),
		strings.Replace(good, "/v1/chat/completions", "http://elsewhere/v1/secret", 1),
		strings.Replace(good, `{"model":"m"}`, `["secret"]`, 1),
		strings.Replace(good, `"m"`, `"m","stream":true`, 1),
		good,
		strings.Replace(good, `"a"`, `"b"`, 1),
		` []`,
		`null`,
		strings.Replace(good, `"a"`, `5`, 1),
	}, "\r\n"))
	lines, err := checkInput(path)
	if lines != 2 || err == nil {
		t.Fatalf("check = %d lines, %v; want 2 and an error", lines, err)
	}
	for _, want := range []string{
		":3: it is not JSON", ":4: it has no custom_id", ":5: its method", ":6: its url", ":7: its body is not", ":8: its body asks for a stream", ":9: its custom_id is that of line 1",
		":11: it is JSON, but not an object", ":12: it is JSON, but not", ":13: its custom_id, method or url is not a string",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), ":10:") {
		t.Errorf("too much in\n%v", err)
	}
}

// TestRepairOutput checks that final lines stay in the output file. A truncated line and lines that
// must be sent again must be removed.
func TestRepairOutput(t *testing.T) {
	line := func(id string, status int) string {
		return fmt.Sprintf(`{"id":"x","custom_id":%q,"response":{"status_code":%d,"request_id":"","body":{}},"error":null}`, id, status)
	}
	lost := `{"id":"x","custom_id":"lost","response":null,"error":{"code":"no_answer","message":""}}`
	kept := line("a", 200) + "\n" + line("b", 400) + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"whole":          {kept, kept},
		"empty":          {"", ""},
		"cut":            {kept + line("c", 200)[:40], kept},
		"cut at its end": {strings.TrimSuffix(kept, "\n"), kept},
		"may be now":     {line("c", 401) + "\n" + line("d", 403) + "\n" + line("e", 404) + "\n" + kept, kept},
		"to be repeated": {lost + "\n" + line("c", 503) + "\n" + kept + line("d", 429) + "\n", kept},
		"there twice":    {kept + line("a", 200) + "\n", kept},
	} {
		path := write(t, "out.jsonl", c.text)
		o, err := openOutput(path)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
		text, _ := os.ReadFile(path)
		if string(text) != c.want || len(o.doneIDs) != strings.Count(c.want, "\n") || o.refused != strings.Count(c.want, ":400") {
			t.Errorf("%s: %d done and %d refused, want the file\n%s\ngot\n%s", name, len(o.doneIDs), o.refused, c.want, text)
		}
		if left, _ := filepath.Glob(path + ".*"); left != nil {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}

// TestOutputOfSomethingElse checks that a file is left unchanged if it is not the output of a
// batch.
func TestOutputOfSomethingElse(t *testing.T) {
	ours := `{"id":"x","custom_id":"a","response":{"status_code":200,"request_id":"","body":{}},"error":null}` + "\n"
	for name, text := range map[string]string{
		"text":             "line one\nline two\n",
		"one line":         "line one",
		"an input":         `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}` + "\n",
		"yaml":             "keys:\n- id: a\n",
		"no custom_id":     `{"id":"x","response":{"status_code":200},"error":null}`,
		"both":             `{"id":"x","custom_id":"a","response":{"status_code":200},"error":{"code":"x"}}` + "\n",
		"at its end":       ours + "more",
		"in the middle":    ours + "more\n" + ours,
		"cut, and more":    `{"id":"x","cus` + "\n" + ours,
		"cut, with an end": ours + `{"id":"x","cus` + "\n",
		"JSON":             "{}",
		"JSON over lines":  "{\n  \"id\": 1\n}\n",
	} {
		path := write(t, "doc.txt", text)
		_, err := openOutput(path)
		var e *ExitError
		if !errors.As(err, &e) || e.Code != exitUsage || !strings.Contains(err.Error(), path+":") {
			t.Errorf("openOutput(%s): %v, want a usage error that names the file", name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: it is now %q", name, got)
		}
		if left, _ := filepath.Glob(path + ".*"); left != nil {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}

// TestRetryAfter checks that a line is not sent again immediately even if the header asks for an
// extremely long wait.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "soon": 0, "7": 7 * time.Second, "7200": 2 * time.Hour,
		"9223372037":              9223372036 * time.Second, // exceeds 2^63 nanoseconds
		"99999999999999999999999": 9223372036 * time.Second, "-99999999999999999999999": 0,
	} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// TestUsedUpBudget checks that an exhausted budget ends the run. The run must report when the
// budget renews, and must not write the refusal to the output.
func TestUsedUpBudget(t *testing.T) {
	var asked atomic.Int64
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":"quota_exceeded"}}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	defer edge.Close()
	var lines strings.Builder
	for i := range 5 {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":{}}`+"\n", i)
	}
	in, out, begun := write(t, "in.jsonl", lines.String()), write(t, "out.jsonl", ""), time.Now()
	var notes strings.Builder
	err := Run(t.Context(), &Options{In: in, Out: out, URL: edge.URL, Concurrency: 1, Notes: &notes})
	var coded *ExitError
	if err == nil || errors.As(err, &coded) || !strings.Contains(err.Error(), in+":2: the edge answers 429 quota_exceeded until ") {
		t.Fatalf("Run: %v, want the quota's end and line 2", err)
	}
	_, until, _ := strings.Cut(err.Error(), "until ")
	until, _, _ = strings.Cut(until, "Z")
	if at, err := time.Parse(time.RFC3339, until+"Z"); err != nil || at.Before(begun.Add(2*time.Hour-2*time.Second)) {
		t.Errorf("the quota renews at %q, %v; want two hours from the start", until, err)
	}
	if text, _ := os.ReadFile(out); strings.Count(string(text), "\n") != 1 || asked.Load() != 2 {
		t.Errorf("%d calls, and the output is %q", asked.Load(), text)
	}
}

// TestWrongOptions checks that an invalid address, or a key that no edge would accept, is reported
// immediately. The error must not quote the key.
func TestWrongOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":  {},
		"input -":     {URL: "http://127.0.0.1", In: "-", Out: "none.out"},
		"output -":    {URL: "http://127.0.0.1", In: "none.jsonl", Out: "-"},
		"a word":      {URL: "nonsense:foo"},
		"another way": {URL: "ftp://127.0.0.1"},
		"no host":     {URL: "http:///v1"},
		"a blank":     {URL: "http://127.0.0.1", Key: "sk secret"},
		"two lines":   {URL: "http://127.0.0.1", Key: "sk\nsecret"},
		"not ASCII":   {URL: "http://127.0.0.1", Key: "secret\u00e4"},
	} {
		if o.Notes = io.Discard; o.In == "" {
			o.In, o.Out = "none.jsonl", "none.out"
		}
		var e *ExitError
		if err := Run(t.Context(), &o); !errors.As(err, &e) || e.Code != exitUsage || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "none.jsonl") {
			t.Errorf("%s: %v, want a usage error without the secret", name, err)
		}
	}
	for text, want := range map[string]string{
		"sk":                                  "sk",
		"sk\n":                                "sk",
		"\r\nsk \r\n\r\n# Keep it\r\n- id: a": "sk",
		"sk\n\n# Keep the key\n- id: a\n":     "sk",
		"sk\n- id: a\n":                       "sk\n- id: a",
	} {
		if got := parseKeyFile(text); got != want {
			t.Errorf("parseKeyFile(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestProgressSaysWhy checks that, until the first answer arrives, the progress line states what
// the run is waiting for.
func TestProgressSaysWhy(t *testing.T) {
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"code":"no_healthy_route"}}`)
	}))
	r := &run{o: &Options{}, baseURL: edge.URL, transport: &http.Transport{}, gate: newGate(1)}
	line := &request{URL: "/v1/chat/completions", Body: []byte("{}")}
	for _, want := range []string{"the edge answers 503 no_healthy_route", "connection refused"} {
		r.failures.Store(maxConsecutiveFailures - 1)
		if _, err := r.sendUntilAnswered(t.Context(), line); !errors.Is(err, errTooManyFailures) || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("work: %v, want no answer because of %s", err, want)
		}
		if got := r.progressText(3); got != "0 of 3 lines, 0 at once: "+want+", trying again" {
			t.Errorf("progress = %q, want it to name %s", got, want)
		}
		r.transport.CloseIdleConnections()
		edge.Close()
	}
}

// TestSilentAddress checks that a run reports immediately, and only once, that no server responds.
func TestSilentAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		said := &firstWriteRecorder{begun: time.Now(), then: stop}
		in := write(t, "in.jsonl", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}`)
		err := Run(ctx, &Options{In: in, Out: in + ".out", URL: "http://127.0.0.1:1/v1", Concurrency: 1, Notes: said})
		if e := (*ExitError)(nil); !errors.As(err, &e) || e.Code != exitInterrupted {
			t.Errorf("the run ends by %v", err)
		}
		text := said.text.String()
		if want := "http://127.0.0.1:1 does not answer: 0 of 1 lines, 0 at once: connection refused, trying again\n"; !strings.HasPrefix(text, want) || said.after >= minRetryPause {
			t.Errorf("after %v it says %q", said.after, text)
		}
	})
}

type firstWriteRecorder struct {
	begun time.Time
	then  func()
	after time.Duration
	text  strings.Builder
}

func (w *firstWriteRecorder) Write(p []byte) (int, error) {
	if w.text.Len() == 0 {
		w.after = time.Since(w.begun)
		w.then()
	}
	return w.text.Write(p)
}

// TestOutputIsLocked checks that only one run at a time can use an output file, even if the file
// has just been repaired.
func TestOutputIsLocked(t *testing.T) {
	for name, text := range map[string]string{
		"new":    "",
		"mended": `{"id":"x","custom_id":"a","response":null,"error":{"code":"no_answer","message":""}}` + "\n",
	} {
		path := write(t, "out.jsonl", text)
		first, err := openOutput(path)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := openOutput(path); err == nil || !strings.Contains(err.Error(), "another batch writes "+path) {
			t.Errorf("%s: openOutput: %v, want an error about another batch", name, err)
		}
		if err := errors.Join(first.writeAnswer(&outputLine{ID: "x", CustomID: "b", Response: &response{Status: 200, Body: []byte("{}")}}), first.close()); err != nil {
			t.Error(name, err)
		}
		next, err := openOutput(path)
		if err != nil || len(next.doneIDs) != 1 || !next.doneIDs["b"] {
			t.Fatalf("%s: openOutput = %v, %v; want b alone done", name, next, err)
		}
		if err := next.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSlotGateFindsLimit checks that the number of concurrent requests approaches the number of
// free slots, and stays close to it.
func TestSlotGateFindsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, ceiling = 12, 64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := newGate(ceiling)
		var mu sync.Mutex
		busy, most, refused, answered := 0, 0, 0, 0
		take := func() bool {
			mu.Lock()
			defer mu.Unlock()
			if busy == slots {
				refused++
				return false
			}
			busy++
			most = max(most, busy)
			return true
		}
		give := func() {
			mu.Lock()
			defer mu.Unlock()
			busy--
			answered++
		}
		for range ceiling {
			go func() {
				for g.enter(ctx) == nil {
					if !take() {
						g.leaveRefused(time.Second)
						_ = sleep(ctx, time.Second)
					} else if sleep(ctx, 100*time.Millisecond) == nil {
						give()
						g.leave()
					}
				}
			}()
		}
		time.Sleep(100 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most != slots || answered < 1000*slots*9/10 || refused > answered/5 {
			t.Errorf("%d at once, %d answered, %d refused", most, answered, refused)
		}
	})
}

// TestSlotGateWaits checks that, if no other request is running, no request starts after a refusal
// until its Retry-After has passed.
func TestSlotGateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, begun := newGate(1), time.Now()
		for i := range 3 {
			if err := g.enter(t.Context()); err != nil || time.Since(begun) != time.Duration(i)*7*time.Second {
				t.Errorf("request %d after %v, %v", i, time.Since(begun), err)
			}
			g.leaveRefused(7 * time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if g.enter(ctx) == nil {
			t.Error("an ended run began a request")
		}
	})
}
