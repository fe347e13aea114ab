package rig

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"penstock/bench/sim"
	"penstock/proxy/telemetry/guard"
)

// Setup describes an edge and its engines. Its zero value means one engine and one model "sim".
type Setup struct {
	// Engines are the simulated engines to start; if there are neither engines nor fakes, the rig
	// starts one with all defaults. Upstream i is called "up-i", serves the model "sim" and is
	// Edge.Engines[i]. Fakes are the URLs of further upstreams, called "fake-i".
	Engines []sim.Options
	Fakes   []string

	// The following fields are additions to the configuration. Each holds members of a flow mapping
	// without the braces: Upstream for every upstream ("concurrency: 4"), Model for the model ("queue:
	// { depth: 2, wait: 1s }"), Key for the first key, and the others for the sections with their
	// names.
	Upstream, Model, Key, Limits, Timeouts, Stream, Retry string

	// Top holds further YAML of the top level. Keys, Upstreams and Models hold further list entries
	// ("- { id: … }" lines).
	Top, Keys, Upstreams, Models string

	// Config replaces all settings above except the engines. It is a complete configuration without
	// listeners. In it, {{up-0}}, {{up-1}}, … stand for the URLs of the engines, {{hash}} for the
	// hash of the key, and {{dir}} for the configuration's directory.
	Config string

	// Cold skips the wait until every upstream is up, for upstreams that never are.
	Cold bool

	// Forgets allows a reload in the test to remove upstreams or models together with their metric
	// series.
	Forgets bool

	// Untidy skips the final checks, for a test that violates them on purpose.
	Untidy bool

	// For Start only: Log receives the log instead of Edge.Log. Lookup resolves the names of upstreams
	// with `resolve`. Guard is the edge's guard, for tests that cause panics.
	Log    *zap.Logger
	Lookup func(ctx context.Context, host string) ([]string, error)
	Guard  *guard.Guard

	// For Launch only: AdminTLS makes the admin listener speak TLS ("cert: edge.pem, key: edge.key");
	// such an edge must be Cold and Untidy, because the rig does not trust it. Files holds, by name,
	// the files that are written beside the configuration before the start; {{hash}} in them also
	// stands for the hash of the key. Under is a command that runs the program; the program and its
	// arguments are appended to it (["sh", "-c", `ulimit -n 64; exec "$@"`, "sh"] runs it with few
	// descriptors). Stderr receives the log instead of Edge.Log. Admin holds further members of the
	// admin section.
	AdminTLS string
	Admin    string
	Files    map[string]string
	Under    []string
	Stderr   *os.File
}

// render writes the configuration without its listeners.
func (s *Setup) render(engines []*sim.Engine, hash, dir string) string {
	if s.Config != "" {
		text := strings.ReplaceAll(s.Config, "{{hash}}", hash)
		text = strings.ReplaceAll(text, "{{dir}}", dir)
		for i, e := range engines {
			text = strings.ReplaceAll(text, "{{up-"+strconv.Itoa(i)+"}}", e.URL())
		}
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "timeouts: { %s }\n", clocks(s.Timeouts))
	for _, section := range [][2]string{{"limits", s.Limits}, {"stream", s.Stream}, {"retry", s.Retry}} {
		if section[1] != "" {
			fmt.Fprintf(&b, "%s: { %s }\n", section[0], section[1])
		}
	}
	fmt.Fprintf(&b, "%s\nkeys:\n  - { id: tester, hash: %q%s }\n%supstreams:\n", s.Top, hash, more(s.Key), Indent(s.Keys))
	var deployments []string
	upstream := func(kind string, i int, url string) {
		name := kind + "-" + strconv.Itoa(i)
		fmt.Fprintf(&b, "  - { name: %s, url: %q, engine: sim%s }\n", name, url, more(patientProbe(s.Upstream)))
		deployments = append(deployments, "{ upstream: "+name+" }")
	}
	for i, e := range engines {
		upstream("up", i, e.URL())
	}
	for i, url := range s.Fakes {
		upstream("fake", i, url)
	}
	fmt.Fprintf(&b, "%smodels:\n  - { id: sim, deployments: [%s]%s }\n%s",
		Indent(s.Upstreams), strings.Join(deployments, ", "), more(s.Model), Indent(s.Models))
	return b.String()
}

// more puts a comma before members that follow others.
func more(members string) string {
	if members == "" {
		return ""
	}
	return ", " + members
}

// clocks adds timeouts that the test does not set: no delay at a drain, and more time for
// connecting than the default, because listeners may be late on a busy machine.
func clocks(timeouts string) string {
	for _, own := range []string{"linger: 0s", "drain: 5s", "connect: 10s"} {
		if name, _, _ := strings.Cut(own, " "); !strings.Contains(timeouts, name) {
			timeouts = strings.TrimPrefix(timeouts+", "+own, ", ")
		}
	}
	return timeouts
}

// patientProbe gives probes more time than the default, because even a working engine may be late
// on a busy machine.
func patientProbe(upstream string) string {
	switch {
	case !strings.Contains(upstream, "probe:"):
		return strings.TrimPrefix(upstream+", probe: { timeout: 15s }", ", ")
	case !strings.Contains(upstream, "timeout:"):
		return strings.Replace(upstream, "probe: {", "probe: { timeout: 15s,", 1)
	}
	return upstream
}

// Indent puts two blanks before every line, for list entries in a test's own configuration.
func Indent(entries string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(entries, "\n")) {
		b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}
