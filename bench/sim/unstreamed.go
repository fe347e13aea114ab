package sim

import (
	"strings"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// unstreamedAnswerData is the template data for an unstreamed response. All fields except Family
// contain JSON.
type unstreamedAnswerData struct{ Family, Frame, Choices, Usage, Took string }

// choiceMessage is the template data for the complete message of a choice. Text and Thought are the
// contents of JSON strings, without the quotes.
type choiceMessage struct {
	Index             int
	Family, Reasoning string
	Legacy            bool
	Text, Thought     string
	Calls, Logprobs   string // JSON
	Finish, Stopped   string
}

// renderUnstreamed returns an unstreamed response.
func (w *chatWriter) renderUnstreamed(choices []generate.ChoicePlan) []byte {
	var all []string
	for i := range choices {
		all = append(all, w.choiceJSON(w.collectChoice(i, &choices[i])))
	}
	usage := w.usageJSON()
	if w.state.Faults.Usage == fault.UsageNever {
		usage = ""
	}
	form := pages.RenderCached("chat", "whole", unstreamedAnswerData{w.p.Family, framePlaceholder, textPlaceholder, markIfNotEmpty(usage, usagePlaceholder), tookPlaceholder})
	return []byte(replacePlaceholders(form, framePlaceholder, w.envelopeMembers("chat.completion"), usagePlaceholder, usage, tookPlaceholder, string(w.state.Timings()),
		textPlaceholder, strings.Join(all, ",")))
}

func (w *chatWriter) choiceJSON(m choiceMessage) string {
	// These messages have an unlimited number of variants, so they are not cached.
	if m.Calls != "" || m.Logprobs != "" || m.Stopped != "" {
		return string(pages.RenderAnswer("chat", "choice", m))
	}
	form := m
	form.Text, form.Thought = markIfNotEmpty(m.Text, textPlaceholder), markIfNotEmpty(m.Thought, thoughtPlaceholder)
	return replacePlaceholders(pages.RenderCached("chat", "choice", form), thoughtPlaceholder, m.Thought, textPlaceholder, m.Text)
}

// collectChoice runs the plan of a choice to its end.
func (w *chatWriter) collectChoice(index int, c *generate.ChoicePlan) choiceMessage {
	m := choiceMessage{
		Index: index, Family: w.p.Family, Reasoning: w.p.Reasoning, Legacy: w.legacy,
		Finish: c.Finish, Stopped: c.Stopped,
	}
	if w.state.Faults.NoFinish {
		m.Finish = ""
	}
	var text, thought []byte
	var tokens []textgen.Token
	args := map[int][]byte{}
	for p, ok := c.Next(); ok; p, ok = c.Next() {
		switch p.Kind {
		case profile.PieceText:
			text = append(text, p.Escaped...)
			tokens = append(tokens, p.Token)
		case profile.PieceThought:
			if !w.q.ExcludeReasoning {
				thought = append(thought, p.Escaped...)
			}
		case profile.PieceCompleteCall:
			args[p.Call] = wire.AppendEscaped(nil, w.state.Calls[p.Call].Args)
		default:
			args[p.Call] = append(args[p.Call], p.Escaped...)
		}
	}
	m.Text, m.Thought = string(text), string(thought)
	var calls []string
	for i, c := range w.state.Calls {
		if text, begun := args[i]; begun {
			calls = append(calls, string(pages.RenderAnswer("chat", "said-call", delta{
				Family: w.p.Family, Call: i, ID: c.ID, Name: c.Name, Text: string(text),
			})))
		}
	}
	m.Calls = strings.Join(calls, ",")
	if w.q.Logprobs && m.Calls == "" {
		m.Logprobs = w.logprobsJSON(tokens)
	}
	return m
}
