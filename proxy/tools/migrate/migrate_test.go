package migrate

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"penstock/config"
	"penstock/config/testkit/golden"
	"penstock/proxy/access/auth"
	"penstock/upstreams/engine"
)

// TestConvert converts the files in testdata and compares the results with the expected
// configurations. Each result must pass the check, and must contain neither a client key nor a
// secret from the environment.
func TestConvert(t *testing.T) {
	golden.RunArchives(t, "testdata", func(t *testing.T, a *golden.Archive) {
		env := map[string]string{}
		for line := range strings.Lines(string(a.Section("env"))) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[name] = value
		}
		c, err := Convert(a.Section("from.yaml"), func(name string) (string, bool) {
			value, set := env[name]
			return value, set
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range c.Variables {
			value := env[name]
			if value == "" {
				value = "http://unset.invalid"
			}
			t.Setenv(name, value)
		}
		if f, problems := config.ParseValid("edge.yaml", c.Text, engine.KnownEngines()); f == nil || len(problems) > 0 {
			t.Errorf("the made configuration is refused: %v\n%s", problems, c.Text)
		}
		for _, said := range append(c.Notes, string(c.Text)) {
			if strings.Contains(said, "canary") || strings.Contains(said, "0123456789") {
				t.Errorf("a secret is told: %s", said)
			}
		}
		text := string(c.Text)
		if c.NewKey != "" {
			text = strings.ReplaceAll(text, auth.HashKey(c.NewKey), "(the new key's)")
		}
		for _, note := range c.Notes {
			if !strings.Contains(text, "# - "+note+"\n") {
				t.Errorf("the file does not say: %s", note)
			}
		}
		a.SetSection("edge.yaml", []byte(text))
	})
}

// TestKeysWork checks that an edge with the converted configuration accepts the keys from the other
// file.
func TestKeysWork(t *testing.T) {
	const key = "sk-one-0123456789abcdefghij"
	models := "model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://h/v1'}}]\n"
	for _, master := range []string{key, "os.environ/ONE"} {
		c, err := Convert([]byte(models+"general_settings: { master_key: "+master+" }\n"), func(string) (string, bool) { return key, true })
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(c.Text), auth.HashKey(key)) || c.NewKey != "" {
			t.Errorf("%s: a new key %t:\n%s", master, c.NewKey != "", c.Text)
		}
	}
}

// TestNotConverted checks that a file that is not a LiteLLM configuration is rejected, and that the
// error does not quote the file.
func TestNotConverted(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "not a configuration of LiteLLM"},
		{"listen: 1\nupstreams: []\n", "Penstock already"},
		{"models: { m: { cmd: canary } }\n", "not a configuration of LiteLLM"},
		{"- a\n", "no YAML mapping"},
		{"model_list:\n  - {api_key: canary\n", "line"},
		{"model_list: []\n", "no model"},
		{"model_list: [{model_name: a, litellm_params: {model: bedrock/b, api_key: canary}}]\n", "bedrock"},
		{"model_list: canary\n", "no model"},
	} {
		made, err := Convert([]byte(c.src), func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v, %v; want %q", c.src, made, err, c.want)
		}
	}
}

// TestKeyNamesNoFile checks that a key that looks like a file: reference is not treated as one.
func TestKeyNamesNoFile(t *testing.T) {
	src := "model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://h/v1', api_key: 'file:/etc/canary'}}]"
	made, err := Convert([]byte(src), func(string) (string, bool) { return "", false })
	if err != nil || strings.Contains(fmt.Sprintf("%s", made), "canary") || !strings.Contains(fmt.Sprintf("%s", made), "file:, which") {
		t.Errorf("%s becomes %s, %v; want a note about file: and no canary", src, made, err)
	}
}

// FuzzConvert checks that a converted configuration always passes the check.
func FuzzConvert(f *testing.F) {
	for _, a := range golden.ReadArchives(f, "testdata") {
		f.Add(a.Section("from.yaml"))
	}
	for _, src := range []string{
		"model_list: [{model_name: a, litellm_params: {model: openai/m, api_base: 'http://h/v1/x/v1', weight: 1e300, timeout: 1e-9, order: -1}}]",
		"model_list: [{model_name: a, litellm_params: {model: m, api_base: 'http://u:p@h:1/%2f?q#f'}}, {model_name: a, litellm_params: {model: m, api_base: 'http://h/..'}}]",
		"model_list: [{model_name: \"a\\u0000\", litellm_params: {model: \"m\\n# x: y\"}}, {model_name: b, litellm_params: {model: \"m\\u202e\\n\"}, model_info: {mode: \"\\n\"}}]",
		"model_list: [{model_name: 1, litellm_params: {model: 2, tpm: 99999999999999999999, max_parallel_requests: 1e9}, model_info: {max_input_tokens: 1e18, max_tokens: 5}}]",
	} {
		f.Add([]byte(src))
	}
	variable := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Convert(src, func(string) (string, bool) { return "", false })
		if err != nil {
			return
		}
		for _, name := range c.Variables {
			if !variable.MatchString(name) {
				t.Fatalf("the variable %q", name)
			}
			t.Setenv(name, "http://unset.invalid")
		}
		known := engine.KnownEngines()
		if f, problems := config.ParseValid("edge.yaml", c.Text, known); f == nil {
			t.Errorf("the made configuration is refused: %v\n%s", fmt.Sprint(problems), c.Text)
		}
	})
}
