package chat

import (
	"strings"
	"testing"
)

// TestTokenLimit: what an engine is told of a model's limit when the client gave none, or gave one under another name.
func TestTokenLimit(t *testing.T) {
	const image = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://a.example.com/x"}]}]}`
	longBody := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("if(a){", 15) + `"}]}` // 90 bytes
	for _, c := range []struct {
		name   string
		limits Limits
		member string
		in     string
		want   string // what the engine is sent begins with it
	}{
		{"no limit", Limits{}, "", `{"n_predict":-1,` + leastBody + `}`, `{"n_predict":-1,"messages"`},
		{"told", Limits{MaxOutputLength: 64}, "", `{` + leastBody + `}`, `{"max_tokens":64,`},
		{"told where the engine reads it", Limits{MaxOutputLength: 64}, "max_completion_tokens", `{` + leastBody + `}`, `{"max_completion_tokens":64,`},
		{"null is none", Limits{MaxOutputLength: 64}, "", `{"max_tokens":null,` + leastBody + `}`, `{"max_tokens":64,`},
		{"the client's own", Limits{MaxOutputLength: 64}, "", `{"max_completion_tokens":9,` + leastBody + `}`, `{"max_completion_tokens":9,`},
		{"zero is one", Limits{MaxOutputLength: 64}, "", `{"max_tokens":0,` + leastBody + `}`, `{"max_tokens":0,`},
		{"with images", Limits{Vision: &VisionLimits{MaxTokens: 7}}, "", image, `{"max_tokens":7,`},
		{"room in the context", Limits{MaxOutputLength: 64, ContextLength: 4096}, "", `{` + leastBody + `}`, `{"max_tokens":64,`},
		{"the context is smaller", Limits{MaxOutputLength: 4096, ContextLength: 4096}, "", `{` + leastBody + `}`, `{"messages"`},
		{"prose would have room", Limits{MaxOutputLength: 64, ContextLength: 100}, "", longBody, `{"messages"`},
		{"code has room", Limits{MaxOutputLength: 64, ContextLength: 120}, "", longBody, `{"max_tokens":64,`},
		{
			"other names",
			Limits{MaxOutputLength: 64},
			"", `{"max_tokens":9,"n_predict":-1,"max_new_tokens":65,"num\u005fpredict":"x",` + leastBody + `}`,
			`{"max_tokens":9,"n_predict":64,"max_new_tokens":64,"num\u005fpredict":64,`,
		},
		{"low ones stay", Limits{MaxOutputLength: 64}, "", `{"max_tokens":9,"n_predict":3,` + leastBody + `}`, `{"max_tokens":9,"n_predict":3,`},
		{"twice", Limits{MaxOutputLength: 64}, "", `{"max_tokens":9,"n_predict":3,"n_predict":99,` + leastBody + `}`, `{"max_tokens":9,"n_predict":3,"n_predict":64,`},
		{"in an object", Limits{MaxOutputLength: 64}, "", `{"max_tokens":9,"options":{"num_ctx":1,"num_predict":-1},` + leastBody + `}`, `{"max_tokens":9,"options":{"num_ctx":1,"num_predict":64},`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Request
			if err := r.Decode([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			if err := r.Check(&c.limits); err != nil {
				t.Fatal(err)
			}
			model := string(r.Model)
			if got := string(r.AppendUpstream(nil, &Target{Served: model, TokenMember: c.member})); !strings.HasPrefix(strings.ReplaceAll(got, `"model":"m",`, ""), strings.ReplaceAll(c.want, `"model":"m",`, "")) {
				t.Errorf("the engine is sent %s", got)
			}
		})
	}
}
