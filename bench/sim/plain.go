package sim

import (
	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// plainAnswer is a plain answer as templates see it.
type plainAnswer struct {
	Family, Frame, Usage, Took string
	Choices                    []said
}

// said is a choice's whole message. Texts are the insides of JSON strings.
type said struct {
	Index             int
	Family, Reasoning string
	Legacy            bool
	Text, Thought     string
	Calls             []saidCall
	Logprobs          string // as JSON
	Finish, Stopped   string
}

type saidCall struct {
	Index          int
	ID, Name, Args string
}

// whole is a plain answer.
func (w *chatWriter) whole(choices []generate.Plan) []byte {
	c := plainAnswer{Family: w.Profile.Family, Frame: w.Frame("chat.completion"), Took: string(w.told.Timings())}
	for i := range choices {
		c.Choices = append(c.Choices, w.collect(i, &choices[i]))
	}
	if w.told.Faults.Usage != fault.UsageNever {
		c.Usage = string(w.usage())
	}
	return pages.Tell("chat", "whole", c)
}

// collect runs a choice's plan to its end.
func (w *chatWriter) collect(index int, c *generate.Plan) said {
	m := said{
		Index: index, Family: w.Profile.Family, Reasoning: w.Profile.Reasoning, Legacy: w.Legacy,
		Finish: c.Finish, Stopped: c.Stopped,
	}
	if w.told.Faults.NoFinish {
		m.Finish = ""
	}
	var text, thought []byte
	var tokens []textgen.Word
	args := map[int][]byte{}
	for p, ok := c.Next(); ok; p, ok = c.Next() {
		switch p.Kind {
		case profile.PieceText:
			text = append(text, p.Escaped...)
			tokens = append(tokens, p.Word)
		case profile.PieceThought:
			if !w.q.Hush {
				thought = append(thought, p.Escaped...)
			}
		case profile.PieceWhole:
			args[p.Call] = wire.AppendEscaped(nil, w.told.Calls[p.Call].Args)
		default:
			args[p.Call] = append(args[p.Call], p.Escaped...)
		}
	}
	m.Text, m.Thought = string(text), string(thought)
	for i := range w.told.Calls {
		if said, begun := args[i]; begun {
			m.Calls = append(m.Calls, saidCall{i, w.told.Calls[i].ID, w.told.Calls[i].Name, string(said)})
		}
	}
	if w.q.Logprobs && len(m.Calls) == 0 {
		m.Logprobs = string(w.logprobs(tokens))
	}
	return m
}
