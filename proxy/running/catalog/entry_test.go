package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"penstock/config"
)

// TestEntry_Efforts checks that the entry of a reasoning model lists its efforts. If it is unknown
// whether the model supports reasoning, the entry must list no efforts.
func TestEntry_Efforts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model config.Model
		want  string // expected part of the entry; if empty, the member must be omitted
	}{
		{"nothing is said", config.Model{}, ""},
		{"it reasons", config.Model{SupportedFeatures: []string{"tools", "reasoning"}}, `"model_info":{"supported_reasoning_efforts":["none","low","medium","high","xhigh"]}`},
		{"it does not", config.Model{SupportedFeatures: []string{"tools"}}, ""},
		{"some are listed", config.Model{SupportedFeatures: []string{"reasoning"}, SupportedReasoningEfforts: []string{"low"}}, `"model_info":{"supported_reasoning_efforts":["low"]}`},
		{"none is taken", config.Model{SupportedFeatures: []string{"reasoning"}, SupportedReasoningEfforts: []string{}}, `"model_info":{"supported_reasoning_efforts":[]}`},
		{"it goes", config.Model{Deprecated: time.Unix(5, 0)}, `"model_info":{"deprecated":5}`},
	} {
		c.model.ID, c.model.Kind = "m", config.ModelKindChat
		text, err := json.Marshal(newEntry(&c.model, 0))
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && strings.Contains(string(text), "model_info") || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: entry = %s, want %q in it", c.name, text, c.want)
		}
	}
}
