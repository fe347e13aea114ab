package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestRateHeaders checks that responses contain headers about remaining limits only if the key has
// limits.
func TestRateHeaders(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"/v1/chat/completions": `{"model":"sim","messages":[{"role":"user","content":"a"}],"max_tokens":9`,
		"/v1/responses":        `{"model":"sim","input":"a","max_output_tokens":9`,
		"/v1/completions":      `{"model":"sim","prompt":"a","max_tokens":9`,
		"/v1/messages":         `{"model":"sim","messages":[{"role":"user","content":"a"}],"max_tokens":9`,
	}
	count := func(t *testing.T, r *rig.Reply, name string) int {
		t.Helper()
		n, err := strconv.Atoi(r.Header.Get(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return n
	}
	for path, body := range bodies {
		for _, stream := range []string{"}", `,"stream":true}`} {
			t.Run(strings.ReplaceAll(path[1:], "/", ".")+stream, func(t *testing.T) {
				t.Parallel()
				p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 2, tokens_per_minute: 100000 }"})
				r := p.Post(path, body+stream).WantStatus(200)
				if limit, left := count(t, r, "X-Ratelimit-Limit-Requests"), count(t, r, "X-Ratelimit-Remaining-Requests"); limit != 2 || left != 1 {
					t.Errorf("%d requests left of %d", left, limit)
				}
				if limit, left := count(t, r, "X-Ratelimit-Limit-Tokens"), count(t, r, "X-Ratelimit-Remaining-Tokens"); limit != 100_000 || left >= limit || left < 99_000 {
					t.Errorf("%d tokens left of %d", left, limit)
				}
				for _, name := range []string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens"} {
					if d, err := time.ParseDuration(r.Header.Get(name)); err != nil || d <= 0 || d > time.Minute {
						t.Errorf("%s = %s, %v; want a duration of at most a minute", name, r.Header.Get(name), err)
					}
				}
				if told := r.Header.Get("Anthropic-Ratelimit-Requests-Limit"); (told != "") != (path == "/v1/messages") {
					t.Errorf("anthropic-ratelimit-requests-limit: %q", told)
				}
				p.Post(path, body+stream).WantStatus(200)
				r = p.Post(path, body+stream).WantStatus(429)
				if left := count(t, r, "X-Ratelimit-Remaining-Requests"); left != 0 {
					t.Errorf("%d requests left", left)
				}
				if path != "/v1/messages" {
					return
				}
				if limit, left := count(t, r, "Anthropic-Ratelimit-Requests-Limit"), count(t, r, "Anthropic-Ratelimit-Requests-Remaining"); limit != 2 || left != 0 {
					t.Errorf("%d requests left of %d", left, limit)
				}
				if limit, left := count(t, r, "Anthropic-Ratelimit-Tokens-Limit"), count(t, r, "Anthropic-Ratelimit-Tokens-Remaining"); limit != 100_000 || left < 99_000 {
					t.Errorf("%d tokens left of %d", left, limit)
				}
				for _, name := range []string{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Tokens-Reset"} {
					if at, err := time.Parse(time.RFC3339, r.Header.Get(name)); err != nil || time.Until(at) > 2*time.Minute || time.Since(at) > time.Minute {
						t.Errorf("%s = %s, %v; want a time close to now", name, r.Header.Get(name), err)
					}
				}
			})
		}
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		free, hash, _ := auth.NewKey()
		p := start(t, rig.Setup{Key: "limits: { tokens_per_minute: 100000 }", Keys: `- { id: free, hash: "` + hash + `" }`})
		for path, body := range bodies {
			for name := range p.Post(path, body+"}", "Authorization: Bearer "+free).WantStatus(200).Header {
				if strings.Contains(name, "Ratelimit") {
					t.Errorf("%s: %s without a limit", path, name)
				}
			}
			if r := p.Post(path, body+"}"); r.Header.Get("X-Ratelimit-Limit-Tokens") == "" || r.Header.Get("X-Ratelimit-Limit-Requests") != "" {
				t.Errorf("%s: one limit exists, and these are told: %v", path, r.Header)
			}
		}
	})
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Top: `cors: { origins: ["https://app.example.com"] }`})
		r := p.Post(chatPath, p.ChatRequest(""), "Origin: https://app.example.com").WantStatus(200)
		exposed := r.Header.Get("Access-Control-Expose-Headers")
		for _, name := range []string{
			"x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "anthropic-ratelimit-requests-limit",
			"anthropic-ratelimit-tokens-reset", "x-penstock-model", "x-penstock-attempts", "retry-after", "request-id",
		} {
			if !strings.Contains(", "+exposed+",", ", "+name+",") {
				t.Errorf("pages may not read %s: %s", name, exposed)
			}
		}
	})
}

// TestBracketedModelNames checks model names with a variant in brackets. Agents append such
// variants, but no engine in this test serves them.
func TestBracketedModelNames(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Model: `aliases: ["claude-*", "gpt", "beta[x]"]`, Key: `models: ["sim"]`,
		Models: `- { id: "other[1m]", deployments: [{ upstream: up-0, served: sim }] }`,
	})
	for name, status := range map[string]int{
		"sim[1m]": 200, "gpt[1m]": 200, "claude-x[1m]": 200, "beta[x]": 200, "sim[thinking]": 200, "sim[12345678]": 200,
		// a model with the exact name takes precedence, but the key may not use it
		"other[1m]": 403,
		"other":     404, "sim[]": 404, "sim[1M]": 404, "sim[123456789]": 404, "sim[1m][1m]": 404, "sim[1m": 404, "sim1m]": 404, "[1m]": 404, "sim[1m] ": 404, "unknown[1m]": 404,
	} {
		r := p.Post(chatPath, `{"model":"`+name+`","messages":[{"role":"user","content":"a"}]}`).WantStatus(status)
		if status == 200 && !strings.Contains(r.Body, `"model":"sim"`) {
			t.Errorf("%s: answer = %s, want the model sim", name, r.Body)
		}
	}
	p.Get("/v1/models/sim%5B1m%5D").WantStatus(200)
}
