package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// fillInfo fills info with the members that the response object repeats. For members that the
// client omitted, it writes the defaults.
func (m *members) fillInfo(t *tools, info *RequestInfo) {
	w := memberWriter{info.members}
	w.string(`,"previous_response_id":null,"store":false,"background":false`)
	w.string(`,"truncation":"disabled","service_tier":"default"`)
	w.member("presence_penalty", m[memberPresencePenalty], `0`)
	w.member("frequency_penalty", m[memberFrequencyPenalty], `0`)
	w.integer("top_logprobs", m[memberTopLogprobs], `0`)
	w.string(`,"prompt_cache_key":null`)
	w.member("instructions", m[memberInstructions], `null`)
	w.integer("max_output_tokens", m[memberMaxOutputTokens], `null`)
	w.integer("max_tool_calls", m[memberMaxToolCalls], `null`)
	w.member("temperature", m[memberTemperature], `1`)
	w.member("top_p", m[memberTopP], `1`)
	w.member("parallel_tool_calls", m[memberParallelToolCalls], `true`)
	w.member("safety_identifier", m[memberSafetyIdentifier], `null`)
	w.member("metadata", m[memberMetadata], `{}`)
	w.choice(m, t)
	reasoning := m[memberReasoning]
	w.string(`,"reasoning":{`)
	w.writeFirst("effort", reasoning.Get("effort"), `null`)
	w.string(`,"summary":`)
	if word, _ := summaryHint.read(reasoning); word != "" {
		w.string(`"` + word + `"`)
	} else {
		w.string(`null`)
	}
	w.string(`}`)
	w.text(m)
	w.tools(m)
	info.members, info.tools = w.dst, t.engineNames.list
	sse.ReplaceLineEnds(info.members)
}

type memberWriter struct{ dst []byte }

func (w *memberWriter) string(s string) { w.dst = append(w.dst, s...) }

// writeFirst appends a member without a leading comma. If v is absent or null, it writes the text
// in otherwise as the value.
func (w *memberWriter) writeFirst(name string, v jsonx.Value, otherwise string) {
	w.dst = append(append(append(w.dst, '"'), name...), `":`...)
	if chat.IsGiven(v) {
		w.dst = append(w.dst, v.Raw()...)
	} else {
		w.dst = append(w.dst, otherwise...)
	}
}

func (w *memberWriter) member(name string, v jsonx.Value, otherwise string) {
	w.dst = append(w.dst, ',')
	w.writeFirst(name, v, otherwise)
}

// integer appends an integer member in digits, however the client wrote it.
func (w *memberWriter) integer(name string, v jsonx.Value, otherwise string) {
	n, ok := v.Int()
	if !ok {
		w.member(name, v, otherwise)
		return
	}
	w.string(`,"` + name + `":`)
	w.dst = appendInt(w.dst, int(n))
}

// choice appends tool_choice. If tool_choice is a list of allowed tools, choice adds the mode,
// which the client may have omitted.
func (w *memberWriter) choice(members *members, t *tools) {
	v := members[memberToolChoice]
	if !t.hasAllowedList || chat.IsGiven(v.Get("mode")) {
		w.member("tool_choice", v, `"auto"`)
		return
	}
	w.string(`,"tool_choice":{"type":"allowed_tools","mode":`)
	w.dst = append(w.dst, modeAuto...)
	w.member("tools", v.Get("tools"), `[]`)
	w.string(`}`)
}

func (w *memberWriter) text(members *members) {
	w.string(`,"text":{"format":{`)
	m, ok := members.textFormat()
	if !ok {
		w.string(`"type":"text"`)
	} else {
		w.writeFirst("type", m[formatType], "")
	}
	if ok && m[formatType].EqualText("json_schema") {
		w.member("name", m[formatName], `""`) // the engine decides whether a name is required
		w.member("description", m[formatDescription], `null`)
		w.member("schema", m[formatSchema], `{}`)
		w.member("strict", m[formatStrict], `false`)
	}
	w.string(`}`)
	if word, _ := verbosityHint.read(members[memberText]); word != "" {
		w.string(`,"verbosity":"` + word + `"`)
	}
	w.string(`}`)
}

func (w *memberWriter) tools(members *members) {
	w.string(`,"tools":[`)
	n := 0
	for it := members[memberTools].Iter(); it.Next(); {
		m := readTool(it.Value())
		function := m[toolType].EqualText("function")
		if !function && !m[toolType].EqualText("namespace") && !m[toolType].EqualText("custom") {
			continue
		}
		if n > 0 {
			w.dst = append(w.dst, ',')
		}
		n++
		if !function {
			w.dst = append(w.dst, it.Value().Raw()...)
			continue
		}
		w.string(`{"type":"function"`)
		w.member("name", m[toolName], "")
		w.member("description", m[toolDescription], `null`)
		w.member("parameters", m[toolParameters], `null`)
		w.member("strict", m[toolStrict], `null`)
		w.string(`}`)
	}
	w.string(`]`)
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
