package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/process"
)

// fleetSpec describes the fleet of a scenario: simulated engines behind an edge.
type fleetSpec struct {
	// Engines are started as `penstock sim` with these flags.
	Engines []engineSpec `yaml:"engines"`
	// Models are the models in the edge's configuration. They are listed without deployments,
	// because each model is deployed at every engine that serves it.
	Models []modelSpec `yaml:"models"`
	// Keys are the edge's API keys, and the load that the event "fair" sends with each of them. If
	// any keys are listed, the run also uses a key, with weight 1. Otherwise, the edge requires no
	// API key.
	Keys []keySpec `yaml:"keys"`
	// Required is true if the scenario makes no sense without this fleet.
	Required bool `yaml:"required"`
}

type engineSpec struct {
	Name string   `yaml:"name"`
	Sim  []string `yaml:"sim"`
	// Concurrency is the concurrency limit of the engine in the edge's configuration. 0 means no
	// limit.
	Concurrency int `yaml:"concurrency"`
	// Models lists the models that the engine serves. If it is empty, the engine serves all models.
	Models []string `yaml:"models"`
}

func (e *engineSpec) serves(model string) bool {
	return len(e.Models) == 0 || slices.Contains(e.Models, model)
}

type modelSpec struct {
	ID     string `yaml:"id"`
	Kind   string `yaml:"kind"`
	Policy string `yaml:"policy"`
	Queue  string `yaml:"queue"`
	Retry  string `yaml:"retry"`
}

// fleet is a running fleet. Close kills its processes.
type fleet struct {
	spec fleetSpec
	dir  string

	mu      sync.Mutex
	engines map[string]*fleetEngine
	removed map[string]bool // engines that are not in the edge's configuration
	weight  int             // weight of every second engine, which a reload changes
	edge    *process.Child
	keys    map[string]string // API keys, by id
	URL     string            // URL of the edge, without /v1
	Admin   string
	Key     string // the run's API key; empty if the edge requires no key
}

type fleetEngine struct {
	spec    engineSpec
	process *process.Child
	addr    string
}

// StartFleet starts all engines, then starts the edge, and waits until the edge serves requests.
func StartFleet(ctx context.Context, spec fleetSpec) (f *fleet, err error) {
	f = &fleet{spec: spec, engines: map[string]*fleetEngine{}, removed: map[string]bool{}, weight: 1}
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
	f.generateKeySecrets()
	if err = f.writeConfig(); err != nil {
		return f, err
	}
	f.edge, f.URL, f.Admin, err = process.StartEdge(ctx, "edge", nil, f.configPath())
	return f, err
}

func (f *fleet) startEngine(ctx context.Context, e *fleetEngine) (err error) {
	var models []string
	for _, m := range f.spec.Models {
		if e.spec.serves(m.ID) {
			models = append(models, m.ID)
		}
	}
	flags := append([]string{"--listen", e.addr, "--models", strings.Join(models, ",")}, e.spec.Sim...)
	c, addr, err := process.StartSim(ctx, "engine "+e.spec.Name, nil, flags...)
	if err == nil {
		e.process, e.addr = c, addr
	}
	return err
}

func (f *fleet) configPath() string { return filepath.Join(f.dir, "edge.yaml") }

// writeConfig writes the edge's configuration, which contains all engines that have not been
// removed.
func (f *fleet) writeConfig() error {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { access: false, debug_headers: true }\n")
	f.appendKeys(&b)
	b.WriteString("upstreams:\n")
	for i, e := range f.spec.Engines {
		if f.removed[e.Name] {
			continue
		}
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
		for _, kv := range [][2]string{{"kind", m.Kind}, {"policy", m.Policy}, {"queue", m.Queue}, {"retry", m.Retry}} {
			if kv[1] != "" {
				fmt.Fprintf(&b, "    %s: %s\n", kv[0], kv[1])
			}
		}
		var names []string
		for _, e := range f.spec.Engines {
			if !f.removed[e.Name] && e.serves(m.ID) {
				names = append(names, e.Name)
			}
		}
		fmt.Fprintf(&b, "    deployments: [{ upstream: %s }]\n", strings.Join(names, " }, { upstream: "))
	}
	tmp := f.configPath() + ".new"
	if err := os.WriteFile(tmp, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, f.configPath())
}

// engineEvents are the events that act on an engine.
var engineEvents = []string{"crash", "restart", "remove", "add", "wedge", "recover"}

const unknownEventText = "%q: want crash, restart, remove, add, wedge or recover with an engine, " +
	"busy or fair with a model and a duration, or reload"

// PerformAction performs one of these events:
//
//   - "crash ENGINE" kills the engine's process.
//   - "restart ENGINE" starts the process again at the same address.
//   - "remove ENGINE" and "add ENGINE" change the configuration and reload the edge.
//   - "reload" changes weights in the configuration and reloads the edge.
//   - "wedge ENGINE" stalls an engine, which then answers only probes, and waits until the edge
//     stops sending calls to the engine.
//   - "recover ENGINE" resumes the engine, and waits until the edge sends it calls again.
//   - "busy MODEL DURATION" sends calls during which the model's engines are silent for DURATION,
//     and waits until these calls are answered. It fails if the edge treats an engine as stalled.
//   - "fair MODEL DURATION" keeps all keys in the spec busy for DURATION. It fails if any key
//     receives more or less than its share of the service.
//
// If an event waits for the edge's reaction, PerformAction returns a description of the reaction.
func (f *fleet) PerformAction(ctx context.Context, what string) (seen string, err error) {
	if err := f.performEvent(ctx, what); err != nil {
		return "", err
	}
	switch verb, name, _ := strings.Cut(what, " "); verb {
	case "wedge":
		seen, err = name+" is out", f.waitEngineUse(ctx, name, false)
	case "recover":
		seen, err = name+" is back", f.waitEngineUse(ctx, name, true)
	case "busy":
		model, silence, _ := strings.Cut(name, " ")
		seen, err = f.runBusyEvent(ctx, model, silence)
	case "fair":
		model, span, _ := strings.Cut(name, " ")
		seen, err = f.runFairEvent(ctx, model, span)
	}
	if err != nil {
		return "", err
	}
	return seen, nil
}

func (f *fleet) performEvent(ctx context.Context, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.spec.validateEvent(what); err != nil {
		return err
	}
	verb, name, _ := strings.Cut(what, " ")
	e := f.engines[name]
	switch verb {
	case "crash":
		e.process.Kill() // SIGKILL, as if the machine had failed
		return nil
	case "restart":
		return f.startEngine(ctx, e)
	case "wedge":
		return client.Post(ctx, "http://"+e.addr, "/sim/event", []byte(`{"do":"stall=24h"}`), "", false)
	case "recover":
		return client.Post(ctx, "http://"+e.addr, "/sim/reset", nil, "", false)
	case "busy", "fair":
		return nil
	case "remove":
		if len(f.removed) == len(f.spec.Engines)-1 {
			return fmt.Errorf("%q: it is the last engine", what)
		}
		f.removed[name] = true
	case "add":
		delete(f.removed, name)
	case "reload":
		f.weight = 3 - f.weight
	}
	if err := f.writeConfig(); err != nil {
		return err
	}
	return f.reload(ctx)
}

func (s *fleetSpec) validateEvent(what string) error {
	verb, name, _ := strings.Cut(what, " ")
	switch {
	case what == "reload":
	case verb == "busy", verb == "fair":
		model, span, _ := strings.Cut(name, " ")
		if d, err := time.ParseDuration(span); err != nil || d <= 0 {
			return fmt.Errorf(unknownEventText, what)
		}
		if !slices.ContainsFunc(s.Models, func(m modelSpec) bool { return m.ID == model }) {
			return fmt.Errorf("%q: there is no model %q", what, model)
		}
		if verb == "fair" && !s.canTestFairness(model) {
			return fmt.Errorf("%q: want engines with concurrency, one key that asks for less than that at once, and two that ask for more", what)
		}
	case !slices.Contains(engineEvents, verb):
		return fmt.Errorf(unknownEventText, what)
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

// EngineURLs returns the names and base URLs of the engines, in the order of the spec.
func (f *fleet) EngineURLs() []string {
	var out []string
	for _, e := range f.spec.Engines {
		out = append(out, e.Name+"=http://"+f.engines[e.Name].addr)
	}
	return out
}

// Close kills all processes and removes the files that the fleet wrote.
func (f *fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.edge != nil {
		f.edge.Kill() // no graceful shutdown, because the run is over
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
