package scenario

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/load"
	"penstock/bench/result"
	"penstock/config/testkit/fastset"
)

func TestScenarioFilesAreChecked(t *testing.T) {
	good := "name: a\ntext: b\nexplain: c\nfleet: { engines: [{ name: x }], models: [{ id: m }] }\nrun: { duration: 1s }\n"
	if _, err := parseScenario([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "name: a", good + "more: 1\n", good + "at: [crash x]\n", good + "at: ['1s:crash y']\n", good + "at: ['1s:explode x']\n", good + "at: ['1s:busy m']\n", good + "at: ['1s:busy x 1s']\n", good + "at: ['1s:fair m 1s']\n", strings.Replace(good, "duration: 1s", "", 1),
	} {
		if s, err := parseScenario([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
}

// TestFleet runs a small failover and a small reload with real processes, and checks the results.
func TestFleet(t *testing.T) {
	fastset.SkipIfShort(t, "load from several processes")
	t.Parallel()
	benchtest.BuildProgram(t)
	sim := []string{"--token-rate=100", "--slots=64"}
	f, err := StartFleet(context.Background(), fleetSpec{
		Engines: []engineSpec{{Name: "a", Sim: sim, Concurrency: 32}, {Name: "b", Sim: sim}, {Name: "c", Sim: sim}},
		Models:  []modelSpec{{ID: "sim", Policy: "round_robin"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run := func(tokens string, at ...string) *result.Penstock {
		t.Helper()
		r, _, err := load.Run(context.Background(), load.Options{
			BaseURL: f.URL, Admin: f.Admin, RequestRate: []string{"20"}, Duration: load.PositiveDuration(4 * time.Second), InputLen: "20", OutputLen: tokens, Events: at, NoFloor: true, ReadyCheck: 20 * time.Second, Fleet: f,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Penstock.Events {
			if e.Error != "" {
				t.Errorf("event %s: error %s, want none", e.Action, e.Error)
			}
		}
		return r.Penstock
	}
	calm := run("30", "1s:remove c", "2s:add c", "3s:reload")
	if calm.Total.Failed != 0 || calm.Total.Completed < 50 || len(calm.ByUpstream) != 3 || calm.ByUpstream["c"].Completed == 0 {
		t.Errorf("reloads: %d failed, %d completed, upstreams %v", calm.Total.Failed, calm.Total.Completed, calm.ByUpstream)
	}
	lost := run("100", "1s:crash b", "3s:restart b") // calls take a second, so the crash hits some of them
	for _, e := range lost.Total.Errors {
		if e.Kind != result.ErrInStream {
			t.Errorf("failure that no crash excuses: %+v", e)
		}
	}
	if lost.Total.Failed == 0 || lost.Total.Failed > 20 || lost.Events[0].Lost != lost.Total.Failed || lost.Total.Completed < 50 {
		t.Errorf("crash: %d failed, %d completed, event %+v", lost.Total.Failed, lost.Total.Completed, lost.Events[0])
	}
	for _, bad := range []string{"crash x", "explode a", ""} {
		if _, err := f.PerformAction(context.Background(), bad); err == nil {
			t.Errorf("the event %q happened, want an error", bad)
		}
	}
	if err := errors.Join(f.performEvent(context.Background(), "remove a"), f.performEvent(context.Background(), "remove b")); err != nil {
		t.Error(err)
	}
	if err := f.performEvent(context.Background(), "remove c"); err == nil || f.removed["c"] {
		t.Errorf("the last engine was removed: %v", err)
	}
	dir := f.dir
	f.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the fleet left files: %v", err)
	}
}

// TestWedge checks that the edge stops using a wedged engine and uses it again later, and that no
// call is lost. It also checks that the edge does not mistake a silent engine for a wedged engine.
func TestWedge(t *testing.T) {
	fastset.SkipIfShort(t, "a stall takes ten seconds and more to be seen")
	t.Parallel()
	benchtest.BuildProgram(t)
	sim := []string{"--token-rate=40", "--slots=64"}
	f, err := StartFleet(context.Background(), fleetSpec{
		Engines: []engineSpec{
			{Name: "a", Sim: sim, Models: []string{"sim"}},
			{Name: "b", Sim: sim, Models: []string{"sim"}},
			{Name: "c", Sim: sim, Models: []string{"slow"}},
			{Name: "d", Sim: sim, Models: []string{"slow"}},
		},
		Models: []modelSpec{{ID: "sim", Policy: "round_robin", Retry: "{ resume: 1 }"}, {ID: "slow", Policy: "round_robin"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, _, err := load.Run(context.Background(), load.Options{
		BaseURL: f.URL, Admin: f.Admin, Model: "sim", RequestRate: []string{"5"}, Duration: load.PositiveDuration(45 * time.Second), InputLen: "20", OutputLen: "60",
		Events: []string{"3s:wedge b", "4s:busy slow 8s", "40s:recover b"}, NoFloor: true, ReadyCheck: 20 * time.Second, Fleet: f,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Penstock
	for i, want := range []string{"b is out", "4 silent calls answered, no engine out", "b is back"} {
		if e := p.Events[i]; e.Seen != want || e.Error != "" {
			t.Errorf("event %+v, want %q", e, want)
		}
	}
	if e := p.Events[0]; e.EndS-e.StartS < 9 || e.Moved == nil || *e.Moved == 0 {
		t.Errorf("the engine was out after %v s, moved %v", e.EndS-e.StartS, e.Moved)
	}
	if p.Total.Failed != 0 || p.Total.Completed < 100 {
		t.Errorf("%d failed, %d completed: %+v", p.Total.Failed, p.Total.Completed, p.Total.Errors)
	}
	if err := f.performEvent(context.Background(), "wedge a"); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := f.waitEngineUse(ended, "a", false); err == nil || !strings.Contains(err.Error(), "ended before a was out") {
		t.Errorf("an engine that is not out yet: %v", err)
	}
}

// TestMetricsPage checks that acceptsCalls reads from the edge's metrics whether the edge sends
// calls to an engine.
func TestMetricsPage(t *testing.T) {
	const good = "penstock_upstream_up{upstream=\"a\"} 1\npenstock_upstream_up{upstream=\"ab\"} 0\npenstock_upstream_stalled{upstream=\"a\"} 0\n"
	for page, want := range map[string]bool{
		good: true, "": false,
		strings.Replace(good, "} 1", "} 0", 1):                                             false,
		strings.Replace(good, "stalled{upstream=\"a\"} 0", "stalled{upstream=\"a\"} 1", 1): false,
		good + "penstock_upstream_breaker_open{upstream=\"a\"} 1\n":                        false,
	} {
		if got := metricsPage(page).acceptsCalls("a"); got != want {
			t.Errorf("%v, want %v:\n%s", got, want, page)
		}
	}
}

// TestEveryScenarioIsListed checks that Names lists every scenario file.
func TestEveryScenarioIsListed(t *testing.T) {
	files, err := scenarioFiles.ReadDir("scenarios")
	if err != nil || len(files) != len(Names) {
		t.Fatalf("%d files for %d scenarios: %v", len(files), len(Names), err)
	}
}

func TestMain(m *testing.M) { benchtest.Main(m) }
