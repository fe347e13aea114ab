package dialect

import (
	"fmt"
	"strconv"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
)

// responses is the shape of Responses.
type responses struct {
	a    *Answer
	said *content
	told int // events so far
}

func (r *responses) is(families string) bool { return r.a.is(families) }

func (r *responses) event(name, format string, args ...any) bool {
	if !r.is("llamacpp") {
		format += `,"sequence_number":` + strconv.Itoa(r.told)
	}
	r.told++
	return r.a.Event("response."+name, fmt.Appendf(nil, `{"type":"response.`+name+`"`+format+`}`, args...))
}

func (r *responses) begin() bool {
	return r.event("created", `,"response":%s`, r.response("in_progress")) &&
		r.event("in_progress", `,"response":%s`, r.response("in_progress"))
}

func (r *responses) whole() []byte { return r.response(r.status()) }

func (r *responses) end() bool { return true }

func (r *responses) done() bool {
	var more []byte
	if r.is("llamacpp") {
		more = append([]byte(`,"timings":`), r.a.Timings()...)
	}
	return r.event(r.status(), `,"response":%s%s`, r.response(r.status()), more)
}

// stage is how far an item has come when it is shown.
type stage uint8

const (
	stageAdded stage = iota // at its beginning
	stageDone               // at its end
	stageWhole              // in a whole answer
)

// place says where an item stands. llama.cpp does not.
func (r *responses) place(at int) string {
	if r.is("llamacpp") {
		return ""
	}
	return fmt.Sprintf(`,"output_index":%d`, at)
}

// of names an item and says where it stands; within does so for its one part.
func (r *responses) of(at int) string { return fmt.Sprintf(`,"item_id":"item_%d"%s`, at, r.place(at)) }

func (r *responses) within(at int) string {
	if r.is("llamacpp") {
		return r.of(at)
	}
	return r.of(at) + `,"content_index":0`
}

// logprobs is the empty list that Ollama puts beside every text.
func (r *responses) logprobs() string {
	if r.is("ollama") {
		return `,"logprobs":[]`
	}
	return ""
}

// part is a part of text; before it is done llama.cpp tells less of it.
func (r *responses) part(said []byte, s stage) string {
	more := ""
	if r.is("ollama") || s != stageAdded {
		more = `,"annotations":[]`
		if r.is("ollama llamacpp") {
			more += `,"logprobs":[]`
		}
	}
	return fmt.Sprintf(`{"type":"output_text","text":"%s"%s}`, said, more)
}

func (r *responses) open(at int) bool {
	return r.event("output_item.added", `%s,"item":%s`, r.place(at), r.item(at, stageAdded)) &&
		(r.said.items[at].kind != profile.PieceText ||
			r.event("content_part.added", `%s,"part":%s`, r.within(at), r.part(nil, stageAdded)))
}

func (r *responses) delta(at int, text string) bool {
	switch kind := r.said.items[at].kind; {
	case kind == profile.PieceThought && r.is("ollama"):
		return r.event("reasoning_summary_text.delta", `%s,"summary_index":0,"delta":"%s"`, r.of(at), text)
	case kind == profile.PieceThought:
		return r.event("reasoning_text.delta", `%s,"delta":"%s"`, r.within(at), text)
	case kind == profile.PieceCall:
		return r.event("function_call_arguments.delta", `%s,"delta":"%s"`, r.of(at), text)
	}
	return r.event("output_text.delta", `%s,"delta":"%s"%s`, r.within(at), text, r.logprobs())
}

func (r *responses) closed(at int) bool {
	ok, it := true, &r.said.items[at]
	switch {
	case it.kind == profile.PieceText:
		ok = r.event("output_text.done", `%s,"text":"%s"%s`, r.within(at), it.said, r.logprobs()) &&
			r.event("content_part.done", `%s,"part":%s`, r.within(at), r.part(it.said, stageDone))
	case it.kind == profile.PieceCall && !r.is("llamacpp"):
		ok = r.event("function_call_arguments.done", `%s,"arguments":"%s"`, r.of(at), it.said)
	case it.kind == profile.PieceThought && r.is("ollama"):
		ok = r.event("reasoning_summary_text.done", `%s,"summary_index":0,"text":"%s"`, r.of(at), it.said)
	}
	return ok && r.event("output_item.done", `%s,"item":%s`, r.place(at), r.item(at, stageDone))
}

// item is an output item.
func (r *responses) item(at int, s stage) []byte {
	it := &r.said.items[at]
	said, status := it.said, "completed"
	if s == stageAdded {
		said, status = nil, "in_progress"
	}
	if it.kind == profile.PieceThought {
		return fmt.Appendf(nil, `{"id":"item_%d","type":"reasoning"%s}`, at, r.thought(said, s))
	}
	b := fmt.Appendf(nil, `{"id":"item_%d","status":"%s"`, at, status)
	if it.kind == profile.PieceText {
		text := ""
		if s != stageAdded {
			text = r.part(said, s)
		}
		return fmt.Appendf(b, `,"type":"message","role":"assistant","content":[%s]}`, text)
	}
	c := &r.a.Calls[it.call]
	return fmt.Appendf(b, `,"type":"function_call","call_id":%s,"name":%s,"arguments":"%s"}`, quoted(c.ID), quoted(c.Name),
		said)
}

// thought is the inside of a reasoning item: Ollama's thoughts are a summary, llama.cpp's are the
// content.
func (r *responses) thought(said []byte, s stage) string {
	summary := fmt.Sprintf(`[{"type":"summary_text","text":"%s"}]`, said)
	content := fmt.Sprintf(`[{"type":"reasoning_text","text":"%s"}]`, said)
	status := `,"status":"completed"`
	if s == stageAdded {
		summary, content, status = "[]", "[]", `,"status":"in_progress"`
	}
	switch {
	case r.is("ollama") && s == stageAdded:
		return `,"summary":` + summary
	case r.is("ollama"):
		return `,"summary":` + summary + `,"encrypted_content":"` + string(said) + `"`
	case r.is("llamacpp"):
		if s == stageDone {
			status = ""
		}
		return `,"summary":[],"encrypted_content":"","content":` + content + status
	}
	return `,"summary":` + summary + `,"content":` + content + status
}

// status is how the answer ended. llama.cpp and Ollama call one completed that was cut.
func (r *responses) status() string {
	if (r.said.finish == "length" || r.said.finish == "content_filter") && !r.is("llamacpp ollama") {
		return "incomplete"
	}
	return "completed"
}

// ollamaEcho is what Ollama repeats of a request, or says in the place of what was not said.
const ollamaEcho = `,"previous_response_id":null,"instructions":null,"tools":[],"tool_choice":"auto",` +
	`"truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"top_p":1,` +
	`"presence_penalty":0,"frequency_penalty":0,"top_logprobs":0,"temperature":1,"reasoning":null,` +
	`"max_tool_calls":null,"store":false,"background":false,"service_tier":"default","metadata":{},` +
	`"safety_identifier":null,"prompt_cache_key":null`

// response is the answer as it stands.
func (r *responses) response(status string) []byte {
	a, begun := r.a, status == "in_progress"
	b := fmt.Appendf(nil, `{"id":%s,"object":"response","status":"%s"`, quoted("resp_"+a.ID), status)
	if begun && r.is("llamacpp") {
		return append(b, '}')
	}
	s := stageWhole
	if a.Stream {
		s = stageDone
	}
	counts := "null"
	if !begun {
		counts = r.counts()
	}
	b = fmt.Appendf(b, `,"created_at":%d,"model":%s,"output":[%s],"usage":%s`, a.Created, quoted(a.Model),
		r.said.each(func(at int) []byte { return r.item(at, s) }), counts)
	completed := strconv.FormatInt(a.Now(), 10)
	if r.is("llamacpp") {
		if !a.Stream {
			b = append(b, `,"completed_at":`+completed...)
		}
		return append(b, '}')
	}
	details := "null"
	switch {
	case status != "incomplete":
	case r.said.finish == "length":
		details = `{"reason":"max_output_tokens"}`
	default:
		details = `{"reason":"content_filter"}`
	}
	b = append(b, `,"incomplete_details":`+details+`,"error":null`...)
	if r.is("ollama") {
		limit := "null"
		if a.Max >= 0 {
			limit = strconv.Itoa(a.Max)
		}
		if begun {
			completed = "null"
		}
		b = append(b, ollamaEcho+`,"completed_at":`+completed+`,"max_output_tokens":`+limit...)
	}
	return append(b, '}')
}

// counts is the usage.
func (r *responses) counts() string {
	a := r.a
	if a.Faults.Usage == fault.UsageNever {
		return "null"
	}
	thoughts := ""
	if !r.is("llamacpp") {
		thoughts = fmt.Sprintf(`,"output_tokens_details":{"reasoning_tokens":%d}`, a.Thought)
	}
	return fmt.Sprintf(
		`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d%s,"total_tokens":%d}`,
		a.Prompt, a.Cached, a.Spoken, thoughts, a.Prompt+a.Spoken)
}
