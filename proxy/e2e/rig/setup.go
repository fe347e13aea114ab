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

// Setup describes an edge and its engines. The zero value means one engine and one model "sim".
type Setup struct {
	// Engines are the simulated engines. By default, there is one. Upstream i is named "up-i" and
	// serves the model "sim". Fakes are the URLs of additional upstreams, named "fake-i".
	Engines []sim.Options
	Fakes   []string

	// The following fields contain members of a YAML flow mapping, without the braces. Upstream
	// applies to every upstream, Key applies to the first key, and the other fields apply to the
	// sections with their names.
	Upstream, Model, Key, Limits, Timeouts, Stream, Retry string

	// Top is additional YAML for the top level. Keys, Upstreams and Models are additional list
	// entries, for example "- { id: … }".
	Top, Keys, Upstreams, Models string

	// Config replaces all settings above except the engines. It must not define listeners.
	// {{up-0}}, {{up-1}}, … are replaced with the engines' URLs, {{hash}} with the key's hash, and
	// {{dir}} with the configuration's directory.
	Config string

	// Cold makes the rig start without waiting until every upstream is up. It is needed if an
	// upstream is never up.
	Cold bool

	// Forgets allows reloads to remove upstreams or models together with their metric series.
	Forgets bool

	// Untidy skips the final checks. It is for tests that violate these checks on purpose.
	Untidy bool

	// The following fields are only for Start. Log receives the log instead of Edge.Log. Lookup
	// resolves the host names of upstreams that use `resolve`. Guard is for tests that cause
	// panics.
	Log    *zap.Logger
	Lookup func(ctx context.Context, host string) ([]string, error)
	Guard  *guard.Guard

	// The following fields are only for StartProgram:
	//   - AdminTLS makes the admin listener use TLS ("cert: edge.pem, key: edge.key"). If it is
	//     set, Cold and Untidy must also be set, because the rig does not trust the edge's
	//     certificate.
	//   - Admin contains additional members of the admin section.
	//   - Files are written next to the configuration before the start. {{hash}} is replaced as in
	//     Config.
	//   - Under is a command to which the program and its arguments are appended: ["sh", "-c",
	//     `ulimit -n 64; exec "$@"`, "sh"] runs the program with few descriptors.
	//   - Stderr receives the log instead of Edge.Log.
	AdminTLS string
	Admin    string
	Files    map[string]string
	Under    []string
	Stderr   *os.File
}

func (s *Setup) renderConfig(engines []*sim.Engine, hash, dir string) string {
	if s.Config != "" {
		text := strings.ReplaceAll(s.Config, "{{hash}}", hash)
		text = strings.ReplaceAll(text, "{{dir}}", dir)
		for i, e := range engines {
			text = strings.ReplaceAll(text, "{{up-"+strconv.Itoa(i)+"}}", e.URL())
		}
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "timeouts: { %s }\n", addTimeouts(s.Timeouts))
	for _, section := range [][2]string{{"limits", s.Limits}, {"stream", s.Stream}, {"retry", s.Retry}} {
		if section[1] != "" {
			fmt.Fprintf(&b, "%s: { %s }\n", section[0], section[1])
		}
	}
	fmt.Fprintf(&b, "%s\nkeys:\n  - { id: tester, hash: %q%s }\n%supstreams:\n", s.Top, hash, moreMembers(s.Key), IndentLines(s.Keys))
	var deployments []string
	upstream := func(kind string, i int, url string) {
		name := kind + "-" + strconv.Itoa(i)
		fmt.Fprintf(&b, "  - { name: %s, url: %q, engine: sim%s }\n", name, url, moreMembers(addProbeTimeout(s.Upstream)))
		deployments = append(deployments, "{ upstream: "+name+" }")
	}
	for i, e := range engines {
		upstream("up", i, e.URL())
	}
	for i, url := range s.Fakes {
		upstream("fake", i, url)
	}
	fmt.Fprintf(&b, "%smodels:\n  - { id: sim, deployments: [%s]%s }\n%s",
		IndentLines(s.Upstreams), strings.Join(deployments, ", "), moreMembers(s.Model), IndentLines(s.Models))
	return b.String()
}

func moreMembers(members string) string {
	if members == "" {
		return ""
	}
	return ", " + members
}

// addTimeouts adds timeouts that the test does not set. The connect timeout is longer than the default,
// because listeners may respond late on a busy machine.
func addTimeouts(timeouts string) string {
	for _, own := range []string{"linger: 0s", "drain: 5s", "connect: 10s"} {
		if name, _, _ := strings.Cut(own, " "); !strings.Contains(timeouts, name) {
			timeouts = strings.TrimPrefix(timeouts+", "+own, ", ")
		}
	}
	return timeouts
}

// addProbeTimeout sets a long probe timeout, because even a working engine may respond late on a busy
// machine.
func addProbeTimeout(upstream string) string {
	switch {
	case !strings.Contains(upstream, "probe:"):
		return strings.TrimPrefix(upstream+", probe: { timeout: 15s }", ", ")
	case !strings.Contains(upstream, "timeout:"):
		return strings.Replace(upstream, "probe: {", "probe: { timeout: 15s,", 1)
	}
	return upstream
}

// IndentLines indents every line by two spaces.
func IndentLines(entries string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(entries, "\n")) {
		b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}
