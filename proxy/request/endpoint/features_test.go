package endpoint

import (
	"testing"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// TestRequiredFeatures checks the features that a request needs from an engine.
func TestRequiredFeatures(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	base := upstreams.OperationFeature(config.OpChat)
	for more, want := range map[string]upstreams.Features{
		``:                                         0,
		tools:                                      upstreams.FeatureTools,
		tools + `,"tool_choice":"auto"`:            upstreams.FeatureTools,
		tools + `,"tool_choice":"none"`:            0,
		tools + `,"tool_choice":"required"`:        upstreams.FeatureForcedTool,
		tools + `,"tool_choice":"any"`:             upstreams.FeatureForcedTool,
		`"tools":[],"tool_choice":"none"`:          0,
		`"reasoning_effort":"high"`:                upstreams.FeatureEffort,
		`"response_format":{"type":"text"}`:        0,
		tools + `,"reasoning_effort":"low"`:        upstreams.FeatureTools | upstreams.FeatureEffort,
		`"response_format":{"type":"json_object"}`: 0,
		tools + `,"tool_choice":{"type":"function","function":{"name":"f"}}`:                                                                        upstreams.FeatureForcedTool,
		tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`:     upstreams.FeatureTools,
		tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`: upstreams.FeatureForcedTool,
		`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`:                                            upstreams.FeatureSchema,
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}]`:                             upstreams.FeatureImages,
	} {
		body := `{"model":"m",` + more
		if more != "" {
			body += ","
		}
		if more == "" || more[1] != 'm' {
			body += `"messages":[{"role":"user","content":"hi"}],`
		}
		var r chat.Request
		if e := r.Decode([]byte(body[:len(body)-1] + "}")); e != nil {
			t.Fatalf("Decode of %s = %v, want success", body, e)
		}
		if got := RequiredFeatures(chatCompletionsEndpoint, &r); got != base|want {
			t.Errorf("%s: %b, want %b", more, got, base|want)
		}
	}
	for _, ep := range AllEndpoints {
		if ep.engineOperation() == "" || upstreams.OperationFeature(ep.engineOperation()) == 0 {
			t.Errorf("%s has no feature", ep.Path)
		}
	}
}
