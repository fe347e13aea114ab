package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/e2e/rig"
)

// bundle runs penstock support. It returns the printed list and the files in the archive.
func bundle(t *testing.T, args ...string) (listed string, files map[string]string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bundle.tar.gz")
	listed, _ = command(t, 0, append([]string{"support", "--output", name}, args...)...)
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, _ := file.Stat(); info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, want 0600", info.Mode())
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(unpacked); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(head.Name, "penstock-support/")] = string(text)
	}
	return listed, files
}

// wantClean checks that no file in a bundle contains a canary or one of the given secrets.
func wantClean(t *testing.T, files map[string]string, secrets ...string) {
	t.Helper()
	for name, text := range files {
		rig.WantNoLeak(t, name, name+text, append(secrets, "CANARY", "engine-secret")...)
	}
}

// TestSupportBundle checks that the bundle of a running edge contains its state, events, metrics
// and limits, but no secrets, prompts, answers, keys or other client text.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	p := rig.StartProgram(t, rig.Setup{
		Engines:  []sim.Options{{APIKey: "CANARY-engine-key"}},
		Upstream: `api_key: CANARY-engine-key`,
		Top: "# a note: CANARY-comment\nseal: { keys: [\"file:seal.key\"] }\nend_users: { secret: CANARY-end-users-0123456789abcdef0123456789 }\n" +
			"ledger: { path: usage.ledger, export: [{ file: usage.jsonl }, { url: \"http://127.0.0.1:1/CANARY-hook\", token: CANARY-billing-token }] }",
		Files: map[string]string{"seal.key": "Q0FOQVJZLXNlYWwtMDEyMzQ1Njc4OWFiY2RlZmdoaWo=\n"},
	})
	chat := p.ChatRequest(`"user": "CANARY-user", "metadata": {"user_id": "CANARY-metadata"}, "tools": [{"type":"function","function":{"name":"CANARY-tool","parameters":{}}}]`)
	p.Post(chatPath, chat, "X-Client-Request-Id: CANARY-request").WantStatus(200)
	p.Post(chatPath, rig.ChatBody("CANARY-model", "")).WantStatus(404)
	p.Post(chatPath, chat, "Authorization: Bearer CANARY-key").WantStatus(401)
	p.Get("/v1/CANARY-path")

	listed, files := bundle(t, "--config", p.Path, "--admin", p.Admin)
	wantClean(t, files, p.Key, "Q0FOQVJZLXNlYWwt")
	for name, part := range map[string]string{
		"version.txt": "penstock ", "system.txt": "processors", "config.yaml": `api_key: "(removed)"`, "check.txt": ": ok\n", "status.json": `"verdict"`,
		"events.txt": "the edge has started", "metrics.txt": "\npenstock_calls_total", "process.json": `"descriptors_limit"`, "goroutines.txt": "goroutine profile", "heap.txt": "heap profile",
		"contents.txt": "status.json",
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s = %.300s, want %q in it", name, files[name], part)
		}
		if !strings.Contains(listed, name) && name != "contents.txt" {
			t.Errorf("%s is not listed:\n%s", name, listed)
		}
	}
	if strings.Contains(listed, "missing") {
		t.Errorf("something is missing:\n%s", listed)
	}
	name := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(name, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := command(t, 1, "support", "--output", name); !strings.Contains(errs, "--output") {
		t.Errorf("a file that is there: %s", errs)
	}
	if kept, _ := os.ReadFile(name); string(kept) != "kept" {
		t.Error("it was overwritten")
	}
}

// secretSettings returns a configuration in YAML flow style with a canary at every writeOnly
// setting in the schema. If the schema has no writeOnly setting, it returns "".
func secretSettings(schema map[string]any, n *int) string {
	if schema["writeOnly"] == true {
		*n++
		return fmt.Sprintf("CANARY-secret-%d", *n)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		if text := secretSettings(items, n); text != "" {
			return "[" + text + "]"
		}
	}
	forms, _ := schema["anyOf"].([]any)
	for _, form := range forms {
		if text := secretSettings(form.(map[string]any), n); text != "" {
			return text
		}
	}
	var parts []string
	properties, _ := schema["properties"].(map[string]any)
	for name, below := range properties {
		if text := secretSettings(below.(map[string]any), n); text != "" {
			parts = append(parts, name+": "+text)
		}
	}
	if parts == nil {
		return ""
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}

// TestSupportWithoutAnEdge checks that the bundle says which files are missing, and that it
// contains no canary from any secret setting in the schema, even if the configuration is invalid.
func TestSupportWithoutAnEdge(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	secrets := 0
	text := secretSettings(schema, &secrets)
	if secrets < 10 {
		t.Fatalf("the schema has %d secrets: %s", secrets, text)
	}
	file := filepath.Join(t.TempDir(), "edge.yaml")
	for _, text := range []string{
		text, // the configuration has many mistakes
		strings.Replace(text, "{", "{admn: {token:CANARY-glued}, tokn: CANARY-misspelt, upload: 'http://u:CANARY-password@h', ", 1),
		"keys: [CANARY-in-no-yaml\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		listed, files := bundle(t, "--config", file, "--admin", "127.0.0.1:1")
		wantClean(t, files)
		if !strings.Contains(listed, "status.json     is missing") || files["check.txt"] == "" || files["system.txt"] == "" {
			t.Errorf("listed %s, want that status.json is missing", listed)
		}
	}
	listed, files := bundle(t, "--admin", "127.0.0.1:1")
	if !strings.Contains(listed, "config.yaml     is missing: --config") || len(files) < 2 {
		t.Errorf("listed %s, want that config.yaml is missing", listed)
	}
}
