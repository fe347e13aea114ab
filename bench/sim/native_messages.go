package sim

import (
	"fmt"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// What Messages says, as one engine and another says it.

// message is a whole answer.
func (v *dialectWriter) message() []byte {
	o := wire.Members{'{'}
	v.envelope(&o)
	o.Raw("content", "[")
	for at := range v.items {
		if at > 0 {
			o = append(o, ',')
		}
		o = append(o, v.block(at, true)...)
	}
	o = append(o, ']')
	v.stop(&o)
	o.Raw("usage", v.usage(false))
	return append(o, '}')
}

// opening is the message at the beginning of a stream.
func (v *dialectWriter) opening() []byte {
	o := wire.Members{'{'}
	v.envelope(&o)
	o.Raw("content", "[]")
	if !v.is("ollama") {
		o.Raw("stop_reason", "null")
		o.Raw("stop_sequence", "null")
	}
	o.Raw("usage", v.usage(false))
	return append(o, '}')
}

func (v *dialectWriter) envelope(o *wire.Members) {
	o.Text("id", v.a.s.ID)
	o.Text("type", "message")
	o.Text("role", "assistant")
	o.Text("model", v.a.s.Model)
}

// ending is the delta of the event before the last.
func (v *dialectWriter) ending() []byte {
	o := wire.Members{'{'}
	v.stop(&o)
	return append(o, '}')
}

func (v *dialectWriter) stop(o *wire.Members) {
	o.Text("stop_reason", v.reason())
	if !v.is("ollama") {
		o.OrNull("stop_sequence", v.stopped)
	}
}

func (v *dialectWriter) reason() string {
	switch {
	case v.finish == "length":
		return "max_tokens"
	case v.finish == "content_filter":
		return "refusal"
	case len(v.calls) > 0:
		return "tool_use"
	case v.stopped != "":
		return "stop_sequence"
	}
	return "end_turn"
}

// usage tells the counts; last: in message_delta, where llama.cpp says only what came since the
// beginning.
func (v *dialectWriter) usage(last bool) string {
	a := v.a
	switch {
	case a.x.t.Usage == fault.UsageNever:
		return "null"
	case last && v.is("llamacpp"):
		return fmt.Sprintf(`{"output_tokens":%d}`, a.spoken)
	case v.is("ollama"):
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, a.prompt, a.spoken)
	}
	return fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`, a.prompt-a.cached, a.cached,
		a.spoken)
}

// block is a block, at its beginning or with all that it says.
func (v *dialectWriter) block(at int, whole bool) []byte {
	it := &v.items[at]
	said := it.said
	if !whole {
		said = nil
	}
	switch it.kind {
	case profile.PieceText:
		return fmt.Appendf(nil, `{"type":"text","text":"%s"}`, said)
	case profile.PieceThought:
		b := fmt.Appendf(nil, `{"type":"thinking","thinking":"%s"`, said)
		if !v.is("ollama") && (whole || !v.is("llamacpp")) {
			b = append(b, `,"signature":""`...)
		}
		return append(b, '}')
	}
	c := &v.a.q.calls[it.call]
	b := fmt.Appendf(nil, `{"type":"tool_use","id":%s,"name":%s`, quoted(c.ID), quoted(c.Name))
	if !whole && v.is("llamacpp") {
		return append(b, '}')
	}
	input := []byte("{}")
	if whole {
		if s, err := fastjson.ParseBytes(append(append([]byte{'"'}, said...), '"')); err == nil &&
			len(s.GetStringBytes()) > 0 {
			input = s.GetStringBytes()
		}
	}
	return fmt.Appendf(b, `,"input":%s}`, input)
}

// closeBlock ends a block.
func (v *dialectWriter) closeBlock(at int, it *item) bool {
	if it.kind == profile.PieceThought && !v.is("ollama") && !v.event("content_block_delta",
		`,"index":%d,"delta":{"type":"signature_delta","signature":"c2ln"}`, at) {
		return false
	}
	return v.event("content_block_stop", `,"index":%d`, at)
}

// nativeError writes an error as the dialect has it; false: the profile's own shape is it, on
// Responses too.
func nativeError(x *exchange, a profile.APIError) ([]byte, bool) {
	if x.dialect != dialectMessages || x.p.Family == "llamacpp" {
		return nil, false
	}
	kind := a.Kind
	switch {
	case kind != "":
	case a.Status == 404:
		kind = "not_found_error"
	case a.Status == 429:
		kind = "rate_limit_error"
	case a.Status == 503 || a.Status == 529:
		kind = "overloaded_error"
	case a.Status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	dst := fmt.Appendf(nil, `{"type":"error","error":{"type":%s,"message":%s}`, quoted(kind), quoted(a.Message))
	if x.p.Family == "ollama" {
		dst = fmt.Appendf(dst, `,"request_id":"req_%s"`, profile.Hex32(x.e.nextID())[:24])
	}
	return append(dst, '}'), true
}
