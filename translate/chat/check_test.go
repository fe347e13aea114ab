package chat

import (
	"strings"
	"testing"

	"penstock/translate/apierr"
)

func TestCheck(t *testing.T) {
	const unsupportedParam = apierr.CodeUnsupportedParameter
	big := dataURL("image/png", pngOf(t, 100, 50, 0)) // 5,000 pixels
	withImage := func(s string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"` + big + `"}]}]` + s + `}`
	}
	remote := partBody(`{"type":"image_url","image_url":{"url":"https://cdn.example.com/a"}}`)
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	const schema = `"response_format":{"type":"json_schema","json_schema":{}}`
	const jsonMode = `"response_format":{"type":"json_object"}`

	cases := []struct {
		name   string
		limits ModelRules
		body   string
		code   string
		param  string
		tokens int    // the token limit after an accepted check
		effort string // the effort after an accepted check
	}{
		{"nothing is known", ModelRules{}, bodyWith(tools + `,"max_tokens":9000000,"reasoning_effort":"xhigh",` + schema), "", "", 9000000, "xhigh"},

		{"token limit at the bound", ModelRules{MaxOutputLength: 100}, bodyWith(`"max_tokens":100`), "", "", 100, ""},
		{"token limit above it is lowered", ModelRules{MaxOutputLength: 100}, bodyWith(`"max_tokens":101`), "", "", 100, ""},
		{"token limit below it is never raised", ModelRules{MaxOutputLength: 100}, bodyWith(`"max_tokens":0`), "", "", 0, ""},
		{"no token limit stays none", ModelRules{MaxOutputLength: 100}, `{` + leastBody + `}`, "", "", -1, ""},
		{"strict refuses it under an engine's name", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"n_Predict":-1`), badValue, "n_predict", 0, ""},
		{"and in an object", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"options":{"num_predict":101}`), badValue, "options.num_predict", 0, ""},
		{"SGLang's object", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"sampling_params":{"max_new_tokens":101}`), badValue, "sampling_params.max_new_tokens", 0, ""},
		{"more at least than most in it", ModelRules{MaxOutputLength: 100}, bodyWith(`"sampling_params":{"min_new_tokens":101}`), badValue, "sampling_params.min_new_tokens", 0, ""},
		{"fewer tokens at most than at least", ModelRules{}, bodyWith(`"max_tokens":4,"min_tokens":5`), badValue, "min_tokens", 0, ""},
		{"than under an engine's name", ModelRules{}, bodyWith(`"n_predict":4,"min_new_tokens":5`), badValue, "min_new_tokens", 0, ""},
		{"than in text", ModelRules{}, bodyWith(`"max_tokens":4,"min_tokens":"5"`), badValue, "min_tokens", 0, ""},
		{"than the model's", ModelRules{MaxOutputLength: 4}, bodyWith(`"min_tokens":5`), badValue, "min_tokens", 0, ""},
		{"as many", ModelRules{}, bodyWith(`"max_tokens":5,"min_tokens":5`), "", "", 5, ""},
		{"strict takes a low one", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"n_predict":100,"max_new_tokens":null`), "", "", -1, ""},
		{"strict refuses it", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"max_tokens":101`), badValue, "max_tokens", 0, ""},
		{"under its newer name", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"max_completion_tokens":101`), badValue, "max_completion_tokens", 0, ""},
		{"a budget does not raise it", ModelRules{MaxOutputLength: 100}, bodyWith(`"max_tokens":50,"reasoning":{"max_tokens":5000}`), "", "", 50, ""},
		{"vision bound", ModelRules{MaxOutputLength: 100, Vision: &VisionLimits{MaxTokens: 10}}, withImage(`,"max_tokens":50`), "", "", 10, ""},
		{"vision bound alone", ModelRules{Vision: &VisionLimits{MaxTokens: 10}}, withImage(`,"max_tokens":50`), "", "", 10, ""},
		{"vision bound above the model's", ModelRules{MaxOutputLength: 5, Vision: &VisionLimits{MaxTokens: 10}}, withImage(`,"max_tokens":50`), "", "", 5, ""},
		{"vision without bounds", ModelRules{MaxOutputLength: 100, ContextLength: 4096, Vision: &VisionLimits{MaxPixels: 9999}}, withImage(`,"max_tokens":101`), "", "", 100, ""},
		{"strict takes one at the bound", ModelRules{MaxOutputLength: 100, Strict: true}, bodyWith(`"max_tokens":100`), "", "", 100, ""},
		{"vision bound without images", ModelRules{MaxOutputLength: 100, Vision: &VisionLimits{MaxTokens: 10}}, bodyWith(`"max_tokens":50`), "", "", 50, ""},

		{"token limit as large as the context", ModelRules{ContextLength: 4096}, bodyWith(`"max_tokens":4096`), "", "", 4096, ""},
		{"token limit above the context", ModelRules{ContextLength: 4096}, bodyWith(`"max_tokens":4097`), "", "", 4097, ""},
		{"strict, above the context", ModelRules{ContextLength: 4096, Strict: true}, bodyWith(`"max_tokens":4097`), apierr.CodeContextLength, "max_tokens", 0, ""},
		{"lowered below the context", ModelRules{ContextLength: 4096, MaxOutputLength: 1024}, bodyWith(`"max_tokens":9999`), "", "", 1024, ""},
		{"a long prompt is left to the engine", ModelRules{ContextLength: 10}, bodyOf(`{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}`), "", "", -1, ""},
		{"strict, vision context", ModelRules{Strict: true, ContextLength: 4096, Vision: &VisionLimits{ContextLength: 64}}, withImage(`,"max_completion_tokens":65`), apierr.CodeContextLength, "max_completion_tokens", 0, ""},

		{"effort that is listed", ModelRules{Efforts: []string{"none", "low"}}, bodyWith(`"reasoning_effort":"low"`), "", "", -1, "low"},
		{"effort that is not", ModelRules{Efforts: []string{"none", "low"}}, bodyWith(`"reasoning_effort":"high"`), unsupportedParam, "reasoning_effort", 0, ""},
		{"effort in the object", ModelRules{Efforts: []string{"none", "low"}}, bodyWith(`"reasoning":{"effort":"high"}`), unsupportedParam, "reasoning.effort", 0, ""},
		{"no effort at all", ModelRules{Efforts: []string{}}, bodyWith(`"reasoning_effort":"high"`), unsupportedParam, "reasoning_effort", 0, ""},
		{"lowered effort", ModelRules{Efforts: []string{"none", "low", "medium"}, LowerEffort: true}, bodyWith(`"reasoning_effort":"xhigh"`), "", "", -1, "medium"},
		{"lowered to nothing", ModelRules{Efforts: []string{}, LowerEffort: true}, bodyWith(`"reasoning_effort":"xhigh"`), "", "", -1, ""},
		{"minimal is low", ModelRules{Efforts: []string{"low"}}, bodyWith(`"reasoning_effort":"minimal"`), "", "", -1, "low"},
		{"max is xhigh", ModelRules{Efforts: []string{"low", "xhigh"}}, bodyWith(`"reasoning":{"effort":"max"}`), "", "", -1, "xhigh"},
		{"max is lowered", ModelRules{Efforts: []string{"low", "medium"}, LowerEffort: true}, bodyWith(`"reasoning_effort":"max"`), "", "", -1, "medium"},
		{"strict knows no max", ModelRules{Strict: true}, bodyWith(`"reasoning_effort":"max"`), unsupportedParam, "reasoning_effort", 0, ""},
		{"strict knows no minimal", ModelRules{Strict: true}, bodyWith(`"reasoning_effort":"minimal"`), unsupportedParam, "reasoning_effort", 0, ""},

		{"tools offered", ModelRules{Features: []string{FeatureTools}}, bodyWith(tools), "", "", -1, ""},
		{"tools not offered", ModelRules{Features: []string{FeatureReasoning}}, bodyWith(tools), unsupportedParam, "tools", 0, ""},
		{"no tool is no use of tools", ModelRules{Features: []string{}}, bodyWith(`"tools":[],"tool_choice":"auto"`), "", "", -1, ""},
		{"schema offered", ModelRules{Features: []string{FeatureStructuredOutputs}}, bodyWith(schema), "", "", -1, ""},
		{"schema not offered", ModelRules{Features: []string{FeatureTools, FeatureJSONMode}}, bodyWith(schema), unsupportedParam, "response_format", 0, ""},
		{"JSON by schemas", ModelRules{Features: []string{FeatureStructuredOutputs}}, bodyWith(jsonMode), "", "", -1, ""},
		{"JSON mode", ModelRules{Features: []string{FeatureJSONMode}}, bodyWith(jsonMode), "", "", -1, ""},
		{"JSON not offered", ModelRules{Features: []string{FeatureTools}}, bodyWith(jsonMode), unsupportedParam, "response_format", 0, ""},
		{"text is always offered", ModelRules{Features: []string{}}, bodyWith(`"response_format":{"type":"text"}`), "", "", -1, ""},
		{"reasoning not offered", ModelRules{Features: []string{FeatureTools}}, bodyWith(`"reasoning_effort":"low"`), unsupportedParam, "reasoning_effort", 0, ""},
		{"no reasoning is always offered", ModelRules{Features: []string{FeatureTools}}, bodyWith(`"reasoning_effort":"none"`), "", "", -1, "none"},
		{"reasoning not offered, lowered", ModelRules{Features: []string{FeatureTools}, LowerEffort: true}, bodyWith(`"reasoning_effort":"low"`), "", "", -1, ""},
		{"efforts say that it reasons", ModelRules{Features: []string{FeatureTools}, Efforts: []string{"low"}}, bodyWith(`"reasoning_effort":"low"`), "", "", -1, "low"},

		{"images taken", ModelRules{InputModalities: []string{"text", "image"}}, withImage(``), "", "", -1, ""},
		{"images not taken", ModelRules{InputModalities: []string{"text"}}, withImage(``), unsupportedParam, "messages[0].content[0].image_url", 0, ""},
		{"remote images not taken", ModelRules{InputModalities: []string{"text"}}, remote, unsupportedParam, "messages[0].content[0].image_url.url", 0, ""},
		{"pixels at the budget", ModelRules{Vision: &VisionLimits{MaxPixels: 5000}}, withImage(``), "", "", -1, ""},
		{"pixels above it", ModelRules{Vision: &VisionLimits{MaxPixels: 4999}}, withImage(``), badValue, "messages[0].content[0].image_url", 0, ""},
		{"pixels that nobody knows", ModelRules{Vision: &VisionLimits{MaxPixels: 1}}, remote, "", "", -1, ""},
		{"host allowed", ModelRules{ImageHosts: []string{"*.example.com"}}, remote, "", "", -1, ""},
		{"host not allowed", ModelRules{ImageHosts: []string{"example.org"}}, remote, badValue, "messages[0].content[0].image_url.url", 0, ""},
		{"data URLs have no host", ModelRules{ImageHosts: []string{"example.org"}}, withImage(``), "", "", -1, ""},

		{"unknown members", ModelRules{Refuse: NewRefusedMembers("bootstrap_*")}, bodyWith(`"bootstrapped":1,"xylophone":2,"x":3,"priority":4,"":5`), "", "", -1, ""},
		{"steering member", ModelRules{Refuse: NewRefusedMembers("a", "kv_transfer_params")}, bodyWith(`"kv_transfer_params":null`), unsupportedParam, "kv_transfer_params", 0, ""},
		{"steering family", ModelRules{Refuse: NewRefusedMembers("bootstrap_*")}, bodyWith(`"bootstrap_host":"h"`), unsupportedParam, "bootstrap_host", 0, ""},
		{"in another case", ModelRules{Refuse: NewRefusedMembers("bootstrap_*")}, bodyWith(`"BootStrap_host":"h"`), unsupportedParam, "bootstrap_host", 0, ""},
		{"escaped", ModelRules{Refuse: NewRefusedMembers("kv_transfer_params")}, bodyWith(`"kv_tr\u0061nsfer_params":{}`), unsupportedParam, "kv_transfer_params", 0, ""},
		{"long s", ModelRules{Refuse: NewRefusedMembers("bootstrap_*")}, bodyWith(`"boot\u017ftrap_host":"h"`), unsupportedParam, "bootstrap_*", 0, ""},
		{"inside", ModelRules{Refuse: NewRefusedMembers("b", "kwargs.a")}, bodyWith(`"kwargs":{"c":1,"\u0061":2}`), unsupportedParam, "kwargs.a", 0, ""},
		{"inside, in another case", ModelRules{Refuse: NewRefusedMembers("kwargs.chat_template")}, bodyWith(`"Kwargs":{"Chat_template":""}`), unsupportedParam, "kwargs.chat_template", 0, ""},
		{"beside", ModelRules{Refuse: NewRefusedMembers("kwargs.a")}, bodyWith(`"kwargs":{"b":{"a":1}},"a":1,"other":{"a":1},"kwargs2":{"a":1}`), "", "", -1, ""},
		{"a header's name inside", ModelRules{Refuse: NewRefusedMembers("kwargs.a")}, bodyWith(`"kwargs":{"x-b":1}`), "", "", -1, ""},
		{"inside, as a header's name", ModelRules{Refuse: NewRefusedMembers("kwargs.x-b")}, bodyWith(`"kwargs":{"X-b":1}`), unsupportedParam, "kwargs.x-b", 0, ""},
		{"inside no object", ModelRules{Refuse: NewRefusedMembers("kwargs.a")}, bodyWith(`"kwargs":["a"]`), "", "", -1, ""},
		{"kelvin sign", ModelRules{Refuse: NewRefusedMembers("kv_transfer_params")}, bodyWith("\"\u212av_transfer_params\":{}"), unsupportedParam, "kv_transfer_params", 0, ""},
		{"control header", ModelRules{}, bodyWith(`"X-Session-Params":{}`), unsupportedParam, "x-*", 0, ""},
		{"escaped control header", ModelRules{}, bodyWith(`"\u0078-a":1`), unsupportedParam, "x-*", 0, ""},
	}
	var r Request
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := r.Decode([]byte(c.body)); err != nil {
				t.Fatal(err)
			}
			err := r.CheckRules(&c.limits)
			if c.code != "" {
				if e := requireInvalid(t, c.body, err); e.Code != c.code || e.Param != c.param {
					t.Errorf("got %v, want the code %s at %s", e, c.code, c.param)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CheckRules(&c.limits); err != nil || r.Tokens.Max != c.tokens || r.Reasoning.Effort != c.effort {
				t.Errorf("max tokens %d, effort %q, second check %v", r.Tokens.Max, r.Reasoning.Effort, err)
			}
		})
	}
}

// TestCheckTexts checks the error messages that some clients parse.
func TestCheckTexts(t *testing.T) {
	for _, c := range []struct {
		limits     ModelRules
		body, want string
	}{
		{
			ModelRules{ContextLength: 4096, Strict: true},
			bodyWith(`"max_tokens":5000`),
			"max_tokens alone is larger than the context of the model: 5000 tokens > 4096 maximum.",
		},
		{
			ModelRules{Refuse: NewRefusedMembers("bootstrap_*")},
			bodyWith(`"bootstrap_room":1`),
			"Unsupported parameter: bootstrap_room. It steers the engine and is not accepted from clients.",
		},
		{
			ModelRules{Efforts: []string{"none", "low"}},
			bodyWith(`"reasoning_effort":"high"`),
			"reasoning_effort must be one that the model offers: none, low.",
		},
	} {
		var r Request
		if err := r.Decode([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		if e := requireInvalid(t, c.body, r.CheckRules(&c.limits)); e.Message != c.want {
			t.Errorf("got  %s\nwant %s", e.Message, c.want)
		}
	}
}

// TestCheck_AnotherModel checks that a second call to CheckRules applies the second model's rules
// to the client's original values.
func TestCheck_AnotherModel(t *testing.T) {
	small, large := ModelRules{MaxOutputLength: 7, Efforts: []string{"low"}, LowerEffort: true}, ModelRules{MaxOutputLength: 200, Efforts: []string{"low", "high"}, LowerEffort: true}
	r := Request{}
	r.Reset()
	if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":60,"reasoning_effort":"high"}`)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rules  *ModelRules
		limit  int
		effort string
	}{{&small, 7, "low"}, {&large, 60, "high"}, {&small, 7, "low"}} {
		if err := r.CheckRules(c.rules); err != nil {
			t.Fatal(err)
		}
		if r.Tokens.TokenLimit() != c.limit || r.Reasoning.Effort != c.effort {
			t.Errorf("got %d tokens and effort %q, want %d and %q", r.Tokens.TokenLimit(), r.Reasoning.Effort, c.limit, c.effort)
		}
		r.Tokens.LowerTo(3) // the tokens that fit into the engine's context
	}
}
