package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/money"
	"penstock/proxy/telemetry/observe"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// edge contains an edge's usage and ledger, and a clock that the test sets.
type edge struct {
	*Ledger
	calls *observe.Calls
	now   time.Time
	set   *metrics.Set
}

func openEdge(path string, now time.Time, change func(*Options)) (*edge, error) {
	e := &edge{now: now, set: metrics.NewSet()}
	e.calls = observe.NewCalls(metrics.NewSet(), zap.NewNop(), config.Log{})
	o := Options{
		Path: path, Usage: e.calls.Usage, Metrics: e.set, Log: zap.NewNop(), Now: func() time.Time { return e.now },
	}
	if change != nil {
		change(&o)
	}
	var err error
	e.Ledger, err = Open(o)
	return e, err
}

func mustOpen(t testing.TB, path string, now time.Time) *edge {
	t.Helper()
	e, err := openEdge(path, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *edge) call(key, model string, n int) {
	e.calls.BeginCall()
	e.calls.FinishCall(&observe.Record{
		Key: key, Model: model, Attempts: 1, Outcome: observe.OutcomeOK, PromptTokens: n, CompletionTokens: 2 * n,
		Spend: money.Amount{Micros: int64(n), Picos: 999_999},
	}, e.now)
}

// kill ends the edge without a final round.
func (e *edge) kill() { _ = e.file.close() }

func (e *edge) total() observe.UsageAmount { return e.calls.Usage.Report(e.now, e.now).Total }

func tempLedger(t testing.TB) string { return filepath.Join(t.TempDir(), "usage.ledger") }

// TestRestart checks that usage survives a graceful exit, and that a killed edge loses only the
// usage after its last round.
func TestRestart(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	e.call("a", "m", 5)
	e.call("b", "m", 1)
	if err := e.runRound(); err != nil {
		t.Fatal(err)
	}
	e.call("a", "n", 7)
	want := e.total()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	name := e.EdgeID()
	e = mustOpen(t, path, noon.Add(time.Minute))
	if got := e.total(); got != want || got.Calls != 3 || got.Spend.String() != "0.000015999997" {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if e.EdgeID() != name {
		t.Error("the ledger has another name")
	}
	if since := e.calls.Usage.Report(e.now, e.now).Since; !since.Equal(noon) {
		t.Errorf("it begins at %s", since)
	}
	e.call("a", "m", 100)
	e.kill()
	e = mustOpen(t, path, noon.Add(time.Hour))
	defer e.kill()
	if got := e.total(); got != want {
		t.Errorf("after a kill: %+v, want %+v", got, want)
	}
}

// TestDays checks that the total includes days that are no longer stored individually, even after
// restarts.
func TestDays(t *testing.T) {
	path, now := tempLedger(t), noon
	const days, restarts = 80, 7
	for i := range days {
		e := mustOpen(t, path, now)
		e.call("a", "m", 1)
		if i%restarts == 0 {
			now = now.AddDate(0, 0, 1)
			e.now = now
			e.call("a", "m", 1)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		now = now.AddDate(0, 0, 1)
	}
	e := mustOpen(t, path, now)
	defer e.kill()
	m := e.calls.Usage.Report(now, now).Keys[0].Models[0]
	if m.Total.Calls != days+(days+restarts-1)/restarts || len(m.Days) != 62 {
		t.Errorf("%d calls, %d days", m.Total.Calls, len(m.Days))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The file has one line for the header, 62 for the newest days, and one for the sum of the
	// older days.
	if lines := bytes.Count(text, []byte("\n")); lines != 1+62+1 {
		t.Errorf("%d lines", lines)
	}
}

// TestTruncatedLedger truncates the file at every byte, as a kill might. The result of reading the
// file must be a state that was once written, and the ledger must continue from this state.
func TestTruncatedLedger(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	for i := range 4 {
		e.call("a", "m", i+1)
		if err := e.runRound(); err != nil {
			t.Fatal(err)
		}
	}
	e.kill()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(whole, '\n') + 1
	for end := first; end <= len(whole); end += 13 { // at many offsets within lines
		if err := os.WriteFile(path, whole[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		e := mustOpen(t, path, noon)
		lines := uint64(bytes.Count(whole[first:end], []byte("\n")))
		if got := e.total().Calls; got != lines {
			t.Fatalf("cut after %d bytes: %d calls, want %d", end, got, lines)
		}
		e.call("a", "m", 1)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, path, noon)
		if got := e.total().Calls; got != lines+1 {
			t.Fatalf("cut after %d bytes, and one more: %d calls, want %d", end, got, lines+1)
		}
		e.kill()
	}
}

// TestChangedLine checks that a corrupted line is skipped and counted, and that the next line for
// the same row contains the row's total usage.
func TestChangedLine(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	for range 3 {
		e.call("a", "m", 1)
		if err := e.runRound(); err != nil {
			t.Fatal(err)
		}
	}
	e.kill()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[2] = bytes.Replace(lines[2], []byte(`"calls":2`), []byte(`"calls":9`), 1)
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, path, noon)
	defer e.kill()
	if got := e.total().Calls; got != 3 || e.badLines.Get() != 1 {
		t.Errorf("%d calls, %d lines left out", got, e.badLines.Get())
	}
}

// TestLocked checks that a second edge cannot open a ledger. An edge that takes over the ledger
// must wait for the lock and add the first edge's usage.
func TestLocked(t *testing.T) {
	path := tempLedger(t)
	first := mustOpen(t, path, noon)
	first.call("a", "m", 1)
	if err := first.runRound(); err != nil {
		t.Fatal(err)
	}
	_, err := openEdge(path, noon, nil)
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), path) {
		t.Fatalf("open: %v, want a lock error that names %s", err, path)
	}
	next, err := openEdge(path, noon, func(o *Options) { o.Wait = true })
	if err != nil {
		t.Fatal(err)
	}
	if got := next.total(); got.Calls != 1 || got.Prompt != 1 || next.loggedOutcome != roundWaiting || next.failed.Get() != 0 {
		t.Errorf("it begins with %+v; %v, %d failures", got, next.loggedOutcome, next.failed.Get())
	}
	next.call("a", "m", 10)
	if err := next.runRound(); !errors.As(err, &locked) {
		t.Fatalf("round: %v, want a lock error", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := next.runRound(); err != nil {
		t.Fatal(err)
	}
	if got := next.total(); got.Calls != 2 || got.Prompt != 11 {
		t.Errorf("total = %+v, want 2 calls and 11 prompt tokens", got)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	last := mustOpen(t, path, noon)
	defer last.kill()
	if got := last.total(); got.Calls != 2 || got.Prompt != 11 {
		t.Errorf("after a restart: %+v", got)
	}
}

// TestForeignFile checks that a file that was not written by an edge is neither read nor
// overwritten.
func TestForeignFile(t *testing.T) {
	for name, text := range map[string]string{
		"text": "keys:\n  - id: a\n", "no line": "x", "other lines": string(appendLine(nil, UsageSumRow{Key: "a"})),
		"a later version": string(appendLine(nil, ledgerHeader{Format: formatID, Version: 99})),
		"cut":             string(appendLine(nil, ledgerHeader{Format: formatID, Version: formatVersion, Edge: "e"}))[:60],
	} {
		t.Run(name, func(t *testing.T) {
			path := tempLedger(t)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := openEdge(path, noon, nil)
			if err == nil {
				e.call("a", "m", 1)
				_ = e.Close()
				t.Error("it is taken")
			} else if !strings.Contains(err.Error(), path) || CheckIsLedgerFile(path) == nil {
				t.Errorf("%v, and a look says %v", err, CheckIsLedgerFile(path))
			}
			if _, err := os.Stat(path + ".lock"); err == nil {
				t.Error("a lock was left beside it")
			}
			if got, _ := os.ReadFile(path); string(got) != text {
				t.Errorf("it was changed to %q", got)
			}
		})
	}
}

// TestCheckLedgerFile checks that CheckIsLedgerFile accepts a ledger, an empty file and a missing
// file, rejects any other file, and creates no file.
func TestCheckLedgerFile(t *testing.T) {
	path := tempLedger(t)
	for _, other := range []string{filepath.Dir(path), os.DevNull} {
		if err := CheckIsLedgerFile(other); err == nil || !strings.Contains(err.Error(), other) {
			t.Errorf("Check(%s): %v, want an error that names the file", other, err)
		}
	}
	if err := CheckIsLedgerFile(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckIsLedgerFile(path); err != nil {
		t.Error(err)
	}
	e := mustOpen(t, path, noon)
	e.call("a", "m", 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckIsLedgerFile(path); err != nil {
		t.Error(err)
	}
}

// TestNoDisk checks that if a ledger's folder is missing, the ledger reports the problem, waits,
// and is written once the folder exists.
func TestNoDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "usage.ledger")
	e := mustOpen(t, path, noon)
	e.call("a", "m", 1)
	for range 3 {
		e.now = e.now.Add(time.Second)
		e.recordRoundOutcome(e.runRound())
	}
	if e.UnsavedTime() != 3*time.Second || e.calls.Usage.UnsavedTime() != e.UnsavedTime() || e.failed.Get() != 4 {
		t.Errorf("%s unsaved, %d failures", e.UnsavedTime(), e.failed.Get())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if e.recordRoundOutcome(e.runRound()); e.UnsavedTime() != 0 {
		t.Error("it is still not saved")
	}
	e.kill()
	e = mustOpen(t, path, noon)
	defer e.kill()
	if got := e.total().Calls; got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
}

// TestFailedWrite checks that the next write includes the rows of a failed write, and that no bytes
// of the failed write remain.
func TestFailedWrite(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	good := e.file.f
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	e.file.f = readOnly
	for i := range 3 {
		e.call("a", fmt.Sprint(i), 1)
		if err := e.runRound(); err == nil {
			t.Fatal("the write has not failed")
		}
	}
	e.file.f = good
	if err := e.runRound(); err != nil {
		t.Fatal(err)
	}
	e.kill()
	e = mustOpen(t, path, noon)
	defer e.kill()
	if got := e.total().Calls; got != 3 || e.badLines.Get() != 0 {
		t.Errorf("%d calls, %d bad lines", got, e.badLines.Get())
	}
}

// TestSumIsWhatWasCounted starts and ends edges in different ways, runs their rounds in any order,
// and truncates the file. The ledger must contain all usage counted before one of the rounds. After
// a graceful exit, it must contain all usage.
func TestSumIsWhatWasCounted(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		path, now := filepath.Join(test.TempDir(), "l"), noon
		e, err := openEdge(path, now, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { e.kill() }()
		saved, counted := observe.UsageAmount{}, observe.UsageAmount{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "hours")) * time.Hour)
				e.now = now
			case 1:
				e.kill()
				if e, err = openEdge(path, now, nil); err != nil {
					t.Fatal(err)
				}
				counted = saved
			case 2:
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				saved = counted
				if e, err = openEdge(path, now, nil); err != nil {
					t.Fatal(err)
				}
			case 3, 4:
				if err := e.runRound(); err != nil {
					t.Fatal(err)
				}
				saved = counted
			default:
				key := rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "key")
				e.call(key, rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), rapid.IntRange(0, 1e6).Draw(t, "tokens"))
				counted = e.total()
			}
			if got := e.total(); got != counted {
				t.Fatalf("total = %+v, want %+v", got, counted)
			}
		}
	})
}

// TestLinesHoldNames checks that lines contain only configured names and numbers, and that the rows
// read are the same as the rows written.
func TestLinesHoldNames(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	e.call("team \"a\"\n", "llama ü", 3)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := readLedger(f)
	if err != nil || c.badLines != 0 || c.torn || len(c.rows) != 1 {
		t.Fatalf("read = %+v, %v; want one row and no bad line", c, err)
	}
	want := observe.UsageRow{Key: "team \"a\"\n", Model: "llama ü", Day: observe.DayOf(noon)}
	want.UsageAmount = e.total()
	if !slices.Equal(c.rows, []observe.UsageRow{want}) {
		t.Errorf("rows = %+v, want %+v", c.rows, want)
	}
}

// FuzzRead checks that reading any file causes no panic, and that the result can be written and
// read again.
func FuzzRead(f *testing.F) {
	text := appendLine(nil, ledgerHeader{Format: formatID, Version: formatVersion, Edge: "e", Since: noon})
	text = appendLine(text, UsageSumRow{Day: "2026-11-22", Key: "k", Model: "m", UsageAmount: observe.UsageAmount{Calls: 1}})
	f.Add(text)
	f.Add(append(text, "deadbeef {}\nzz"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := readLedger(bytes.NewReader(b))
		if err != nil {
			return
		}
		out := appendLine(nil, c.header)
		for i := range c.rows {
			out = appendLine(out, newRow(&c.rows[i]))
		}
		again, err := readLedger(bytes.NewReader(out))
		if len(b) > 0 && (err != nil || !slices.Equal(again.rows, c.rows)) {
			t.Fatalf("read again = %+v, %v; want %+v", again, err, c.rows)
		}
	})
}

// TestForgedLines checks that lines with impossible values are skipped, even if their checksum is
// valid.
func TestForgedLines(t *testing.T) {
	var text []byte
	text = appendLine(text, ledgerHeader{Format: formatID, Version: formatVersion})
	text = appendLine(text, UsageSumRow{Key: "a", Model: "m", UsageAmount: observe.UsageAmount{Calls: 3, Prompt: 5}})
	for _, row := range []string{
		`{"day":"","key":"a","model":"m","calls":-1}`,
		`{"day":"","key":"a","model":"m","calls":18446744073709551615}`,
		`{"day":"","key":"a","model":"m","calls":4,"prompt_tokens":9223372036854775808}`,
		`{"day":"","key":"a","model":"m","calls":4,"prompt_tokens":99999999999999999999999}`,
		`{"day":"","key":"a","model":"m","calls":4,"completion_tokens":9223372036854775807,"prompt_tokens":9223372036854775807}`,
		`{"day":"","key":"a","model":"m","calls":4,"prompt_tokens":1e3}`,
		`{"day":"","key":"a","model":"m","calls":4,"spend":"-1.00"}`,
		`{"day":"","key":"a","model":"m","calls":4,"spend":"1e400"}`,
		`{"day":"2026-13-01","key":"a","model":"m","calls":4}`,
		`[]`,
		`{"key":"` + strings.Repeat("a", 2*maxLineBytes) + `"}`,
	} {
		c, err := readLedger(bytes.NewReader(appendLine(slices.Clone(text), json.RawMessage(row))))
		if err != nil || c.badLines == 0 || c.torn || len(c.rows) != 1 || c.rows[0].Calls != 3 || c.rows[0].Tokens() != 5 {
			t.Errorf("%.90s: %v, %d lines left out, rows %v", row, err, c.badLines, c.rows)
		}
	}
}

// TestEndUsers checks that rows of end users are not counted in addition to the rows of their key.
// An edge with an older version must treat these rows as corrupted lines.
func TestEndUsers(t *testing.T) {
	path := tempLedger(t)
	e := mustOpen(t, path, noon)
	book := func(user observe.EndUserHash, n int) {
		e.calls.BeginCall()
		e.calls.FinishCall(&observe.Record{Key: "k", Model: "m", User: user, Attempts: 1, PromptTokens: n}, e.now)
	}
	book(observe.EndUserHash{1}, 5)
	if err := e.runRound(); err != nil {
		t.Fatal(err)
	}
	book(observe.EndUserHash{1}, 6)
	book(observe.EndUserHash{2}, 7)
	book(observe.EndUserHash{}, 8)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	users := 0
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"user":`)) {
			continue
		}
		users++
		if sum, _, _ := bytes.Cut(line, []byte(" ")); len(sum) == 8 || bytes.Contains(line, []byte(`"model"`)) {
			t.Errorf("an edge of before would read %s", line)
		}
	}
	if users != 3 {
		t.Errorf("%d lines of end users", users)
	}
	e = mustOpen(t, path, noon)
	defer e.kill()
	if n := e.badLines.Get(); n != 0 {
		t.Errorf("%d lines are left out", n)
	}
	got := e.calls.Usage.ReportUsers(e.now, e.now)
	if len(got.Keys) != 1 || len(got.Keys[0].Users) != 3 || got.Total.Prompt != 26 {
		t.Fatalf("report = %+v, want one key with 3 users and 26 prompt tokens", got)
	}
	for i, want := range []uint64{11, 7, 8} {
		if u := got.Keys[0].Users[i]; u.Total.Prompt != want {
			t.Errorf("%d: %+v, want %d", i, u, want)
		}
	}
	if byModel := e.total(); byModel.Prompt != 26 || byModel.Calls != 4 {
		t.Errorf("total = %+v, want 4 calls and 26 prompt tokens", byModel)
	}
}
