package chat

import (
	"math/bits"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// AppendEngineRequest appends the body in the engine's format to dst. It copies the client's body
// byte for byte, except for these changes:
//   - model becomes the served name.
//   - stream becomes true if the client or the format requests a stream. include_usage is then
//     added to the client's stream_options. If no stream is requested, stream_options is dropped,
//     because some engines reject it.
//   - The token limit becomes the limit from CheckRules, or a lower limit from LowerTo. It is
//     written in the format's member. If the client sent no limit, the model's limit is added.
//     Limits that engines read under other names are also lowered.
//   - n is added if the client sent only n_cmpl, llama.cpp's name for n, because other engines do
//     not support that name.
//   - Integers that the client wrote as 1.0 or 1e2 are written in digits.
//   - An image URL that is a plain string becomes the object {"url":…}. An unknown detail becomes
//     the nearest known detail.
//   - The effort is written in the engine's format. reasoning and include_reasoning are dropped,
//     because engines interpret them differently.
//   - The format's Prefill is added if the last message is the start of the answer.
//   - If the engine continues a partial answer (AttachTo), that answer is added.
//   - The tool_choice "any" becomes "required". A list of allowed tools is replaced with its mode,
//     and only these tools are sent.
//   - If the engine does not read tool_choice, only the tools that tool_choice allows are sent.
//   - Tool call arguments that are not a JSON object are replaced with an object (ToolArguments).
//   - A refusal part in an assistant message becomes a text part.
//   - response_format and messages without content are adapted to the format.
//   - Consecutive messages with the same role are joined if the dialect or the format requires it.
//   - The role developer becomes system if the engine does not support developer.
//   - Reasoning in the history is moved to the format's member, or removed if the model's rules
//     require that.
//   - The salt combines the format's salt and the client's.
//   - priority becomes the format's number (Priority).
//
// New members are inserted directly after the opening brace. The request must have been decoded.
// dst must not overlap the body.
func (r *Request) AppendEngineRequest(dst []byte, format *EngineFormat) []byte {
	r.newText = r.patch(r.newText[:0], format)
	return r.edits.Append(dst, r.body)
}

// AppendSegments appends the output of AppendEngineRequest to segs, in pieces for a vectored write.
// It appends new text to scratch. The pieces are slices of the body and of the returned text. They
// are valid until the body or the text is modified or r is reset.
func (r *Request) AppendSegments(segs [][]byte, scratch []byte, format *EngineFormat) (pieces [][]byte, text []byte) {
	scratch = r.patch(scratch, format)
	return r.edits.Segments(segs, r.body), scratch
}

// integerMemberSet is the set of members that are integers, except for the token limits.
const integerMemberSet uint64 = 1<<memberTopKIndex | 1<<memberSeedIndex | 1<<memberTopLogprobsIndex | 1<<memberNIndex | 1<<memberNCmplIndex

// patch fills r.edits with the changes for the engine. It appends the new text to text.
func (r *Request) patch(text []byte, format *EngineFormat) []byte {
	r.edits.Reset()
	p := requestPatch{edits: &r.edits, root: r.doc.Root(), newText: text}
	if v := r.members[memberModelIndex]; !v.EqualText(format.Served) {
		p.setString(v, format.Served)
	}
	r.patchStream(&p, format)
	if !r.onlyUsual {
		LowerAliasLimits(p.edits, p.root, r.Tokens.AliasBound(), "")
	}
	r.Tokens.patch(&p, &r.members, format.TokenMember)
	for set := r.found & integerMemberSet; set != 0; set &= set - 1 {
		v := r.members[bits.TrailingZeros64(set)]
		if n, ok := v.Int(); ok { // for engines that do not accept 1.0 or 1e2
			p.setInt(v, n)
		}
	}
	if IsGiven(r.members[memberNCmplIndex]) {
		if n := r.members[memberNIndex]; n.IsNull() {
			p.setInt(n, int64(r.N))
		} else if !n.Exists() {
			p.insertMember("n", strconv.AppendInt(nil, int64(r.N), 10))
		}
	}
	var added []Member
	if r.Reasoning.Effort != "" || r.found&reasoningMemberSet != 0 {
		added = r.Reasoning.patch(&p, &r.members, format.Reasoning)
	}
	if r.Prefilled || r.partial != nil {
		p.addMembers(format.Prefill, added)
	}
	if r.partial != nil {
		r.partial.patchMessages(&p, r, format.reasoningHistory())
	}
	if r.found&toolMemberSet != 0 {
		r.ToolUse.patch(&p, &r.members, format.ToolChoice)
	}
	if format.ResponseFormat != ResponseAsSent {
		patchResponseFormat(&p, r.members[memberResponseFormatIndex], format.ResponseFormat)
	}
	if format.NullContent != NullAsSent {
		r.Prompt.fillEmptyContents(&p, format.NullContent)
	}
	if MustJoinTurns(r, format) {
		joinTurns(&p, r.Messages(), format.DeveloperAsSystem)
	}
	r.Prompt.patch(&p, r.Messages(), format.DeveloperAsSystem)
	r.Prompt.reasoning.patch(&p, format.reasoningHistory())
	if format.Salt.IsSet() {
		p.insertMember(format.Salt.Member, format.Salt.StripClientSalt(p.edits, p.root))
	}
	if number := format.Priority.StripClientPriority(p.edits, p.root); number != nil {
		p.insertMember(namePriority, number)
	}
	return p.newText
}

var (
	jsonTrue               = []byte(`true`)
	usageOption            = []byte(`"include_usage":true`)
	continuousUsageOption  = []byte(`"continuous_usage_stats":true`)
	usageOptionsObject     = []byte(`{"include_usage":true}`)
	continuousUsageOptions = []byte(`{"include_usage":true,"continuous_usage_stats":true}`)
)

// perChunkTimingsMember is llama.cpp's member that requests token counts in every chunk.
const perChunkTimingsMember = "timings_per_token"

// RequestsTimings reports whether the client requested timings in every chunk.
func RequestsTimings(r *Request) bool {
	return r.doc.Root().Get(perChunkTimingsMember).Kind() == jsonx.True
}

// RequestsFlexTier reports whether the client agrees to be served after other clients (OpenAI's
// service_tier flex).
func RequestsFlexTier(r *Request) bool {
	return r.Flex || r.doc.Root().Get("service_tier").EqualText("flex")
}

// patchStream requests a stream with usage if the client or the format wants a stream.
func (r *Request) patchStream(p *requestPatch, format *EngineFormat) {
	options := r.members[memberStreamOptionsIndex]
	if !r.Stream && !format.Stream {
		p.delete(options)
		return
	}
	switch v := r.members[memberStreamIndex]; {
	case r.Stream:
	case v.Exists():
		p.edits.Set(v, jsonTrue)
	default:
		p.insertMember("stream", jsonTrue)
	}
	if format.TokenTimings && !p.root.Get(perChunkTimingsMember).Exists() {
		p.insertMember(perChunkTimingsMember, jsonTrue)
	}
	whole := usageOptionsObject
	if format.ContinuousUsage {
		whole = continuousUsageOptions
	}
	switch {
	case !options.Exists():
		p.insertMember("stream_options", whole)
	case options.IsNull():
		p.edits.Set(options, whole)
	default:
		p.setStreamOption(options, optionIncludeUsage, usageOption)
		if format.ContinuousUsage {
			p.setStreamOption(options, optionContinuousUsage, continuousUsageOption)
		}
	}
}

// patch writes the token limit. member is max_tokens or max_completion_tokens. If it is anything
// else, the limit stays in the client's member.
func (t *TokenLimit) patch(p *requestPatch, members *memberValues, member string) {
	limit := int64(t.TokenLimit())
	if limit < 0 {
		return
	}
	want, other := memberMaxTokensIndex, memberMaxCompletionTokensIndex
	switch member {
	case memberNames[memberMaxTokensIndex]:
	case memberNames[memberMaxCompletionTokensIndex]:
		want, other = other, want
	default:
		if t.Max < 0 {
			break // the client sent no limit
		}
		for _, m := range [...]int{want, other} {
			if IsGiven(members[m]) {
				p.setInt(members[m], limit)
			}
		}
		return
	}
	if v := members[want]; v.Exists() {
		p.setInt(v, limit)
	} else {
		var digits [20]byte
		p.insertMember(memberNames[want], strconv.AppendInt(digits[:0], limit, 10))
	}
	p.delete(members[other])
}

func (r *Reasoning) patch(p *requestPatch, members *memberValues, how *ReasoningFormat) []Member {
	p.delete(members[memberReasoningIndex])
	p.delete(members[memberIncludeReasoningIndex])
	if how == nil {
		how = &standardReasoningFormat
	}
	patchEffort(p, members[memberReasoningEffortIndex], how.effortWord(r))
	added := how.addedMembers(r.Effort)
	p.addMembers(added, nil)
	return added
}

// patchEffort writes word into the member v, or removes the member if word is empty.
func patchEffort(p *requestPatch, v jsonx.Value, word string) {
	switch {
	case word == "":
		if IsGiven(v) {
			p.edits.Delete(v)
		}
	case !v.Exists():
		n := len(p.newText)
		p.newText = append(jsonx.AppendStringS(p.newText, memberNames[memberReasoningEffortIndex]), ':')
		p.newText = append(jsonx.AppendStringS(p.newText, word), ',')
		p.insertMembers(p.newTextFrom(n))
	case !v.EqualText(word):
		p.setString(v, word)
	}
}

var jsonRequired = []byte(`"required"`)

// patch writes the tool_choice in a form that the engine reads, and removes the tools that must not
// be called.
func (u *ToolUse) patch(p *requestPatch, members *memberValues, form ToolChoiceForm) {
	choice, tools := members[memberToolChoiceIndex], members[memberToolsIndex]
	if form == ToolChoiceIgnored && (choice.EqualText("none") || u.allowed.limited && u.allowed.mode == "none") {
		p.delete(choice)
		p.delete(tools)
		return
	}
	if u.choiceIsAny {
		p.edits.Set(choice, jsonRequired)
	}
	only := u.allowed.positions
	switch {
	case u.allowed.limited:
		p.setString(choice, u.allowed.mode)
	case form != ToolChoiceAsSent && u.namedFunction.Exists():
		at := findToolByName(tools, u.namedFunction)
		if at < 0 {
			return // the named tool does not exist
		}
		p.edits.Set(choice, jsonRequired)
		only = append(only[:0], at)
	default:
		return
	}
	for it := tools.Iter(); it.Next(); {
		if !slices.Contains(only, it.Index()) {
			p.edits.Delete(it.Value())
		}
	}
}

func findToolByName(tools, name jsonx.Value) int {
	want := string(name.AppendText(nil))
	for it := tools.Iter(); it.Next(); {
		if it.Value().Get("function").Get("name").EqualText(want) {
			return it.Index()
		}
	}
	return -1
}

var (
	anyObjectFormat = []byte(`{"type":"json_schema","json_schema":{"name":"object","schema":{"type":"object"}}}`)
	anyObjectValue  = []byte(`{"type":"json_object","value":{"type":"object"}}`)
	nameValue       = []byte("value")
)

func patchResponseFormat(p *requestPatch, v jsonx.Value, form ResponseForm) {
	if !IsGiven(v) {
		return
	}
	switch kind := v.Get("type"); {
	case kind.EqualText("json_object") && form == ResponseSchemas:
		p.edits.Set(v, anyObjectFormat)
	case kind.EqualText("json_object") && !v.Get("value").Exists():
		p.edits.Set(v, anyObjectValue)
	case form != ResponseValue:
	case kind.EqualText("text"):
		p.delete(v)
	case kind.EqualText("json_schema"):
		p.edits.Rename(v.Get("json_schema"), nameValue)
	}
}

var jsonEmptyString = []byte(`""`)

func (r *Prompt) fillEmptyContents(p *requestPatch, form NullContentForm) {
	for i := range r.contentless {
		m := &r.contentless[i]
		switch {
		case m.hasToolCalls && form == NullEmptyWithoutCalls:
		case m.content.Exists():
			p.edits.Set(m.content, jsonEmptyString)
		default:
			p.edits.Add(m.message, emptyContent)
		}
	}
}

var emptyContent = []byte(`"content":""`)

var (
	urlObjectBegin = []byte(`{"url":`)
	textPartBegin  = []byte(`{"type":"text","text":`)
	objectEnd      = []byte(`}`)
	jsonSystem     = []byte(`"system"`)
)

// patch rewrites the parts of messages that some engines do not understand. Image URLs become
// objects, malformed arguments become an object, refusals become texts, and developer becomes
// system for engines without that role.
func (r *Prompt) patch(p *requestPatch, messages jsonx.Value, developerAsSystem bool) {
	for i := range r.Images {
		m := &r.Images[i]
		if !m.isObject {
			p.edits.Insert(m.start, urlObjectBegin)
			p.edits.Insert(m.end, objectEnd)
		}
		if m.detail.Exists() {
			p.setString(m.detail, engineDetail(m.detail))
		}
	}
	for _, v := range r.malformed {
		n := len(p.newText)
		p.newText = r.arguments.AppendArguments(p.newText, v)
		p.edits.Set(v, p.newTextFrom(n))
	}
	for _, f := range r.refusals {
		n := len(p.newText)
		p.newText = append(append(append(p.newText, textPartBegin...), f.text.Raw()...), objectEnd...)
		p.edits.Set(f.part, p.newTextFrom(n))
	}
	if !developerAsSystem || !r.hasDeveloper {
		return
	}
	for it := messages.Iter(); it.Next(); {
		if role := it.Value().Get("role"); role.EqualText("developer") {
			p.edits.Set(role, jsonSystem)
		}
	}
}

// requestPatch collects the changes to a request. The edits refer to text. If text is reallocated,
// earlier edits still refer to the old array.
type requestPatch struct {
	edits   *jsonx.Edits
	root    jsonx.Value
	newText []byte
}

// insertMembers adds members at the start of the object, which must not be empty. text must end
// with a comma.
func (p *requestPatch) insertMembers(text []byte) { p.edits.Insert(p.root.Start()+1, text) }

func (p *requestPatch) newTextFrom(n int) []byte { return p.newText[n:len(p.newText):len(p.newText)] }

func (p *requestPatch) setString(v jsonx.Value, to string) {
	n := len(p.newText)
	p.newText = jsonx.AppendStringS(p.newText, to)
	p.edits.Set(v, p.newTextFrom(n))
}

// setInt sets v to n in digits, unless v is already written this way.
func (p *requestPatch) setInt(v jsonx.Value, n int64) {
	if isPlainInteger(v.Raw(), n) {
		return
	}
	at := len(p.newText)
	p.newText = strconv.AppendInt(p.newText, n, 10)
	p.edits.Set(v, p.newTextFrom(at))
}

// isPlainInteger reports whether the JSON value raw is n in digits, as strconv writes it.
func isPlainInteger(raw []byte, n int64) bool {
	switch {
	case len(raw) == 0:
		return false
	case n < 0:
		return raw[0] == '-' && isPlainInteger(raw[1:], -n)
	}
	for i := len(raw) - 1; i >= 0; i-- {
		if raw[i] != byte('0'+n%10) {
			return false
		}
		n /= 10
	}
	return n == 0
}

func (p *requestPatch) insertMember(name string, value []byte) {
	n := len(p.newText)
	p.newText = jsonx.AppendStringS(p.newText, name)
	p.newText = append(append(append(p.newText, ':'), value...), ',')
	p.insertMembers(p.newTextFrom(n))
}

func (p *requestPatch) delete(v jsonx.Value) {
	if v.Exists() {
		p.edits.Delete(v)
	}
}

// setStreamOption sets or adds a member of stream_options. Decode has checked that the member
// occurs at most once.
func (p *requestPatch) setStreamOption(options jsonx.Value, name string, add []byte) {
	switch v := options.Get(name); {
	case !v.Exists():
		p.edits.Add(options, add)
	case v.Kind() != jsonx.True:
		p.edits.Set(v, jsonTrue)
	}
}

// addMembers adds the members in list. It skips members that are also in before, because the caller
// has already added these.
func (p *requestPatch) addMembers(list, before []Member) {
	for i := range list {
		m := &list[i]
		if slices.ContainsFunc(before, func(b Member) bool { return b.Name == m.Name }) {
			continue
		}
		switch v := p.root.Get(m.Name); v.Kind() {
		case jsonx.Invalid:
			p.insertMember(m.Name, m.Value)
		case jsonx.Null:
			p.edits.Set(v, m.Value)
		case jsonx.Object:
			p.mergeMissing(v, m.Value)
		}
	}
}

// mergeMissing adds to the client's object v the members of value that v lacks.
func (p *requestPatch) mergeMissing(v jsonx.Value, value []byte) {
	var d jsonx.Doc
	if err := d.Parse(value, jsonx.Options{}); err != nil {
		panic("BUG: a member to add is not JSON: " + err.Error())
	}
	for it := d.Root().Iter(); it.Next(); {
		k := it.Key()
		if v.Get(string(k.Name())).Exists() {
			continue
		}
		n := len(p.newText)
		p.newText = append(append(append(p.newText, '"'), k.Raw()...), `":`...)
		p.newText = append(p.newText, it.Value().Raw()...)
		p.edits.Add(v, p.newTextFrom(n))
	}
}
