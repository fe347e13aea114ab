package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/scenario"
	"penstock/config/testkit/golden"
)

// TestZeroIsNotTheDefault checks that a number or duration of 0 is rejected rather than replaced by
// the default.
func TestZeroIsNotTheDefault(t *testing.T) {
	for _, flag := range []string{"-z=0s", "-z0", "--duration=-1s", "--duration=20", "-n0", "--num-prompts=-3", "--num-prompts=many", "--request-timeout=0s"} {
		_, parser := newParser(t)
		if _, err := parser.Parse([]string{"bench", "run", flag}); err == nil {
			t.Errorf("%s is taken", flag)
		}
	}
	c := parse(t, "-z", "1m30s", "-n", "7", "--request-timeout=250ms")
	if o := c.Run.Options; o.Duration != load.PositiveDuration(90*time.Second) || o.NumPrompts != 7 || o.RequestTimeout != load.PositiveDuration(250*time.Millisecond) {
		t.Errorf("options = %v, %v, %v; want 1m30s, 7 prompts and 250ms", o.Duration, o.NumPrompts, o.RequestTimeout)
	}
}

// TestScenariosAreCommands checks that every flag of every scenario exists, and that `bench run`
// accepts each scenario's combination of flags.
func TestScenariosAreCommands(t *testing.T) {
	for _, name := range scenario.Names {
		s, err := scenario.Find(name)
		if err != nil || s.Name != name {
			t.Fatalf("Find(%q) = %+v, %v; want that scenario", name, s, err)
		}
		for _, line := range [][]string{{"run", "--scenario", name}, {"--scenario=" + name}} {
			c := parse(t, line...)
			if c.Run.Scenario != name {
				t.Errorf("line %v: scenario = %q, want %q", line, c.Run.Scenario, name)
			}
			if _, err := c.Run.Validate(); err != nil {
				t.Errorf("line %v: Validate: %v, want no error", line, err)
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
		args, err := RewriteArgs(strings.Fields(c.in))
		if got := strings.Join(args, " "); got != c.want || err != nil {
			t.Errorf("%s:\n got %s (%v)\nwant %s", c.in, got, err, c.want)
		}
	}
	if c := parse(t, "--scenario", "overload", "--request-rate", "5"); !slices.Equal(c.Run.RequestRate, []string{"5"}) || c.Run.Ramp != "" {
		t.Errorf("the user's rate does not win: %+v", c.Run.Options)
	}
}

func TestScenariosAreListed(t *testing.T) {
	for _, name := range []string{"", "agent", "failover", "fair", "mixed", "overload", "wedge"} {
		var b bytes.Buffer
		if err := (&ScenariosCmd{Name: name}).run(&b); err != nil {
			t.Fatal(err)
		}
		if name == "" {
			name = "all"
		}
		golden.CompareFile(t, "testdata/scenarios/"+name+".txt", b.Bytes())
	}
	var e *exit.Error
	if err := (&ScenariosCmd{Name: "nope"}).run(io.Discard); !errors.As(err, &e) || e.Code != exit.Usage {
		t.Errorf("an unknown scenario: %v", err)
	}
}

func TestScenarioThatNeedsItsFleet(t *testing.T) {
	for _, o := range []load.Options{{BaseURL: "http://127.0.0.1:1"}, {URL: "127.0.0.1:1"}} {
		c := &RunCmd{Scenario: "failover", Options: o}
		var e *exit.Error
		if _, err := c.startScenarioFleet(context.Background(), io.Discard); !errors.As(err, &e) || e.Code != exit.Usage {
			t.Errorf("startScenarioFleet(%+v): %v, want a usage error", o, err)
		}
	}
	c := &RunCmd{Scenario: "chat", Options: load.Options{URL: "http://127.0.0.1:1"}}
	end, err := c.startScenarioFleet(context.Background(), io.Discard)
	if err != nil || c.Fleet != nil {
		t.Fatalf("chat against a target: %v, fleet %v", err, c.Fleet)
	}
	end()
	c = &RunCmd{Scenario: "nope"}
	if err := c.run(context.Background(), io.Discard, io.Discard); err == nil {
		t.Error("an unknown scenario runs")
	}
}
