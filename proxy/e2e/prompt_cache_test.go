package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// cachedTokens posts a request with a key and returns how many prompt tokens the engine had cached.
func (p *penstock) cachedTokens(path, body, key string) int {
	p.T.Helper()
	r := p.Post(path, body, "Authorization: Bearer "+key)
	r.WantStatus(200)
	var a struct {
		Usage struct {
			Prompt struct {
				CachedTokens int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			Input struct {
				CachedTokens int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			FromRead int `json:"cache_read_input_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(r.Body), &a); err != nil {
		p.T.Fatal(err)
	}
	return max(a.Usage.Prompt.CachedTokens, a.Usage.Input.CachedTokens, a.Usage.FromRead)
}

// TestPromptCachePerKey checks that a cached prompt is used only for the key that sent it and for
// the key's cache group. It covers every endpoint with prompts, with and without a salt from the
// client.
func TestPromptCachePerKey(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("What is said here concerns its owner alone. ", 100)
	messages := `"messages":[{"role":"user","content":"` + prompt + `"}]`
	for _, c := range []struct{ name, path, body string }{
		{"chat", chatPath, messages},
		{"salted by the client", chatPath, `"cache_salt":"of the client",` + messages},
		{"messages", "/v1/messages", `"max_tokens":9,` + messages},
		{"responses", "/v1/responses", `"input":"` + prompt + `"`},
		{"completions", "/v1/completions", `"prompt":"` + prompt + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, setting := range []string{"shared", "per_key"} {
				keys, entries := [3]string{}, ""
				for i, more := range []string{"", ", cache_group: both", ", cache_group: both"} {
					key, hash, _ := auth.NewKey()
					keys[i] = key
					entries += fmt.Sprintf("- { id: k%d, hash: %q%s }\n", i, hash, more)
				}
				p := start(t, rig.Setup{
					Engines: []sim.Options{{Profile: "vllm", Models: []string{"sim"}}},
					Config: `
keys:
- { id: tester, hash: "{{hash}}" }
` + entries + `upstreams:
- { name: up-0, url: "{{up-0}}", engine: vllm }
models:
- { id: sim, deployments: [{ upstream: up-0 }], policy: prefix_affinity, prompt_cache: ` + setting + ` }
`,
				})
				body := `{"model":"sim",` + c.body + `}`
				ask := func(key string) bool { return p.cachedTokens(c.path, body, key) > 500 }
				got := fmt.Sprint(ask(p.Key), ask(p.Key), ask(keys[0]), ask(keys[0]), ask(keys[1]), ask(keys[2]), ask(p.Key))
				want := map[string]string{"shared": "false true true true true true true", "per_key": "false true false true false true true"}[setting]
				if got != want {
					t.Errorf("%s: the prompt was in the cache: %s, want %s", setting, got, want)
				}
			}
		})
	}
}

// TestPromptCacheWithoutSalt checks that the edge logs only once that an engine cannot separate
// cached prompts.
func TestPromptCacheWithoutSalt(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: "llamacpp", Models: []string{"sim"}}},
		Config: `
keys:
- { id: tester, hash: "{{hash}}" }
upstreams:
- { name: up-0, url: "{{up-0}}", engine: llamacpp }
models:
- { id: sim, deployments: [{ upstream: up-0 }], prompt_cache: per_key }
`,
	})
	for range 3 {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	said := func() int {
		return strings.Count(p.Log.String(), "keys share the prompt cache of an engine that cannot keep them apart")
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log says so", func() bool { return len(p.AccessLines()) == 3 && said() > 0 })
	if n := said(); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
}
