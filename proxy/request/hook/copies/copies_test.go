package copies

import (
	"bufio"
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

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	t      *testing.T
	copies *CopySinks
	hook   config.Hook
	log    *observer.ObservedLogs
	closed bool
}

func newRig(t *testing.T, after string, change ...func(*config.Hook)) *rig {
	core, log := observer.New(zapcore.DebugLevel)
	r := &rig{t: t, log: log}
	r.copies = New(Options{Log: zap.New(core), Guard: guard.New(), Metrics: metrics.NewSet()})
	r.hook.SetDefaults()
	r.hook.Name, r.hook.After, r.hook.Timeout = "archive", after, config.Duration(time.Minute)
	for _, c := range change {
		c(&r.hook)
	}
	r.copies.Apply([]config.Hook{r.hook})
	t.Cleanup(r.close)
	return r
}

func (r *rig) sink() *hookSink { return (*r.copies.sinks.Load())["archive"] }

// close stops the sinks. It checks that all memory was released, and that the log contains no text
// of a call.
func (r *rig) close() {
	if r.closed {
		return
	}
	r.closed = true
	s := r.sink()
	r.copies.Close()
	if s != nil {
		r.waitFor("memory is free", func() bool { return s.heldBytes.Load() == 0 })
	}
	for _, line := range r.log.All() {
		if strings.Contains(line.Message+fmt.Sprint(line.ContextMap()), "CANARY") {
			r.t.Errorf("the log has text of a call: %v", line)
		}
	}
}

func (r *rig) waitFor(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not so: %s", what)
		}
	}
}

func (r *rig) count(result string) int {
	return int(r.copies.opts.Metrics.GetOrCreateCounter(`penstock_hook_copies_total{hook="archive",result="` + result + `"}`).Get())
}

func (r *rig) call(id, request string, answer ...string) {
	c := r.copies.BeginCopy(&r.hook, "llama", nil)
	if c == nil {
		r.t.Fatal("the hook copies nothing")
	}
	c.AddRequest([]byte(request))
	for _, piece := range answer {
		c.AddAnswer([]byte(piece))
	}
	c.End(&CallInfo{
		RequestID: id, Key: "team-a", Model: "llama", Endpoint: "/v1/messages", Stream: true, Status: 200, Outcome: "ok",
		Start: time.Unix(1_800_000_000, 0), Took: 1500 * time.Millisecond, TTFT: 20 * time.Millisecond,
	})
}

type collector struct {
	*httptest.Server
	mu     sync.Mutex
	lines  []string
	answer http.HandlerFunc
}

func newCollector(t *testing.T, answer http.HandlerFunc) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if c.answer != nil {
			c.answer(w, r)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, strings.SplitAfter(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

func read(t *testing.T, line string) (d copyDocument) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &d); err != nil {
		t.Errorf("%v: %q", err, line)
	}
	return d
}

// TestURL checks every byte of a copy and of the HTTP request that contains the copy.
func TestURL(t *testing.T) {
	var head http.Header
	got := make(chan string, 8)
	c := newCollector(t, nil)
	c.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		head = r.Header
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	})
	r := newRig(t, c.URL+"/copies", func(h *config.Hook) { h.Token = "secret" })
	r.call("req_1", "{\"a\":\n\"<b>\"}", "data: 1\n\n", "data: 2\n\n")
	want := `{"version":1,"hook":"archive","request_id":"req_1","key":"team-a","model":"llama","endpoint":"/v1/messages","stream":true,` +
		`"time":"2027-01-15T08:00:00Z","duration_ms":1500,"ttft_ms":20,"status":200,"outcome":"ok",` +
		`"request":{"bytes":12,"body":"{\"a\":\n\"<b>\"}"},"answer":{"bytes":18,"body":"data: 1\n\ndata: 2\n\n"}}` + "\n"
	r.waitFor("it is delivered", func() bool { return r.count(resultDelivered) == 1 && len(got) == 1 })
	if line := <-got; line != want {
		t.Errorf("%s, want %s", line, want)
	}
	if head.Get("Authorization") != "Bearer secret" || head.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v", head)
	}
}

// TestBounds checks that request and answer bodies above the limit are truncated between
// characters. Bytes that are not valid UTF-8 must be sent as base64.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name, text, body, base64 string
		truncated                bool
	}{
		{"short", "12345678", "12345678", "", false},
		{"long", "123456789", "12345678", "", true},
		{"within a character", "1234567ü", "1234567", "", true},
		{"after a character", "123456üü", "123456ü", "", true},
		{"not UTF-8", "\xff\xfe", "", "//4=", false},
		{"not UTF-8 at the end", "1234567\xff", "", base64.StdEncoding.EncodeToString([]byte("1234567\xff")), false},
		{"nothing", "", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := newCollector(t, nil)
			r := newRig(t, at.URL, func(h *config.Hook) { h.Bytes = 8 })
			r.call("req_1", c.text, c.text[:len(c.text)/2], c.text[len(c.text)/2:])
			r.waitFor("it is delivered", func() bool { return len(at.got()) == 1 })
			d := read(t, at.got()[0])
			for _, p := range []copyContent{d.Request, d.Answer} {
				body := ""
				if p.Body != nil {
					body = *p.Body
				}
				if body != c.body || p.Base64 != c.base64 || p.Truncated != c.truncated || p.Bytes != int64(len(c.text)) {
					t.Errorf("%q, %q, %v, %d bytes", body, p.Base64, p.Truncated, p.Bytes)
				}
			}
		})
	}
}

// TestSlowSink checks that a sink that does not respond loses copies but does not delay calls. The
// copies must stay within the memory limit, and lost copies must be counted.
func TestSlowSink(t *testing.T) {
	asked, free := make(chan struct{}, 1024), make(chan struct{})
	c := newCollector(t, func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		select {
		case <-free:
		case <-q.Context().Done():
		}
	})
	const memory = 64 << 10
	r := newRig(t, c.URL, func(h *config.Hook) { h.Bytes, h.Memory = 16<<10, memory })
	text := strings.Repeat("CANARY", 2<<10)
	r.call("req_0", text, text)
	r.waitFor("the sink is asked", func() bool { return len(asked) > 0 })
	for i := range 20 {
		r.call(fmt.Sprint("req_", i+1), text, text)
		if held := r.sink().heldBytes.Load(); held > memory {
			t.Fatalf("%d bytes are held", held)
		}
	}
	lost := r.count(lossReasonFull)
	if lost < 15 || lost > 20 {
		t.Errorf("%d are lost", lost)
	}
	if all := r.copies.RecentLosses(time.Now()); len(all) != 1 || all[0].Lost != lost || all[0].Why != lossReasonDescriptions[lossReasonFull] {
		t.Errorf("%+v", all)
	}
	if n := r.log.FilterMessage("copies of calls were lost").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
	close(free)
	r.waitFor("the rest is delivered", func() bool { return r.count(resultDelivered) == 21-lost })
	r.call("req_x", text, text)
	r.waitFor("it goes on", func() bool { return r.count(resultDelivered) == 22-lost })
}

// TestLongQueue checks that the number of queued copies is limited even if the copies are empty.
func TestLongQueue(t *testing.T) {
	asked, free := make(chan struct{}, 1024), make(chan struct{})
	c := newCollector(t, func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		select {
		case <-free:
		case <-q.Context().Done():
		}
	})
	r := newRig(t, c.URL)
	r.call("req_0", "")
	r.waitFor("the sink is asked", func() bool { return len(asked) > 0 })
	for range maxQueued + 5 {
		r.call("req_1", "")
	}
	if n := r.count(lossReasonFull); n != 5 {
		t.Errorf("%d are lost, want 5", n)
	}
	close(free)
	r.waitFor("the rest is delivered", func() bool { return r.count(resultDelivered) == maxQueued+1 })
}

// TestFailures checks the counters for sinks that always fail.
func TestFailures(t *testing.T) {
	refuses := newCollector(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", 500) })
	redirects := newCollector(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
	})
	hangs := newCollector(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	away := newCollector(t, nil)
	away.Close()
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() }) // the subtests are parallel and use the socket until they end
	for _, c := range []struct {
		name, after, result string
		timeout             time.Duration
	}{
		{"an error", refuses.URL, lossReasonStatus, 0},
		{"a redirect", redirects.URL, lossReasonStatus, 0},
		{"no answer", hangs.URL, lossReasonTimeout, 20 * time.Millisecond},
		{"no server", away.URL, lossReasonUnreachable, 0},
		{"a socket that nobody reads", "unix:" + filepath.Join(dir, "s"), lossReasonTimeout, 20 * time.Millisecond},
		{"no socket", "unix:" + filepath.Join(dir, "none"), lossReasonUnreachable, 0},
		{"no folder", filepath.Join(dir, "none", "copies"), lossReasonWrite, 0},
		{"no file", "/dev/null", lossReasonWrite, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.after, func(h *config.Hook) {
				if c.timeout > 0 {
					h.Timeout = config.Duration(c.timeout)
				}
			})
			text := strings.Repeat("CANARY", 100<<10) // more than the socket buffers can store
			r.call("req_1", text, text)
			r.waitFor("it is lost", func() bool { return r.count(c.result) == 1 })
			if l := r.copies.RecentLosses(time.Now()); len(l) != 1 || l[0] != (LostCopies{"archive", 1, 1, lossReasonDescriptions[c.result]}) {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestAgain checks that a failed batch is sent again.
func TestAgain(t *testing.T) {
	var c *collector
	asked := 0
	c = newCollector(t, nil)
	inner := c.Config.Handler
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked <= 2 {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	})
	r := newRig(t, c.URL)
	r.call("req_1", "x", "y")
	r.waitFor("it is delivered", func() bool { return r.count(resultDelivered) == 1 })
	if len(c.got()) != 1 {
		t.Errorf("%q", c.got())
	}
}

// TestFile checks the lines and the mode of a file. The file may be moved at any time, and a
// truncated line must not corrupt other lines.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copies.jsonl")
	r := newRig(t, path)
	lines := func(path string) (ids []string) {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "{\"version") {
				ids = append(ids, read(t, line).RequestID)
			}
		}
		return ids
	}
	r.call("req_1", "x", "y")
	r.waitFor("it is written", func() bool { return r.count(resultDelivered) == 1 })
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.call("req_2", "x", "y")
	r.waitFor("it is written", func() bool { return r.count(resultDelivered) == 2 })
	if got := fmt.Sprint(lines(path+".1"), lines(path)); got != "[req_1] [req_2]" {
		t.Error(got)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"half`)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.call("req_3", "x", "y")
	r.waitFor("it is written", func() bool { return r.count(resultDelivered) == 3 })
	if got := fmt.Sprint(lines(path)); got != "[req_2 req_3]" {
		t.Error(got)
	}
}

// TestSocket checks that a process listening on the socket receives lines, even after it has
// restarted.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	r := newRig(t, "unix:"+path)
	for i := range 2 {
		socket, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = socket.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute))
		id := fmt.Sprint("req_", i)
		r.call(id, "x", "y")
		conn, err := socket.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if d := read(t, line); err != nil || d.RequestID != id {
			t.Errorf("%q, %v", line, err)
		}
		conn.Close()
		socket.Close()
	}
}

// TestReload checks that a reload adds and removes sinks, and that unchanged sinks continue. A
// removed sink must still send its queued copies.
func TestReload(t *testing.T) {
	c := newCollector(t, nil)
	r := newRig(t, c.URL)
	first := r.sink()
	r.hook.Models = []string{"other"}
	r.copies.Apply([]config.Hook{r.hook})
	if r.sink() != first {
		t.Error("other models are another sink")
	}
	late := r.copies.BeginCopy(&r.hook, "llama", nil)
	late.AddRequest([]byte("x"))
	r.call("req_1", "x", "y")
	r.copies.Apply(nil)
	if r.copies.BeginCopy(&r.hook, "llama", nil) != nil {
		t.Error("a removed hook copies calls")
	}
	r.waitFor("what it has is sent", func() bool { return r.count(resultDelivered) == 1 && first.isDone() })
	late.End(&CallInfo{RequestID: "req_late"})
	if r.count(lossReasonEnded) != 1 || first.heldBytes.Load() != 0 || len(c.got()) != 1 {
		t.Errorf("%d lost, %d bytes held, %d lines", r.count(lossReasonEnded), first.heldBytes.Load(), len(c.got()))
	}
	r.copies.Apply([]config.Hook{r.hook})
	r.call("req_2", "x", "y")
	r.waitFor("it goes on", func() bool { return r.count(resultDelivered) == 2 })
}

// TestCloseIsBounded checks that a sink that hangs does not delay the exit of the edge.
func TestCloseIsBounded(t *testing.T) {
	asked := make(chan struct{}, 8)
	c := newCollector(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	r := newRig(t, c.URL)
	for range 3 * batchCopies {
		r.call("req_1", "x", "y")
	}
	r.waitFor("the sink is asked", func() bool { return len(asked) > 0 })
	r.close()
	if n := r.count(lossReasonEnded); n != 3*batchCopies {
		t.Errorf("%d are counted as lost, want all", n)
	}
}

// TestSeveralHooks checks that a call can be copied to multiple sinks.
func TestSeveralHooks(t *testing.T) {
	one, other := newCollector(t, nil), newCollector(t, nil)
	r := newRig(t, one.URL)
	second := r.hook
	second.Name, second.After, second.Bytes = "second", other.URL, 2
	r.copies.Apply([]config.Hook{r.hook, second})
	c := r.copies.BeginCopy(&second, "llama", r.copies.BeginCopy(&r.hook, "llama", nil))
	c.AddRequest([]byte("request"))
	c.AddAnswer([]byte("answer"))
	c.End(&CallInfo{RequestID: "req_1", Model: "other"})
	r.waitFor("both have it", func() bool { return len(one.got()) == 1 && len(other.got()) == 1 })
	a, b := read(t, one.got()[0]), read(t, other.got()[0])
	if *a.Answer.Body != "answer" || *b.Answer.Body != "an" || a.Answered != "other" || a.Model != "llama" || !b.Request.Truncated {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestManyCalls runs calls in parallel to let the race detector find races. It checks that each
// call is counted once.
func TestManyCalls(t *testing.T) {
	c := newCollector(t, nil)
	r := newRig(t, c.URL, func(h *config.Hook) { h.Bytes, h.Memory = 4<<10, 64<<10 })
	var all sync.WaitGroup
	const callers, each = 8, 100
	for i := range callers {
		all.Go(func() {
			for range each {
				r.call("req_1", strings.Repeat("x", 1000*i), "y")
			}
		})
	}
	all.Wait()
	r.waitFor("each is counted", func() bool { return r.count(resultDelivered)+r.count(lossReasonFull) == callers*each })
	if len(c.got()) != r.count(resultDelivered) {
		t.Errorf("%d lines, %d are counted", len(c.got()), r.count(resultDelivered))
	}
}
