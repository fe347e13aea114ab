package chat

import (
	"strings"
	"testing"
)

// TestTokenLimit checks the limit for an engine if the client sent no limit, or sent it under
// another name.
func TestTokenLimit(t *testing.T) {
	const image = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://a.example.com/x"}]}]}`
	// 90 bytes.
	longBody := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("if(a){", 15) + `"}]}`
	for _, c := range []struct {
		name   string
		limits ModelRules
		member string
		in     string
		want   string // expected start of the engine's body
	}{
		{"no limit", ModelRules{}, "", `{"n_predict":-1,` + leastBody + `}`, `{"n_predict":-1,"messages"`},
		{"told", ModelRules{MaxOutputLength: 64}, "", `{` + leastBody + `}`, `{"max_tokens":64,`},
		{"told where the engine reads it", ModelRules{MaxOutputLength: 64}, "max_completion_tokens", `{` + leastBody + `}`, `{"max_completion_tokens":64,`},
		{"null is none", ModelRules{MaxOutputLength: 64}, "", `{"max_tokens":null,` + leastBody + `}`, `{"max_tokens":64,`},
		{"the client's own", ModelRules{MaxOutputLength: 64}, "", `{"max_completion_tokens":9,` + leastBody + `}`, `{"max_completion_tokens":9,`},
		{"zero is one", ModelRules{MaxOutputLength: 64}, "", `{"max_tokens":0,` + leastBody + `}`, `{"max_tokens":0,`},
		{"with images", ModelRules{Vision: &VisionLimits{MaxTokens: 7}}, "", image, `{"max_tokens":7,`},
		{"room in the context", ModelRules{MaxOutputLength: 64, ContextLength: 4096}, "", `{` + leastBody + `}`, `{"max_tokens":64,`},
		{"the context is smaller", ModelRules{MaxOutputLength: 4096, ContextLength: 4096}, "", `{` + leastBody + `}`, `{"messages"`},
		{"prose would have room", ModelRules{MaxOutputLength: 64, ContextLength: 100}, "", longBody, `{"messages"`},
		{"code has room", ModelRules{MaxOutputLength: 64, ContextLength: 120}, "", longBody, `{"max_tokens":64,`},
		{
			"other names",
			ModelRules{MaxOutputLength: 64},
			"", `{"max_tokens":9,"n_predict":-1,"max_new_tokens":65,"num\u005fpredict":"x",` + leastBody + `}`,
			`{"max_tokens":9,"n_predict":9,"max_new_tokens":9,"num\u005fpredict":9,`,
		},
		{"the smallest of all", ModelRules{MaxOutputLength: 64}, "", `{"max_tokens":9,"n_predict":3,` + leastBody + `}`, `{"max_tokens":3,"n_predict":3,`},
		{"no model's limit", ModelRules{}, "", `{"max_tokens":1,"n_predict":3000,"options":{"num_predict":-1},` + leastBody + `}`, `{"max_tokens":1,"n_predict":1,"options":{"num_predict":1},`},
		{"none of the contract's", ModelRules{}, "", `{"n_predict":3000,"Max_New_Tokens":20,` + leastBody + `}`, `{"n_predict":20,"Max_New_Tokens":20,`},
		{"one alone", ModelRules{}, "", `{"n_predict":3000,` + leastBody + `}`, `{"n_predict":3000,`},
		{"nothing", ModelRules{}, "", `{"max_tokens":0,"n_predict":3000,` + leastBody + `}`, `{"max_tokens":0,"n_predict":1,`},
		{"twice", ModelRules{MaxOutputLength: 64}, "", `{"max_tokens":9,"n_predict":3,"n_predict":99,` + leastBody + `}`, `{"max_tokens":3,"n_predict":3,"n_predict":3,`},
		{"in an object", ModelRules{MaxOutputLength: 64}, "", `{"max_tokens":9,"options":{"num_ctx":1,"num_predict":-1},` + leastBody + `}`, `{"max_tokens":9,"options":{"num_ctx":1,"num_predict":9},`},
		{
			"SGLang's object",
			ModelRules{MaxOutputLength: 64},
			"",
			`{"max_tokens":9,"sampling_params":{"max_new_tokens":3000,"max_tokens":9,"n":2},` + leastBody + `}`,
			`{"max_tokens":9,"sampling_params":{"max_new_tokens":9,"max_tokens":9,"n":2},`,
		},
		{
			"a list of objects",
			ModelRules{MaxOutputLength: 64},
			"",
			`{"max_tokens":9,"sampling_params_list":[{"max_tokens":10},null,{"max_tokens":-1}],` + leastBody + `}`,
			`{"max_tokens":9,"sampling_params_list":[{"max_tokens":9},null,{"max_tokens":9}],`,
		},
		{"another name of n", ModelRules{}, "", `{"n_cmpl":2,` + leastBody + `}`, `{"n":2,"n_cmpl":2,`},
		{"another name, and no n", ModelRules{}, "", `{"n_cmpl":2.0,"n":null,` + leastBody + `}`, `{"n_cmpl":2,"n":2,`},
		{"both names", ModelRules{}, "", `{"n_cmpl":2,"n":2,` + leastBody + `}`, `{"n_cmpl":2,"n":2,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Request
			if err := r.Decode([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			if err := r.CheckRules(&c.limits); err != nil {
				t.Fatal(err)
			}
			model := string(r.Model)
			if got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: model, TokenMember: c.member})); !strings.HasPrefix(strings.ReplaceAll(got, `"model":"m",`, ""), strings.ReplaceAll(c.want, `"model":"m",`, "")) {
				t.Errorf("the engine is sent %s", got)
			}
		})
	}
}

// TestFitLimit checks the limit for an engine that has less space than the client requested.
func TestFitLimit(t *testing.T) {
	for _, c := range []struct{ asked, context, prompt, want int }{
		{32_000, 0, 20_000, 32_000}, // the context is not known
		{32_000, 131_072, 20_000, 32_000},
		{32_000, 24_576, 20_000, 24_576 - 20_000 - 491}, // a margin of 2 %, because the estimate is not exact
		{4_085, 24_576, 20_000, 4_085},
		{4_086, 24_576, 20_000, 4_085},
		{32_000, 24_576, 24_400, 3_072}, // the prompt is only an estimate, so the limit is an eighth
		{32_000, 24_576, 90_000, 3_072},
		{3_000, 24_576, 24_400, 3_000},
		{32_000, 1_024, 1_000, 256},
		{200, 1_024, 1_000, 200},
		{0, 1_024, 1_000, 0},
	} {
		if got := FitLimit(c.asked, c.context, c.prompt); got != c.want {
			t.Errorf("%d beside %d of %d: got %d, want %d", c.asked, c.prompt, c.context, got, c.want)
		}
	}
}

// TestRefitLimit checks the next limit for an engine that has rejected a limit.
func TestRefitLimit(t *testing.T) {
	for _, c := range []struct {
		name                  string
		sent, prompt, context int
		least                 bool
		want                  int
		ok                    bool
	}{
		{"what there is room for", 8_000, 20_000, 24_576, false, 4_575, true},
		{"the least", 8_000, 24_320, 24_576, false, 256, true},
		{"one less", 8_000, 24_321, 24_576, false, 0, false},
		{"the prompt alone is too long", 8_000, 30_000, 24_576, false, 0, false},
		{"less was asked for", 100, 24_500, 24_576, false, 0, false},
		{"no numbers", 8_000, 0, 0, false, 256, true},
		{"no numbers, and the least was asked for", 256, 0, 0, false, 256, false},
		{"counted in part", 8_000, 16_577, 24_576, true, 4_000, true},
		{"numbers that contradict what was sent", 100, 1_000, 24_576, false, 23_575, false},
	} {
		if got, ok := RefitLimit(c.sent, c.prompt, c.context, c.least); ok != c.ok || ok && got != c.want {
			t.Errorf("%s: RefitLimit = %d, %t, want %d, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestFit checks that the limit is lowered under all names that the engine may read, and is never
// raised.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits ModelRules
		fit    int
		in     string
		want   string
	}{
		{"lowered", ModelRules{}, 300, `{"max_tokens":32000,` + leastBody + `}`, `{"max_tokens":300,`},
		{"never raised", ModelRules{}, 300, `{"max_tokens":9,` + leastBody + `}`, `{"max_tokens":9,`},
		{"other names", ModelRules{}, 300, `{"max_tokens":32000,"n_predict":400,"options":{"num_predict":-1},` + leastBody + `}`, `{"max_tokens":300,"n_predict":300,"options":{"num_predict":300},`},
		{"below the model's", ModelRules{MaxOutputLength: 4096}, 300, `{"max_tokens":32000,"n_predict":400,` + leastBody + `}`, `{"max_tokens":300,"n_predict":300,`},
		{"above the model's", ModelRules{MaxOutputLength: 64}, 300, `{"max_tokens":32000,"n_predict":400,` + leastBody + `}`, `{"max_tokens":64,"n_predict":64,`},
		{"what the model is told", ModelRules{MaxOutputLength: 4096}, 300, `{` + leastBody + `}`, `{"max_tokens":300,`},
		{"nothing is said", ModelRules{}, 300, `{` + leastBody + `}`, `{"messages"`},
		{"taken back", ModelRules{}, -1, `{"max_tokens":32000,"n_predict":400,` + leastBody + `}`, `{"max_tokens":400,"n_predict":400,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Request
			if err := r.Decode([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			if err := r.CheckRules(&c.limits); err != nil {
				t.Fatal(err)
			}
			r.Tokens.LowerTo(250)
			r.Tokens.LowerTo(c.fit)
			got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: string(r.Model)}))
			if !strings.HasPrefix(strings.ReplaceAll(got, `"model":"m",`, ""), c.want) {
				t.Errorf("the engine is sent %s", got)
			}
		})
	}
}
