package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

func (m *memberValues) writeSettings(w *dialects.ChatWriter, t *toolList, info *RequestInfo) {
	if on, _ := m[memberStream].Bool(); on {
		w.WriteString(`,"stream":true`)
	}
	w.WriteMember(`,"temperature":`, m[memberTemperature])
	w.WriteMember(`,"top_p":`, m[memberTopP])
	if n, ok := m[memberMaxOutputTokens].Int(); ok {
		w.WriteString(`,"max_completion_tokens":`)
		w.Out = strconv.AppendInt(w.Out, n, 10)
	}
	if !chat.IsGiven(m[memberMaxOutputTokens]) {
		w.WriteMember(`,"max_tokens":`, m[memberMaxTokens])
		w.WriteMember(`,"max_completion_tokens":`, m[memberMaxCompletionTokens])
	}
	w.WriteMember(`,"reasoning_effort":`, m[memberReasoning].Get("effort"))
	info.logprobs, info.includesReasoning = m.wantsLogprobs(), m.includesElement(includeReasoning)
	// These members have the same name in chat, and package chat checks them.
	for i := memberPresencePenalty; i < memberResponseFormat; i++ {
		if v := m[i]; chat.IsGiven(v) && (i != memberTopLogprobs || info.logprobs || !isDefault(i, v)) {
			w.WriteRaw(`,"`+memberNames[i]+`":`, v)
		}
	}
	if info.logprobs { // engines reject top_logprobs without logprobs
		w.WriteString(`,"logprobs":true`)
	}
	m.writeFormat(w, info)
	t.write(w)
	if t.hasTools() {
		w.WriteMember(`,"parallel_tool_calls":`, m[memberParallelToolCalls])
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
	w.WriteRaw(`,"response_format":{"type":`, f[formatType])
	if f[formatType].EqualText("json_schema") {
		w.WriteRaw(`,"json_schema":{"name":`, f[formatName])
		w.WriteMember(`,"description":`, f[formatDescription])
		w.WriteRaw(`,"schema":`, f[formatSchema])
		w.WriteMember(`,"strict":`, f[formatStrict])
		w.WriteString(`}`)
	}
	w.WriteString(`}`)
}

// recordUnsupported records members that request unsupported behavior as dropped.
func (m *memberValues) recordUnsupported(d *dialects.DroppedParts) {
	for _, i := range [...]int{memberMaxToolCalls, memberN, memberServiceTier, memberTruncation, memberContextManagement} {
		if v := m[i]; chat.IsGiven(v) && !isDefault(i, v) {
			d.AddMember(memberNames[i])
		}
	}
	for _, h := range optionalHints {
		if _, known := h.read(m[h.member]); !known {
			d.AddMember(h.name)
		}
	}
	for it := m[memberInclude].Iter(); it.Next(); {
		if v := it.Value(); !v.EqualText(includeReasoning) && !v.EqualText(includeLogprobs) {
			d.AddMember(memberNames[memberInclude])
		}
	}
	chats := chat.IsGiven(m[memberMaxTokens]) || chat.IsGiven(m[memberMaxCompletionTokens])
	if chats && chat.IsGiven(m[memberMaxOutputTokens]) {
		d.AddMember("max_tokens")
	}
}

// includeLogprobs is the element of include that requests the log probabilities of the text.
const includeLogprobs = "message.output_text.logprobs"

func (m *memberValues) wantsLogprobs() bool {
	if on, _ := m[memberLogprobs].Bool(); on {
		return true
	}
	if n, ok := m[memberTopLogprobs].Int(); ok && n > 0 {
		return true
	}
	return m.includesElement(includeLogprobs)
}

func (m *memberValues) includesElement(element string) bool {
	for it := m[memberInclude].Iter(); it.Next(); {
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
	textNames   = jsonx.NewNameIndex("format", "verbosity")
	formatNames = jsonx.NewNameIndex("type", "name", "schema", "strict", "description")
)

const (
	formatType = iota
	formatName
	formatSchema
	formatStrict
	formatDescription
	formatMemberCount
)

func (m *memberValues) checkText() *requestFault {
	var t [2]jsonx.Value
	f := chat.ReadObject("text", m[memberText], textNames, t[:])
	if f == nil {
		f = chat.FirstInvalid(chat.CheckOptionalString("verbosity", t[1]), checkFormat(t[0])).InObject("text")
	}
	return f
}

func checkFormat(v jsonx.Value) *requestFault {
	var m [formatMemberCount]jsonx.Value
	if f := chat.ReadObject("format", v, formatNames, m[:]); f != nil || !chat.IsGiven(v) {
		return f
	}
	f := chat.CheckRequiredString("type", m[formatType])
	switch {
	case f != nil:
	case m[formatType].EqualText("text"), m[formatType].EqualText("json_object"):
	case !m[formatType].EqualText("json_schema"):
		f = chat.WrongValueError("type", "must be text, json_object or json_schema")
	case !chat.IsGiven(m[formatSchema]):
		f = chat.MissingError("schema")
	default:
		f = chat.FirstInvalid(
			chat.CheckRequiredString("name", m[formatName]),
			chat.CheckOptionalObject("schema", m[formatSchema]),
			checkOptionalBool("strict", m[formatStrict]),
			chat.CheckOptionalString("description", m[formatDescription]),
		)
	}
	return f.InObject("format")
}

// responseFormat returns chat's response_format, unless text.format is present.
func (m *memberValues) responseFormat() (v jsonx.Value, ok bool) {
	v = m[memberResponseFormat]
	return v, chat.IsGiven(v) && !chat.IsGiven(m[memberText].Get("format"))
}

// textFormat returns the members of the format. It returns false if the format is text or absent.
func (m *memberValues) textFormat() (f [formatMemberCount]jsonx.Value, ok bool) {
	if v, chats := m.responseFormat(); chats {
		f[formatType] = v.Get("type")
		schema := v.Get("json_schema")
		f[formatName], f[formatSchema] = schema.Get("name"), schema.Get("schema")
		f[formatStrict], f[formatDescription] = schema.Get("strict"), schema.Get("description")
	} else if formatNames.Fields(m[memberText].Get("format"), f[:]) != nil {
		panic("BUG: text.format was not checked")
	}
	return f, f[formatType].Exists() && !f[formatType].EqualText("text")
}

var reasoningNames = jsonx.NewNameIndex("effort", "summary")

// checkReasoning checks the reasoning member, but not the value of the effort. Package chat checks
// this value, and RelocateError corrects the parameter of the resulting error.
func (m *memberValues) checkReasoning() *requestFault {
	var e [2]jsonx.Value
	f := chat.ReadObject("reasoning", m[memberReasoning], reasoningNames, e[:])
	if f == nil {
		f = chat.FirstInvalid(chat.CheckOptionalString("effort", e[0]), chat.CheckOptionalString("summary", e[1])).InObject("reasoning")
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
	verbosityHint = optionalHint{memberText, "verbosity", chat.HintWordList{Words: []string{"low", "medium", "high"}, Other: "medium"}}
	summaryHint   = optionalHint{memberReasoning, "summary", chat.HintWordList{Words: []string{"auto", "concise", "detailed"}, Other: "auto"}}
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

// isDefault reports whether a member requests only the default behavior.
func isDefault(member int, v jsonx.Value) bool {
	switch member {
	case memberInclude, memberContextManagement:
		return v.IsArray() && !v.Index(0).Exists()
	case memberTruncation:
		return v.EqualText("disabled")
	case memberN:
		n, ok := v.Int()
		return ok && n == 1
	case memberServiceTier:
		return v.EqualText("auto") || v.EqualText("default")
	case memberTopLogprobs, memberPresencePenalty, memberFrequencyPenalty: // responses contain these defaults
		n, ok := v.Float()
		return ok && n == 0
	}
	return false
}
