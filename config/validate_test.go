package config

import (
	"strings"
	"testing"
)

// TestValidateByHand checks a File that was built in code, so that its problems have paths but no
// lines.
func TestValidateByHand(t *testing.T) {
	f := Defaults()
	f.Keys = make([]Key, 1)
	f.Keys[0].SetDefaults()
	f.Keys[0].ID, f.Keys[0].Hash = "a", KeyHashes{{Hash: hashA}}
	var u Upstream
	var m Model
	u.SetDefaults()
	m.SetDefaults()
	u.Name, u.URL = "gpu", "http://h:1"
	m.ID, m.Deployments = "llama", []Deployment{{Upstream: "gpu", Served: "llama"}}
	f.Upstreams, f.Models = []Upstream{u}, []Model{m}
	if ps := f.Validate(KnownProfiles{}); len(ps) > 0 {
		t.Fatal(ps)
	}
	f.Models = append(f.Models, m)
	f.Upstreams[0].Engine = "odd"
	if ps := f.Validate(KnownProfiles{}); len(ps) != 1 || ps[0].Path != "models[1].id" || ps[0].Line != 0 || !strings.Contains(ps[0].Message, "models[0].id") {
		t.Errorf("Validate = %v, want one problem at models[1].id that names models[0].id", ps)
	}
	if ps := f.Validate(bundledProfiles); len(ps) != 2 {
		t.Errorf("engines are not checked: %v", ps)
	}
	if f.ReferencedFiles() != nil || len(Diff(f, f)) > 0 {
		t.Error("a file that was made by hand has an origin")
	}
}

// TestBrokenNamesDoNotEcho checks that a mistake in a name is not reported again for every
// reference to it.
func TestBrokenNamesDoNotEcho(t *testing.T) {
	for _, src := range []string{
		strings.Replace(minimalConfig, "name: gpu", "name: [gpu]", 1),
		strings.Replace(minimalConfig, "name: gpu", "nam: gpu", 1),
		strings.Replace(minimalConfig, "name: gpu,", "", 1),
		strings.Replace(minimalConfig, `upstreams: [{ name: gpu, url: "http://127.0.0.1:8000" }]`, "upstreams: gpu", 1),
		strings.Replace(minimalConfig, "id: llama", "id: {}", 1),
		strings.Replace(minimalConfig, "deployments: [{ upstream: gpu }]", "deployments: gpu", 1),
		strings.Replace(minimalConfig, "keys: [", "keys: [[], ", 1),
		"engine: []\n" + strings.Replace(minimalConfig, "name: gpu", "name: gpu, engine: sim", 1),
		"keys_file: absent.yaml\n" + strings.Replace(minimalConfig, "keys:", "x:", 1),
	} {
		_, ps := ParseValid("c.yaml", []byte(src), bundledProfiles)
		want := 1 + strings.Count(src, "\nx:")
		if len(ps) != want {
			t.Errorf("%s\ngives %d problems:\n%s", src, len(ps), ps)
		}
	}
}
