package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// TestNoStore checks that, if no store program is installed, the command reports this and starts no
// processes.
func TestNoStore(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := measureFleet(context.Background(), time.Second, io.Discard, io.Discard)
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != exit.Failed || !strings.Contains(e.Text,
		"valkey-server") || !strings.Contains(e.Text, "redis-server") {
		t.Errorf("%v", err)
	}
}

// TestRun checks that all measurements work in a short run. Rows that depend on the machine's load
// may miss their goals.
func TestRun(t *testing.T) {
	if os.Getenv("PENSTOCK_FULL") == "" {
		t.Skip("SKIPPED: a minute of load from eleven processes is for .ci/full")
	}
	if _, err := findStore(); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	benchtest.BuildProgram(t)
	var out, notes bytes.Buffer
	err := measureFleet(context.Background(), 24*time.Second, &out, &notes)
	t.Logf("%v\n%s", err, &out)
	var e *exit.Error
	if err != nil && (!errors.As(err, &e) || e.Code != exit.CheckFailed) {
		t.Fatalf("%v\n%s", err, &notes)
	}
	surely := 0
	for line := range strings.Lines(out.String()) {
		for _, what := range []string{"over-admission", "errors", "usage of the fleet", "follow-ups on the engine"} {
			if strings.Contains(line, what) {
				surely++
				if !strings.HasSuffix(strings.TrimSpace(line), " held") {
					t.Errorf("%s", line)
				}
			}
		}
	}
	if surely != 8 {
		t.Errorf("%d rows that hold on any machine, want 8", surely)
	}
}
