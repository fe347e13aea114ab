package scenario

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"penstock/bench/exit"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// Scenario is a named set of flags for `bench run`, together with the fleet that is started if no
// target is given.
type Scenario struct {
	Name string `yaml:"name"`
	// Text is a summary in one line. Explain describes the scenario and the numbers to look at.
	Text    string `yaml:"text"`
	Explain string `yaml:"explain"`
	// Fleet is started if no target is given.
	Fleet fleetSpec `yaml:"fleet"`
	// Run maps `bench run` flags to their values. Flag names are written without dashes. If the
	// value is a list, the flag is repeated. Flags on the command line take precedence.
	Run yaml.MapSlice `yaml:"run"`
	// At lists the fleet's events as TIME:EVENT. See fleet.PerformAction.
	At []string `yaml:"at"`
}

// Names lists the scenarios in display order.
var Names = []string{
	"chat", "agent", "rag", "batch", "vision", "audio", "overload", "mixed", "failover", "wedge", "reload",
	"fair",
}

// Find reads one of the bundled scenarios.
func Find(name string) (*Scenario, error) {
	if !slices.Contains(Names, name) {
		return nil, exit.Usagef("unknown scenario %q: want one of %s", name, strings.Join(Names, ", "))
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

func parseScenario(b []byte) (*Scenario, error) {
	s := new(Scenario)
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict(), yaml.UseOrderedMap()).Decode(s); err != nil {
		return nil, err
	}
	if s.Name == "" || s.Text == "" || s.Explain == "" || len(s.Run) == 0 || len(s.Fleet.Engines) == 0 ||
		len(s.Fleet.Models) == 0 {
		return nil, errors.New("a scenario has name, text, explain, run and fleet with engines and models")
	}
	for _, at := range s.At {
		_, what, ok := strings.Cut(at, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want TIME:EVENT", at)
		}
		if err := s.Fleet.validateEvent(what); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Flags returns the scenario's flags in command-line form, except those in given.
func (s *Scenario) Flags(given map[string]bool) []string {
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

// Explanation describes the scenario's purpose, command line and fleet for display.
func (s *Scenario) Explanation() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n%s\n", s.Name, s.Text, strings.TrimSpace(s.Explain))
	flags := quotedFlags(s.Flags(nil))
	fmt.Fprintf(&b, "\nIt is:  penstock bench run \\\n          %s\n", strings.Join(flags, " \\\n          "))
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
	for _, k := range s.Fleet.Keys {
		fmt.Fprintf(&b, "  key      %s, weight %d: %d calls at once, each with %d tokens to read and %d to write\n", k.ID, k.Weight, k.Loops, k.Prompt, k.Answer)
	}
	for _, at := range s.At {
		when, what, _ := strings.Cut(at, ":")
		fmt.Fprintf(&b, "  at %-5s %s\n", when, what)
	}
	return b.String()
}

func quotedFlags(flags []string) []string {
	out := slices.Clone(flags)
	for i, f := range out {
		if strings.ContainsAny(f, " {}'\"$&;<>*") {
			out[i] = "'" + strings.ReplaceAll(f, "'", `'\''`) + "'"
		}
	}
	return out
}
