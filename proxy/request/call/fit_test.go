package call

import (
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// TestCountedPrompt checks that a prompt's length is read from a refusal only if the engine has
// counted the prompt exactly.
func TestCountedPrompt(t *testing.T) {
	other := refusalOf(0, apierr.ContextOverflow{})
	other.API.Overflow = apierr.ContextOverflow{Prompt: 3000, Max: 4096}
	for _, c := range []struct {
		name string
		f    *failure.Failure
		want int
	}{
		{"counted", refusalOf(0, apierr.ContextOverflow{Prompt: 3000, Answer: 2000, Max: 4096}), 3000},
		{"at least", refusalOf(0, apierr.ContextOverflow{Prompt: 3000, Max: 4096, Least: true}), 0},
		{"no numbers", refusalOf(0, apierr.ContextOverflow{}), 0},
		{"another error", other, 0},
	} {
		if got := countedPromptTokens(c.f); got != c.want {
			t.Errorf("%s: countedPromptTokens = %d, want %d", c.name, got, c.want)
		}
	}
}

// TestFitsContext checks that the prompt and a short answer must fit into the context of a fallback
// model.
func TestFitsContext(t *testing.T) {
	m := &snapshot.Model{Config: &config.Model{ContextLength: 4096}}
	for prompt, want := range map[int]bool{0: true, 4096 - chat.MinAnswerTokens: true, 4097 - chat.MinAnswerTokens: false} {
		if got := promptFitsContext(m, prompt, time.Time{}); got != want {
			t.Errorf("%d tokens in a context of 4096: promptFitsContext = %t, want %t", prompt, got, want)
		}
	}
}
