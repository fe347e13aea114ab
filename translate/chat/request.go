package chat

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// Request is a chat-completions request: a checked view of the client's body. It refers to the body
// passed to Decode. The caller must not modify this body until Reset or the next Decode. Slices and
// Values from the Request are valid for just as long.
//
// The zero value is ready for use. After its first uses, a pooled Request allocates only for
// images, escaped names and errors. It must not be copied and is not safe for concurrent use.
type Request struct {
	RequestFacts
	Prompt  Prompt
	ToolUse ToolUse

	parsedRequest
	doc      jsonx.Doc
	edits    jsonx.Edits
	modelBuf []byte
	newText  []byte
	isReset  bool
}

// RequestFacts contains the values on which the edge bases decisions.
type RequestFacts struct {
	// Model is the decoded name in the client's spelling: 1 to MaxModelName bytes without control
	// characters.
	Model []byte
	// Stream is true if the client wants a stream.
	Stream bool
	// IncludeUsage is true if the client requested a final chunk with usage.
	IncludeUsage bool
	// ContinuousUsage is true if the client also requested usage in every chunk.
	ContinuousUsage bool
	// StructuredOutput is true if the answer must be JSON, with or without a schema.
	StructuredOutput bool
	// A translator sets ImpliedProperties.
	ImpliedProperties
	// Flex is true if the client agrees to be served after other clients. A dialect sets Flex if
	// its translation drops service_tier.
	Flex bool
	// N is the number of choices. It is 1 if the client did not specify it.
	N int

	Tokens    TokenLimit
	Reasoning Reasoning
}

type parsedRequest struct {
	body         []byte
	members      memberValues
	found        uint64 // the members that are present
	clientValues clientValues
	// The answer that the next engine continues; nil if the engine starts a new answer.
	partial   *PartialAnswer
	schema    bool // response_format is json_schema
	onlyKnown bool
	onlyUsual bool
}

// ImpliedProperties contains properties of a request in another dialect that no member of the chat
// request expresses.
type ImpliedProperties struct {
	// Prefilled is true if the last message is the start of the answer.
	Prefilled bool
	// TurnsAreOne is true if consecutive messages with the same role are one turn.
	TurnsAreOne bool
	// Session is the session in the client's request (see RequestSession).
	Session SessionHashes
}

// MaxModelName is the maximum length of a model's name, in bytes.
const MaxModelName = 256

// maxKeptName is the maximum size of the buffer for an escaped name that Reset retains.
const maxKeptName = 1 << 10

// parseOptions indexes values down to tool_choice.allowed_tools.tools[0].function. Tool schemas are
// validated as JSON but not indexed.
var parseOptions = jsonx.Options{Record: 6, Paired: true}

// HasSchema reports whether the answer must follow a schema.
func (r *Request) HasSchema() bool { return r.schema }

// Reset clears the request and releases the body. It keeps allocated memory for the next request.
func (r *Request) Reset() {
	r.doc.Reset()
	r.edits.Reset()
	r.Prompt.reset()
	r.ToolUse.reset()
	r.RequestFacts = RequestFacts{}
	r.N, r.Tokens, r.Reasoning.Include = 1, noTokenLimit, true
	r.parsedRequest = parsedRequest{}
	r.modelBuf, r.newText = r.modelBuf[:0], r.newText[:0]
	// Clients may send a name of any length, even though only short ones are valid.
	if cap(r.modelBuf) > maxKeptName {
		r.modelBuf = nil
	}
	r.isReset = true
}

// Decode reads a body and checks everything that does not depend on the model. The error is an
// *apierr.Error with the path of the offending member. After an error, the caller may only reset
// the Request or use it for another Decode.
//
// Decode neither reads nor checks members that are not in the contract. If a member is optional,
// null counts as absent. Integers may be written as 1.0 or 1e3.
func (r *Request) Decode(body []byte) error { return r.parse(body) }

// DecodeWithRepair is like Decode, but replaces lone surrogates in the messages of body (see
// ParseWithRepair).
func (r *Request) DecodeWithRepair(body []byte) error {
	return r.parse(body, memberNames[memberMessagesIndex])
}

func (r *Request) parse(body []byte, mend ...string) error {
	if !r.isReset { // a pooled Request has already been reset
		r.Reset()
	}
	r.isReset = false
	if err := ParseWithRepair(&r.doc, body, parseOptions, mend...); err != nil {
		return syntaxError(body, err)
	}
	root := r.doc.Root()
	if !root.IsObject() {
		return apierr.Invalid("", apierr.CodeInvalidType, "The request body must be a JSON object, not %s.", kindName(root))
	}
	r.body = body
	return r.decode(root).Err()
}

func (r *Request) decode(root jsonx.Value) *InvalidMember {
	found, others, err := requestMembers.ReadFields(root, r.members[:])
	if err != nil {
		return invalidMember(err)
	}
	r.found, r.onlyKnown = found, !others
	if r.onlyUsual = r.onlyKnown && found&^usualMemberSet == 0; !r.onlyUsual {
		if e := CheckBounds(root); e != nil {
			return e
		}
	}
	if e := r.decodeModel(); e != nil {
		return e
	}
	if e := r.Prompt.decode(r.Messages()); e != nil {
		return e
	}
	return r.decodeOptional()
}

// decodeOptional reads the optional members in the order of the contract's table, so that Decode
// reports the first mistake in this order.
func (r *Request) decodeOptional() (e *InvalidMember) {
	if r.found&numberMemberSet != 0 {
		if e = r.members.checkNumbers(r.found); e != nil {
			return e
		}
	}
	if r.found&limitMemberSet != 0 {
		if e = r.Tokens.decode(&r.members); e != nil {
			return e
		}
	}
	if r.found&rareMemberSet != 0 {
		if e = r.decodeRare(); e != nil {
			return e
		}
	}
	if r.found&streamMemberSet != 0 {
		if e = r.decodeStream(); e != nil {
			return e
		}
	}
	if r.found&(1<<memberResponseFormatIndex) != 0 {
		if e = r.decodeResponseFormat(); e != nil {
			return e
		}
	}
	if r.found&(toolMemberSet|1<<memberParallelToolCallsIndex) != 0 {
		if e = r.decodeTools(); e != nil {
			return e
		}
	}
	if r.found&reasoningMemberSet != 0 {
		return r.Reasoning.decode(&r.members)
	}
	return nil
}

func (r *Request) decodeRare() *InvalidMember {
	if e := r.decodeChoices(); e != nil {
		return e
	}
	if e := r.members.checkStop(); e != nil {
		return e
	}
	return r.members.checkSimpleMembers()
}

func (r *Request) decodeModel() *InvalidMember {
	v := r.members[memberModelIndex]
	name, ok := v.Text()
	if !ok {
		if e := CheckRequiredString("model", v); e != nil {
			return e
		}
		r.modelBuf = v.AppendText(r.modelBuf[:0])
		name = r.modelBuf
	}
	switch {
	case len(name) == 0:
		return WrongValueError("model", "must not be empty")
	case len(name) > MaxModelName:
		return WrongValueError("model", "must be at most 256 bytes long")
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return WrongValueError("model", "must not hold control characters")
		}
	}
	r.Model = name
	return nil
}

func (r *Request) decodeChoices() *InvalidMember {
	for _, m := range [...]int{memberNIndex, memberNCmplIndex} {
		v := r.members[m]
		if !IsGiven(v) {
			continue
		}
		n, e := ReadInteger(memberNames[m], v)
		switch {
		case e != nil:
			return e
		case n < 1 || n > translate.MaxChoices:
			return WrongValueError(memberNames[m], "must be between 1 and "+strconv.Itoa(translate.MaxChoices))
		case m == memberNCmplIndex && IsGiven(r.members[memberNIndex]) && int(n) != r.N:
			return WrongValueError(memberNames[m], "must be the same as n when both are given; send one of them")
		}
		r.N = int(n)
	}
	return nil
}

const (
	optionIncludeUsage    = "include_usage"
	optionContinuousUsage = "continuous_usage_stats"
)

var streamOptionMemberNames = jsonx.NewNameIndex(optionIncludeUsage, optionContinuousUsage)

func (r *Request) decodeStream() (e *InvalidMember) {
	if r.Stream, e = ReadOptionalBool("stream", r.members[memberStreamIndex], false); e != nil {
		return e
	}
	options := r.members[memberStreamOptionsIndex]
	if !IsGiven(options) {
		return nil
	}
	var out [2]jsonx.Value
	if e = ReadObject("stream_options", options, streamOptionMemberNames, out[:]); e != nil {
		return e
	}
	if r.IncludeUsage, e = ReadOptionalBool(optionIncludeUsage, out[0], false); e == nil {
		r.ContinuousUsage, e = ReadOptionalBool(optionContinuousUsage, out[1], false)
	}
	r.ContinuousUsage = r.ContinuousUsage && r.IncludeUsage // as vLLM does
	return e.InObject("stream_options")
}

func (r *Request) decodeTools() *InvalidMember {
	tools := r.Tools()
	if e := r.ToolUse.decode(tools); e != nil {
		return e
	}
	if r.ToolUse.Offered { // templates write the tool definitions into the prompt
		r.Prompt.Bytes += tools.End() - tools.Start()
	}
	if parallel, said := r.members[memberParallelToolCallsIndex].Bool(); said {
		r.ToolUse.Single = !parallel
	}
	return r.ToolUse.decodeChoice(r.members[memberToolChoiceIndex], tools)
}

// Messages returns the array of messages as the client sent it.
func (r *Request) Messages() jsonx.Value { return r.members[memberMessagesIndex] }

// Tools returns the array of tools, which may be absent.
func (r *Request) Tools() jsonx.Value { return r.members[memberToolsIndex] }

// AppendToolNames appends the names of r's tools, each followed by a 0 byte.
func AppendToolNames(dst []byte, r *Request) []byte {
	for it := r.Tools().Iter(); it.Next(); {
		dst = append(it.Value().Get("function").Get("name").AppendText(dst), 0)
	}
	return dst
}
