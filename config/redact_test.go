package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// canaryConfig builds a configuration with a canary in every setting of the schema.
type canaryConfig struct {
	n       int
	secrets []string // canaries at writeOnly paths
	texts   []string // canaries at other paths that accept any text
}

func (p *canaryConfig) canary(what string) string {
	p.n++
	return fmt.Sprintf("CANARY-%s-%d", what, p.n)
}

// value returns the value at a path in YAML's flow form.
func (p *canaryConfig) value(path string, schema map[string]any) string {
	if schema["writeOnly"] == true {
		p.secrets = append(p.secrets, path)
		return p.canary("secret")
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		var parts []string
		for name, below := range properties {
			parts = append(parts, name+": "+p.value(strings.TrimPrefix(path+"."+name, "."), below.(map[string]any)))
		}
		slices.Sort(parts)
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	if items, ok := schema["items"].(map[string]any); ok {
		return "[ " + p.value(path, items) + " ]"
	}
	if forms, ok := schema["anyOf"].([]any); ok {
		for _, form := range forms {
			if form := form.(map[string]any); form["properties"] != nil {
				return p.value(path, form)
			}
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok {
		return "{ member: " + p.value(path, more) + ", api_key: " + p.canary("member") + " }"
	}
	p.texts = append(p.texts, path)
	return fmt.Sprintf("\"https://%s:%s@host.example:1/x?key=%s\"", p.canary("user"), p.canary("password"), p.canary("query"))
}

// TestRedactHidesEverySecretOfTheSchema checks that no canary is shown. Canaries are in secret
// settings, in passwords of URLs, in a comment and in an unknown setting.
func TestRedactHidesEverySecretOfTheSchema(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var p canaryConfig
	text := p.value("", root)
	text = "# CANARY-comment\n" + strings.TrimSuffix(text, "}") + ", token:CANARY-glued: 1, admn: { token: CANARY-misspelt }, watch: [CANARY-form] }\n"
	name := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Redact(name)
	if err != nil || r.Text == nil {
		t.Fatal(err)
	}
	if leaked := regexp.MustCompile(`.*CANARY.*`).FindAll(r.Text, -1); leaked != nil {
		t.Errorf("Redact shows canaries:\n%s", leaked)
	}
	for _, path := range []string{
		"admin.token", "admin.tokens.token", "admin.tokens.hash", "upstreams.api_key", "seal.keys", "keys.hash", "end_users.secret", "fleet.store.password", "fleet.store.sentinel.password",
		"fleet.keys.secrets", "fleet.secrets", "ledger.export.token", "tls.acme.eab.key",
	} {
		if !slices.Contains(p.secrets, path) {
			t.Errorf("the schema does not call %s a secret", path)
		}
	}
	for n := range p.n { // the canary of a secret must not appear in another setting
		if secret := fmt.Sprintf("CANARY-secret-%d", n+1); strings.Contains(text, secret+" ") && !slices.ContainsFunc(r.Secrets, func(s string) bool { return strings.Contains(s, secret) }) {
			t.Errorf("%s is not among the secrets", secret)
		}
	}
	if shown, _ := parse(name, r.Text); shown == nil {
		t.Errorf("it is no YAML:\n%s", r.Text)
	}
}

// TestSecretsAreCalledSecret checks that every setting whose name suggests a secret has the type
// Secret or is listed as an exception.
func TestSecretsAreCalledSecret(t *testing.T) {
	harmless := []string{
		"tls.key", "admin.tls.key", "upstreams.tls.key", "fleet.store.tls.key", // paths of files
		"keys_file", "issuers.claims.key", "issuers.claims.templates.key", // ids and claims
		"engines.token_limit", // a word
		// Sizes, times and names.
		"limits.header", "timeouts.client_header", "log.debug_headers", "end_users.header",
	}
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var p canaryConfig
	p.value("", root)
	sounds := regexp.MustCompile(`(key|token|secret|password|hash|auth|bearer|credential|headers?)$`)
	for _, path := range p.texts {
		if sounds.MatchString(path) && !slices.Contains(harmless, path) && path != "auth" {
			t.Errorf("%s sounds like a secret: make it a Secret, or say here why it is none", path)
		}
	}
}

// TestRedact checks that harmless values stay, that variables are shown by name, and that a bare
// list of keys can be read.
func TestRedact(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TEST_GPU_KEY", "CANARY-variable")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("token", "CANARY-file\n")
	write("keys.yaml", "- id: team-b\n  hash: [{ hash: sha256:CANARY-hash, expires: 2027-01-01 }]\n")
	name := write("edge.yaml", `listen: ":4000" # CANARY-comment
admin: { listen: 127.0.0.1:9090, token: "file:token" }
keys_file: keys.yaml
common: &common { api_key: "${TEST_GPU_KEY}" }
upstreams:
  - { <<: *common, name: gpu-a, url: "http://10.0.0.1:8000/v2", weight: 1.5 }
models:
  - id: llama
    aliases: ["claude-*"]
    deployments: [{ upstream: gpu-a }]
    pricing: { prompt: 0.5 }
`)
	r, err := Redact(name)
	if err != nil {
		t.Fatal(err)
	}
	const want = `listen: ":4000"
admin:
  listen: "127.0.0.1:9090"
  token: "(removed)"
keys_file: "keys.yaml"
common: "(removed)"
upstreams:
  - name: "gpu-a"
    url: "http://10.0.0.1:8000/v2"
    weight: 1.5
    api_key: "(removed)"
models:
  - id: "llama"
    aliases:
      - "claude-*"
    deployments:
      - upstream: "gpu-a"
    pricing:
      prompt: 0.5
`
	if string(r.Text) != want {
		t.Errorf("Redact = %s, want %s", r.Text, want)
	}
	if got, want := string(r.Keys), "- id: \"team-b\"\n  hash:\n    - hash: \"(removed)\"\n      expires: \"2027-01-01\"\n"; got != want {
		t.Errorf("keys_file:\n%s", got)
	}
	for _, secret := range []string{"CANARY-variable", "CANARY-file", "sha256:CANARY-hash"} {
		if !slices.Contains(r.Secrets, secret) {
			t.Errorf("%s is not among the secrets %q", secret, r.Secrets)
		}
	}
	if r, err := Redact(write("broken.yaml", "a: [\n")); err != nil || r.Text != nil {
		t.Errorf("no YAML: %v, %s", err, r.Text)
	}
	if _, err := Redact(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("no file")
	}
}

// TestRedactMisplaced checks that a credential in a URL's path or in a name is removed, while model
// names and host names stay.
func TestRedactMisplaced(t *testing.T) {
	for text, want := range map[string]string{
		"https://api.example.com/sk-live-4711aaaa/v1":             "https://api.example.com/(removed)/v1",
		"http://10.0.0.1:8000/9f86d081884c7d659a2feaa0c55ad015":   "http://10.0.0.1:8000/(removed)",
		"sk-proj-aB3dE6gH9jK2":                                    "(removed)",
		"http://h/6f1c2b1e-8f2a-4c1d-9b7e-0a1b2c3d4e5f/v1":        "http://h/(removed)/v1",
		"org/hf_AbCdEfGhIjKl12":                                   "org/(removed)",
		"meta-llama/Llama-3.3-70B-Instruct":                       "meta-llama/Llama-3.3-70B-Instruct",
		"Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8":                 "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
		"task-force-8b-instruct":                                  "task-force-8b-instruct",
		"unsloth/gpt-oss-120b-GGUF:Q4_K_M":                        "unsloth/gpt-oss-120b-GGUF:Q4_K_M",
		"http://gpu-a.rack17.internal.example.com:8000/engines/1": "http://gpu-a.rack17.internal.example.com:8000/engines/1",
		"/etc/penstock/certificates/internationalization.pem":     "/etc/penstock/certificates/internationalization.pem",
	} {
		if got := redactText("models.deployments.served", text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	name := filepath.Join(t.TempDir(), "edge.yaml")
	const secret = "sk-live-4711aaaa"
	if err := os.WriteFile(name, []byte("upstreams: [{ name: a, url: \"http://h/"+secret+"\" }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Redact(name); err != nil || strings.Contains(string(r.Text), secret) || !slices.Contains(r.Secrets, secret) {
		t.Errorf("%v: %q is shown, or not among the secrets %q:\n%s", err, secret, r.Secrets, r.Text)
	}
}
