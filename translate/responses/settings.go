package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

func (m *memberValues) writeSettings(w *dialects.ChatWriter, t *toolList, info *RequestInfo) {
	if on, _ := m[memberStreamIndex].Bool(); on {
		w.WriteString(`,"stream":true`)
	}
	w.WriteMember(`,"temperature":`, m[memberTemperatureIndex])
	w.WriteMember(`,"top_p":`, m[memberTopPIndex])
	if n, ok := m[memberMaxOutputTokensIndex].Int(); ok {
		w.WriteString(`,"max_completion_tokens":`)
		w.Out = strconv.AppendInt(w.Out, n, 10)
	}
	if !chat.IsGiven(m[memberMaxOutputTokensIndex]) {
		w.WriteMember(`,"max_tokens":`, m[memberMaxTokensIndex])
		w.WriteMember(`,"max_completion_tokens":`, m[memberMaxCompletionTokensIndex])
	}
	w.WriteMember(`,"reasoning_effort":`, m[memberReasoningIndex].Get("effort"))
	info.logprobs, info.includesReasoning = m.wantsLogprobs(), m.includesElement(includeReasoning)
	// These members have the same name in chat, and package chat checks them.
	for i := memberPresencePenaltyIndex; i < memberResponseFormatIndex; i++ {
		if v := m[i]; chat.IsGiven(v) && (i != memberTopLogprobsIndex || info.logprobs || !requestsDefault(i, v)) {
			w.WriteRaw(`,"`+memberNames[i]+`":`, v)
		}
	}
	if info.logprobs { // engines reject top_logprobs without logprobs
		w.WriteString(`,"logprobs":true`)
	}
	m.writeFormat(w, info)
	t.write(w)
	if t.hasTools() {
		w.WriteMember(`,"parallel_tool_calls":`, m[memberParallelToolCallsIndex])
	}
}

func (m *memberValues) writeFormat(w *dialects.ChatWriter, info *RequestInfo) {
	v, chats := m.responseFormat()
	if info.usesResponseFormat = chats; chats {
		w.WriteRaw(`,"response_format":`, v)
		return
	}
	f, ok := m.textFormat()
	if !ok {
		return
	}
	w.WriteRaw(`,"response_format":{"type":`, f[formatTypeIndex])
	if f[formatTypeIndex].EqualText("json_schema") {
		w.WriteRaw(`,"json_schema":{"name":`, f[formatNameIndex])
		w.WriteMember(`,"description":`, f[formatDescriptionIndex])
		w.WriteRaw(`,"schema":`, f[formatSchemaIndex])
		w.WriteMember(`,"strict":`, f[formatStrictIndex])
		w.WriteString(`}`)
	}
	w.WriteString(`}`)
}

// recordUnsupported records members that request unsupported behavior as dropped.
func (m *memberValues) recordUnsupported(d *dialects.DroppedParts) {
	for _, i := range [...]int{memberMaxToolCallsIndex, memberNIndex, memberServiceTierIndex, memberTruncationIndex, memberContextManagementIndex} {
		if v := m[i]; chat.IsGiven(v) && !requestsDefault(i, v) {
			d.AddMember(memberNames[i])
		}
	}
	for _, h := range optionalHints {
		if _, known := h.read(m[h.member]); !known {
			d.AddMember(h.name)
		}
	}
	for it := m[memberIncludeIndex].Iter(); it.Next(); {
		if v := it.Value(); !v.EqualText(includeReasoning) && !v.EqualText(includeLogprobs) {
			d.AddMember(memberNames[memberIncludeIndex])
		}
	}
	chats := chat.IsGiven(m[memberMaxTokensIndex]) || chat.IsGiven(m[memberMaxCompletionTokensIndex])
	if chats && chat.IsGiven(m[memberMaxOutputTokensIndex]) {
		d.AddMember("max_tokens")
	}
}

// includeLogprobs is the element of include that requests the log probabilities of the text.
const includeLogprobs = "message.output_text.logprobs"

func (m *memberValues) wantsLogprobs() bool {
	if on, _ := m[memberLogprobsIndex].Bool(); on {
		return true
	}
	if n, ok := m[memberTopLogprobsIndex].Int(); ok && n > 0 {
		return true
	}
	return m.includesElement(includeLogprobs)
}

func (m *memberValues) includesElement(element string) bool {
	for it := m[memberIncludeIndex].Iter(); it.Next(); {
		if it.Value().EqualText(element) {
			return true
		}
	}
	return false
}

func checkInclude(v jsonx.Value) *requestFault {
	if f := checkOptional("include", "an array of strings", v, jsonx.Value.IsArray); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if s := it.Value(); !s.IsString() {
			return chat.WrongTypeError("", "a string", s).InElement("include", it.Index())
		}
	}
	return nil
}

var (
	textMemberNames   = jsonx.NewNameIndex("format", "verbosity")
	formatMemberNames = jsonx.NewNameIndex("type", "name", "schema", "strict", "description")
)

const (
	formatTypeIndex = iota
	formatNameIndex
	formatSchemaIndex
	formatStrictIndex
	formatDescriptionIndex
	formatMemberCount
)

func (m *memberValues) checkText() *requestFault {
	var t [2]jsonx.Value
	f := chat.ReadObject("text", m[memberTextIndex], textMemberNames, t[:])
	if f == nil {
		f = chat.FirstInvalidMember(chat.CheckOptionalString("verbosity", t[1]), checkFormat(t[0])).InObject("text")
	}
	return f
}

func checkFormat(v jsonx.Value) *requestFault {
	var m [formatMemberCount]jsonx.Value
	if f := chat.ReadObject("format", v, formatMemberNames, m[:]); f != nil || !chat.IsGiven(v) {
		return f
	}
	f := chat.CheckRequiredString("type", m[formatTypeIndex])
	switch {
	case f != nil:
	case m[formatTypeIndex].EqualText("text"), m[formatTypeIndex].EqualText("json_object"):
	case !m[formatTypeIndex].EqualText("json_schema"):
		f = chat.WrongValueError("type", "must be text, json_object or json_schema")
	case !chat.IsGiven(m[formatSchemaIndex]):
		f = chat.MissingError("schema")
	default:
		f = chat.FirstInvalidMember(
			chat.CheckRequiredString("name", m[formatNameIndex]),
			chat.CheckOptionalObject("schema", m[formatSchemaIndex]),
			checkOptionalBool("strict", m[formatStrictIndex]),
			chat.CheckOptionalString("description", m[formatDescriptionIndex]),
		)
	}
	return f.InObject("format")
}

// responseFormat returns chat's response_format, unless text.format is present.
func (m *memberValues) responseFormat() (v jsonx.Value, ok bool) {
	v = m[memberResponseFormatIndex]
	return v, chat.IsGiven(v) && !chat.IsGiven(m[memberTextIndex].Get("format"))
}

// textFormat returns the members of the format. It returns false if the format is text or absent.
func (m *memberValues) textFormat() (f [formatMemberCount]jsonx.Value, ok bool) {
	if v, chats := m.responseFormat(); chats {
		f[formatTypeIndex] = v.Get("type")
		schema := v.Get("json_schema")
		f[formatNameIndex], f[formatSchemaIndex] = schema.Get("name"), schema.Get("schema")
		f[formatStrictIndex], f[formatDescriptionIndex] = schema.Get("strict"), schema.Get("description")
	} else if formatMemberNames.Fields(m[memberTextIndex].Get("format"), f[:]) != nil {
		panic("BUG: text.format was not checked")
	}
	return f, f[formatTypeIndex].Exists() && !f[formatTypeIndex].EqualText("text")
}

var reasoningMemberNames = jsonx.NewNameIndex("effort", "summary")

// checkReasoning checks the reasoning member, but not the value of the effort. Package chat checks
// this value, and RelocateError corrects the parameter of the resulting error.
func (m *memberValues) checkReasoning() *requestFault {
	var e [2]jsonx.Value
	f := chat.ReadObject("reasoning", m[memberReasoningIndex], reasoningMemberNames, e[:])
	if f == nil {
		f = chat.FirstInvalidMember(chat.CheckOptionalString("effort", e[0]), chat.CheckOptionalString("summary", e[1])).InObject("reasoning")
	}
	return f
}

// optionalHint is a member that has an effect only if the engine supports the Responses dialect.
type optionalHint struct {
	member int    // index of the object that contains the hint
	name   string // the hint's name in that object
	list   chat.HintWordList
}

var (
	verbosityHint = optionalHint{memberTextIndex, "verbosity", chat.HintWordList{Words: []string{"low", "medium", "high"}, Other: "medium"}}
	summaryHint   = optionalHint{memberReasoningIndex, "summary", chat.HintWordList{Words: []string{"auto", "concise", "detailed"}, Other: "auto"}}
	optionalHints = [...]*optionalHint{&verbosityHint, &summaryHint}
)

// read returns the hint's word, or "" if the hint is absent. If the client's word is unknown, known
// is false.
func (h *optionalHint) read(object jsonx.Value) (word string, known bool) {
	v := object.Get(h.name)
	if !chat.IsGiven(v) {
		return "", true
	}
	return h.list.NearestWord(v)
}

// requestsDefault reports whether a member requests only the default behavior.
func requestsDefault(member int, v jsonx.Value) bool {
	switch member {
	case memberIncludeIndex, memberContextManagementIndex:
		return v.IsArray() && !v.Index(0).Exists()
	case memberTruncationIndex:
		return v.EqualText("disabled")
	case memberNIndex:
		n, ok := v.Int()
		return ok && n == 1
	case memberServiceTierIndex:
		return v.EqualText("auto") || v.EqualText("default")
	case memberTopLogprobsIndex, memberPresencePenaltyIndex, memberFrequencyPenaltyIndex: // responses contain these defaults
		n, ok := v.Float()
		return ok && n == 0
	}
	return false
}
