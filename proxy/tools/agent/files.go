package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// claudeFiles returns settings for Claude Code. apiKeyHelper is a command that prints the key. The
// smaller models that Claude Code also requests are mapped to the same model.
func claudeFiles(s *agentSetup) []settingsFile {
	m := s.firstModel()
	env := jsonObject{
		{"ANTHROPIC_BASE_URL", s.baseURL},
		{"ANTHROPIC_MODEL", m.ID},
		{"ANTHROPIC_DEFAULT_OPUS_MODEL", m.ID},
		{"ANTHROPIC_DEFAULT_SONNET_MODEL", m.ID},
		{"ANTHROPIC_DEFAULT_HAIKU_MODEL", m.ID},
		// Claude Code's model picker lists only names that look like Anthropic's.
		{"CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY", "1"},
		// Otherwise, Claude Code withholds the tools of MCP servers.
		{"ENABLE_TOOL_SEARCH", "false"},
	}
	if m.ContextLength > 0 {
		env = append(env, jsonMember{"CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.Itoa(m.ContextLength)},
			jsonMember{"CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.Itoa(m.maxOutputTokens())})
	}
	return []settingsFile{{s.outputPath("penstock.json"), indentedJSON(jsonObject{{"apiKeyHelper", "printenv " + s.keyVariable}, {"env", env}})}}
}

// codexFiles returns a profile and a catalog for Codex. Codex merges the profile into its
// configuration. Without the catalog, Codex would guess the context length of each model.
func codexFiles(s *agentSetup) []settingsFile {
	catalog, websocket := s.outputPath("penstock-models.json"), ""
	if s.websocket {
		websocket = "supports_websockets = true\n"
	}
	profile := fmt.Sprintf(`model = %s
model_provider = "penstock"
model_catalog_json = %s
web_search = "disabled" # only OpenAI runs it

[model_providers.penstock]
name = "Penstock"
base_url = %s
env_key = %s
wire_api = "responses"
%s`, quoteJSON(s.firstModel().catalogID()), quoteJSON(catalog), quoteJSON(s.baseURL+"/v1"), quoteJSON(s.keyVariable), websocket)
	models := indentedJSON(jsonObject{{"models", json.RawMessage(s.codex)}})
	return []settingsFile{{s.outputPath("penstock.config.toml"), profile}, {catalog, models}}
}

func opencodeFiles(s *agentSetup) []settingsFile {
	models := jsonObject{}
	for i := range s.models {
		m := &s.models[i]
		input := []string{"text"}
		if m.takesImages() {
			input = append(input, "image")
		}
		entry := jsonObject{
			{"name", m.Name},
			{"tool_call", true},
			{"reasoning", m.supportsReasoning()},
			{"attachment", m.takesImages()},
			{"modalities", jsonObject{{"input", input}, {"output", []string{"text"}}}},
		}
		if m.ContextLength > 0 {
			entry = append(entry, jsonMember{"limit", jsonObject{{"context", m.ContextLength}, {"output", m.maxOutputTokens()}}})
		}
		models = append(models, jsonMember{m.ID, entry})
	}
	name := "penstock/" + s.firstModel().ID
	return []settingsFile{{s.outputPath("penstock.json"), indentedJSON(jsonObject{
		{"$schema", "https://opencode.ai/config.json"},
		{"model", name},
		{"small_model", name},
		{"provider", jsonObject{{"penstock", jsonObject{
			{"npm", "@ai-sdk/anthropic"},
			{"name", "Penstock"},
			{"options", jsonObject{{"baseURL", s.baseURL + "/v1"}, {"apiKey", "{env:" + s.keyVariable + "}"}}},
			{"models", models},
		}}}},
	})}}
}

// copilotFiles returns a file of environment variables, because only environment variables can
// configure a provider for Copilot.
func copilotFiles(s *agentSetup) []settingsFile {
	m := s.firstModel()
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "export COPILOT_%s=%s\n", name, value) }
	set("PROVIDER_TYPE", "openai")
	set("PROVIDER_BASE_URL", quoteShell(s.baseURL+"/v1"))
	set("PROVIDER_API_KEY", `"$`+s.keyVariable+`"`)
	set("MODEL", quoteShell(m.ID))
	if m.ContextLength > 0 {
		set("PROVIDER_MAX_PROMPT_TOKENS", strconv.Itoa(max(m.ContextLength-m.maxOutputTokens(), m.ContextLength/2)))
		set("PROVIDER_MAX_OUTPUT_TOKENS", strconv.Itoa(m.maxOutputTokens()))
	}
	return []settingsFile{{s.outputPath("penstock.env"), b.String()}}
}

type jsonObject []jsonMember

type jsonMember struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o jsonObject) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quoteJSON(m.name)...), ':'), encodeJSON(m.value, "")...)
	}
	return append(b, '}'), nil
}

func indentedJSON(v any) string { return encodeJSON(v, "  ") }

// encodeJSON returns v as JSON. Encoding cannot fail, because v contains only strings, numbers and
// parsed JSON.
func encodeJSON(v any, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	_ = enc.Encode(v)
	return b.String()
}

func quoteJSON(s string) string {
	return strings.ReplaceAll(strings.TrimSuffix(encodeJSON(s, ""), "\n"), "\x7f", `\u007f`)
}

func quoteShell(s string) string {
	plain := func(r rune) bool {
		return r < 'a' && !strings.ContainsRune("/._-:@%+=,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') || r > 'z'
	}
	if s != "" && !strings.ContainsFunc(s, plain) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
