package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3/option"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests read the catalog in the formats that agents use.

const shapesConfig = `
keys:
  - { id: tester, hash: "{{hash}}" }
  - { id: narrow, hash: "%s", models: [qwen] }
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models:
  - id: llama
    name: Llama
    created: 1700000000
    aliases: ["claude-*", gpt-fast, "other-*"]
    context_length: 32768
    supported_reasoning_efforts: [none, low, medium, high]
    input_modalities: [text, image, audio]
    deployments: [{ upstream: up-0, served: sim }]
  - { id: qwen, aliases: [claude-small, claude-qwen], supported_features: [structured_outputs], deployments: [{ upstream: up-0, served: sim }] }
  - { id: tts, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
`

const anthropicVersion = "anthropic-version: 2023-06-01"

func startShapes(t *testing.T) (p *penstock, narrow string) {
	t.Helper()
	narrow, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, rig.Setup{Config: fmt.Sprintf(shapesConfig, hash)}), narrow
}

// TestCatalogForMessages checks that a request with an anthropic-version header receives a list
// that has the members of Anthropic's list, and entries for aliases.
func TestCatalogForMessages(t *testing.T) {
	t.Parallel()
	p, narrow := startShapes(t)
	plain := p.Get("/v1/models?limit=1&after_id=nobody").WantStatus(200).Body
	for _, member := range []string{`"type"`, "display_name", "created_at", "has_more", "first_id", `"models"`, "claude-"} {
		if strings.Contains(plain, member) {
			t.Errorf("the plain list has %s", member)
		}
	}
	names := []string{"llama", "claude-llama", "gpt-fast", "qwen", "claude-small", "claude-qwen", "tts"}
	if got := p.list(anthropicVersion).ids(); !slices.Equal(got, names) {
		t.Errorf("names = %v, want %v", got, names)
	}
	if got := p.list(anthropicVersion, "x-api-key: "+narrow).ids(); !slices.Equal(got, names[3:6]) {
		t.Errorf("names for a key of one model: %v", got)
	}
	for _, name := range names { // each name resolves to the model
		r := p.Get("/v1/models/"+name, anthropicVersion).WantStatus(200).WantConforming("GET", "/v1/models/{id}")
		var m struct {
			ID, Type, Object, Kind string
			DisplayName            string    `json:"display_name"`
			CreatedAt              time.Time `json:"created_at"`
		}
		if err := json.Unmarshal([]byte(r.Body), &m); err != nil || m.ID != name || m.Type != "model" || m.Object != "model" || m.DisplayName == "" || m.CreatedAt.IsZero() || m.Kind == "" {
			t.Errorf("model = %s, %v; want %s in both shapes", r.Body, err, name)
		}
	}
	if e := p.entry("claude-llama"); e["id"] != "llama" {
		t.Errorf("without the header an alias is told as %v", e["id"])
	}
	if r := p.Get("/v1/models/claude-anything", anthropicVersion).WantStatus(200); !strings.Contains(r.Body, `"id":"llama"`) {
		t.Errorf("a name that only a pattern has: %s", r.Body)
	}
	p.Post("/v1/messages", `{"model":"claude-llama","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`).WantStatus(200)
	r := p.Get("/v1/models", anthropicVersion).WantStatus(200).WantConforming("GET", "/v1/models")
	if got := r.Header.Get("Vary"); got != "Authorization, x-api-key, anthropic-version" {
		t.Errorf("Vary = %s, want Authorization, x-api-key, anthropic-version", got)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "after_id=nobody", "before_id=nobody", "after_id=qwen&limit=2"} {
		header := []string{anthropicVersion}
		if strings.HasPrefix(query, "after_id=qwen") { // the name of a model that this key may not see
			header = append(header, "x-api-key: "+narrow)
			query = "after_id=llama"
		}
		p.Get("/v1/models?"+query, header...).WantRefused(inMessages, rig.Refusal{Status: 400, Kind: "invalid_request_error", Code: "invalid_value"})
	}
	unknown := rig.Refusal{Status: 404, Kind: "not_found_error", Code: "model_not_found"}
	p.Get("/v1/models/nope", anthropicVersion).WantConforming("GET", "/v1/models/{id}").WantRefused(inMessages, unknown)
	p.Get("/v1/models/nope").WantConforming("GET", "/v1/models/{id}").WantRefused(rig.RequestType{}, unknown)
	wrong := rig.Refusal{Status: 401, Kind: "authentication_error", Code: "invalid_api_key"}
	p.Get("/v1/models", anthropicVersion, "x-api-key: wrong").WantConforming("GET", "/v1/models").WantRefused(inMessages, wrong)
}

// inMessages makes the rig expect errors in the Messages format.
var inMessages = rig.RequestType{Dialect: "messages"}

// TestCatalogPages checks that the official SDKs read the list page by page, forwards and
// backwards.
func TestCatalogPages(t *testing.T) {
	t.Parallel()
	p, _ := startShapes(t)
	want := p.list(anthropicVersion).ids()
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		pages := p.claude().Models.ListAutoPaging(context.Background(), anthropic.ModelListParams{Limit: anthropic.Int(int64(limit))})
		for pages.Next() {
			m := pages.Current()
			got = append(got, m.ID)
			if m.DisplayName == "" || m.CreatedAt.IsZero() || string(m.Type) != "model" {
				t.Errorf("model = %s, want a name, a time and the type model", m.RawJSON())
			}
		}
		if err := pages.Err(); err != nil || !slices.Equal(got, want) {
			t.Errorf("limit %d: models = %v, %v; want %v", limit, got, err, want)
		}
		got = nil
		page, err := p.claude().Models.List(context.Background(), anthropic.ModelListParams{Limit: anthropic.Int(int64(limit)), BeforeID: anthropic.String(want[len(want)-1])})
		for ; err == nil && page != nil; page, err = page.GetNextPage() {
			var ids []string
			for _, m := range page.Data {
				ids = append(ids, m.ID)
			}
			got = append(ids, got...)
		}
		if err != nil || !slices.Equal(got, want[:len(want)-1]) {
			t.Errorf("limit %d, backwards: %v, %v", limit, got, err)
		}
	}
	reader := p.sdk(option.WithHeader("anthropic-version", "2023-06-01"))
	page, err := reader.Models.List(context.Background())
	if err != nil || len(page.Data) != len(want) {
		t.Errorf("openai-go reads %+v, %v", page, err)
	}
	one, err := p.claude().Models.Get(context.Background(), "claude-small", anthropic.ModelGetParams{})
	if err != nil || one.ID != "claude-small" || one.DisplayName != "qwen (claude-small)" {
		t.Errorf("model = %+v, %v; want claude-small as qwen (claude-small)", one, err)
	}
}

// TestCatalogForCodex checks that client_version adds Codex's list of usable models. (.ci/agents
// tests that Codex reads it.)
func TestCatalogForCodex(t *testing.T) {
	t.Parallel()
	p, narrow := startShapes(t)
	read := func(target string, header ...string) (models []map[string]any, data int) {
		var l struct {
			Data   []any
			Models []map[string]any
		}
		r := p.Get(target, header...).WantStatus(200).WantConforming("GET", "/v1/models")
		if err := json.Unmarshal([]byte(r.Body), &l); err != nil || l.Models == nil {
			t.Fatalf("list = %s, %v; want models", r.Body, err)
		}
		return l.Models, len(l.Data)
	}
	models, data := read("/v1/models?client_version=0.169.0")
	if data != 3 || len(models) != 1 {
		t.Fatalf("%d entries, of which %d for Codex", data, len(models))
	}
	m := models[0]
	for _, member := range []string{
		"slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility", "supported_in_api", "priority", "base_instructions",
		"support_verbosity", "truncation_policy", "experimental_supported_tools", "supports_parallel_tool_calls", "supports_reasoning_summaries",
	} {
		if m[member] == nil {
			t.Errorf("%s is missing, and Codex cannot read the list without it", member)
		}
	}
	if m["slug"] != "llama" || m["display_name"] != "Llama" || m["context_window"] != 32768.0 || m["default_reasoning_level"] != "medium" || m["apply_patch_tool_type"] != "freeform" ||
		fmt.Sprint(m["input_modalities"]) != "[text image]" || len(m["supported_reasoning_levels"].([]any)) != 4 {
		t.Errorf("model = %v, want what the configuration says of llama", m)
	}
	if both, data := read("/v1/models?client_version=1&limit=1000", anthropicVersion); len(both) != 1 || data != 7 {
		t.Errorf("both forms: %d and %d", len(both), data)
	}
	if own, data := read("/v1/models?client_version=1", "x-api-key: "+narrow); len(own) != 0 || data != 1 {
		t.Errorf("a key of a model without tools: %d and %d", len(own), data)
	}
	p = start(t, rig.Setup{Top: "strict: true"}) // a strict edge rejects tools that are not functions
	if models, _ := read("/v1/models?client_version=1"); len(models) != 1 || models[0]["apply_patch_tool_type"] != nil {
		t.Errorf("models for a strict client = %v, want one without a patch tool", models)
	}
}

// TestCatalogWithKeysOnly checks catalog.public: false, and a reload that makes the catalog public
// again.
func TestCatalogWithKeysOnly(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "catalog: { public: false }"})
	for _, target := range []string{"/v1/models", "/v1/models/sim", "/v1/models/nobody"} {
		p.Get(target).WantError(401, "authentication_error", "invalid_api_key")
		p.Do("HEAD", target, "", "Authorization: ").WantStatus(401)
	}
	p.Get("/v1/models/sim", "x-api-key: "+p.Key).WantStatus(200)
	if r := p.Get("/v1/models", "x-api-key: "+p.Key).WantStatus(200); !strings.HasPrefix(r.Header.Get("Cache-Control"), "private") {
		t.Errorf("Cache-Control: %s", r.Header.Get("Cache-Control"))
	}
	p.Get("/health").WantStatus(200)
	p.Reload(rig.Setup{})
	p.Get("/v1/models").WantStatus(200)
}
