package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/scenario"
)

// shortFlags maps the short flags of `bench run` to the flags that scenarios set.
var shortFlags = map[byte]string{
	'n': "num-prompts", 'z': "duration", 'r': "request-rate", 'c': "max-concurrency",
	'm': "model",
}

// replacedFlags maps a flag to the scenario flags that it replaces.
var replacedFlags = map[string][]string{
	"num-prompts": {"duration"}, "duration": {"num-prompts"},
	"ramp": {"request-rate"}, "request-rate": {"ramp"}, "profile": {"request-rate", "max-concurrency", "ramp"},
}

// findRunArgs reports whether a command line is for `bench run` ("run" may be omitted). at is the
// index of the first argument after the command.
func findRunArgs(args []string) (at int, ok bool) {
	switch {
	case len(args) < 2 || args[0] != "bench":
		return 0, false
	case args[1] == "run":
		return 2, true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[CLI]()) {
		if strings.EqualFold(f.Name, args[1]) {
			return 0, false
		}
	}
	return 1, true
}

// insertScenarioFlags inserts the flags of a scenario after `bench` or `bench run`. They precede
// the user's flags, which therefore take precedence. A command line without --scenario stays
// unchanged. An unknown scenario is ignored here, because the command reports it.
func insertScenarioFlags(args []string) []string {
	at, ok := findRunArgs(args)
	if !ok {
		return args
	}
	name, given := givenFlags(args[at:])
	s, err := scenario.Find(name)
	if err != nil {
		return args
	}
	for flag := range given {
		for _, other := range replacedFlags[flag] {
			given[other] = true
		}
	}
	return slices.Concat(args[:at], s.Flags(given), args[at:])
}

// givenFlags returns the name of the scenario in args, and the long names of all flags in args.
func givenFlags(args []string) (name string, given map[string]bool) {
	given = map[string]bool{}
	for i, a := range args {
		if a == "--" {
			break
		}
		long, isLong := strings.CutPrefix(a, "--")
		switch {
		case isLong:
			flag, value, has := strings.Cut(long, "=")
			given[flag] = true
			if flag == "scenario" {
				if name = value; !has && i+1 < len(args) {
					name = args[i+1]
				}
			}
		case len(a) > 1 && a[0] == '-':
			given[shortFlags[a[1]]] = true
		}
	}
	return name, given
}

// startScenarioFleet starts the scenario's fleet, unless the user has given a target. The caller
// must call end.
func (c *RunCmd) startScenarioFleet(ctx context.Context, notes io.Writer) (end func(), err error) {
	s, err := scenario.Find(c.Scenario)
	if err != nil {
		return nil, err
	}
	if c.URL != "" || c.BaseURL != "" {
		if s.Fleet.Required {
			return nil, exit.Usagef("scenario %s plays on a fleet of its own: leave the target out", s.Name)
		}
		return func() {}, nil
	}
	fmt.Fprintf(notes, "Scenario %s: starting %d simulated engines and an edge\n", s.Name, len(s.Fleet.Engines))
	f, err := scenario.StartFleet(ctx, s.Fleet)
	if err != nil {
		return nil, exit.NewError(exit.Failed, err.Error())
	}
	c.BaseURL, c.Admin, c.AdminToken, c.APIKey, c.Fleet = f.URL, f.Admin, "", f.Key, f
	c.Engine = f.EngineURLs()
	c.Events, c.ReadyCheck = s.At, 10*time.Second
	return f.Close, nil
}

// ScenariosCmd is the command `penstock bench scenarios`.
type ScenariosCmd struct {
	Name   string `arg:"" values:"scenarios" optional:"" help:"Scenario to explain; without it they are listed."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is an array of scenarios: name, text and explanation."`
}

// Run lists the scenarios or explains one.
func (c *ScenariosCmd) Run() error { return c.run(os.Stdout) }

func (c *ScenariosCmd) run(out io.Writer) error {
	if c.Format == "json" {
		return c.list(out)
	}
	var b strings.Builder
	if c.Name == "" {
		for _, name := range scenario.Names {
			s, err := scenario.Find(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%-10s %s\n", name, s.Text)
		}
		b.WriteString("\npenstock bench run --scenario NAME [URL]   against URL, or its own fleet of simulated engines behind an edge\n" +
			"penstock bench scenarios NAME              what it does and what to look at\n")
	} else {
		s, err := scenario.Find(c.Name)
		if err != nil {
			return err
		}
		b.WriteString(s.Explanation())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// list writes the scenarios as JSON.
func (c *ScenariosCmd) list(out io.Writer) error {
	type shown struct {
		Name        string `json:"name"`
		Text        string `json:"text"`
		Explanation string `json:"explanation"`
	}
	names := scenario.Names
	if c.Name != "" {
		names = []string{c.Name}
	}
	var all []shown
	for _, name := range names {
		s, err := scenario.Find(name)
		if err != nil {
			return err
		}
		all = append(all, shown{s.Name, s.Text, s.Explanation()})
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

// Scenarios returns the names of the bundled scenarios.
func Scenarios() []string { return scenario.Names }
