package bench

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// scenario is a workload with a name: flags of `bench run`, and the fleet that it plays on when no target is given.
type scenario struct {
	Name string `yaml:"name"`
	// Text is one line, Explain what it is like and what to look at.
	Text    string `yaml:"text"`
	Explain string `yaml:"explain"`
	// Fleet is started when no target is given.
	Fleet fleetSpec `yaml:"fleet"`
	// Run are flags of `bench run`, by name without the dashes; a list repeats the flag. A flag of the command line wins.
	Run yaml.MapSlice `yaml:"run"`
	// At is what happens to the fleet, as TIME:EVENT; see fleet.Do.
	At []string `yaml:"at"`
}

// scenarioOrder is the order in which they are told.
var scenarioOrder = []string{"chat", "agent", "rag", "batch", "vision", "audio", "overload", "failover", "reload"}

// findScenario reads one of the bundled scenarios.
func findScenario(name string) (*scenario, error) {
	if !slices.Contains(scenarioOrder, name) {
		return nil, usageError("unknown scenario %q: want one of %s", name, strings.Join(scenarioOrder, ", "))
	}
	b, err := scenarioFiles.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	s, err := parseScenario(b)
	if err != nil {
		panic("BUG: scenario " + name + ": " + err.Error())
	}
	return s, nil
}

// parseScenario reads and checks a scenario.
func parseScenario(b []byte) (*scenario, error) {
	s := new(scenario)
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict(), yaml.UseOrderedMap()).Decode(s); err != nil {
		return nil, err
	}
	if s.Name == "" || s.Text == "" || s.Explain == "" || len(s.Run) == 0 || len(s.Fleet.Engines) == 0 || len(s.Fleet.Models) == 0 {
		return nil, errors.New("a scenario has name, text, explain, run and fleet with engines and models")
	}
	for _, at := range s.At {
		_, what, ok := strings.Cut(at, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want TIME:EVENT", at)
		}
		if err := s.Fleet.checkDo(what); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// flags are the scenario's flags as a command line has them, without those that given names.
func (s *scenario) flags(given map[string]bool) []string {
	var out []string
	for _, kv := range s.Run {
		name := fmt.Sprint(kv.Key)
		if given[name] {
			continue
		}
		values, ok := kv.Value.([]any)
		if !ok {
			values = []any{kv.Value}
		}
		for _, v := range values {
			if v == true {
				out = append(out, "--"+name)
			} else {
				out = append(out, fmt.Sprintf("--%s=%v", name, v))
			}
		}
	}
	return out
}

// shortFlags are the letters of `bench run` that stand for flags that scenarios set.
var shortFlags = map[byte]string{'n': "num-prompts", 'z': "duration", 'r': "request-rate", 'c': "max-concurrency", 'm': "model"}

// instead are flags that a scenario's flag cannot stand beside.
var instead = map[string][]string{
	"num-prompts": {"duration"}, "duration": {"num-prompts"}, "mix": {"backend"}, "backend": {"mix"},
	"ramp": {"request-rate"}, "request-rate": {"ramp"}, "profile": {"request-rate", "max-concurrency", "ramp"},
}

// withScenario puts the flags of a scenario into a command line: after `bench` or `bench run`, before what the user gives, so that the
// user's own flags win. A command line without --scenario is returned as it is. An unknown scenario is left for the command to tell.
func withScenario(args []string) []string {
	at, ok := isRun(args)
	if !ok {
		return args
	}
	name, given := "", map[string]bool{}
	for i, a := range args[at:] {
		if a == "--" {
			break
		}
		long, isLong := strings.CutPrefix(a, "--")
		switch {
		case isLong:
			flag, value, has := strings.Cut(long, "=")
			given[flag] = true
			if flag == "scenario" {
				if name = value; !has && at+i+1 < len(args) {
					name = args[at+i+1]
				}
			}
		case len(a) > 1 && a[0] == '-':
			given[shortFlags[a[1]]] = true
		}
	}
	s, err := findScenario(name)
	if err != nil {
		return args
	}
	for flag := range given {
		for _, other := range instead[flag] {
			given[other] = true
		}
	}
	return slices.Concat(args[:at], s.flags(given), args[at:])
}

// play prepares the command for its scenario: it starts the fleet unless a target is given. The caller must call end.
func (c *RunCmd) play(ctx context.Context, notes io.Writer) (end func(), err error) {
	s, err := findScenario(c.Scenario)
	if err != nil {
		return nil, err
	}
	if c.URL != "" || c.BaseURL != "" {
		if s.Fleet.Required {
			return nil, usageError("scenario %s plays on a fleet of its own: leave the target out", s.Name)
		}
		return func() {}, nil
	}
	fmt.Fprintf(notes, "Scenario %s: starting %d simulated engines and an edge\n", s.Name, len(s.Fleet.Engines))
	f, err := startFleet(ctx, s.Fleet)
	if err != nil {
		return nil, &ExitError{ExitFailed, err.Error()}
	}
	c.BaseURL, c.Admin, c.AdminToken, c.APIKey, c.Fleet = f.url, f.admin, "", "", f
	c.Engine = f.engineURLs()
	for _, at := range s.At {
		when, what, _ := strings.Cut(at, ":")
		c.At = append(c.At, when+":fleet="+what)
	}
	if c.ReadyCheck == 0 {
		c.ReadyCheck = 10
	}
	return f.close, nil
}

// ScenariosCmd is `penstock bench scenarios`.
type ScenariosCmd struct {
	Name string `arg:"" optional:"" help:"Scenario to explain; without it they are listed."`
}

// Run lists or explains.
func (c *ScenariosCmd) Run() error { return c.run(os.Stdout) }

func (c *ScenariosCmd) run(out io.Writer) error {
	var b strings.Builder
	if c.Name == "" {
		for _, name := range scenarioOrder {
			s, err := findScenario(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%-10s %s\n", name, s.Text)
		}
		b.WriteString("\npenstock bench run --scenario NAME [URL]   against URL, or its own fleet of simulated engines behind an edge\n" +
			"penstock bench scenarios NAME              what it does and what to look at\n")
	} else {
		s, err := findScenario(c.Name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s: %s\n\n%s\n", s.Name, s.Text, strings.TrimSpace(s.Explain))
		fmt.Fprintf(&b, "\nIt is:  penstock bench run \\\n          %s\n", strings.Join(quotedFlags(s.flags(nil)), " \\\n          "))
		b.WriteString("\nFleet, when no target is given:\n")
		for _, e := range s.Fleet.Engines {
			fmt.Fprintf(&b, "  %-8s penstock sim %s\n", e.Name, strings.Join(e.Sim, " "))
		}
		b.WriteString("  edge     in front of them")
		for _, m := range s.Fleet.Models {
			fmt.Fprintf(&b, "; model %s", m.ID)
			if m.Policy != "" {
				b.WriteString(", " + m.Policy)
			}
			if m.Queue != "" {
				b.WriteString(", queue " + m.Queue)
			}
		}
		b.WriteByte('\n')
		for _, at := range s.At {
			when, what, _ := strings.Cut(at, ":")
			fmt.Fprintf(&b, "  at %-5s %s\n", when, what)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// quotedFlags are flags as a shell takes them.
func quotedFlags(flags []string) []string {
	out := slices.Clone(flags)
	for i, f := range out {
		if strings.ContainsAny(f, " {}'\"$&;<>*") {
			out[i] = "'" + strings.ReplaceAll(f, "'", `'\''`) + "'"
		}
	}
	return out
}
