package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// fillInfo fills info with the members that the response object repeats. For members that the
// client omitted, it writes the defaults.
func (m *memberValues) fillInfo(t *toolList, info *RequestInfo) {
	w := memberWriter{info.members}
	w.writeString(`,"previous_response_id":null,"store":false,"background":false`)
	w.writeString(`,"truncation":"disabled","service_tier":"default"`)
	w.writeMember("presence_penalty", m[memberPresencePenaltyIndex], `0`)
	w.writeMember("frequency_penalty", m[memberFrequencyPenaltyIndex], `0`)
	w.writeInteger("top_logprobs", m[memberTopLogprobsIndex], `0`)
	w.writeString(`,"prompt_cache_key":null`)
	w.writeMember("instructions", m[memberInstructionsIndex], `null`)
	w.writeInteger("max_output_tokens", m[memberMaxOutputTokensIndex], `null`)
	w.writeInteger("max_tool_calls", m[memberMaxToolCallsIndex], `null`)
	w.writeMember("temperature", m[memberTemperatureIndex], `1`)
	w.writeMember("top_p", m[memberTopPIndex], `1`)
	w.writeMember("parallel_tool_calls", m[memberParallelToolCallsIndex], `true`)
	w.writeMember("safety_identifier", m[memberSafetyIdentifierIndex], `null`)
	w.writeMember("metadata", m[memberMetadataIndex], `{}`)
	w.writeToolChoice(m, t)
	reasoning := m[memberReasoningIndex]
	w.writeString(`,"reasoning":{`)
	w.writeFirst("effort", reasoning.Get("effort"), `null`)
	w.writeString(`,"summary":`)
	if word, _ := summaryHint.read(reasoning); word != "" {
		w.writeString(`"` + word + `"`)
	} else {
		w.writeString(`null`)
	}
	w.writeString(`}`)
	w.writeTextMember(m)
	w.writeTools(m)
	info.members, info.tools = w.dst, t.engineNames.list
	sse.ReplaceLineEnds(info.members)
}

type memberWriter struct{ dst []byte }

func (w *memberWriter) writeString(s string) { w.dst = append(w.dst, s...) }

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

func (w *memberWriter) writeMember(name string, v jsonx.Value, otherwise string) {
	w.dst = append(w.dst, ',')
	w.writeFirst(name, v, otherwise)
}

// writeInteger appends an integer member in digits, however the client wrote it.
func (w *memberWriter) writeInteger(name string, v jsonx.Value, otherwise string) {
	n, ok := v.Int()
	if !ok {
		w.writeMember(name, v, otherwise)
		return
	}
	w.writeString(`,"` + name + `":`)
	w.dst = appendInt(w.dst, int(n))
}

// writeToolChoice appends tool_choice. If tool_choice is a list of allowed tools, writeToolChoice
// adds the mode, which the client may have omitted.
func (w *memberWriter) writeToolChoice(members *memberValues, t *toolList) {
	v := members[memberToolChoiceIndex]
	if !t.hasAllowedList || chat.IsGiven(v.Get("mode")) {
		w.writeMember("tool_choice", v, `"auto"`)
		return
	}
	w.writeString(`,"tool_choice":{"type":"allowed_tools","mode":`)
	w.dst = append(w.dst, modeAuto...)
	w.writeMember("tools", v.Get("tools"), `[]`)
	w.writeString(`}`)
}

func (w *memberWriter) writeTextMember(members *memberValues) {
	w.writeString(`,"text":{"format":{`)
	m, ok := members.textFormat()
	if !ok {
		w.writeString(`"type":"text"`)
	} else {
		w.writeFirst("type", m[formatTypeIndex], "")
	}
	if ok && m[formatTypeIndex].EqualText("json_schema") {
		w.writeMember("name", m[formatNameIndex], `""`) // the engine decides whether a name is required
		w.writeMember("description", m[formatDescriptionIndex], `null`)
		w.writeMember("schema", m[formatSchemaIndex], `{}`)
		w.writeMember("strict", m[formatStrictIndex], `false`)
	}
	w.writeString(`}`)
	if word, _ := verbosityHint.read(members[memberTextIndex]); word != "" {
		w.writeString(`,"verbosity":"` + word + `"`)
	}
	w.writeString(`}`)
}

func (w *memberWriter) writeTools(members *memberValues) {
	w.writeString(`,"tools":[`)
	n := 0
	for it := members[memberToolsIndex].Iter(); it.Next(); {
		m := readTool(it.Value())
		function := m[toolTypeIndex].EqualText("function")
		if !function && !m[toolTypeIndex].EqualText("namespace") && !m[toolTypeIndex].EqualText("custom") {
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
		w.writeString(`{"type":"function"`)
		w.writeMember("name", m[toolNameIndex], "")
		w.writeMember("description", m[toolDescriptionIndex], `null`)
		w.writeMember("parameters", m[toolParametersIndex], `null`)
		w.writeMember("strict", m[toolStrictIndex], `null`)
		w.writeString(`}`)
	}
	w.writeString(`]`)
}

func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
