package forward

import (
	"strings"
	"testing"

	"penstock/translate/sse"
)

// TestUsageOfSeveralChoices checks the usage of completions with more than one choice. llama.cpp
// sends each choice's counts in the choice's last event. vLLM sends each choice's counts while the
// choice is being generated, and finally the counts for all choices.
func TestUsageOfSeveralChoices(t *testing.T) {
	t.Parallel()
	event := func(index, end, p, c string) string {
		return `{"model":"m","choices":[{"index":` + index + `,"text":"x","finish_reason":` + end + `}],"usage":{"prompt_tokens":` + p + `,"completion_tokens":` + c + `}}`
	}
	const all = `{"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":6}}`
	const none = `{"model":"m","choices":[{"index":0,"text":"x","finish_reason":null}]}`
	for name, c := range map[string]struct {
		events           []string
		choices, prompts int
		want             [3]int
	}{
		"two prompts":            {[]string{none, event("1", `"stop"`, "5", "2"), event("0", `"length"`, "2", "4")}, 2, 2, [3]int{7, 6, 13}},
		"two choices":            {[]string{none, event("1", `"stop"`, "2", "2"), event("0", `"length"`, "2", "4")}, 2, 1, [3]int{2, 6, 8}},
		"two of each":            {[]string{event("0", `"stop"`, "2", "1"), event("1", `"stop"`, "2", "2"), event("2", `"stop"`, "5", "3"), event("3", `"stop"`, "5", "4")}, 4, 2, [3]int{7, 10, 17}},
		"as each grows, and all": {[]string{event("0", "null", "2", "1"), event("1", "null", "5", "1"), event("0", `"stop"`, "2", "4"), event("1", `"stop"`, "5", "2"), all}, 2, 2, [3]int{7, 6, 13}},
		"as each grows":          {[]string{event("0", "null", "2", "1"), event("0", "null", "2", "3"), event("1", "null", "5", "1")}, 2, 2, [3]int{7, 4, 11}},
		"one":                    {[]string{event("0", "null", "2", "1"), event("0", `"stop"`, "2", "4")}, 1, 1, [3]int{2, 4, 6}},
	} {
		var s Stream
		s.Reset("m", c.choices)
		s.SetPrompts(c.prompts)
		for _, e := range c.events {
			if _, err := s.Append(nil, sse.Event{Data: []byte(strings.Clone(e))}); err != nil {
				t.Fatal(err)
			}
		}
		if u := s.Usage(); !u.Known || [3]int{u.Prompt, u.Completion, u.Total} != c.want {
			t.Errorf("%s: %+v, want %v", name, u, c.want)
		}
	}
}
