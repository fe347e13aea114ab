package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestEveryLineIsJSON checks that, if log.format is json, each line of a running edge's log parses,
// including warnings about the edge's configuration file.
func TestEveryLineIsJSON(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{})
	// The edge logs a warning about this configuration.
	path, _ := writeConfig(t, engine, "linger: 0s }\nresponses: { websocket: true")
	p := rig.StartProcess(t, "serve", "--config", path)
	p.WaitOutput(`serving http://(\S+)/v1 \(admin: (\S+)\)`)
	p.Signal(syscall.SIGTERM)
	p.WantExit(rig.WaitTimeout, 0)
	warned := false
	for _, line := range strings.Split(strings.TrimSpace(p.Out.String()+p.Err.String()), "\n") {
		if strings.HasPrefix(line, "penstock: serving ") { // printed on standard output for the operator
			continue
		}
		var of struct{ TS, Level, Msg, Source, Problem string }
		if err := json.Unmarshal([]byte(line), &of); err != nil || of.TS == "" || of.Level == "" || of.Msg == "" {
			t.Errorf("line %q: %v, want JSON with a time, a level and a message", line, err)
		}
		warned = warned || of.Level == "warn" && of.Source == "start" && strings.Contains(of.Problem, "websocket")
	}
	if !warned {
		t.Error("no line has the warning of the file")
	}
}
