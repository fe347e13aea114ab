package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostedWarning checks that an OpenAI API at a public address that is not marked as external
// causes a warning. An in-house engine must cause no warning.
func TestHostedWarning(t *testing.T) {
	for _, c := range []struct {
		url, more string
		warned    bool
	}{
		{"https://api.openai.com", "engine: openai", true},
		{"https://api.openai.com.", "engine: openai", true},
		{"https://api.example.com/openai", "engine: mine", true},
		{"https://8.8.8.8", "engine: openai", true},
		{"https://[2606:4700::1111]", "engine: openai", true},
		{"https://api.openai.com", "engine: openai, external: true", false},
		{"https://api.openai.com", "engine: openai, external: false", false},
		{"https://vllm.example.com", "engine: vllm", false},
		{"https://vllm.example.com", "engine: auto", false},
		{"http://gpu-1:8000", "engine: openai", false},
		{"http://localhost:8000", "engine: openai", false},
		{"http://gpu.rack.internal:8000", "engine: openai", false},
		{"http://vllm.llm.svc:8000", "engine: openai", false},
		{"http://vllm.llm.svc.cluster.local:8000", "engine: openai", false},
		{"http://10.0.0.11:8000", "engine: openai", false},
		{"http://[fd00::1]:8000", "engine: openai", false},
		{"http://[fe80::1]:8000", "engine: openai", false},
		{"http://100.100.1.2:8000", "engine: openai", false},
		{"http://169.254.1.2:8000", "engine: openai", false},
	} {
		f, err := Parse("edge.yaml", fmt.Appendf(nil, `
engines: [{ name: mine, like: openai }]
upstreams: [{ name: u, url: %q, %s }]
models: [{ id: m, deployments: [{ upstream: u }] }]
`, c.url, c.more))
		if err != nil {
			t.Fatal(err)
		}
		problems := f.Validate(KnownProfiles{})
		if got := strings.Contains(fmt.Sprint(problems), "this looks like a hosted API"); got != c.warned {
			t.Errorf("%s, %s: warned %v, want %v: %v", c.url, c.more, got, c.warned, problems)
		}
	}
}
