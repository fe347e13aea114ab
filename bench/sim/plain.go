package sim

import (
	"strconv"

	"penstock/bench/sim/wire"
)

// plain says everything at once, when it is time.
func (a *answer) plain() {
	x := a.x
	steps := 0
	for i := range a.choices {
		steps = max(steps, a.choices[i].total)
	}
	if !a.think(steps) || x.hasLeft() {
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
	if x.t.usage == usageNever {
		usage = nil
	}
	body := a.body(all, usage)
	a.release()
	x.json(200, body)
}

// collect runs a script to its end.
func (a *answer) collect(c *generationPlan) said {
	m := said{finish: c.finish, stopped: c.stopped}
	if a.x.t.noFinish {
		m.finish = ""
	}
	args := make([][]byte, len(a.q.calls))
	begun := make([]bool, len(a.q.calls))
	for p, ok := c.next(); ok; p, ok = c.next() {
		switch p.kind {
		case pieceText:
			m.text = append(m.text, p.Escaped...)
			if a.q.logprobs {
				m.tokens = append(m.tokens, p.Word)
			}
		case pieceThought:
			if !a.q.hush {
				m.thought = append(m.thought, p.Escaped...)
			}
		case pieceWhole:
			begun[p.call] = true
			args[p.call] = wire.AppendEscaped(nil, a.q.calls[p.call].args)
		default:
			begun[p.call] = true
			args[p.call] = append(args[p.call], p.Escaped...)
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
	dst = wire.AppendString(dst, c.id)
	if a.x.p.family == "ollama" || a.x.p.family == "sglang" {
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = wire.AppendString(dst, c.name)
	dst = append(dst, `,"arguments":"`...)
	dst = append(dst, args...)
	return append(dst, `"}}`...)
}

// body writes a plain answer.
func (a *answer) body(all []said, usage []byte) []byte {
	object := "chat.completion"
	if a.s.legacy {
		object = "text_completion"
	}
	dst := []byte{'{'}
	if a.x.p.family != "llamacpp" {
		dst = a.s.appendHead(dst, object)
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
	if a.x.p.family == "llamacpp" {
		dst = append(dst, ',')
		dst = a.s.appendTail(dst, object)
	}
	if usage != nil {
		dst = append(dst, `,"usage":`...)
		dst = append(dst, usage...)
	}
	switch a.x.p.family {
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
	if a.s.legacy {
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
	if len(logprobs) > 0 || !p.is("ollama llamacpp") || a.s.legacy && p.family != "ollama" {
		dst = append(dst, `,"logprobs":`...)
		dst = appendOrNull(dst, logprobs)
	}
	dst = append(dst, `,"finish_reason":`...)
	dst = appendFinish(dst, m.finish)
	switch p.family {
	case "vllm":
		dst = append(dst, `,"stop_reason":`...)
		dst = appendFinish(dst, m.stopped)
	case "trtllm":
		dst = append(dst, `,"stop_reason":`...)
		dst = appendFinish(dst, m.stopped)
		dst = append(dst, `,"disaggregated_params":null`...)
	case "sglang":
		dst = append(dst, `,"matched_stop":`...)
		dst = appendFinish(dst, m.stopped)
	}
	return append(dst, '}')
}

// appendMessage writes the message of a plain answer.
func (a *answer) appendMessage(dst []byte, m *said) []byte {
	p := a.x.p
	dst = append(dst, `{"role":"assistant"`...)
	mute := len(m.calls) > 0 && len(m.text) == 0
	switch {
	case mute && p.family == "tgi": // a call is another kind of message there
	case mute && p.is("vllm openai sglang"):
		dst = append(dst, `,"content":null`...)
	default:
		dst = append(dst, `,"content":"`...)
		dst = append(dst, m.text...)
		dst = append(dst, '"')
	}
	if p.is("openai vllm") {
		dst = append(dst, `,"refusal":null`...)
	}
	if p.family == "vllm" {
		dst = append(dst, `,"annotations":null,"audio":null,"function_call":null`...)
	}
	if len(m.calls) > 0 || p.is("vllm trtllm lmstudio") {
		dst = append(dst, `,"tool_calls":[`...)
		dst = append(dst, m.calls...)
		dst = append(dst, ']')
	}
	switch {
	case len(m.thought) > 0 || p.family == "trtllm":
		dst = append(dst, `,"`...)
		dst = append(dst, p.reasoning...)
		dst = append(dst, `":"`...)
		dst = append(dst, m.thought...)
		dst = append(dst, '"')
	case p.family == "vllm":
		dst = append(dst, `,"`...)
		dst = append(dst, p.reasoning...)
		dst = append(dst, `":null`...)
	}
	return append(dst, '}')
}
