package config

import "testing"

// TestHookMatches checks which calls a hook decides about, and what the check command prints about
// prompts.
func TestHookMatches(t *testing.T) {
	for _, c := range []struct {
		more, prompts string
		model, key    string
		decides       bool
	}{
		{"", "", "llama", "team-a", true},
		{", send: body", "all prompts", "llama", "team-a", true},
		{", send: body, models: [llama]", "the prompts for the models llama", "qwen", "team-a", false},
		{`, send: body, models: ["q*", llama]`, "the prompts for the models q*, llama", "qwen", "team-a", true},
		{", send: body, keys: [team-a]", "the prompts of the keys team-a", "llama", "team-b", false},
		{`, send: body, keys: ["team-*"], models: [qwen]`, "the prompts of the keys team-* for the models qwen", "qwen", "team-b", true},
		{", keys: [team-b]", "", "llama", "", false},
	} {
		text := `hooks: [{ name: guard, before: "http://127.0.0.1:8090/"` + c.more + ` }]
keys:
  - { id: team-a, hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }
  - { id: team-b, hash: "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" }
upstreams: [{ name: gpu-a, url: "http://10.0.0.11:8000" }]
models:
  - { id: llama, deployments: [{ upstream: gpu-a }] }
  - { id: qwen, deployments: [{ upstream: gpu-a }] }
`
		f, problems := ParseValid("test.yaml", []byte(text), bundledProfiles)
		if f == nil || len(problems) > 0 {
			t.Fatalf("hook %q: got the problems %v, want none", c.more, problems)
		}
		h := &f.Hooks[0]
		if got := h.DescribePrompts(); got != c.prompts {
			t.Errorf("%s: %q, want %q", c.more, got, c.prompts)
		}
		if got := h.MatchesModel(c.model) && h.MatchesKey(c.key); got != c.decides {
			t.Errorf("%s: %v for %s and %s", c.more, got, c.model, c.key)
		}
	}
}

// TestCopies checks which calls are copied, and what the check command prints about them.
func TestCopies(t *testing.T) {
	for _, c := range []struct{ after, who, want string }{
		{"https://copies.example/secret?q", "models: [llama], keys: [team-a]", "requests and answers of the keys team-a for the models llama, to https://copies.example"},
		{"copies.jsonl", `models: ["*"], keys: ["*"]`, "all requests and answers, to the file copies.jsonl"},
		{"unix:/run/copies", `models: ["q*"], keys: ["*"]`, "requests and answers for the models q*, to the socket /run/copies"},
	} {
		text := `hooks: [{ name: archive, after: "` + c.after + `", ` + c.who + ` }]
keys:
  - { id: team-a, hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }
upstreams: [{ name: gpu-a, url: "http://10.0.0.11:8000" }]
models:
  - { id: llama, deployments: [{ upstream: gpu-a }] }
  - { id: qwen, deployments: [{ upstream: gpu-a }] }
`
		f, problems := ParseValid("test.yaml", []byte(text), bundledProfiles)
		if f == nil || len(problems) > 0 {
			t.Fatalf("%s: %v", c.after, problems)
		}
		if got := f.Hooks[0].DescribeCopies(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	f := File{Hooks: []Hook{
		{Before: "http://127.0.0.1/", Models: []string{"*"}, Keys: []string{"*"}},
		{After: "copies.jsonl", Models: []string{"llama"}, Keys: []string{"team-*"}},
	}}
	for _, c := range []struct {
		model, key, template string
		want                 bool
	}{
		{"llama", "team-a", "", true},
		{"llama", "", "", true},
		{"llama", "other", "", false},
		{"qwen", "team-a", "", false},
		{"qwen", "", "", false},
		{"llama", "corp/anna", "team-b", true},
		{"llama", "corp/anna", "guests", false},
	} {
		if got := f.IsCopied(c.model, c.key, c.template); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
