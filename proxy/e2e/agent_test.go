package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestAgentFiles checks that `penstock agent` works with a real edge. (.ci/agents tests that the
// agents accept the files.)
func TestAgentFiles(t *testing.T) {
	p, _ := startShapes(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PENSTOCK_API_KEY", p.Key)
	for _, name := range []string{"claude", "codex", "opencode", "copilot"} {
		out, errs, code := rig.RunProgram(t, "", "agent", name, "--url", p.URL, "--write")
		if code != 0 || !strings.Contains(out, "+++ "+home) || !strings.Contains(errs, "penstock") || strings.Contains(out+errs, p.Key) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	text, err := os.ReadFile(filepath.Join(home, ".codex", "penstock-models.json"))
	var codex struct {
		Models []struct {
			Slug    string
			Context int `json:"context_window"`
		}
	}
	if err != nil || json.Unmarshal(text, &codex) != nil || len(codex.Models) != 1 || codex.Models[0].Context != 32768 {
		t.Errorf("Codex's catalog: %s, %v", text, err)
	}
	if _, _, code := rig.RunProgram(t, "", "agent", "emacs"); code != 2 {
		t.Errorf("an agent that is not known: exit code %d", code)
	}
	for _, key := range []string{"$(id)", p.Key} {
		if out, errs, code := rig.RunProgram(t, "", "agent", "codex", "--url", p.URL, "--key-env", key); code != 2 || strings.Contains(out+errs, key) {
			t.Errorf("not a variable: exit code %d\n%s%s", code, out, errs)
		}
	}
	for alias, want := range map[string]string{"gpt-fast": `"ANTHROPIC_MODEL": "gpt-fast"`, "claude-anything": `"ANTHROPIC_MODEL": "claude-anything"`} {
		if out, errs, code := rig.RunProgram(t, "", "agent", "claude", "--url", p.URL, "-m", alias); code != 0 || !strings.Contains(out, want) {
			t.Errorf("an alias: exit code %d\n%s%s", code, out, errs)
		}
	}
}

// TestAgentWebSocket checks that Codex uses WebSocket if the edge serves it.
func TestAgentWebSocket(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		p := start(t, rig.Setup{Config: "responses: { websocket: " + on + " }" + audioConfig})
		t.Setenv("EDGE_KEY", p.Key) // the program receives no other variables
		out, errs, code := rig.RunProgram(t, "", "agent", "codex", "--url", p.URL, "--key-env", "EDGE_KEY")
		if code != 0 || strings.Contains(out, "supports_websockets = true") != (on == "true") {
			t.Errorf("websocket: %s: exit code %d\n%s%s", on, code, out, errs)
		}
	}
}

// TestAgentEndsBySignal checks that a signal ends the command at any time. The test handles SIGINT
// itself, because a shell may have started it in the background with SIGINT ignored. Child
// processes inherit that a signal is ignored, but do not inherit handlers.
func TestAgentEndsBySignal(t *testing.T) {
	listens := make(chan os.Signal, 1)
	signal.Notify(listens, syscall.SIGINT)
	defer signal.Stop(listens)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		asked := make(chan bool, 1)
		silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- true
			<-r.Context().Done()
		}))
		defer silent.Close()
		p := rig.StartProcess(t, "agent", "codex", "--url", silent.URL)
		rig.Receive(t, 2*rig.WaitTimeout, "the program asks", asked)
		p.Signal(s)
		p.WantExit(rig.WaitTimeout, -1)
		if w, _ := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); w.Signal() != s {
			t.Errorf("%v: %v", s, p.Cmd.ProcessState)
		}
	}
}
