package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// settings writes everything of the chat request but the conversation.
func (r *Request) settings(w *dialects.ChatWriter, info *RequestInfo) {
	if on, _ := r.members[memberStream].Bool(); on {
		w.String(`,"stream":true`)
	}
	w.Member(`,"temperature":`, r.members[memberTemperature])
	w.Member(`,"top_p":`, r.members[memberTopP])
	if n, ok := r.members[memberMaxOutputTokens].Int(); ok {
		w.String(`,"max_completion_tokens":`)
		w.Out = strconv.AppendInt(w.Out, n, 10)
	}
	w.Member(`,"reasoning_effort":`, r.members[memberReasoning].Get("effort"))
	info.logprobs = r.wantsLogprobs()
	for m := memberPresencePenalty; m < memberResponseFormat; m++ { // what chat has under the same name, for chat to check
		if v := r.members[m]; chat.Given(v) && (m != memberTopLogprobs || info.logprobs || !idle(m, v)) {
			w.Raw(`,"`+memberNames[m]+`":`, v)
		}
	}
	if info.logprobs { // engines refuse the other one without it
		w.String(`,"logprobs":true`)
	}
	r.writeFormat(w, info)
	r.tools.write(w)
	if r.tools.any() {
		w.Member(`,"parallel_tool_calls":`, r.members[memberParallelToolCalls])
	}
}

// writeFormat writes response_format.
func (r *Request) writeFormat(w *dialects.ChatWriter, info *RequestInfo) {
	v, chats := r.chatFormat()
	if info.chatFormat = chats; chats {
		w.Raw(`,"response_format":`, v)
		return
	}
	m, ok := r.format()
	if !ok {
		return
	}
	w.Raw(`,"response_format":{"type":`, m[formatType])
	if m[formatType].EqualText("json_schema") {
		w.Raw(`,"json_schema":{"name":`, m[formatName])
		w.Member(`,"description":`, m[formatDescription])
		w.Raw(`,"schema":`, m[formatSchema])
		w.Member(`,"strict":`, m[formatStrict])
		w.String(`}`)
	}
	w.String(`}`)
}

// includeLogprobs is the element of include that asks for the log probabilities of the text; others
// are without effect.
const includeLogprobs = "message.output_text.logprobs"

// wantsLogprobs reports whether the answer is to have log probabilities.
func (r *Request) wantsLogprobs() bool {
	if n, ok := r.members[memberTopLogprobs].Int(); ok && n > 0 {
		return true
	}
	for it := r.members[memberInclude].Iter(); it.Next(); {
		if it.Value().EqualText(includeLogprobs) {
			return true
		}
	}
	return false
}

// checkInclude checks include for its type.
func checkInclude(v jsonx.Value) *fault {
	if f := optional("include", "an array of strings", v, jsonx.Value.IsArray); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if s := it.Value(); !s.IsString() {
			return chat.WrongType("", "a string", s).At("include", it.Index())
		}
	}
	return nil
}

var (
	textNames   = jsonx.NewNames("format", "verbosity")
	formatNames = jsonx.NewNames("type", "name", "schema", "strict", "description")
)

// The members of text.format.
const (
	formatType = iota
	formatName
	formatSchema
	formatStrict
	formatDescription
	formatCount
)

func (r *Request) checkText() *fault {
	var t [2]jsonx.Value
	f := chat.ReadObject("text", r.members[memberText], textNames, t[:])
	if f == nil {
		f = chat.First(chat.OptionalString("verbosity", t[1]), checkFormat(t[0])).In("text")
	}
	return f
}

func checkFormat(v jsonx.Value) *fault {
	var m [formatCount]jsonx.Value
	if f := chat.ReadObject("format", v, formatNames, m[:]); f != nil || !chat.Given(v) {
		return f
	}
	f := chat.RequiredString("type", m[formatType])
	switch {
	case f != nil:
	case m[formatType].EqualText("text"), m[formatType].EqualText("json_object"):
	case !m[formatType].EqualText("json_schema"):
		f = chat.WrongValue("type", "must be text, json_object or json_schema")
	case !chat.Given(m[formatSchema]):
		f = chat.Missing("schema")
	default:
		f = chat.First(
			chat.RequiredString("name", m[formatName]),
			chat.OptionalObject("schema", m[formatSchema]),
			optionalBool("strict", m[formatStrict]),
			chat.OptionalString("description", m[formatDescription]),
		)
	}
	return f.In("format")
}

// chatFormat returns chat's response_format where it counts: the dialect's own text.format wins.
func (r *Request) chatFormat() (v jsonx.Value, ok bool) {
	v = r.members[memberResponseFormat]
	return v, chat.Given(v) && !chat.Given(r.members[memberText].Get("format"))
}

// format returns the members of text.format, or of the response_format in its place, when it asks
// for JSON.
func (r *Request) format() (m [formatCount]jsonx.Value, ok bool) {
	if v, chats := r.chatFormat(); chats {
		m[formatType] = v.Get("type")
		for i, name := range [...]string{formatName: "name", formatSchema: "schema", formatStrict: "strict", formatDescription: "description"} {
			if i != formatType {
				m[i] = v.Get("json_schema").Get(name)
			}
		}
	} else if formatNames.Fields(r.members[memberText].Get("format"), m[:]) != nil {
		panic("BUG: text.format was not checked")
	}
	return m, m[formatType].Exists() && !m[formatType].EqualText("text")
}

var reasoningNames = jsonx.NewNames("effort", "summary")

// checkReasoning checks the effort's type; that it is one of the words is for chat to say, and for
// Locate to report.
func (r *Request) checkReasoning() *fault {
	var m [2]jsonx.Value
	f := chat.ReadObject("reasoning", r.members[memberReasoning], reasoningNames, m[:])
	if f == nil {
		f = chat.First(chat.OptionalString("effort", m[0]), chat.OptionalString("summary", m[1])).In("reasoning")
	}
	return f
}
