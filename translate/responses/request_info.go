package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// RequestInfo are the facts about a request that its answer repeats, and that errors about it need.
// It owns them all, so it outlives the body. The zero value is ready.
type RequestInfo struct {
	members []byte // members of the response object, each with a comma before it
	images  dialects.Images

	logprobs   bool // the answer has log probabilities
	chatFormat bool // the format was given in response_format
}

// Logprobs reports whether the answer has the log probabilities of its text.
func (e *RequestInfo) Logprobs() bool { return e.logprobs }

func (e *RequestInfo) reset() {
	if cap(e.members) > keepBuffer {
		e.members = nil
	}
	e.images.Reset()
	*e = RequestInfo{members: e.members[:0], images: e.images}
}

// fillInfo writes the members that the response object repeats, with the defaults for those that
// the client left out.
func (r *Request) fillInfo(info *RequestInfo) {
	w := memberWriter{info.members}
	w.string(`,"previous_response_id":null,"store":false,"background":false,"truncation":"disabled","service_tier":"default"`)
	w.member("presence_penalty", r.members[memberPresencePenalty], `0`)
	w.member("frequency_penalty", r.members[memberFrequencyPenalty], `0`)
	w.integer("top_logprobs", r.members[memberTopLogprobs], `0`)
	w.string(`,"prompt_cache_key":null`)
	w.member("instructions", r.members[memberInstructions], `null`)
	w.integer("max_output_tokens", r.members[memberMaxOutputTokens], `null`)
	w.integer("max_tool_calls", r.members[memberMaxToolCalls], `null`)
	w.member("temperature", r.members[memberTemperature], `1`)
	w.member("top_p", r.members[memberTopP], `1`)
	w.member("parallel_tool_calls", r.members[memberParallelToolCalls], `true`)
	w.member("safety_identifier", r.members[memberSafetyIdentifier], `null`)
	w.member("metadata", r.members[memberMetadata], `{}`)
	w.choice(r)
	reasoning := r.members[memberReasoning]
	w.string(`,"reasoning":{`)
	w.first("effort", reasoning.Get("effort"), `null`)
	w.member("summary", reasoning.Get("summary"), `null`)
	w.string(`}`)
	w.text(r)
	w.tools(r)
	info.members = w.dst
	sse.Flatten(info.members)
}

// memberWriter writes members of the response object.
type memberWriter struct{ dst []byte }

func (w *memberWriter) string(s string) { w.dst = append(w.dst, s...) }

// first appends a member without a comma before it: v, or what stands for it when it was not given.
func (w *memberWriter) first(name string, v jsonx.Value, otherwise string) {
	w.dst = append(append(append(w.dst, '"'), name...), `":`...)
	if chat.Given(v) {
		w.dst = append(w.dst, v.Raw()...)
	} else {
		w.dst = append(w.dst, otherwise...)
	}
}

func (w *memberWriter) member(name string, v jsonx.Value, otherwise string) {
	w.dst = append(w.dst, ',')
	w.first(name, v, otherwise)
}

// integer appends a member that is an integer, in digits however the client wrote it.
func (w *memberWriter) integer(name string, v jsonx.Value, otherwise string) {
	n, ok := v.Int()
	if !ok {
		w.member(name, v, otherwise)
		return
	}
	w.string(`,"` + name + `":`)
	w.dst = appendInt(w.dst, int(n))
}

// choice appends tool_choice. A list of allowed tools has its mode, which a request may leave out.
func (w *memberWriter) choice(r *Request) {
	v := r.members[memberToolChoice]
	if !r.tools.limited || chat.Given(v.Get("mode")) {
		w.member("tool_choice", v, `"auto"`)
		return
	}
	w.string(`,"tool_choice":{"type":"allowed_tools","mode":`)
	w.dst = append(w.dst, modeAuto...)
	w.member("tools", v.Get("tools"), `[]`)
	w.string(`}`)
}

func (w *memberWriter) text(r *Request) {
	w.string(`,"text":{"format":{`)
	m, ok := r.format()
	if !ok {
		w.string(`"type":"text"`)
	} else {
		w.first("type", m[formatType], "")
	}
	if ok && m[formatType].EqualText("json_schema") {
		w.member("name", m[formatName], `""`) // chat leaves it to the engine whether it is there
		w.member("description", m[formatDescription], `null`)
		w.member("schema", m[formatSchema], `{}`)
		w.member("strict", m[formatStrict], `false`)
	}
	w.string(`}`)
	if v := r.members[memberText].Get("verbosity"); chat.Given(v) {
		w.member("verbosity", v, "")
	}
	w.string(`}`)
}

// tools appends the functions; others were dropped.
func (w *memberWriter) tools(r *Request) {
	w.string(`,"tools":[`)
	n := 0
	for it := r.members[memberTools].Iter(); it.Next(); {
		m, function := readTool(it.Value())
		if !function {
			continue
		}
		if n > 0 {
			w.dst = append(w.dst, ',')
		}
		n++
		w.string(`{"type":"function"`)
		w.member("name", m[toolName], "")
		w.member("description", m[toolDescription], `null`)
		w.member("parameters", m[toolParameters], `null`)
		w.member("strict", m[toolStrict], `null`)
		w.string(`}`)
	}
	w.string(`]`)
}

// appendInt is strconv.AppendInt for the numbers of this package.
func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
