package observe

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestChoices checks that calls that could choose among engines are counted. Recent must copy the
// Choice, because another call reuses the record.
func TestChoices(t *testing.T) {
	c, _ := newTestCalls(t)
	choice := &RoutingChoice{Reason: "cached", Tokens: 500, Expected: 400, Estimates: []UpstreamEstimate{{"a", 0.2, 400}, {"b", 3, 0}}}
	r := successfulRecord("m", "a")
	r.Choice = choice
	r.SetTokens(1000, 20, 900, false)
	finish(c, r)
	*choice = RoutingChoice{Reason: "home", Tokens: 500, Estimates: append(choice.Estimates[:0], UpstreamEstimate{"b", 1, 0})}
	r.SetTokens(500, 20, 0, true) // an estimated prompt, which Prompts does not count
	finish(c, r)
	finish(c, successfulRecord("m", "a")) // a call without a choice
	calls := c.Recent.calls.newest()
	if first := calls[2].Choice; first.Reason != "cached" || len(first.Estimates) != 2 || first.Estimates[0].Upstream != "a" || calls[2].ExpectedCached != 800 {
		t.Errorf("the first call has %+v, %d tokens expected", first, calls[2].ExpectedCached)
	}
	if calls[0].Choice != nil || calls[1].Choice.Reason != "home" {
		t.Errorf("choices = %+v and %+v, want none and home", calls[0].Choice, calls[1].Choice)
	}
	var b bytes.Buffer
	c.AppendChoiceMetrics(&b)
	for _, want := range []string{
		`penstock_choices_total{model="m",reason="cached"} 1`, `penstock_choices_total{model="m",reason="home"} 1`,
		`penstock_chosen_prompt_tokens_total{model="m",upstream="a",kind="prompt"} 1000`,
		`penstock_chosen_prompt_tokens_total{model="m",upstream="a",kind="cached"} 900`,
		`penstock_chosen_prompt_tokens_total{model="m",upstream="a",kind="expected"} 800`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	o := c.Summary(time.Now())
	for _, h := range []History{o.Model("m"), o.Upstream("a"), o.Total} {
		if h.Prompts != (PromptCacheCounts{1000, 900, 800}) {
			t.Errorf("the last minutes have %+v", h.Prompts)
		}
	}
	c.SetConfigured([]string{"other"}, []string{"a"}, nil)
	b.Reset()
	if c.AppendChoiceMetrics(&b); b.Len() > 0 {
		t.Errorf("of a model that is gone there is %s", b.String())
	}
}
