package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestInitFrom checks that another proxy's configuration is imported, and that the result can be
// checked and served unchanged. Keys, names and aliases must work. The files and the output must
// not contain secrets from the environment.
func TestInitFrom(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Profile: "llamacpp", Models: []string{"tiny"}, Slots: 3, APIKey: "engine-secret"})
	const key = "sk-master-0123456789abcdefghij"
	from := `
model_list:
  - model_name: small
    litellm_params: { model: openai/tiny, api_base: "` + engine.URL() + `/v1", api_key: os.environ/ENGINE_API_KEY, rpm: 60 }
router_settings: { model_group_alias: { gpt-4: small } }
general_settings: { master_key: ` + key + ` }
`
	dir := t.TempDir()
	old, file := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "edge.yaml")
	if err := os.WriteFile(old, []byte(from), 0o600); err != nil {
		t.Fatal(err)
	}
	out, notes := command(t, 0, "init", "--from", old, "-o", file)
	if !strings.Contains(notes, "From      a configuration of LiteLLM") || !strings.Contains(notes, "Note      ") || !strings.Contains(out, "Written") {
		t.Errorf("it says\n%s\n%s", out, notes)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"engine-secret", key} {
		if strings.Contains(string(text)+out+notes, secret) {
			t.Errorf("%s is told:\n%s%s%s", secret, out, notes, text)
		}
	}
	if out, errs := command(t, 0, "check", file); out+errs != file+": ok\n" {
		t.Errorf("check = %s%s, want %s: ok", out, errs, file)
	}
	if _, errs := command(t, 1, "init", "--from", old, "-o", file); !strings.Contains(errs, "left as it is") {
		t.Errorf("a file that is there: %s", errs)
	}
	piped, _, code := rig.RunProgram(t, from, "init", "--from", "-", "-o", "-")
	if code != 0 || piped != string(text) {
		t.Errorf("from standard input, exit code %d:\n%s", code, piped)
	}
	free := strings.NewReplacer("127.0.0.1:4000", "127.0.0.1:0", "127.0.0.1:9090", "127.0.0.1:0").Replace(string(text))
	if err := os.WriteFile(file, []byte(free), 0o600); err != nil {
		t.Fatal(err)
	}
	public, _ := serveProgram(t, file)
	p := rig.Connect(t, public, key)
	rig.WaitFor(t, rig.WaitTimeout, "an answer", func() bool { return p.Post(chatPath, rig.ChatBody("small", "")).Status == 200 })
	if res := p.Post(chatPath, rig.ChatBody("gpt-4", "")); res.Status != 200 {
		t.Errorf("the alias: %d %s", res.Status, res.Body)
	}
	if _, errs, code := rig.RunProgram(t, strings.Repeat("#", 4<<20+1), "init", "--from", "-", "-o", "-"); code != 1 || !strings.Contains(errs, "standard input is larger than 4 MiB") {
		t.Errorf("too much: exit code %d: %s", code, errs)
	}
	if _, errs := command(t, 2, "init", "--from", "x.yaml", engine.Addr()); !strings.Contains(errs, "leave the URLs out") {
		t.Errorf("with a URL: %s", errs)
	}
}
