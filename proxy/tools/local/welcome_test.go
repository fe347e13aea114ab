package local

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"penstock/config"
)

// TestWelcomeCommand checks that the printed command can be pasted into a shell, regardless of the
// model name that the engine has chosen. The command must request that model, and must not run any
// other command.
func TestWelcomeCommand(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	for _, id := range []string{
		"llama-3.3-70b", "org/Model:Q4_K_M", "two words", "größe 東京 🚰", `a"b`, `a\b`, `a\'b`, `"},"x":{"`,
		`x'; touch pwned; '`, "x'\ntouch pwned\n'", "$(touch pwned)", "`touch pwned`", "a!touch", `x'"'"'; touch pwned #`, "'", "--help",
	} {
		dir := t.TempDir()
		asked := filepath.Join(dir, "asked")
		f := &config.File{Models: []config.Model{{ID: id, Kind: config.ModelKindChat}}}
		_, command, _ := strings.Cut(welcomeText(f, "http://127.0.0.1:4000", "http://127.0.0.1:9090", clientKey{plain: "pk-key"}), "Try it:\n\n")
		run := exec.Command(shell, "-c", `curl() { shift 7; printf %s "$1" > asked; }`+"\n"+command)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("model %q: the shell says %v: %s; want nothing", id, err, out)
		}
		body, err := os.ReadFile(asked)
		if err != nil {
			t.Errorf("model %q: %v, want a request body", id, err)
			continue
		}
		var q struct{ Model string }
		if err := json.Unmarshal(body, &q); err != nil || q.Model != id {
			t.Errorf("%q: it asks for %q: %s", id, q.Model, body)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("%q: it runs something else: %v", id, files)
		}
	}
}
