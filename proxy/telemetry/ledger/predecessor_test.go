package ledger

import (
	"os"
	"testing"

	"pgregory.net/rapid"

	"penstock/proxy/telemetry/observe"
)

// TestFollowPredecessor checks that usage counted by a draining previous process is added exactly
// once, even if the last line is truncated.
func TestFollowPredecessor(t *testing.T) {
	path := tempLedger(t)
	first := mustOpen(t, path, noon)
	first.call("a", "m", 1)
	if err := first.runRound(); err != nil {
		t.Fatal(err)
	}
	var heard observe.UsageAmount
	next, err := openEdge(path, noon, func(o *Options) {
		o.Wait = true
		o.Restored = func(rows []observe.UsageRow) {
			for _, r := range rows {
				heard.Add(r.UsageAmount)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if heard != (observe.UsageAmount{}) {
		t.Errorf("Open has restored %+v aloud", heard)
	}
	next.call("a", "m", 10)
	first.call("a", "m", 100)
	first.call("b", "n", 1000)
	if err := first.runRound(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{len(whole) - 5, len(whole), len(whole) - 1} { // the last line is truncated
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		next.recordRoundOutcome(next.runRound())
	}
	if got := next.total(); got.Calls != 4 || got.Prompt != 1111 || heard.Prompt != 1100 || next.loggedOutcome != roundWaiting {
		t.Errorf("%+v, heard of %+v, condition %v", got, heard, next.loggedOutcome)
	}
	day := observe.DayOf(noon)
	if got := next.InheritedUsage("a", day, day); got.Prompt != 101 {
		t.Errorf("inherited = %+v, want 101 prompt tokens", got)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	first.call("a", "m", 10_000)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next.recordRoundOutcome(next.runRound())
	if got := next.total(); got.Calls != 5 || got.Prompt != 11_111 || heard.Prompt != 11_100 || next.loggedOutcome != roundWritten || next.badLines.Get() != 0 {
		t.Errorf("%+v, heard of %+v, condition %v", got, heard, next.loggedOutcome)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	last := mustOpen(t, path, noon)
	defer last.kill()
	if got := last.total(); got.Calls != 5 || got.Prompt != 11_111 {
		t.Errorf("after a restart: %+v", got)
	}
}

// TestTwoSuccessors checks that if two processes wait for a ledger, the first of them gets it first,
// even if that process ends before it has seen the end of the previous process.
func TestTwoSuccessors(t *testing.T) {
	path := tempLedger(t)
	waits := func(o *Options) { o.Wait = true }
	first := mustOpen(t, path, noon)
	second, err := openEdge(path, noon, waits)
	if err != nil {
		t.Fatal(err)
	}
	third, err := openEdge(path, noon, waits)
	if err != nil {
		t.Fatal(err)
	}
	first.call("a", "m", 1)
	second.call("a", "m", 10)
	third.call("a", "m", 100)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if third.recordRoundOutcome(third.runRound()); third.loggedOutcome != roundWaiting || third.total().Prompt != 101 {
		t.Errorf("the third process: condition %v, %+v, want it to wait with 101 prompt tokens", third.loggedOutcome, third.total())
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if third.recordRoundOutcome(third.runRound()); third.loggedOutcome != roundWritten || third.total().Prompt != 111 {
		t.Errorf("the third process: condition %v, %+v, want it to write 111 prompt tokens", third.loggedOutcome, third.total())
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEndBeforePredecessor checks that a process that ends before the previous one can wait for the
// ledger.
func TestEndBeforePredecessor(t *testing.T) {
	path := tempLedger(t)
	first := mustOpen(t, path, noon)
	next, err := openEdge(path, noon, func(o *Options) { o.Wait = true })
	if err != nil {
		t.Fatal(err)
	}
	if !next.CanClose() {
		t.Error("a process without usage must wait for the previous one")
	}
	next.call("a", "m", 10)
	if next.CanClose() {
		t.Error("a process with usage need not wait for the previous one, which writes the ledger")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if !next.CanClose() {
		t.Error("a process must wait although the previous one has ended")
	}
	next.kill()
	last := mustOpen(t, path, noon)
	defer last.kill()
	if got := last.total(); got.Prompt != 10 {
		t.Errorf("after a restart: %+v, want 10 prompt tokens", got)
	}
}

// TestUnreadable checks that an unreadable ledger of the previous process counts as a failure
// rather than as waiting.
func TestUnreadable(t *testing.T) {
	path := tempLedger(t)
	first := mustOpen(t, path, noon)
	defer first.kill()
	next, err := openEdge(path, noon, func(o *Options) { o.Wait = true })
	if err != nil {
		t.Fatal(err)
	}
	later := appendLine(nil, ledgerHeader{Format: formatID, Version: 99})
	if err := os.WriteFile(path, later, 0o600); err != nil {
		t.Fatal(err)
	}
	if next.recordRoundOutcome(next.runRound()); next.loggedOutcome != roundFailing {
		t.Errorf("condition = %v, want %v", next.loggedOutcome, roundFailing)
	}
}

// TestFollowedSumIsWhatWasCounted runs two edges, one of which follows the other, over many days,
// with their rounds in random order. Both edges must report exactly the counted usage.
func TestFollowedSumIsWhatWasCounted(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		path := test.TempDir() + "/l"
		first, err := openEdge(path, noon, nil)
		if err != nil {
			t.Fatal(err)
		}
		var next *edge
		defer func() {
			first.kill()
			if next != nil {
				next.kill()
			}
		}()
		want := observe.UsageAmount{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				// Both edges run a round every second, so neither of them misses a day.
				if err := first.runRound(); err != nil {
					t.Fatal(err)
				}
				first.now = first.now.AddDate(0, 0, rapid.IntRange(0, 30).Draw(t, "days"))
				if next != nil {
					next.recordRoundOutcome(next.runRound())
					next.now = first.now
				}
			case 1:
				if err := first.runRound(); err != nil {
					t.Fatal(err)
				}
			case 2:
				if next != nil {
					next.recordRoundOutcome(next.runRound())
				} else if next, err = openEdge(path, first.now, func(o *Options) { o.Wait = true }); err != nil {
					t.Fatal(err)
				}
			default:
				e := first
				if next != nil && rapid.Bool().Draw(t, "at the new one") {
					e = next
				}
				e.call("a", rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), 1)
				want.Calls++
			}
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if next == nil {
			return
		}
		if next.recordRoundOutcome(next.runRound()); next.total().Calls != want.Calls || next.loggedOutcome != roundWritten {
			t.Fatalf("%+v, want %d calls; condition %v", next.total(), want.Calls, next.loggedOutcome)
		}
	})
}
