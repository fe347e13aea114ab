package sim

import (
	"fmt"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// What Responses says, as one engine and another says it.

// stage is how far an item has come when it is shown.
type stage uint8

const (
	stageAdded stage = iota // at its beginning
	stageDone               // at its end
	stageWhole              // in a whole answer
)

// place says where an item stands; content: which part of it, too. llama.cpp says neither.
func (v *dialectWriter) place(at int, content bool) string {
	switch {
	case v.is("llamacpp"):
		return ""
	case content:
		return fmt.Sprintf(`,"output_index":%d,"content_index":0`, at)
	}
	return fmt.Sprintf(`,"output_index":%d`, at)
}

// of names an item and says where it stands; within does so for its one part.
func (v *dialectWriter) of(at int) string {
	return fmt.Sprintf(`,"item_id":"item_%d"%s`, at, v.place(at, false))
}

func (v *dialectWriter) within(at int) string {
	return fmt.Sprintf(`,"item_id":"item_%d"%s`, at, v.place(at, true))
}

// logprobs is the empty list that Ollama puts beside every text.
func (v *dialectWriter) logprobs() string {
	if v.is("ollama") {
		return `,"logprobs":[]`
	}
	return ""
}

// part is a part of text; before it is done llama.cpp tells less of it.
func (v *dialectWriter) part(said []byte, s stage) string {
	more := ""
	if v.is("ollama") || s != stageAdded {
		more = `,"annotations":[]`
		if v.is("ollama llamacpp") {
			more += `,"logprobs":[]`
		}
	}
	return fmt.Sprintf(`{"type":"output_text","text":"%s"%s}`, said, more)
}

// closeItem ends an item.
func (v *dialectWriter) closeItem(at int, it *item) bool {
	ok := true
	switch {
	case it.kind == profile.PieceText:
		ok = v.event("response.output_text.done", `%s,"text":"%s"%s`, v.within(at), it.said, v.logprobs()) &&
			v.event("response.content_part.done", `%s,"part":%s`, v.within(at), v.part(it.said, stageDone))
	case it.kind == profile.PieceCall && !v.is("llamacpp"):
		ok = v.event("response.function_call_arguments.done", `%s,"arguments":"%s"`, v.of(at), it.said)
	case it.kind == profile.PieceThought && v.is("ollama"):
		ok = v.event("response.reasoning_summary_text.done", `%s,"summary_index":0,"text":"%s"`, v.of(at), it.said)
	}
	return ok && v.event("response.output_item.done", `%s,"item":%s`, v.place(at, false), v.item(at, stageDone))
}

// item is an output item.
func (v *dialectWriter) item(at int, s stage) []byte {
	it := &v.items[at]
	said := it.said
	if s == stageAdded {
		said = nil
	}
	o := wire.Members{'{'}
	o.Text("id", fmt.Sprintf("item_%d", at))
	if it.kind == profile.PieceThought {
		v.thought(&o, said, s)
		return append(o, '}')
	}
	o.Text("status", map[bool]string{true: "in_progress", false: "completed"}[s == stageAdded])
	if it.kind == profile.PieceText {
		o.Text("type", "message")
		o.Text("role", "assistant")
		o.Raw("content", "[")
		if s != stageAdded {
			o = append(o, v.part(said, s)...)
		}
		return append(o, "]}"...)
	}
	c := &v.a.q.calls[it.call]
	o.Text("type", "function_call")
	o.Text("call_id", c.ID)
	o.Text("name", c.Name)
	o.Raw("arguments", `"`+string(said)+`"`)
	return append(o, '}')
}

// thought is the inside of a reasoning item: Ollama's thoughts are a summary, llama.cpp's are the
// content.
func (v *dialectWriter) thought(o *wire.Members, said []byte, s stage) {
	o.Text("type", "reasoning")
	summary := fmt.Sprintf(`[{"type":"summary_text","text":"%s"}]`, said)
	content := fmt.Sprintf(`[{"type":"reasoning_text","text":"%s"}]`, said)
	if s == stageAdded {
		summary, content = "[]", "[]"
	}
	switch {
	case v.is("ollama"):
		o.Raw("summary", summary)
		if s != stageAdded {
			o.Raw("encrypted_content", `"`+string(said)+`"`)
		}
		return
	case v.is("llamacpp"):
		o.Raw("summary", "[]")
		o.Text("encrypted_content", "")
	default:
		o.Raw("summary", summary)
	}
	o.Raw("content", content)
	switch {
	case s == stageAdded:
		o.Text("status", "in_progress")
	case s == stageWhole || !v.is("llamacpp"):
		o.Text("status", "completed")
	}
}

// status is how the answer ended. llama.cpp and Ollama call one completed that was cut.
func (v *dialectWriter) status() string {
	if (v.finish == "length" || v.finish == "content_filter") && !v.is("llamacpp ollama") {
		return "incomplete"
	}
	return "completed"
}

// ollamaEcho is what Ollama repeats of a request, or says in the place of what was not said.
const ollamaEcho = `,"previous_response_id":null,"instructions":null,"tools":[],"tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,` +
	`"text":{"format":{"type":"text"}},"top_p":1,"presence_penalty":0,"frequency_penalty":0,"top_logprobs":0,"temperature":1,"reasoning":null,` +
	`"max_tool_calls":null,"store":false,"background":false,"service_tier":"default","metadata":{},"safety_identifier":null,"prompt_cache_key":null`

// response is the answer as it stands.
func (v *dialectWriter) response(status string) []byte {
	a := v.a
	begun := status == "in_progress"
	o := wire.Members{'{'}
	o.Text("id", "resp_"+a.s.ID)
	o.Text("object", "response")
	o.Text("status", status)
	if begun && v.is("llamacpp") {
		return append(o, '}')
	}
	o.Number("created_at", int(a.s.Created))
	o.Text("model", a.s.Model)
	o.Raw("output", "[")
	for at := range v.items {
		if at > 0 {
			o = append(o, ',')
		}
		s := stageWhole
		if a.stream {
			s = stageDone
		}
		o = append(o, v.item(at, s)...)
	}
	o = append(o, ']')
	counts := v.counts()
	if begun {
		counts = "null"
	}
	o.Raw("usage", counts)
	if v.is("llamacpp") {
		if !a.stream {
			o.Number("completed_at", int(now()))
		}
		return append(o, '}')
	}
	details := "null"
	switch {
	case status != "incomplete":
	case v.finish == "length":
		details = `{"reason":"max_output_tokens"}`
	default:
		details = `{"reason":"content_filter"}`
	}
	o.Raw("incomplete_details", details)
	o.Raw("error", "null")
	if v.is("ollama") {
		o = append(o, ollamaEcho...)
		if begun {
			o.Raw("completed_at", "null")
		} else {
			o.Number("completed_at", int(now()))
		}
		if a.q.max < 0 {
			o.Raw("max_output_tokens", "null")
		} else {
			o.Number("max_output_tokens", a.q.max)
		}
	}
	return append(o, '}')
}

// counts is the usage.
func (v *dialectWriter) counts() string {
	a := v.a
	if a.x.t.Usage == fault.UsageNever {
		return "null"
	}
	thoughts := ""
	if !v.is("llamacpp") {
		thoughts = fmt.Sprintf(`,"output_tokens_details":{"reasoning_tokens":%d}`, a.thought)
	}
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d%s,"total_tokens":%d}`,
		a.prompt, a.cached, a.spoken, thoughts, a.prompt+a.spoken)
}
