package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func readTrace(t *testing.T, lines ...string) []TraceCall {
	t.Helper()
	d, err := parseDataset("trace", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var out []TraceCall
	for _, e := range d.entries {
		out = append(out, e.TraceCall)
	}
	return out
}

func traceLine(at, in int, session string, blocks ...int) string {
	ids := strings.ReplaceAll(fmt.Sprint(blocks), " ", ",")
	if session != "" {
		session = `,"session_id":"` + session + `"`
	}
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":1,"hash_ids":%s%s}`, at, in, ids, session)
}

// TestSessionsOfATrace checks that a line belongs to the session that it names. If it names none,
// it belongs to the session of an earlier call whose full blocks are a prefix of the line's prompt.
// A single common block is not enough, and neither is an earlier prompt that continues differently.
func TestSessionsOfATrace(t *testing.T) {
	calls := readTrace(
		t,
		traceLine(0, 1600, "", 0, 1, 2, 3),       // three full blocks and a partial one
		traceLine(1, 1600, "", 0, 4, 5, 6),       // shares only the preamble
		traceLine(2, 2600, "", 0, 1, 2, 7, 8, 9), // continues the first call
		traceLine(3, 3000, "", 0, 1, 7, 8, 9, 10), // continues differently after two blocks
		traceLine(4, 400, "", 0),                  // too short to decide
		traceLine(5, 3200, "", 0, 1, 2, 7, 8, 11), // continues the third call, whose last full block is 8
		traceLine(6, 1600, "named", 0, 1, 2, 3),
	)
	var got []string
	for _, c := range calls {
		got = append(got, c.Session)
		if c.After >= 0 {
			t.Errorf("%+v follows a call", c)
		}
	}
	if want := []string{"line-1", "line-2", "line-1", "line-4", "", "line-1", "named"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRecordedSessions checks that the calls in a session follow each other, that a sub-agent
// follows its parent, and that calls share the blocks that their lines specify.
func TestRecordedSessions(t *testing.T) {
	calls := readTrace(
		t,
		`{"format":"s session, i call, …"}`,
		`{"s":"a","i":0,"t":0,"api":2,"think":0,"in":2048,"out":5,"from":-1,"keep":0,"sys":1100}`,
		`{"s":"a","i":1,"t":5,"api":2,"think":3,"in":2600,"out":5,"from":0,"keep":31}`,
		`{"s":"a","i":2,"t":9999,"api":2,"think":9000,"in":2600,"out":5,"from":0,"keep":32}`,
		`{"s":"a/1","i":0,"t":8,"api":1,"think":0,"in":1200,"out":5,"from":-1,"keep":0,"sys":600}`,
		`{"s":"b","i":0,"t":0,"api":2,"think":0,"in":2048,"out":5,"sys":5000}`,
	)
	wantAfter, wantThink := []int{-1, 0, 1, 1, -1}, []time.Duration{0, 3 * time.Second, 5 * time.Minute, time.Second, 0}
	for i, c := range calls {
		if c.After != wantAfter[i] || c.Think != wantThink[i] {
			t.Errorf("call %d follows %d after %v, want %d after %v", i, c.After, c.Think, wantAfter[i], wantThink[i])
		}
	}
	if calls[0].At != 0 || calls[4].At != 30*time.Second || calls[3].Session != "a/1" {
		t.Errorf("two sessions begin at %v and %v; the sub-agent is %q", calls[0].At, calls[4].At, calls[3].Session)
	}
	for _, c := range []struct{ a, b, shared int }{
		{0, 1, 3}, // 31 blocks of 64 tokens contain three full blocks of 512 tokens
		{0, 2, 4},
		{1, 2, 3},
		{0, 3, 1}, // both share the full blocks of the system prompt
		{0, 4, 2},
	} {
		a, b, n := calls[c.a].Blocks, calls[c.b].Blocks, 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		if n != c.shared {
			t.Errorf("calls %d and %d share %d blocks, want %d", c.a, c.b, n, c.shared)
		}
	}
	if n := len(calls[1].Blocks); n != 6 {
		t.Errorf("2600 tokens are %d blocks", n)
	}
}

// TestTraceErrors checks that the error for an invalid line contains the line number.
func TestTraceErrors(t *testing.T) {
	first := `{"s":"a","i":0,"t":0,"in":640,"out":5}`
	for text, want := range map[string]string{
		first + "\n" + `{"s":"a","i":2,"t":1,"in":1,"out":1}`:                    "line 2: call 2 of session \"a\": want 1",
		first + "\n" + `{"s":"a","i":1,"t":1,"in":1,"out":1,"from":1}`:           "line 2: it keeps 0 blocks of call 1",
		first + "\n" + `{"s":"a","i":1,"t":1,"in":1,"out":1,"from":0,"keep":11}`: "line 2: it keeps 11 blocks of call 0",
		first + "\n" + `{"s":"a","i":1,"t":1,"in":0,"out":1}`:                    "line 2: want a session",
		first + "\n" + `{"s":"a","i":1,"t":1,"in":1,"out":1,"think":-1}`:         "line 2: want a session",
		first + "\n" + `{"s":"a\r\nHost: x","i":0,"t":1,"in":1,"out":1}`:         "line 2: want a session name",
		first + "\n" + traceLine(0, 1, ""):                                       "line 2: a trace has one form",
		traceLine(0, 1, "") + "\n" + first:                                       "line 2: a trace has one form",
		traceLine(0, 1, "") + "\n" + traceLine(0, 1, "a b"):                      "line 2: want a session name",
		"{}\n{}": "line 2: want timestamp",
		traceLine(0, 1, "") + "\n" + `{"timestamp":0,"input_length":1,"output_length":`: "line 2",
	} {
		if _, err := parseDataset("trace", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want %q", text, err, want)
		}
	}
}
