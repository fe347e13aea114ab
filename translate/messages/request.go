package messages

import (
	"slices"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// RequestInfo contains the request data that the answer and the errors need. The zero value is
// ready for use.
type RequestInfo struct {
	thinking      thinkingDisplay
	stopSequences []string
	images        dialects.ImagePositions
	dropped       dialects.DroppedParts
	cleared       clearedThinking // the thinking removed from the history by the client's edits
}

// Dropped returns the names of the parts of the request that were lost in translation.
func (i *RequestInfo) Dropped() []string { return i.dropped.Names() }

func (i *RequestInfo) reset() {
	i.images.Reset()
	*i = RequestInfo{images: i.images}
}

// Request translates the body of a Messages request. The zero value is ready for use. One call at a
// time may use a Request. Between calls, it does not refer to a body.
type Request struct {
	info         *RequestInfo // set by Decode, which fills it
	doc          jsonx.Doc
	members      [memberCount]jsonx.Value
	w            dialects.ChatWriter
	endsWithText bool // the conversation ends with assistant text
	thinkingOn   bool

	arguments chat.ToolArguments
}

// The deepest member that the edge reads is messages[0].content[0].content[0].source.data. In the
// chat request, a schema is nested one level deeper and a tool call has more members. MaxDepth and
// MaxNodes are therefore lower than the limits for chat.
var parseOptions = jsonx.Options{
	MaxDepth: jsonx.DefaultMaxDepth - 1, Record: 10, MaxNodes: jsonx.DefaultMaxNodes / 2, Paired: true,
}

const (
	memberModelIndex = iota
	memberMessagesIndex
	memberMaxTokensIndex
	memberSystemIndex
	memberTemperatureIndex
	memberTopPIndex
	memberTopKIndex
	memberStopSequencesIndex
	memberStreamIndex
	memberToolsIndex
	memberToolChoiceIndex
	memberMetadataIndex
	memberThinkingIndex
	memberOutputConfigIndex
	memberOutputFormatIndex // old name of output_config.format
	memberThreadIndex
	memberContextManagementIndex
	memberMCPServersIndex
	memberContainerIndex
	// The following members belong to chat. They are passed on unchanged, and package chat checks
	// them.
	memberFrequencyPenaltyIndex
	memberCount = memberFrequencyPenaltyIndex + 7
)

var passedMemberNames = []string{
	"frequency_penalty", "presence_penalty", "repetition_penalty", "min_p", "seed", "logit_bias", "chat_template_kwargs",
}

var requestMemberNames = jsonx.NewNameIndex(append([]string{
	"model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream", "tools",
	"tool_choice", "metadata", "thinking", "output_config", "output_format", "thread", "context_management",
	"mcp_servers", "container",
}, passedMemberNames...)...)

// Decode appends the chat request for body to dst. It decodes the appended bytes into the parameter
// into, which refers to them until it is reset. Decode fills info and does not retain body.
//
// The error is an *apierr.Error that names a member of the Messages request. After an error, the
// caller must not use the appended bytes.
func (r *Request) Decode(dst, body []byte, into *chat.Request, info *RequestInfo, o dialects.Options) ([]byte, error) {
	defer r.reset()
	info.reset()
	r.info = info
	if err := r.parse(body, o.Strict); err != nil {
		return dst, err
	}
	if chat.IsGiven(r.members[memberThreadIndex]) {
		return dst, threadError()
	}
	if !o.Count {
		if err := o.Refuse.CheckMembers(r.doc.Root()); err != nil {
			return dst, err
		}
	}
	if err := r.checkHosted(&o); err != nil {
		return dst, err
	}
	r.w.Out = slices.Grow(dst, len(body)+len(body)/8)
	f := r.translate(&o)
	dst = r.w.Out
	if f != nil {
		return dst, f.Err()
	}
	if o.Strict && !o.Count {
		if err := r.checkStrict(); err != nil {
			return dst, err
		}
	}
	if err := into.Decode(dst); err != nil {
		return dst, info.RelocateError(err)
	}
	into.Prefilled = r.isPrefilled(into)
	into.Session.ID = chat.UserIDSession(r.members[memberMetadataIndex].Get("user_id"))
	// "consecutive user or assistant turns in your request will be combined into a single turn".
	into.TurnsAreOne = true
	into.Reasoning.Max = r.members[memberOutputConfigIndex].Get("effort").EqualText("max")
	return dst, nil
}

// checkHosted rejects the members that o.Hosted returns. It does not check count requests, because
// they cost nothing and store nothing.
func (r *Request) checkHosted(o *dialects.Options) error {
	model := r.members[memberModelIndex]
	if o.Hosted == nil || o.Count || !model.IsString() {
		return nil
	}
	return o.Hosted(model.AppendText(nil)).CheckMembers(r.doc.Root())
}

// isPrefilled reports whether the conversation ends with the start of an answer. If the answer must
// start with thinking, a tool call or JSON for a schema, the start cannot be continued.
func (r *Request) isPrefilled(c *chat.Request) bool {
	choice := r.members[memberToolChoiceIndex].Get("type")
	forced := choice.EqualText("any") || choice.EqualText("tool")
	thinks := r.thinkingOn || c.Reasoning.Effort != "" && c.Reasoning.Effort != "none"
	return r.endsWithText && !thinks && !c.StructuredOutput && !forced
}

// threadError returns the error for a conversation stored on the server. Later requests of such a
// conversation contain only new messages, so the edge could not answer them correctly. The tool
// runners of the SDKs start every conversation this way. After this error, they send the whole
// conversation.
func threadError() error {
	e := apierr.Invalid("thread", apierr.CodeUnsupportedParameter,
		"Unsupported parameter: thread. Nothing is stored here: "+
			"send the whole conversation in messages with every request.")
	e.DetailCode = apierr.DetailCodeThreadUnsupported
	return e
}

func (r *Request) reset() {
	r.doc.Reset()
	r.arguments.Reset()
	*r = Request{doc: r.doc, arguments: r.arguments}
}

func (r *Request) parse(body []byte, strict bool) error {
	if len(body) == 0 {
		return apierr.Invalid("", apierr.CodeInvalidJSON, "The request body is empty. Send a JSON object.")
	}
	history := []string{"messages", "system"}
	if strict {
		history = nil
	}
	if err := chat.ParseWithRepair(&r.doc, body, parseOptions, history...); err != nil {
		return apierr.FromJSONError(err, "")
	}
	root := r.doc.Root()
	if !root.IsObject() {
		return apierr.Invalid("", apierr.CodeInvalidType, "The request body must be a JSON object.")
	}
	f := chat.ReadFields(root, requestMemberNames, r.members[:])
	if f == nil {
		f = chat.CheckBounds(root)
	}
	if f != nil {
		return f.Err()
	}
	return nil
}

// translate writes the chat request. Members that have the same name and rules in chat are copied
// unread, because package chat checks them.
func (r *Request) translate(o *dialects.Options) *requestFault {
	if f := checkContextEdits(r.members[memberContextManagementIndex]); f != nil {
		return f
	}
	r.w.WriteString(`{`)
	model := r.members[memberModelIndex]
	if chat.IsGiven(model) {
		r.w.WriteRaw(`"model":`, model)
		r.w.WriteString(`,`)
	}
	c := conversationWriter{w: &r.w, images: &r.info.images, arguments: &r.arguments}
	if !o.Strict {
		c.dropped = &r.info.dropped
	}
	c.history.cleared.edits = chat.IsGiven(r.members[memberContextManagementIndex])
	c.history.keptFrom = firstKeptThinking(r.members[memberContextManagementIndex], r.members[memberMessagesIndex])
	if model.IsString() {
		name, plain := model.Text()
		if !plain {
			name = model.AppendText(nil)
		}
		c.inPlace = o.InPlace != nil && o.InPlace(name)
		c.history.opener, c.history.model = o.Opener, name
	}
	if f := c.write(r.members[memberMessagesIndex], r.members[memberSystemIndex]); f != nil {
		return f
	}
	r.endsWithText = c.endsWithText
	r.info.cleared = c.history.cleared
	if c.history.hasUnopened {
		r.info.dropped.AddThinking()
	}
	if !o.Count {
		if !chat.IsGiven(r.members[memberMaxTokensIndex]) {
			return chat.MissingError("max_tokens")
		}
		r.w.WriteMember(`,"max_tokens":`, r.members[memberMaxTokensIndex])
		r.w.WriteMember(`,"stream":`, r.members[memberStreamIndex])
	}
	r.w.WriteMember(`,"temperature":`, r.members[memberTemperatureIndex])
	r.w.WriteMember(`,"top_p":`, r.members[memberTopPIndex])
	r.w.WriteMember(`,"top_k":`, r.members[memberTopKIndex])
	f := r.writeStopSequences()
	if f == nil {
		f = r.writeTools(o.Strict)
	}
	if f == nil {
		f = chat.CheckOptionalObject("metadata", r.members[memberMetadataIndex])
	}
	if f == nil {
		f = r.writeReasoning(o)
	}
	if f == nil {
		f = r.writeOutputFormat()
	}
	if !o.Count && !o.Strict {
		for i, name := range passedMemberNames {
			r.w.WriteMember(`,"`+name+`":`, r.members[memberFrequencyPenaltyIndex+i])
		}
		r.w.WriteUnknownMembers(r.doc.Root(), requestMemberNames, o.Refuse)
	}
	r.w.WriteString(`}`)
	r.recordUnsupported(o)
	return f
}

// recordUnsupported records members that request unsupported behavior as dropped.
func (r *Request) recordUnsupported(o *dialects.Options) {
	for it := r.doc.Root().Iter(); it.Next(); {
		for _, m := range effectlessMembers {
			if it.Key().Equals(m.name) && !m.has(it.Value()) && !o.Refuse.IsPassedOn(it.Key()) {
				r.info.dropped.AddMember(m.name)
			}
		}
	}
	if servers := r.members[memberMCPServersIndex]; chat.IsGiven(servers) && !(servers.IsArray() && servers.Len() == 0) {
		r.info.dropped.AddMember("mcp_servers")
	}
	if chat.IsGiven(r.members[memberContainerIndex]) {
		r.info.dropped.AddMember("container")
	}
	if !onlyClearsThinking(r.members[memberContextManagementIndex]) {
		r.info.dropped.AddMember("context_management")
	}
}

// effectlessMember is a member that has no effect here. values are those that request what happens
// anyway.
type effectlessMember struct {
	name   string
	values []string
}

var effectlessMembers = [...]effectlessMember{
	{"service_tier", []string{"auto", "standard_only"}},
	{"speed", []string{"standard"}},
}

func (m *effectlessMember) has(v jsonx.Value) bool {
	return !chat.IsGiven(v) || slices.ContainsFunc(m.values, v.EqualText)
}

func (r *Request) writeStopSequences() *requestFault {
	v := r.members[memberStopSequencesIndex]
	switch {
	case !chat.IsGiven(v):
		return nil
	case !v.IsArray():
		return chat.WrongTypeError("stop_sequences", "an array of strings", v)
	}
	for it := v.Iter(); it.Next(); {
		s := it.Value()
		switch {
		case !s.IsString():
			return chat.WrongTypeError("", "a string", s).InElement("stop_sequences", it.Index())
		case len(s.RawContents()) == 0:
			return chat.WrongValueError("", "must not be empty").InElement("stop_sequences", it.Index())
		}
		r.info.stopSequences = append(r.info.stopSequences, string(s.AppendText(nil)))
	}
	if len(r.info.stopSequences) > 0 {
		r.w.WriteMember(`,"stop":`, r.members[memberStopSequencesIndex])
	}
	return nil
}

var (
	thinkingMemberNames = jsonx.NewNameIndex("type", "display", "budget_tokens")
	outputMemberNames   = jsonx.NewNameIndex("effort", "format")
	formatMemberNames   = jsonx.NewNameIndex("type", "schema")
)

// writeReasoning writes the effort. It drops a thinking budget, because chat has no member for it.
func (r *Request) writeReasoning(o *dialects.Options) *requestFault {
	var config [2]jsonx.Value
	var thinking [3]jsonx.Value
	f := chat.ReadObject("output_config", r.members[memberOutputConfigIndex], outputMemberNames, config[:])
	if f == nil {
		f = chat.CheckOptionalString("effort", config[0]).InObject("output_config")
	}
	if f == nil {
		f = chat.ReadObject("thinking", r.members[memberThinkingIndex], thinkingMemberNames, thinking[:])
	}
	if f == nil && chat.IsGiven(r.members[memberThinkingIndex]) {
		f = chat.FirstInvalidMember(chat.CheckRequiredString("type", thinking[0]), chat.CheckOptionalString("display", thinking[1])).InObject("thinking")
	}
	if f != nil {
		return f
	}
	kind, f := r.readHint(&thinkingTypes, thinking[0], o.Strict)
	if f != nil {
		return f.InObject("type").InObject("thinking")
	}
	display, f := r.readHint(&thinkingDisplays, thinking[1], o.Strict)
	if f != nil {
		return f.InObject("display").InObject("thinking")
	}
	r.info.thinking = chooseThinking(kind, display, o.RedactThinking)
	r.thinkingOn = r.info.thinking != thinkingHidden
	if r.thinkingOn && chat.IsGiven(thinking[2]) {
		r.info.dropped.AddMember("budget_tokens")
	}
	switch {
	case kind == typeDisabled:
		r.w.WriteString(`,"reasoning_effort":"none"`)
	case config[0].EqualText("max") && !o.Strict:
		r.w.WriteString(`,"reasoning_effort":"xhigh"`)
	default: // package chat checks the value
		r.w.WriteMember(`,"reasoning_effort":`, config[0])
	}
	return nil
}

func (r *Request) readHint(list *chat.HintWordList, v jsonx.Value, strict bool) (string, *requestFault) {
	if !chat.IsGiven(v) {
		return "", nil
	}
	word, known := list.NearestWord(v)
	switch {
	case known:
	case strict:
		return "", chat.UnsupportedError("", "must be one of "+strings.Join(list.Words, ", "))
	default:
		r.info.dropped.AddMember("thinking")
	}
	return word, nil
}

func (r *Request) writeOutputFormat() *requestFault {
	path := "output_config.format"
	v := r.members[memberOutputConfigIndex].Get("format")
	if !chat.IsGiven(v) {
		path, v = "output_format", r.members[memberOutputFormatIndex]
	}
	var c [2]jsonx.Value
	if f := chat.ReadObject(path, v, formatMemberNames, c[:]); f != nil || !chat.IsGiven(v) {
		return f
	}
	f := chat.CheckRequiredString("type", c[0])
	switch {
	case f != nil:
	case !c[0].EqualText("json_schema"):
		f = chat.UnsupportedError("type", "must be json_schema")
	case !chat.IsGiven(c[1]):
		f = chat.MissingError("schema")
	default:
		f = chat.CheckOptionalObject("schema", c[1])
	}
	if f != nil {
		return f.InObject(path)
	}
	r.w.WriteRaw(`,"response_format":{"type":"json_schema","json_schema":{"name":"output","strict":true,"schema":`, c[1])
	r.w.WriteString(`}}`)
	return nil
}
