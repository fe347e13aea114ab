package sim

import (
	"strconv"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// plain says everything at once, when it is time.
func (a *answer) plain() {
	x := a.x
	steps := 0
	for i := range a.choices {
		steps = max(steps, a.choices[i].total)
	}
	if !a.think(steps) || x.client.hasLeft() {
		return
	}
	if a.voice != nil {
		body := a.voice.whole(&a.choices[0])
		a.release()
		x.json(200, body)
		return
	}
	all := make([]said, len(a.choices))
	for i := range a.choices {
		all[i] = a.collect(&a.choices[i])
	}
	usage := a.usage()
	if x.t.Usage == fault.UsageNever {
		usage = nil
	}
	body := a.body(all, usage)
	a.release()
	x.json(200, body)
}

// collect runs a script to its end.
func (a *answer) collect(c *generationPlan) said {
	m := said{finish: c.finish, stopped: c.stopped}
	if a.x.t.NoFinish {
		m.finish = ""
	}
	args := make([][]byte, len(a.q.calls))
	begun := make([]bool, len(a.q.calls))
	for p, ok := c.next(); ok; p, ok = c.next() {
		switch p.Kind {
		case profile.PieceText:
			m.text = append(m.text, p.Escaped...)
			if a.q.logprobs {
				m.tokens = append(m.tokens, p.Word)
			}
		case profile.PieceThought:
			if !a.q.hush {
				m.thought = append(m.thought, p.Escaped...)
			}
		case profile.PieceWhole:
			begun[p.Call] = true
			args[p.Call] = wire.AppendEscaped(nil, a.q.calls[p.Call].Args)
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
		m.calls = a.appendCall(m.calls, i, args[i])
	}
	return m
}

func (a *answer) appendCall(dst []byte, i int, args []byte) []byte {
	c := &a.q.calls[i]
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, c.ID)
	if a.x.p.Family == "ollama" || a.x.p.Family == "sglang" {
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = wire.AppendString(dst, c.Name)
	dst = append(dst, `,"arguments":"`...)
	dst = append(dst, args...)
	return append(dst, `"}}`...)
}

// body writes a plain answer.
func (a *answer) body(all []said, usage []byte) []byte {
	object := "chat.completion"
	if a.s.Legacy {
		object = "text_completion"
	}
	dst := []byte{'{'}
	if a.x.p.Family != "llamacpp" {
		dst = a.s.AppendHead(dst, object)
		dst = append(dst, ',')
	}
	dst = append(dst, `"choices":[`...)
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendChoice(dst, i, &all[i])
	}
	dst = append(dst, ']')
	if a.x.p.Family == "llamacpp" {
		dst = append(dst, ',')
		dst = a.s.AppendTail(dst, object)
	}
	if usage != nil {
		dst = append(dst, `,"usage":`...)
		dst = append(dst, usage...)
	}
	switch a.x.p.Family {
	case "vllm":
		dst = append(dst, `,"prompt_logprobs":null,"kv_transfer_params":null`...)
	case "llamacpp":
		dst = append(dst, `,"timings":`...)
		dst = append(dst, a.timings()...)
	case "lmstudio":
		dst = append(dst, `,"stats":{}`...)
	}
	return append(dst, '}')
}

func (a *answer) appendChoice(dst []byte, i int, m *said) []byte {
	p := a.x.p
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	if a.s.Legacy {
		dst = append(dst, `,"text":"`...)
		dst = append(dst, m.text...)
		dst = append(dst, '"')
	} else {
		dst = append(dst, `,"message":`...)
		dst = a.appendMessage(dst, m)
	}
	var logprobs []byte
	if a.q.logprobs && len(m.calls) == 0 {
		logprobs = a.logprobs(m.tokens)
	}
	if len(logprobs) > 0 || !p.Is("ollama llamacpp") || a.s.Legacy && p.Family != "ollama" {
		dst = append(dst, `,"logprobs":`...)
		dst = profile.AppendOrNull(dst, logprobs)
	}
	dst = append(dst, `,"finish_reason":`...)
	dst = profile.AppendFinish(dst, m.finish)
	switch p.Family {
	case "vllm":
		dst = append(dst, `,"stop_reason":`...)
		dst = profile.AppendFinish(dst, m.stopped)
	case "trtllm":
		dst = append(dst, `,"stop_reason":`...)
		dst = profile.AppendFinish(dst, m.stopped)
		dst = append(dst, `,"disaggregated_params":null`...)
	case "sglang":
		dst = append(dst, `,"matched_stop":`...)
		dst = profile.AppendFinish(dst, m.stopped)
	}
	return append(dst, '}')
}

// appendMessage writes the message of a plain answer.
func (a *answer) appendMessage(dst []byte, m *said) []byte {
	p := a.x.p
	dst = append(dst, `{"role":"assistant"`...)
	mute := len(m.calls) > 0 && len(m.text) == 0
	switch {
	case mute && p.Family == "tgi": // a call is another kind of message there
	case mute && p.Is("vllm openai sglang"):
		dst = append(dst, `,"content":null`...)
	default:
		dst = append(dst, `,"content":"`...)
		dst = append(dst, m.text...)
		dst = append(dst, '"')
	}
	if p.Is("openai vllm") {
		dst = append(dst, `,"refusal":null`...)
	}
	if p.Family == "vllm" {
		dst = append(dst, `,"annotations":null,"audio":null,"function_call":null`...)
	}
	if len(m.calls) > 0 || p.Is("vllm trtllm lmstudio") {
		dst = append(dst, `,"tool_calls":[`...)
		dst = append(dst, m.calls...)
		dst = append(dst, ']')
	}
	switch {
	case len(m.thought) > 0 || p.Family == "trtllm":
		dst = append(dst, `,"`...)
		dst = append(dst, p.Reasoning...)
		dst = append(dst, `":"`...)
		dst = append(dst, m.thought...)
		dst = append(dst, '"')
	case p.Family == "vllm":
		dst = append(dst, `,"`...)
		dst = append(dst, p.Reasoning...)
		dst = append(dst, `":null`...)
	}
	return append(dst, '}')
}
