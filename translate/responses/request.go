package responses

import (
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// Request translates the body of a Responses request. The zero value is ready for use. One call at
// a time may use a Request. Between calls, it does not refer to a body.
type Request struct {
	model   []byte // the decoded name in the client's spelling
	doc     jsonx.Doc
	members memberValues
	name    []byte // buffer for model if the name has escapes
	tools   toolList
	turn    assistantTurn
	w       dialects.ChatWriter

	arguments      chat.ToolArguments
	dropped        dialects.DroppedParts
	firstExtension int  // index of the first item that the contract does not list, or -1
	isSummary      bool // the conversation is being compacted, so the answer is a summary
}

// parseOptions indexes values down to input[0].content[0].image_url. Schemas are validated as JSON
// but not indexed. The chat request is nested one level deeper (tools) and has up to twice as many
// values (tool calls). MaxDepth and MaxNodes ensure that the chat request stays within the limits
// for chat.
var parseOptions = jsonx.Options{
	Record: 6, MaxDepth: jsonx.DefaultMaxDepth - 1, MaxNodes: jsonx.DefaultMaxNodes / 2, Paired: true,
}

// reset releases the body. It keeps allocated memory for the next body.
func (r *Request) reset() {
	r.doc.Reset()
	r.tools.reset()
	r.turn.reset()
	r.arguments.Reset()
	*r = Request{doc: r.doc, name: r.name[:0], tools: r.tools, turn: r.turn, arguments: r.arguments}
}

// Decode appends the chat request for body to dst. It decodes the appended bytes into the parameter
// into, which refers to them until it is reset. Decode fills info and does not retain body.
//
// The error is an *apierr.Error that names a member of the Responses request. After an error, the
// caller must not use the appended bytes.
func (r *Request) Decode(dst, body []byte, into *chat.Request, info *RequestInfo, o dialects.Options) ([]byte, error) {
	defer r.reset()
	info.reset()
	if err := r.check(body, &o); err != nil {
		return dst, err
	}
	r.w.Out = dst
	r.w.WriteRaw(`{"model":`, r.members[memberModelIndex])
	c := conversationWriter{
		w: &r.w, names: &r.tools.engineNames, images: &info.images, inPlace: o.InPlace != nil && o.InPlace(r.model),
		turn: &r.turn, arguments: &r.arguments, opener: o.Opener, model: r.model,
		dropped: &r.dropped, firstUnreadable: -1,
	}
	if o.Count || o.Compact {
		r.members[memberStreamIndex] = jsonx.Value{}
	}
	if r.isSummary = r.isSummary || o.Compact; r.isSummary {
		c.trailingText = summaryRequest
		info.isSummary = true
		r.members.removeForSummary()
		r.tools.callsForbidden = true
	}
	c.write(r.members[memberInputIndex], r.members[memberInstructionsIndex])
	if c.firstUnreadable >= 0 {
		return r.w.Out, rejectionError(unreadableCompaction(c.firstUnreadable))
	}
	r.members.writeSettings(&r.w, &r.tools, info)
	if !o.Strict {
		r.w.WriteUnknownMembers(r.doc.Root(), requestMembers, o.Refuse)
	}
	r.w.WriteString(`}`)
	r.members.recordUnsupported(&r.dropped)
	r.members.fillInfo(&r.tools, info)
	info.dropped.AddAll(r.dropped)
	info.dropped.AddAll(r.tools.dropped)
	if err := into.Decode(r.w.Out[len(dst):]); err != nil {
		return r.w.Out, info.RelocateError(err)
	}
	into.Session.CacheKey = chat.HashSessionValue(r.members[memberPromptCacheKeyIndex])
	into.Flex = r.members[memberServiceTierIndex].EqualText("flex")
	return r.w.Out, nil
}

func (r *Request) check(body []byte, o *dialects.Options) error {
	if len(body) == 0 {
		return apierr.Invalid("", apierr.CodeInvalidJSON, "The request body is empty. Send a JSON object.")
	}
	history := []string{memberNames[memberInputIndex], memberNames[memberInstructionsIndex]}
	if o.Strict {
		history = nil
	}
	if err := chat.ParseWithRepair(&r.doc, body, parseOptions, history...); err != nil {
		return apierr.FromJSONError(err, "")
	}
	r.firstExtension = -1
	root := r.doc.Root()
	if !root.IsObject() {
		f := chat.WrongTypeError("", "a JSON object", root)
		return apierr.Invalid("", f.Code, "The request body %s.", f.Text)
	}
	f := chat.ReadFields(root, requestMembers, r.members[:])
	if f == nil {
		f = chat.CheckBounds(root)
	}
	if f != nil {
		return rejectionError(f)
	}
	for _, step := range decodeSteps {
		if f := step(r); f != nil {
			return rejectionError(f)
		}
	}
	if err := o.Refuse.CheckMembers(root); err != nil {
		return err
	}
	if o.Strict {
		return r.checkStrict()
	}
	if r.isSummary && !o.MayCompact {
		return rejectionError(noCompactionError(r.members[memberInputIndex]))
	}
	return nil
}

// decodeSteps is in the order of the contract's table, so that Decode reports the first mistake in
// this order.
var decodeSteps = [...]func(*Request) *requestFault{
	(*Request).decodeModel,
	(*Request).checkStorage,
	(*Request).checkInput,
	(*Request).checkSimpleMembers,
	func(r *Request) *requestFault { return r.tools.decode(r.members[memberToolsIndex]) },
	func(r *Request) *requestFault { return r.tools.checkChoice(r.members[memberToolChoiceIndex]) },
	func(r *Request) *requestFault { return r.members.checkText() },
	func(r *Request) *requestFault { return r.members.checkReasoning() },
}

func (r *Request) decodeModel() *requestFault {
	v := r.members[memberModelIndex]
	if f := chat.CheckRequiredString("model", v); f != nil {
		return f
	}
	name, ok := v.Text()
	if !ok {
		r.name = v.AppendText(r.name[:0])
		name = r.name
	}
	r.model = name
	return nil
}

// checkStorage rejects members that require storage. It runs before the input is checked, because a
// client that relies on storage sends only part of a conversation.
func (r *Request) checkStorage() *requestFault {
	for _, m := range [...]int{memberStoreIndex, memberBackgroundIndex, memberGenerateIndex} {
		if f := checkOptionalBool(memberNames[m], r.members[m]); f != nil {
			return f
		}
	}
	if on, _ := r.members[memberStoreIndex].Bool(); on {
		return chat.UnsupportedError("store", "Nothing is stored here: leave it out or send false")
	}
	for _, m := range [...]int{memberPreviousResponseIDIndex, memberConversationIndex} {
		if chat.IsGiven(r.members[m]) {
			return chat.UnsupportedError(memberNames[m],
				"Nothing is stored here: send the whole conversation in input with every request")
		}
	}
	if chat.IsGiven(r.members[memberPromptIndex]) {
		return chat.UnsupportedError("prompt", "No prompts are stored here: send the text in instructions or input")
	}
	if on, _ := r.members[memberBackgroundIndex].Bool(); on {
		return chat.UnsupportedError("background",
			"Nothing is stored here, so an answer must be waited for: leave it out or send false")
	}
	if on, is := r.members[memberGenerateIndex].Bool(); is && !on {
		return chat.UnsupportedError("generate", "Nothing is stored here for a later request, but over WebSocket: leave it out")
	}
	return nil
}

func (r *Request) checkSimpleMembers() *requestFault {
	for _, m := range [...]int{memberTemperatureIndex, memberTopPIndex} { // package chat checks the ranges
		if f := checkOptional(memberNames[m], "a number", r.members[m], jsonx.Value.IsNumber); f != nil {
			return f
		}
	}
	for _, m := range [...]int{memberStreamIndex, memberParallelToolCallsIndex, memberLogprobsIndex} {
		if f := checkOptionalBool(memberNames[m], r.members[m]); f != nil {
			return f
		}
	}
	for _, m := range [...]int{memberMaxOutputTokensIndex, memberMaxToolCallsIndex, memberMaxTokensIndex, memberMaxCompletionTokensIndex} {
		if f := checkOptionalCount(memberNames[m], r.members[m]); f != nil {
			return f
		}
	}
	for _, m := range [...]int{memberPromptCacheKeyIndex, memberInstructionsIndex, memberSafetyIdentifierIndex} {
		if f := chat.CheckOptionalString(memberNames[m], r.members[m]); f != nil {
			return f
		}
	}
	if f := checkInclude(r.members[memberIncludeIndex]); f != nil {
		return f
	}
	return chat.CheckOptionalObject("metadata", r.members[memberMetadataIndex])
}

func (r *Request) checkStrict() error {
	for it := r.doc.Root().Iter(); it.Next(); {
		known := false
		for _, name := range memberNames {
			known = known || it.Key().Equals(name)
		}
		if !known {
			// The error does not repeat the member's name, because errors never repeat client
			// text.
			return apierr.Invalid("", apierr.CodeUnsupportedParameter,
				"Unsupported parameter: the request has a member that this service does not know.")
		}
	}
	if chat.IsGiven(r.members[memberPromptCacheKeyIndex]) {
		return rejectionError(chat.UnsupportedError("prompt_cache_key", "It is a hint, and strict takes none: leave it out or send null"))
	}
	for m := memberPresencePenaltyIndex; m < memberCount; m++ {
		v := r.members[m]
		switch {
		case !chat.IsGiven(v) || requestsDefault(m, v):
		case m < memberIncludeIndex:
			return rejectionError(chat.UnsupportedError(memberNames[m], "It is not a member of this dialect's requests: leave it out"))
		default:
			return rejectionError(chat.UnsupportedError(memberNames[m], "It has no effect here: leave it out"))
		}
	}
	for _, h := range optionalHints {
		if _, known := h.read(r.members[h.member]); !known {
			return rejectionError(chat.UnsupportedError(memberNames[h.member]+"."+h.name, "It must be one of "+strings.Join(h.list.Words, ", ")))
		}
	}
	if i := r.firstExtension; i >= 0 {
		return rejectionError(chat.UnsupportedError(chat.ElementPath("input", i),
			"An item must be a message, a function_call without a namespace, a function_call_output or reasoning"))
	}
	if i := r.tools.firstOther; i >= 0 {
		return rejectionError(chat.UnsupportedError(chat.ElementPath("tools", i)+".type", "Only function tools are accepted"))
	}
	return nil
}
