package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"penstock/bench/load/client"
	"penstock/bench/process"
)

// fleetSpec is the fleet of a scenario: simulated engines and an edge in front of them.
type fleetSpec struct {
	// Engines are started as `penstock sim` with these flags.
	Engines []engineSpec `yaml:"engines"`
	// Models are entries of the edge's configuration without their deployments: every engine serves
	// each of them.
	Models []modelSpec `yaml:"models"`
	// Required is true when the scenario makes no sense against somebody else's engines.
	Required bool `yaml:"required"`
}

type engineSpec struct {
	Name string   `yaml:"name"`
	Sim  []string `yaml:"sim"`
	// Concurrency is what the edge is told; 0: nothing.
	Concurrency int `yaml:"concurrency"`
}

type modelSpec struct {
	ID     string `yaml:"id"`
	Kind   string `yaml:"kind"`
	Policy string `yaml:"policy"`
	Queue  string `yaml:"queue"`
}

// fleet is a running one. Its processes end with close.
type fleet struct {
	spec fleetSpec
	dir  string

	mu      sync.Mutex
	engines map[string]*fleetEngine
	out     map[string]bool // engines that are not in the edge's configuration
	weight  int             // of every second engine: changed by reload, so that there is something to reload
	edge    *process.Child
	URL     string // of the edge, without /v1
	Admin   string
}

type fleetEngine struct {
	spec    engineSpec
	process *process.Child
	addr    string
}

// StartFleet starts every engine and then the edge, and waits until it serves.
func StartFleet(ctx context.Context, spec fleetSpec) (f *fleet, err error) {
	f = &fleet{spec: spec, engines: map[string]*fleetEngine{}, out: map[string]bool{}, weight: 1}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.dir, err = os.MkdirTemp("", "penstock-fleet-"); err != nil {
		return f, err
	}
	for _, e := range spec.Engines {
		one := &fleetEngine{spec: e, addr: "127.0.0.1:0"}
		if err = f.startEngine(ctx, one); err != nil {
			return f, err
		}
		f.engines[e.Name] = one
	}
	if err = f.writeConfig(); err != nil {
		return f, err
	}
	f.edge, f.URL, f.Admin, err = process.StartEdge(ctx, "edge", nil, f.config())
	return f, err
}

func (f *fleet) startEngine(ctx context.Context, e *fleetEngine) (err error) {
	var models []string
	for _, m := range f.spec.Models {
		models = append(models, m.ID)
	}
	flags := append([]string{"--listen", e.addr, "--models", strings.Join(models, ",")}, e.spec.Sim...)
	c, addr, err := process.StartSim(ctx, "engine "+e.spec.Name, nil, flags...)
	if err == nil {
		e.process, e.addr = c, addr
	}
	return err
}

func (f *fleet) config() string { return filepath.Join(f.dir, "edge.yaml") }

// writeConfig writes the edge's configuration for the engines that are in it.
func (f *fleet) writeConfig() error {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nauth: none\nlog: { access: false, debug_headers: true }\nupstreams:\n")
	var names []string
	for i, e := range f.spec.Engines {
		if f.out[e.Name] {
			continue
		}
		names = append(names, e.Name)
		weight := 1
		if i%2 == 1 {
			weight = f.weight
		}
		fmt.Fprintf(&b, "  - { name: %s, url: \"http://%s\", engine: sim, weight: %d", e.Name, f.engines[e.Name].addr, weight)
		if e.Concurrency > 0 {
			fmt.Fprintf(&b, ", concurrency: %d", e.Concurrency)
		}
		b.WriteString(" }\n")
	}
	b.WriteString("models:\n")
	for _, m := range f.spec.Models {
		fmt.Fprintf(&b, "  - id: %s\n", m.ID)
		for _, kv := range [][2]string{{"kind", m.Kind}, {"policy", m.Policy}, {"queue", m.Queue}} {
			if kv[1] != "" {
				fmt.Fprintf(&b, "    %s: %s\n", kv[0], kv[1])
			}
		}
		fmt.Fprintf(&b, "    deployments: [{ upstream: %s }]\n", strings.Join(names, " }, { upstream: "))
	}
	tmp := f.config() + ".new"
	if err := os.WriteFile(tmp, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, f.config())
}

// Do makes something happen to the fleet: "crash ENGINE" kills its process, "restart ENGINE" starts
// it again on the same address, "remove ENGINE" and "add ENGINE" rewrite the configuration,
// "reload" changes weights in it; after these three the edge is asked to read it again.
func (f *fleet) Do(ctx context.Context, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	verb, name, _ := strings.Cut(what, " ")
	e := f.engines[name]
	if e == nil && verb != "reload" {
		return fmt.Errorf("%q: there is no engine %q in the fleet", what, name)
	}
	switch verb {
	case "crash":
		e.process.Kill() // KILL: no farewell, as when the machine dies
		return nil
	case "restart":
		return f.startEngine(ctx, e)
	case "remove":
		if len(f.out) == len(f.spec.Engines)-1 {
			return fmt.Errorf("%q: it is the last engine", what)
		}
		f.out[name] = true
	case "add":
		delete(f.out, name)
	case "reload":
		f.weight = 3 - f.weight
	default:
		return fmt.Errorf("%q: want crash, restart, remove or add with an engine, or reload", what)
	}
	if err := f.writeConfig(); err != nil {
		return err
	}
	return f.reload(ctx)
}

// checkDo says what is wrong with an event before the run, for engines of the spec.
func (s *fleetSpec) checkDo(what string) error {
	verb, name, _ := strings.Cut(what, " ")
	switch {
	case what == "reload":
	case !slices.Contains([]string{"crash", "restart", "remove", "add"}, verb):
		return fmt.Errorf("%q: want crash, restart, remove or add with an engine, or reload", what)
	case !slices.ContainsFunc(s.Engines, func(e engineSpec) bool { return e.Name == name }):
		return fmt.Errorf("%q: there is no engine %q", what, name)
	}
	return nil
}

func (f *fleet) reload(ctx context.Context) error {
	if err := client.Post(ctx, f.Admin, "/-/reload", nil, "", false); err != nil {
		return fmt.Errorf("the edge did not take the configuration: %w", err)
	}
	return nil
}

// EngineURLs are the names and base URLs of the engines, in the order of the spec.
func (f *fleet) EngineURLs() []string {
	var out []string
	for _, e := range f.spec.Engines {
		out = append(out, e.Name+"=http://"+f.engines[e.Name].addr)
	}
	return out
}

// Close kills all processes and removes what was written.
func (f *fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.edge != nil {
		f.edge.Kill() // nothing to drain: the run is over
	}
	for _, e := range f.engines {
		if e.process != nil {
			e.process.Kill()
		}
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}
