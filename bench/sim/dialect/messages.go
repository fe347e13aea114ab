package dialect

import (
	"fmt"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
)

// messages is the shape of Messages.
type messages struct {
	*Answer
	said *content
}

func (m *messages) event(name, format string, args ...any) bool {
	return m.Event(name, fmt.Appendf(nil, `{"type":"`+name+`"`+format+`}`, args...))
}

func (m *messages) begin() bool {
	stop := `"stop_reason":null,"stop_sequence":null,`
	if m.is("ollama") {
		stop = ""
	}
	return m.event("message_start", `,"message":{%s,"content":[],%s"usage":%s}`, m.envelope(), stop, m.usage(false))
}

func (m *messages) whole() []byte {
	return fmt.Appendf(nil, `{%s,"content":[%s],%s,"usage":%s}`, m.envelope(),
		m.said.each(func(at int) []byte { return m.block(at, true) }), m.stop(), m.usage(false))
}

func (m *messages) envelope() string {
	return fmt.Sprintf(`"id":%s,"type":"message","role":"assistant","model":%s`, quoted(m.ID), quoted(m.Model))
}

func (m *messages) open(at int) bool {
	return m.event("content_block_start", `,"index":%d,"content_block":%s`, at, m.block(at, false))
}

func (m *messages) delta(at int, text string) bool {
	member := `input_json_delta","partial_json`
	switch m.said.items[at].kind {
	case profile.PieceText:
		member = `text_delta","text`
	case profile.PieceThought:
		member = `thinking_delta","thinking`
	}
	return m.event("content_block_delta", `,"index":%d,"delta":{"type":"%s":"%s"}`, at, member, text)
}

func (m *messages) closed(at int) bool {
	if m.said.items[at].kind == profile.PieceThought && !m.is("ollama") && !m.event("content_block_delta",
		`,"index":%d,"delta":{"type":"signature_delta","signature":"c2ln"}`, at) {
		return false
	}
	return m.event("content_block_stop", `,"index":%d`, at)
}

func (m *messages) end() bool {
	return m.event("message_delta", `,"delta":{%s},"usage":%s`, m.stop(), m.usage(true))
}

func (m *messages) done() bool { return m.event("message_stop", "") }

// stop tells why the answer ended.
func (m *messages) stop() string {
	reason := "end_turn"
	switch {
	case m.said.finish == "length":
		reason = "max_tokens"
	case m.said.finish == "content_filter":
		reason = "refusal"
	case len(m.said.calls) > 0:
		reason = "tool_use"
	case m.said.stopped != "":
		reason = "stop_sequence"
	}
	sequence := `,"stop_sequence":null`
	switch {
	case m.is("ollama"):
		sequence = ""
	case m.said.stopped != "":
		sequence = `,"stop_sequence":` + quoted(m.said.stopped)
	}
	return `"stop_reason":"` + reason + `"` + sequence
}

// usage tells the counts; last: in message_delta, where llama.cpp says only what came since the
// beginning.
func (m *messages) usage(last bool) string {
	switch {
	case m.Faults.Usage == fault.UsageNever:
		return "null"
	case last && m.is("llamacpp"):
		return fmt.Sprintf(`{"output_tokens":%d}`, m.Spoken)
	case m.is("ollama"):
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, m.Prompt, m.Spoken)
	}
	return fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`, m.Prompt-m.Cached, m.Cached,
		m.Spoken)
}

// block is a block, at its beginning or with all that it says.
func (m *messages) block(at int, whole bool) []byte {
	it := &m.said.items[at]
	said := it.said
	if !whole {
		said = nil
	}
	switch it.kind {
	case profile.PieceText:
		return fmt.Appendf(nil, `{"type":"text","text":"%s"}`, said)
	case profile.PieceThought:
		signature := ""
		if !m.is("ollama") && (whole || !m.is("llamacpp")) {
			signature = `,"signature":""`
		}
		return fmt.Appendf(nil, `{"type":"thinking","thinking":"%s"%s}`, said, signature)
	}
	c := &m.Calls[it.call]
	input := `,"input":{}`
	if !whole && m.is("llamacpp") {
		input = ""
	}
	if whole {
		s, err := fastjson.ParseBytes(append(append([]byte{'"'}, said...), '"'))
		if err == nil && len(s.GetStringBytes()) > 0 {
			input = `,"input":` + string(s.GetStringBytes())
		}
	}
	return fmt.Appendf(nil, `{"type":"tool_use","id":%s,"name":%s%s}`, quoted(c.ID), quoted(c.Name), input)
}
