package strictyaml

import (
	"strings"
	"testing"
)

type server struct {
	Name  string            `yaml:"name"`
	Port  int               `yaml:"port"`
	Tags  []string          `yaml:"tags"`
	Extra map[string]string `yaml:"extra"`
}

// TestRead checks that valid values are bound, that each mistake is reported with its line, and
// that later checks know which values are valid.
func TestRead(t *testing.T) {
	t.Setenv("STRICTYAML_TAG", "blue")
	s := server{Port: 1}
	d := Read("a.yaml", []byte("name: edge\nport: many\ntags: [\"${STRICTYAML_TAG}\", red]\nextra: {a.b: c}\ntgas: []\n"), &s, Options{Least: "write it"})
	if s.Name != "edge" || s.Port != 1 || strings.Join(s.Tags, " ") != "blue red" || s.Extra["a.b"] != "c" {
		t.Errorf("Read = %+v, want edge, 1, blue red and c", s)
	}
	p := d.Positions
	if !p.IsBroken("port") || p.IsBroken("name") || !p.IsOrContainsBroken("tags") || !p.HasValue(`extra."a.b"`) || p.HasValue("host") {
		t.Error("what is broken, and what there is")
	}
	if got := p.QuoteValue("tags[0]", "blue"); got != `"${STRICTYAML_TAG}"` {
		t.Errorf("a variable's value is shown: %s", got)
	}
	const want = "a.yaml:2:7: \"many\" is not a whole number (port)\n    2 | port: many\n      |       ^\n" +
		"a.yaml:5:1: unknown key \"tgas\": did you mean \"tags\"? (tgas)\n    5 | tgas: []\n      | ^"
	if got := d.Problems().Error(); got != want {
		t.Errorf("Problems = %s, want %s", got, want)
	}
}

// TestAppend checks that the entries of a second file follow those of the first and retain their
// positions in the second file.
func TestAppend(t *testing.T) {
	var a, b struct {
		Keys []server `yaml:"keys"`
	}
	first := Read("a.yaml", []byte("keys: [{name: x}]"), &a, Options{}).Positions
	second := Read("b.yaml", []byte("\nkeys: [{name: y, port: z}]"), &b, Options{}).Positions
	first.AppendEntries("keys", second, len(a.Keys))
	if got := first.DescribeLine("keys[1].name", "keys[0]"); got != "on line 2 of b.yaml" {
		t.Error(got)
	}
	if !first.IsBroken("keys[1].port") || first.IsBroken("keys[0]") {
		t.Error("the second file's entry is broken, the first's is not")
	}
}

// TestReadRetired checks that a setting of an earlier version causes a warning and is not read. If
// a setting cannot be ignored safely, it causes an error. A path in a list matches every position,
// but not the same name elsewhere.
func TestReadRetired(t *testing.T) {
	o := Options{Retired: map[string]Retired{
		"servers[].old":    {Remedy: "delete it"},
		"servers[].limit":  {Remedy: "set tags instead", Unsafe: true},
		"servers[].secret": {Remedy: "delete it"},
	}}
	var f struct {
		Servers []server `yaml:"servers"`
	}
	d := Read("a.yaml", []byte("servers:\n- {name: x, port: 7}\n- {name: y, old: {a: [}}\n"), &f, o)
	if d.Problems().Err() == nil {
		t.Error("it must be YAML all the same")
	}
	f.Servers = nil
	d = Read("a.yaml", []byte("servers:\n- {name: x}\n- name: y\n  old: {a: [1]}\n  secret: hunter2\n"), &f, o)
	const want = "a.yaml:4:3: warning: old is no longer a setting and is ignored: delete it (servers[1].old)\n" +
		"    4 |   old: {a: [1]}\n      |   ^\n" +
		"a.yaml:5:3: warning: secret is no longer a setting and is ignored: delete it (servers[1].secret)\n" +
		"    5 |   secret: ******\n      |   ^"
	if got := d.Problems(); got.Error() != want || got.Err() != nil || f.Servers[1].Name != "y" {
		t.Errorf("Problems = %v, want warnings %s; the second server is %+v, want y", got, want, f)
	}
	for src, want := range map[string]string{
		"servers: [{limit: 1}]": "a.yaml:1:12: limit is no longer a setting: set tags instead (servers[0].limit)",
		"old: 1":                "unknown key \"old\"",
	} {
		if err := Read("a.yaml", []byte(src), &f, o).Problems().Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q) = %v, want an error with %q", src, err, want)
		}
	}
}

// TestExcerptsMaskSecretsAlone checks that excerpts hide only secrets. They show a number of
// tokens, even if the setting's name is misspelled. They mask the hash of a key, but show the text
// after it. They hide a value that may be a secret.
func TestExcerptsMaskSecretsAlone(t *testing.T) {
	var f struct {
		Servers []server `yaml:"servers"`
	}
	hash := "sha256:" + strings.Repeat("0a", 32)
	for src, want := range map[string]string{
		"servers: [{max_tokens: 5000, nam: y}]":            "{max_tokens: 5000, nam: y}]",
		"servers: [{tokens_per_minut: 20k, nam: y}]":       "{tokens_per_minut: 20k, nam: y}]",
		"servers: [{mark: " + hash + ", nam: y}]":          "{mark: sha256:" + strings.Repeat("*", 64) + ", nam: y}]",
		"servers: [{max_tokens: tiger-5000, nam: y}]":      "{max_tokens: ******\n",
		"servers: [{api_token: 5000, nam: y}]":             "{api_token: ******\n",
		"servers: [{token_secret_tokens: 5000, nam: y}]":   "{token_secret_tokens: ******\n",
		"servers: [{tokens: 0123456789012345678, nam: y}]": "{tokens: ******\n",
		"servers: [{max_tokens: 5000, nam: y":              "{max_tokens: 5000, nam: y",
		"servers: [{api_token: 5000, nam: y":               "{api_token:******\n",
	} {
		err := Read("a.yaml", []byte(src), &f, Options{}).Problems().Err()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q) = %v, want an error with %q", src, err, want)
		}
	}
}
