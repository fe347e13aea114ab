package messages

import (
	"errors"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
)

// TestStrict checks that a strict edge rejects what other edges ignore, change or pass on, and that
// it accepts the members of the contract and those that request what happens anyway.
func TestStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ member, param string }{
		{`"stream":true,"system":"s","temperature":0,"top_p":1,"top_k":5,"stop_sequences":["x"],"metadata":{"user_id":"u"}`, accepted},
		{`"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"any"}`, accepted},
		{`"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}`, accepted},
		{`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, accepted},
		{`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`, accepted},
		{`"mcp_servers":[],"container":null,"service_tier":"auto","speed":"standard"`, accepted},

		{`"novelty":1`, ""},
		{`"betas":["x"]`, ""},
		{`"min_tokens":1`, ""},
		{`"service_tier":"priority"`, ""},
		{`"speed":"fast"`, ""},
		{`"seed":1`, "seed"},
		{`"frequency_penalty":0.5`, "frequency_penalty"},
		{`"mcp_servers":[{"url":"https://example.com"}]`, "mcp_servers"},
		{`"container":"c"`, "container"},
		{`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`, "context_management"},
		{`"thinking":{"type":"enabled","budget_tokens":2048}`, "thinking.budget_tokens"},
		{`"output_config":{"effort":"max"}`, "output_config.effort"},
		{`"output_config":{"effort":"minimal"}`, "output_config.effort"},
	} {
		for _, strict := range []bool{false, true} {
			var (
				r    Request
				into chat.Request
				info RequestInfo
			)
			body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],` + c.member + `}`
			_, err := r.Decode(nil, []byte(body), &into, &info, dialects.Options{Strict: strict})
			if err == nil {
				err = info.RelocateError(into.CheckRules(&chat.ModelRules{Strict: strict}))
			}
			if !strict || c.param == accepted {
				if err != nil {
					t.Errorf("strict %v: %s: %v", strict, c.member, err)
				}
				continue
			}
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 || e.Code != apierr.CodeUnsupportedParameter || e.Param != c.param {
				t.Errorf("%s: %v, want an error about %q", c.member, err, c.param)
			} else if strings.Contains(e.Message, "novelty") {
				t.Errorf("the error repeats the client's text: %s", e.Message)
			}
		}
	}
}

const accepted = "accepted"

// TestStrictCitations checks that a strict edge rejects citations, which it could not give.
func TestStrictCitations(t *testing.T) {
	t.Parallel()
	for _, block := range []string{
		`{"type":"document","citations":{"enabled":true},"source":{"type":"text","data":"a"}}`,
		`{"type":"search_result","citations":{"enabled":true},"source":"s","title":"t","content":[]}`,
	} {
		body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` + block + `]}]}`
		_, err := new(Request).Decode(nil, []byte(body), new(chat.Request), new(RequestInfo), dialects.Options{Strict: true})
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param != "messages[0].content[0].citations" {
			t.Errorf("%s: %v", block, err)
		}
	}
}
