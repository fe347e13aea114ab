package forward

import (
	"bytes"
	"errors"
	"testing"

	"penstock/translate"
)

// TestRerank checks that the client receives a ranking in the usual format, whatever the engine
// sends.
func TestRerank(t *testing.T) {
	t.Parallel()
	all := RerankFormat{Documents: 3, Texts: true}
	for _, c := range []struct {
		name, body, want string
		asked            RerankFormat
	}{
		{"vLLM", `{"id":"r","model":"m","results":[{"index":1,"document":{"text":"b"},"relevance_score":0.9},{"index":0,"relevance_score":0.1}],"usage":{"total_tokens":4}}`, "", all},
		{
			"SGLang", `[{"score":0.1,"document":"a","index":0,"meta_info":{"id":"x"}},{"score":-2e-3,"document":"b","index":2},{"score":0.9,"document":null,"index":1}]`,
			`{"object":"list","model":"","results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1,"document":{"text":"a"}},{"index":2,"relevance_score":-2e-3,"document":{"text":"b"}}]}`, all,
		},
		{
			"TEI", `[{"index":1,"text":"b","score":0.9},{"index":0,"text":"a","score":0.2}]`,
			`{"object":"list","model":"","results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}},{"index":0,"relevance_score":0.2,"document":{"text":"a"}}]}`, all,
		},
		{
			"score in results", `{"model":"m","results":[{"index":0,"score":1},{"index":1,"score":2}],"usage":{"total_tokens":4}}`,
			`{"model":"m","results":[{"index":1,"relevance_score":2},{"index":0,"relevance_score":1}],"usage":{"total_tokens":4}}`, all,
		},
		{
			"top_n ignored", `{"results":[{"index":0,"relevance_score":1},{"index":1,"relevance_score":2}]}`,
			`{"results":[{"index":1,"relevance_score":2}]}`,
			RerankFormat{Documents: 3, Texts: true, Top: 1},
		},
		{"top_n obeyed", `{"results":[{"index":1,"relevance_score":2}]}`, "", RerankFormat{Documents: 3, Texts: true, Top: 1}},
		{"documents not wanted", `[{"index":0,"document":"a","score":1}]`, `{"object":"list","model":"","results":[{"index":0,"relevance_score":1}]}`, RerankFormat{Documents: 3}},
		{"equal scores", `[{"index":2,"score":1},{"index":0,"score":1}]`, `{"object":"list","model":"","results":[{"index":2,"relevance_score":1},{"index":0,"relevance_score":1}]}`, all},
		{"nothing", `[]`, `{"object":"list","model":"","results":[]}`, all},
		{"an error", `{"error":{"message":"no"}}`, "", all},
		{"no JSON", `[{"index"`, "", all},
		{"another form", `{"data":[{"index":0}]}`, "", all},
	} {
		want := c.want
		if want == "" {
			want = c.body
		}
		if got, err := c.asked.Normalize([]byte(c.body)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, want)
		}
	}
	for _, body := range []string{
		`[1]`, `[{"index":0}]`, `[{"score":1}]`, `[{"index":3,"score":1}]`, `[{"index":-1,"score":1}]`, `[{"index":0.5,"score":1}]`,
		`[{"index":0,"score":null}]`, `[{"index":0,"score":"1"}]`, `{"results":[{"index":0}]}`, `[{"index":0,"index":1,"score":1}]`,
	} {
		var bad *translate.BadAnswerError
		if got, err := all.Normalize([]byte(body)); !errors.As(err, &bad) || bad.Reason != reasonNotRanked {
			t.Errorf("Normalize of %s = %s, %v, want reasonNotRanked", body, got, err)
		}
	}
}

// TestRankTexts checks that Text Embeddings Inference receives texts and return_text, and that a
// document that is an object with a text becomes a string.
func TestRankTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, want string }{
		{
			`{"model":"m","query":"q","documents":["a",{"text":"b\u0021","id":1},{"image":"c"}],"return_documents":true,"top_n":1}`,
			`{"model":"s","query":"q","texts":["a","b\u0021",{"image":"c"}],"return_text":true,"top_n":1}`,
		},
		{`{"return_documents":false,"documents":[],"query":"q","model":"m"}`, `{"return_text":false,"texts":[],"query":"q","model":"s"}`},
		{`{"model":"m","return_documents":null,"documents":["a"],"query":"q"}`, `{"model":"s","texts":["a"],"query":"q"}`},
	} {
		var r Request
		if err := r.DecodeRerank([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		send := func() string { return string(bytes.Join(r.AppendSegments(nil, "s"), nil)) }
		asSent := send()
		r.SetRerankTexts(true)
		if got := send(); got != c.want {
			t.Errorf("%s is sent as %s", c.body, got)
		}
		if r.SetRerankTexts(false); send() != asSent {
			t.Errorf("%s: the next engine is sent %s", c.body, send())
		}
	}
}
