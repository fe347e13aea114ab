package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"penstock/translate/apierr"
)

// TestHints checks that an unknown word in a hint is read as the nearest known word and reported. A
// strict edge must reject the word.
func TestHints(t *testing.T) {
	t.Parallel()
	image := func(detail string) string {
		return `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.com/a.png","detail":"` + detail + `"}}]}]`
	}
	const text = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		members, sent string
		offers        []string // the model's efforts
		hints         string
		strict        string // the parameter that a strict edge rejects
	}{
		{text + `,"reasoning_effort":"low"`, `"reasoning_effort":"low"`, nil, "", ""},
		{text + `,"reasoning_effort":"galactic"`, `"reasoning_effort":"high"`, nil, "member:effort", "reasoning_effort"},
		{text + `,"reasoning_effort":"X-High"`, `"reasoning_effort":"xhigh"`, nil, "member:effort", "reasoning_effort"},
		{text + `,"reasoning":{"effort":"galactic"}`, `"reasoning_effort":"high"`, nil, "member:effort", "reasoning.effort"},
		{text + `,"reasoning_effort":"galactic"`, `"reasoning_effort":"medium"`, []string{"low", "medium"}, "member:effort", "reasoning_effort"},
		{image("low"), `"detail":"low"`, nil, "", ""},
		{image("original"), `"detail":"high"`, nil, "", ""},
		{image("HIGH"), `"detail":"high"`, nil, "member:detail", "messages[0].content[0].image_url.detail"},
		{image("microscopic"), `"detail":"auto"`, nil, "member:detail", "messages[0].content[0].image_url.detail"},
	} {
		body := []byte(`{"model":"m",` + c.members + `}`)
		var r Request
		if err := r.Decode(body); err != nil {
			t.Errorf("Decode with %s = %v, want success", c.members, err)
			continue
		}
		if err := r.CheckRules(&ModelRules{Efforts: c.offers}); err != nil {
			t.Errorf("Check with %s = %v, want success", c.members, err)
		}
		format := EngineFormat{Served: "m", Reasoning: &ReasoningFormat{}}
		if sent := string(r.AppendEngineRequest(nil, &format)); !strings.Contains(sent, c.sent) {
			t.Errorf("%s is sent as %s", c.members, sent)
		}
		if got := r.MembersWithUnknownHints(); !slices.Equal(got, strings.Fields(c.hints)) {
			t.Errorf("Hints with %s = %q, want %q", c.members, got, strings.Fields(c.hints))
		}
		err := r.CheckRules(&ModelRules{Efforts: c.offers, Strict: true})
		param := ""
		if e := (*apierr.Error)(nil); errors.As(err, &e) {
			param = e.Param
		}
		if param != c.strict {
			t.Errorf("%s: strict says %v", c.members, err)
		}
	}
}
