package e2e

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestClaudeCodeGateway checks Claude Code's requirements for a Messages gateway. The edge must
// accept the paths, headers, betas and members that Claude Code sends, and must not forward them to
// an engine. Sources: https://code.claude.com/docs/en/llm-gateway-protocol and the requests of
// version 2.1.
func TestClaudeCodeGateway(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine()})
	headers := []string{
		"anthropic-version: 2023-06-01", "x-app: cli", "X-Claude-Code-Session-Id: PRIVATE-1", "x-claude-code-agent-id: PRIVATE-2",
		"x-claude-code-parent-agent-id: PRIVATE-3", "anthropic-dangerous-direct-browser-access: true", "X-Stainless-Retry-Count: 0",
		"anthropic-beta: claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,prompt-caching-scope-2026-01-05," +
			"effort-2025-11-24,advanced-tool-use-2025-11-20,advisor-tool-2026-03-01,thinking-display-updates-2026-05-01,fast-mode-2026-02-01,PRIVATE-4",
	}
	description := strings.Repeat("d", 64<<10)
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for name, more := range map[string]string{
		"plain":               hi,
		"attribution":         hi + `,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=PRIVATE; cch=00000;"},{"type":"text","text":"Help.","cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}}]`,
		"metadata":            hi + `,"metadata":{"user_id":"{\"device_id\":\"PRIVATE\",\"session_id\":\"PRIVATE\"}"}`,
		"adaptive thinking":   hi + `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`,
		"display of updates":  hi + `,"thinking":{"type":"adaptive","display":"PRIVATE"}`,
		"context management":  hi + `,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`,
		"speed":               hi + `,"speed":"fast","diagnostics":{"previous_message_id":"PRIVATE"}`,
		"tool search":         hi + `,"tools":[{"name":"f","description":"x","input_schema":{"type":"object"},"defer_loading":true,"eager_input_streaming":true,"strict":true,"input_examples":[{"PRIVATE":1}]},{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"}]`,
		"advisor":             hi + `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"advisor_20260301","name":"advisor","model":"PRIVATE"}]`,
		"long descriptions":   hi + `,"tools":[{"name":"f","description":"` + description + `","input_schema":{"type":"object","properties":{}}}]`,
		"structured output":   hi + `,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false}}}`,
		"system in the midst": `"messages":[{"role":"user","content":"Hi"},{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Go","cache_control":{"type":"ephemeral"}}]}]`,
		"references to tools": `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"g"},{"type":"text","text":"r"}]}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`,
	} {
		for _, stream := range []string{"false", "true"} {
			body := `{"model":"sim","max_tokens":32000,"stream":` + stream + `,` + more + `}`
			r := p.Post("/v1/messages?beta=true", body, headers...)
			if r.Status != 200 {
				t.Errorf("%s: status = %d, want 200: %.300s", name, r.Status, r.Body)
				continue
			}
			if id := r.Header.Get("Request-Id"); id == "" {
				t.Errorf("%s: no request-id", name)
			}
			last := p.Engines[0].Stats().LastRequest
			sent := fmt.Sprint(last.Header) + string(last.Body)
			for _, private := range []string{"PRIVATE", "cache_control", "defer_loading", "eager_input", "diagnostics", `"speed"`, "beta"} {
				if strings.Contains(sent, private) {
					t.Errorf("%s: the engine was sent %s: %.600s", name, private, sent)
				}
			}
		}
		count := p.Post("/v1/messages/count_tokens?beta=true", `{"model":"sim",`+more+`}`, headers...)
		if count.Status != 200 || !strings.HasPrefix(count.Body, `{"input_tokens":`) {
			t.Errorf("%s is not counted: %d: %.300s", name, count.Status, count.Body)
		}
	}
	models := p.Do("GET", "/v1/models?limit=1000", "", "anthropic-version: 2023-06-01").WantStatus(200).Body
	for _, member := range []string{`"has_more":false`, `"first_id":"`, `"display_name":"`, `"type":"model"`, `"created_at":"`} {
		if !strings.Contains(models, member) {
			t.Errorf("the list of models has no %s: %.300s", member, models)
		}
	}
	if r := p.Do("HEAD", "/", ""); r.Status != 204 {
		t.Errorf("HEAD / is %d", r.Status)
	}
	if r := p.Post("/v1/messages", `{"model":"nobody",`+hi+`,"max_tokens":9}`, headers...); r.Status != 404 || !strings.Contains(r.Body, `"type":"not_found_error"`) {
		t.Errorf("an unknown model: %d %s", r.Status, r.Body)
	}
	if strings.Contains(p.Log.String(), "PRIVATE") {
		t.Error("the log holds what the client said of itself")
	}
}
