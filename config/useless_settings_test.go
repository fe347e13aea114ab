package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestUselessSettings checks that a setting causes a warning if it has no effect according to the
// engine's profile.
func TestUselessSettings(t *testing.T) {
	const profiles = `
engines:
  - { name: swapper, like: vllm, quirks: [loads_on_demand] }
  - { name: child, like: swapper, cache_salt: salt }
  - { name: fixed, like: vllm }
  - { name: plain }
`
	for engine, want := range map[string]string{
		"auto": "", "openai": "salt", "ollama": "salt", "vllm": "residents", "tgi": "residents salt",
		"swapper": "", "child": "", "fixed": "residents", "plain": "salt",
	} {
		src := fmt.Sprintf(`
keys: [{ id: a, hash: "sha256:%s" }]
upstreams: [{ name: u, url: "http://127.0.0.1:1", engine: %s, concurrency: 2, residents: 1 }]
models: [{ id: m, deployments: [{ upstream: u }], prompt_cache: per_key }]
%s`, strings.Repeat("ab", 32), engine, profiles)
		f, problems := ParseValid("edge.yaml", []byte(src), bundledProfiles)
		var got []string
		for _, p := range problems {
			switch p.Path {
			case "upstreams[0].residents":
				got = append(got, "residents")
			case "models[0].prompt_cache":
				got = append(got, "salt")
			}
		}
		if f == nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q: %v", engine, got, want, problems)
		}
	}
}
