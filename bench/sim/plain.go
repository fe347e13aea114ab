package sim

import (
	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// said is a choice's whole message.
type said struct {
	text, thought []byte // as the insides of JSON strings
	calls         []byte // elements of tool_calls
	tokens        []textgen.Word
	finish        string
	stopped       string
}

// whole is a plain answer.
func (w *chatWriter) whole(choices []generate.Plan) []byte {
	all := make([]said, len(choices))
	for i := range choices {
		all[i] = w.collect(&choices[i])
	}
	usage := w.usage()
	if w.told.Faults.Usage == fault.UsageNever {
		usage = nil
	}
	return w.body(all, usage)
}

// collect runs a script to its end.
func (w *chatWriter) collect(c *generate.Plan) said {
	m := said{finish: c.Finish, stopped: c.Stopped}
	if w.told.Faults.NoFinish {
		m.finish = ""
	}
	args := make([][]byte, len(w.told.Calls))
	begun := make([]bool, len(w.told.Calls))
	for p, ok := c.Next(); ok; p, ok = c.Next() {
		switch p.Kind {
		case profile.PieceText:
			m.text = append(m.text, p.Escaped...)
			if w.q.Logprobs {
				m.tokens = append(m.tokens, p.Word)
			}
		case profile.PieceThought:
			if !w.q.Hush {
				m.thought = append(m.thought, p.Escaped...)
			}
		case profile.PieceWhole:
			begun[p.Call] = true
			args[p.Call] = wire.AppendEscaped(nil, w.told.Calls[p.Call].Args)
		default:
			begun[p.Call] = true
			args[p.Call] = append(args[p.Call], p.Escaped...)
		}
	}
	for i, is := range begun {
		if !is {
			continue
		}
		if len(m.calls) > 0 {
			m.calls = append(m.calls, ',')
		}
		m.calls = w.appendCall(m.calls, i, args[i])
	}
	return m
}

func (w *chatWriter) appendCall(dst []byte, i int, args []byte) []byte {
	c, o := &w.told.Calls[i], wire.Members(dst)
	o.Add(`{"id":`).Quote(c.ID)
	if w.Profile.Family == "ollama" || w.Profile.Family == "sglang" {
		o.Add(`,"index":`).Int(i)
	}
	return *o.Add(`,"type":"function","function":{"name":`).Quote(c.Name).Add(`,"arguments":"`, string(args), `"}}`)
}

// body writes a plain answer.
func (w *chatWriter) body(all []said, usage []byte) []byte {
	object := "chat.completion"
	if w.Legacy {
		object = "text_completion"
	}
	o := wire.Members{'{'}
	if w.Profile.Family != "llamacpp" {
		w.Head(&o, object)
		o.Add(`,`)
	}
	o.Add(`"choices":[`)
	for i := range all {
		if i > 0 {
			o.Add(`,`)
		}
		w.appendChoice(&o, i, &all[i])
	}
	o.Add(`]`)
	if w.Profile.Family == "llamacpp" {
		o.Add(`,`)
		w.Tail(&o, object)
	}
	if usage != nil {
		o.Add(`,"usage":`).JSON(usage)
	}
	switch w.Profile.Family {
	case "vllm":
		o.Add(`,"prompt_logprobs":null,"kv_transfer_params":null`)
	case "llamacpp":
		o.Add(`,"timings":`).JSON(w.told.Timings())
	case "lmstudio":
		o.Add(`,"stats":{}`)
	}
	return append(o, '}')
}

func (w *chatWriter) appendChoice(o *wire.Members, i int, m *said) {
	p := w.Profile
	o.Add(`{"index":`).Int(i)
	if w.Legacy {
		o.Add(`,"text":"`, string(m.text), `"`)
	} else {
		o.Add(`,"message":`)
		w.appendMessage(o, m)
	}
	var logprobs []byte
	if w.q.Logprobs && len(m.calls) == 0 {
		logprobs = w.logprobs(m.tokens)
	}
	if len(logprobs) > 0 || !p.Is("ollama llamacpp") || w.Legacy && p.Family != "ollama" {
		o.Add(`,"logprobs":`).JSON(logprobs)
	}
	o.Add(`,"finish_reason":`).QuoteOrNull(m.finish)
	switch p.Family {
	case "vllm":
		o.Add(`,"stop_reason":`).QuoteOrNull(m.stopped)
	case "trtllm":
		o.Add(`,"stop_reason":`).QuoteOrNull(m.stopped).Add(`,"disaggregated_params":null`)
	case "sglang":
		o.Add(`,"matched_stop":`).QuoteOrNull(m.stopped)
	}
	o.Add(`}`)
}

// appendMessage writes the message of a plain answer.
func (w *chatWriter) appendMessage(o *wire.Members, m *said) {
	p := w.Profile
	o.Add(`{"role":"assistant"`)
	mute := len(m.calls) > 0 && len(m.text) == 0
	switch {
	case mute && p.Family == "tgi": // a call is another kind of message there
	case mute && p.Is("vllm openai sglang"):
		o.Add(`,"content":null`)
	default:
		o.Add(`,"content":"`, string(m.text), `"`)
	}
	if p.Is("openai vllm") {
		o.Add(`,"refusal":null`)
	}
	if p.Family == "vllm" {
		o.Add(`,"annotations":null,"audio":null,"function_call":null`)
	}
	if len(m.calls) > 0 || p.Is("vllm trtllm lmstudio") {
		o.Add(`,"tool_calls":[`, string(m.calls), `]`)
	}
	switch {
	case len(m.thought) > 0 || p.Family == "trtllm":
		o.Add(`,"`, p.Reasoning, `":"`, string(m.thought), `"`)
	case p.Family == "vllm":
		o.Add(`,"`, p.Reasoning, `":null`)
	}
	o.Add(`}`)
}
