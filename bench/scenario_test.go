package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/golden"
)

// parse reads a command line as main does.
func parse(t *testing.T, args ...string) *CLI {
	t.Helper()
	c, parser := grammar(t)
	if _, err := parser.Parse(Arguments(append([]string{"bench"}, args...))); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return c
}

func grammar(t *testing.T) (*CLI, *kong.Kong) {
	t.Helper()
	c := new(struct {
		Bench CLI `cmd:""`
	})
	parser, err := kong.New(c, kong.Exit(func(int) { t.Fatal("the parser ended the process") }))
	if err != nil {
		t.Fatal(err)
	}
	return &c.Bench, parser
}

// runFlags are the flags of `bench run`.
func runFlags(t *testing.T) []*kong.Flag {
	t.Helper()
	_, parser := grammar(t)
	for _, command := range parser.Model.Children[0].Children {
		if command.Name == "run" {
			return command.Flags
		}
	}
	t.Fatal("there is no bench run")
	return nil
}

// TestNothingIsNoDefault: a number or time of nothing is refused, and not taken for the default.
func TestNothingIsNoDefault(t *testing.T) {
	for _, flag := range []string{"-z=0s", "-z0", "--duration=-1s", "--duration=20", "-n0", "--num-prompts=-3", "--num-prompts=many", "--request-timeout=0s"} {
		_, parser := grammar(t)
		if _, err := parser.Parse([]string{"bench", "run", flag}); err == nil {
			t.Errorf("%s is taken", flag)
		}
	}
	c := parse(t, "-z", "1m30s", "-n", "7", "--request-timeout=250ms")
	if o := c.Run.Options; o.Duration != Span(90*time.Second) || o.NumPrompts != 7 || o.RequestTimeout != Span(250*time.Millisecond) {
		t.Errorf("%v, %v, %v", o.Duration, o.NumPrompts, o.RequestTimeout)
	}
}

// TestScenariosAreCommands holds that every flag of every scenario is one, and that the run would accept them together.
func TestScenariosAreCommands(t *testing.T) {
	files, err := scenarioFiles.ReadDir("scenarios")
	if err != nil || len(files) != len(scenarioOrder) {
		t.Fatalf("%d files for %d scenarios: %v", len(files), len(scenarioOrder), err)
	}
	for _, name := range scenarioOrder {
		s, err := findScenario(name)
		if err != nil || s.Name != name {
			t.Fatalf("%s: %v", name, err)
		}
		for _, line := range [][]string{{"run", "--scenario", name}, {"--scenario=" + name}} {
			c := parse(t, line...)
			if c.Run.Scenario != name {
				t.Errorf("%v: scenario %q", line, c.Run.Scenario)
			}
			if _, err := c.Run.validate(); err != nil {
				t.Errorf("%v: %v", line, err)
			}
		}
		for _, e := range s.Fleet.Engines {
			if strings.Contains(strings.Join(e.Sim, " "), "--listen") {
				t.Errorf("%s: the fleet chooses the address of %s", name, e.Name)
			}
		}
	}
}

func TestScenarioArguments(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"bench run --scenario failover", "bench run --expect-errors=in_stream@event --duration=30s --request-rate=6 --random-input-len=300 --random-output-len=100 --goodput=ttft:1000 --goodput=itl:60 --scenario failover"},
		{"bench --scenario=failover -r 9 --random-input-len 5", "bench --expect-errors=in_stream@event --duration=30s --random-output-len=100 --goodput=ttft:1000 --goodput=itl:60 --scenario=failover -r 9 --random-input-len 5"},
		{"bench run --scenario=failover -n 10 --goodput ttft:1", "bench run --expect-errors=in_stream@event --request-rate=6 --random-input-len=300 --random-output-len=100 --scenario=failover -n 10 --goodput ttft:1"},
		{"bench http://x --scenario failover -r 9 -z 1s", "bench --expect-errors=in_stream@event --random-input-len=300 --random-output-len=100 --goodput=ttft:1000 --goodput=itl:60 http://x --scenario failover -r 9 -z 1s"},
		{"bench run --scenario nope", "bench run --scenario nope"},
		{"bench run --scenario", "bench run --scenario"},
		{"bench run http://x", "bench run http://x"},
		{"bench compare --scenario chat", "bench compare --scenario chat"},
		{"sim --scenario chat", "sim --scenario chat"},
		{"bench", "bench"},
	} {
		if got := strings.Join(Arguments(strings.Fields(c.in)), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
	}
	if c := parse(t, "--scenario", "overload", "--request-rate", "5"); !slices.Equal(c.Run.RequestRate, []string{"5"}) || c.Run.Ramp != "" {
		t.Errorf("the user's rate does not win: %+v", c.Run.Options)
	}
}

func TestScenariosAreTold(t *testing.T) {
	for _, name := range []string{"", "agent", "failover", "overload"} {
		var b bytes.Buffer
		if err := (&ScenariosCmd{Name: name}).run(&b); err != nil {
			t.Fatal(err)
		}
		if name == "" {
			name = "all"
		}
		golden.File(t, "testdata/scenarios/"+name+".txt", b.Bytes())
	}
	var e *ExitError
	if err := (&ScenariosCmd{Name: "nope"}).run(io.Discard); !errors.As(err, &e) || e.Code != ExitUsage {
		t.Errorf("an unknown scenario: %v", err)
	}
}

func TestScenarioFilesAreChecked(t *testing.T) {
	good := "name: a\ntext: b\nexplain: c\nfleet: { engines: [{ name: x }], models: [{ id: m }] }\nrun: { duration: 1s }\n"
	if _, err := parseScenario([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "name: a", good + "more: 1\n", good + "at: [crash x]\n", good + "at: ['1s:crash y']\n", good + "at: ['1s:explode x']\n", strings.Replace(good, "duration: 1s", "", 1),
	} {
		if s, err := parseScenario([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
}

func TestScenarioThatNeedsItsFleet(t *testing.T) {
	for _, o := range []Options{{BaseURL: "http://127.0.0.1:1"}, {URL: "127.0.0.1:1"}} {
		c := &RunCmd{Scenario: "failover", Options: o}
		var e *ExitError
		if _, err := c.play(context.Background(), io.Discard); !errors.As(err, &e) || e.Code != ExitUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c := &RunCmd{Scenario: "chat", Options: Options{URL: "http://127.0.0.1:1"}}
	end, err := c.play(context.Background(), io.Discard)
	if err != nil || c.Fleet != nil {
		t.Fatalf("chat against a target: %v, fleet %v", err, c.Fleet)
	}
	end()
	c = &RunCmd{Scenario: "nope"}
	if err := c.run(context.Background(), io.Discard, io.Discard); err == nil {
		t.Error("an unknown scenario runs")
	}
}

// ownProgram builds the program, once for all tests, and makes children of it.
func ownProgram(t *testing.T) {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
}

// programDir is where it is; empty when no test needed it.
var programDir string

var built = sync.OnceValue(func() (err error) {
	if programDir, err = os.MkdirTemp("", "penstock-bench-test-"); err != nil {
		return err
	}
	path := filepath.Join(programDir, "penstock")
	executable = func() (string, error) { return path, nil }
	if out, err := exec.Command("go", "build", "-o", path, "..").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
})

// TestFleet plays a small failover and a small reload with real processes.
func TestFleet(t *testing.T) {
	fastset.LeaveOut(t, "load from several processes")
	t.Parallel()
	ownProgram(t)
	sim := []string{"--token-rate=100", "--slots=64"}
	f, err := startFleet(context.Background(), fleetSpec{
		Engines: []engineSpec{{Name: "a", Sim: sim, Concurrency: 32}, {Name: "b", Sim: sim}, {Name: "c", Sim: sim}},
		Models:  []modelSpec{{ID: "sim", Policy: "round_robin"}},
	})
	defer f.close()
	if err != nil {
		t.Fatal(err)
	}
	run := func(tokens string, at ...string) *Penstock {
		t.Helper()
		r, _, err := Run(context.Background(), Options{
			BaseURL: f.url, Admin: f.admin, RequestRate: []string{"20"}, Duration: Span(4 * time.Second), InputLen: "20", OutputLen: tokens, At: at, NoFloor: true, ReadyCheck: 20, Fleet: f,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Penstock.Events {
			if e.Error != "" {
				t.Errorf("event %s: %s", e.Action, e.Error)
			}
		}
		return r.Penstock
	}
	calm := run("30", "1s:fleet=remove c", "2s:fleet=add c", "3s:fleet=reload")
	if calm.Total.Failed != 0 || calm.Total.Completed < 50 || len(calm.ByUpstream) != 3 || calm.ByUpstream["c"].Completed == 0 {
		t.Errorf("reloads: %d failed, %d completed, upstreams %v", calm.Total.Failed, calm.Total.Completed, calm.ByUpstream)
	}
	lost := run("100", "1s:fleet=crash b", "3s:fleet=restart b") // a second each: some are under way whenever the crash happens
	for _, e := range lost.Total.Errors {
		if e.Kind != ErrInStream {
			t.Errorf("failure that no crash excuses: %+v", e)
		}
	}
	if lost.Total.Failed == 0 || lost.Total.Failed > 20 || lost.Events[0].Lost != lost.Total.Failed || lost.Total.Completed < 50 {
		t.Errorf("crash: %d failed, %d completed, event %+v", lost.Total.Failed, lost.Total.Completed, lost.Events[0])
	}
	for _, bad := range []string{"crash x", "explode a", ""} {
		if err := f.Do(context.Background(), bad); err == nil {
			t.Errorf("%q happened", bad)
		}
	}
	if err := errors.Join(f.Do(context.Background(), "remove a"), f.Do(context.Background(), "remove b")); err != nil {
		t.Error(err)
	}
	if err := f.Do(context.Background(), "remove c"); err == nil || f.out["c"] {
		t.Errorf("the last engine was removed: %v", err)
	}
	dir := f.dir
	f.close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the fleet left files: %v", err)
	}
}

func TestChildThatFails(t *testing.T) {
	for _, argv := range [][]string{{"/bin/sh", "-c", "echo no such thing >&2; exit 3"}, {filepath.Join(t.TempDir(), "nothing")}} {
		c, err := startChild(context.Background(), "child", argv, nil, func(string) bool { return false })
		if err == nil {
			c.kill()
			t.Fatalf("%v became ready", argv)
		}
		if len(argv) > 1 && !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("%v does not say why", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, stop)
	if _, err := startChild(ctx, "child", []string{"/bin/sleep", "60"}, nil, func(string) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	t.Setenv("PENSTOCK_CONFIG", "x")
	if i := slices.IndexFunc(childEnv(), func(s string) bool { return strings.HasPrefix(s, "PENSTOCK_") }); i >= 0 {
		t.Error("a child inherits our settings")
	}
	if d := cmp.Diff("34", func() string {
		l := &lastLines{}
		for range 2000 {
			_, _ = l.Write([]byte("12"))
		}
		_, _ = l.Write([]byte("34"))
		s := l.String()
		if len(s) > 1024 {
			return "too long"
		}
		return s[len(s)-2:]
	}()); d != "" {
		t.Error(d)
	}
}
