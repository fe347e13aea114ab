package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/proxy/telemetry/observe"
)

// flakySink is a sink that stores the last row with each id. It may fail before or after it stores
// the rows.
type flakySink struct {
	rows  map[string]exportedRow
	calls int
	fails func() (before, after bool)
}

var errTaker = errors.New("the sink fails")

func (s *flakySink) deliver(lines []byte, _ time.Duration) error {
	before, after := s.fails()
	if before {
		return errTaker
	}
	for line := range bytes.Lines(lines) {
		var r exportedRow
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if r.Calls >= s.rows[r.ID].Calls {
			s.rows[r.ID] = r
		}
		s.calls++
	}
	if after {
		return errTaker
	}
	return nil
}

func (s *flakySink) total() (sum observe.UsageAmount) {
	for _, r := range s.rows {
		if r.User == "" {
			sum.Add(r.UsageAmount)
		}
	}
	return sum
}

func (s *flakySink) userTotal() (sum observe.UsageAmount) {
	for _, r := range s.rows {
		if r.User != "" && r.Model == "" {
			sum.Add(r.UsageAmount)
		}
	}
	return sum
}

func (e *edge) userTotal() (sum observe.UsageAmount) {
	e.calls.Usage.EachRow(func(r observe.UsageRow) {
		if r.User != "" {
			sum.Add(r.UsageAmount)
		}
	})
	return sum
}

func exportTo(path string, now time.Time, to deliverer) (*edge, error) {
	e, err := openEdge(path, now, func(o *Options) { o.Exports = []Sink{{File: "unused"}} })
	if err == nil {
		e.exports[0].deliverer = to
	}
	return e, err
}

func (e *edge) killWithExport() { _ = e.file.close(); _ = e.exports[0].ackFile.close() }

// TestExportIsWhatWasCounted checks that the sink receives all counted usage, no matter how the
// sink fails and the edges exit. A restarted edge must not send acknowledged rows again.
func TestExportIsWhatWasCounted(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		path, now := filepath.Join(test.TempDir(), "l"), noon
		sink := &flakySink{rows: map[string]exportedRow{}}
		chance := rapid.IntRange(0, 60).Draw(t, "faults in a hundred")
		sink.fails = func() (bool, bool) {
			return rapid.IntRange(1, 100).Draw(t, "fault") <= chance, rapid.IntRange(1, 100).Draw(t, "fault") <= chance
		}
		start := func() *edge {
			e, err := exportTo(path, now, sink)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := start()
		defer func() { e.killWithExport() }()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
				e.now = now
			case 1: // the edge exits; all rows are on disk, but the sink may lack some of them
				if err := e.runRound(); err != nil {
					t.Fatal(err)
				}
				e.killWithExport()
				e = start()
			case 2, 3:
				if err := e.runRound(); err != nil {
					t.Fatal(err)
				}
				_ = e.exports[0].exportPending(t.Context(), time.Second)
			case 4:
				user := observe.EndUserHash{byte(rapid.IntRange(1, 3).Draw(t, "user"))}
				e.calls.BeginCall()
				e.calls.FinishCall(&observe.Record{Key: "a", Model: "m", User: user, Attempts: 1, PromptTokens: 7}, e.now)
			default:
				e.call(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "key"), rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), 3)
			}
		}
		sink.fails = func() (bool, bool) { return false, false }
		if err := errors.Join(e.runRound(), e.exports[0].exportPending(t.Context(), time.Second)); err != nil {
			t.Fatal(err)
		}
		if got, want := sink.total(), e.total(); got != want {
			t.Fatalf("the sink has %+v, counted was %+v", got, want)
		}
		if got, want := sink.userTotal(), e.userTotal(); got != want {
			t.Fatalf("the sink has %+v of end users, counted was %+v", got, want)
		}
		before := sink.calls
		e.killWithExport()
		e = start()
		if err := e.exports[0].exportPending(t.Context(), time.Second); err != nil || sink.calls != before {
			t.Fatalf("%d rows were sent again, %v", sink.calls-before, err)
		}
	})
}

// TestExportToFile checks that the file receives the lines of each delivery, and that an operator
// may move the file away. A delivery after a truncated line must start on a new line.
func TestExportToFile(t *testing.T) {
	path := tempLedger(t)
	out := filepath.Join(filepath.Dir(path), "out.jsonl")
	e, err := openEdge(path, noon, func(o *Options) { o.Exports = []Sink{{File: out}} })
	if err != nil {
		t.Fatal(err)
	}
	turn := func(n int) string {
		t.Helper()
		e.call("team-a", "llama", n)
		if err := errors.Join(e.runRound(), e.exports[0].exportPending(t.Context(), time.Second)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := turn(5); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"key":"team-a","model":"llama","calls":1,"prompt_tokens":5`) {
		t.Errorf("exported %s, want one line with 5 prompt tokens", text)
	}
	if err := os.WriteFile(out, []byte(`{"id":"cu`), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(turn(6), "\n"); len(lines) != 3 || !strings.Contains(lines[1], `"calls":2`) {
		t.Errorf("exported %q, want the cut line and one with 2 calls", lines)
	}
	if err := os.Rename(out, out+".1"); err != nil {
		t.Fatal(err)
	}
	if text := turn(7); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"calls":3`) {
		t.Errorf("exported %s, want one line with 3 calls", text)
	}
	if err := errors.Join(e.Close(), e.exports[0].Close()); err != nil {
		t.Fatal(err)
	}
}

// TestExportToURL checks that a failing sink causes an error, and that the sink receives all rows
// after it has recovered.
func TestExportToURL(t *testing.T) {
	sink := &flakySink{rows: map[string]exportedRow{}, fails: func() (bool, bool) { return false, false }}
	var status atomic.Int64
	var hang atomic.Pointer[chan struct{}]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := hang.Load(); wait != nil {
			<-*wait
			return
		}
		if code := int(status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		if r.Header.Get("Authorization") != "Bearer t0ken" || len(r.Header.Get("Idempotency-Key")) != 32 ||
			r.Method != "POST" || r.URL.Path != "/in" || r.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("request %s %s with %v, want POST /in with the token and an idempotency key", r.Method, r.URL.Path, r.Header)
		}
		lines, err := io.ReadAll(r.Body)
		if err = errors.Join(err, sink.deliver(lines, 0)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	e, err := openEdge(tempLedger(t), noon, func(o *Options) {
		o.Exports = []Sink{{URL: server.URL + "/in", Token: "t0ken"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	x := e.exports[0]
	round := func(within time.Duration) error {
		t.Helper()
		e.call("a", "m", 1)
		if err := e.runRound(); err != nil {
			t.Fatal(err)
		}
		return x.exportPending(t.Context(), within)
	}
	for _, code := range []int64{500, 429, 404, 302} {
		status.Store(code)
		if err := round(10 * time.Second); err == nil {
			t.Errorf("%d: no error", code)
		}
	}
	status.Store(0)
	wait := make(chan struct{})
	hang.Store(&wait)
	if err := round(50 * time.Millisecond); err == nil {
		t.Error("a sink that hangs: no error")
	}
	close(wait)
	hang.Store(nil)
	if e.now = e.now.Add(time.Minute); x.OldestPendingAge() != time.Minute {
		t.Errorf("OldestPendingAge = %s, want 1 m", x.OldestPendingAge())
	}
	if err := round(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if sink.total() != e.total() || len(sink.rows) != 1 || x.OldestPendingAge() != 0 || x.failed.Get() != 5 {
		t.Errorf("%+v, want %+v; %s behind, %d failures", sink.total(), e.total(), x.OldestPendingAge(), x.failed.Get())
	}
	if err := errors.Join(e.Close(), x.Close()); err != nil {
		t.Error(err)
	}
}
