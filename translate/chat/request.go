package chat

import (
	"math"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// Request is a chat-completions request: a checked view over the client's body, and the few facts
// that the edge decides upon. It keeps no copy: the body that Decode was given, and all slices and
// Values taken from the Request, are valid and must not be changed until Reset or the next Decode.
//
// The zero value is ready. A Request is meant to be pooled; after its first uses it does not
// allocate, except for images, for escaped names and for errors. It must not be copied and is not
// safe for concurrent use.
type Request struct {
	// Model is the name that the client wrote, escapes decoded: 1 to MaxModelName bytes without
	// control characters.
	Model []byte
	// Stream says that the client wants events.
	Stream bool
	// IncludeUsage says that the client asked for a last chunk with usage.
	IncludeUsage bool
	// ContinuousUsage says that the client asked for usage in every chunk, too.
	ContinuousUsage bool
	// MaxTokens bounds all tokens of the completion, reasoning included, whichever member said so;
	// -1: not given. Check may lower it.
	MaxTokens int
	// Effort is the reasoning effort: one of Efforts, or empty when the client did not say. Check
	// may lower it.
	Effort string
	// IncludeReasoning is false when the client does not want to see reasoning.
	IncludeReasoning bool
	// HasTools says that at least one tool is defined.
	HasTools bool
	// StructuredOutput says that the answer must be JSON, with a schema or without.
	StructuredOutput bool
	// Prefilled says that the last message is the beginning of the answer. Decode does not know: in
	// this dialect engines are told so by members that a client sends itself. A translator from one
	// where it goes without saying sets it.
	Prefilled bool
	// N is the number of choices, 1 unless given.
	N int
	// Images are the image parts in the order of the messages.
	Images []Image
	// Media are the parts with audio, video and files, in the order of the messages.
	Media []Medium
	// PromptBytes is the length of all text of the prompt as JSON writes it: contents, tool calls
	// and tool definitions, without images.
	PromptBytes int

	doc          jsonx.Doc
	edits        jsonx.Edits
	body         []byte
	members      [memberCount]jsonx.Value
	messages     int    // how many
	bound        int    // the model's limit on tokens; 0: none
	defaultLimit int    // the token limit for engines when MaxTokens is -1; -1: none
	fitted       int    // the greatest token limit that the next engine has room for; -1: not known
	schema       bool   // response_format is json_schema
	foreign      bool   // the effort was written in a word of other vendors
	name         []byte // holds Model when it was written with escapes
	text         []byte // what AppendUpstream splices in

	developer bool // a message has that role
	anyTool   bool // tool_choice is "any"
	allowed   allowedTools
	refused   []refusalPart
	arguments Arguments
	malformed []jsonx.Value // the arguments of tool calls in the history that engines would refuse
}

// MaxModelName is the length in bytes that the name of a model may have.
const MaxModelName = 256

// keepName is up to what size the buffer of an escaped name is kept.
const keepName = 1 << 10

// Record stops at what the deepest rule reads, tool_choice.allowed_tools.tools[0].function: schemas
// of tools are checked as JSON but not indexed.
var parseOptions = jsonx.Options{Record: 6, Paired: true}

// Reset forgets the request and lets go of the body. What has been allocated is kept for the next
// one.
func (r *Request) Reset() {
	r.doc.Reset()
	r.edits.Reset()
	clear(r.Images)
	clear(r.Media)
	clear(r.refused)
	clear(r.malformed)
	r.arguments.Reset()
	*r = Request{
		MaxTokens: -1, defaultLimit: -1, fitted: -1, IncludeReasoning: true, N: 1,
		Images: r.Images[:0], Media: r.Media[:0], refused: r.refused[:0], doc: r.doc, edits: r.edits, name: r.name[:0], text: r.text[:0],
		arguments: r.arguments, malformed: r.malformed[:0],
		allowed: allowedTools{positions: r.allowed.positions[:0]},
	}
	if cap(r.name) > keepName { // a client may write any name, but only short ones are legal
		r.name = nil
	}
}

// Decode reads a body and checks everything that does not depend on the model: JSON, and the types,
// ranges and rules of the contract's chat table. The error is an *apierr.Error with the path of the
// member at fault; after it the Request holds nothing that may be used, and is ready for the next
// Decode.
//
// Members that the contract does not name are neither read nor checked. A null counts as absent
// wherever a member is optional. Numbers that must be integers may be written 1.0 or 1e3.
func (r *Request) Decode(body []byte) error { return r.parse(body) }

// DecodeMended is Decode, but for halves of surrogate pairs in messages, which it replaces in body:
// see ParseHistory.
func (r *Request) DecodeMended(body []byte) error { return r.parse(body, memberNames[memberMessages]) }

func (r *Request) parse(body []byte, mend ...string) error {
	r.Reset()
	if err := ParseHistory(&r.doc, body, parseOptions, mend...); err != nil {
		return syntaxError(body, err)
	}
	root := r.doc.Root()
	if !root.IsObject() {
		return apierr.Invalid("", apierr.CodeInvalidType, "The request body must be a JSON object, not %s.", kindName(root))
	}
	r.body = body
	if e := r.decode(root); e != nil {
		return e.Err()
	}
	return nil
}

func (r *Request) decode(root jsonx.Value) *Invalid {
	if e := ReadFields(root, requestMembers, r.members[:]); e != nil {
		return e
	}
	if e := CheckBounds(root); e != nil {
		return e
	}
	for _, step := range decodeSteps {
		if e := step(r); e != nil {
			return e
		}
	}
	return nil
}

// decodeSteps run in the order of the contract's table, so that of several mistakes the first one
// in it is reported.
var decodeSteps = [...]func(*Request) *Invalid{
	(*Request).decodeModel,
	(*Request).decodeMessages,
	(*Request).checkNumbers,
	(*Request).decodeTokenLimit,
	(*Request).decodeChoices,
	(*Request).checkStop,
	(*Request).checkPlain,
	(*Request).decodeStream,
	(*Request).decodeResponseFormat,
	(*Request).decodeTools,
	(*Request).checkToolChoice,
	(*Request).decodeReasoning,
}

// The members that are read. The order is that of the contract's table; those behind user are not
// in it.
const (
	memberModel = iota
	memberMessages
	memberTemperature
	memberTopP
	memberTopK
	memberMinP
	memberFrequencyPenalty
	memberPresencePenalty
	memberRepetitionPenalty
	memberMaxTokens
	memberMaxCompletionTokens
	memberStop
	memberSeed
	memberLogitBias
	memberLogprobs
	memberTopLogprobs
	memberStream
	memberStreamOptions
	memberResponseFormat
	memberTools
	memberToolChoice
	memberReasoning
	memberReasoningEffort
	memberIncludeReasoning
	memberUser
	memberParallelToolCalls
	memberN // the answer has as many choices: a stream is whole only when each has ended
	memberCount
)

var memberNames = []string{
	memberModel:               "model",
	memberMessages:            "messages",
	memberTemperature:         "temperature",
	memberTopP:                "top_p",
	memberTopK:                "top_k",
	memberMinP:                "min_p",
	memberFrequencyPenalty:    "frequency_penalty",
	memberPresencePenalty:     "presence_penalty",
	memberRepetitionPenalty:   "repetition_penalty",
	memberMaxTokens:           "max_tokens",
	memberMaxCompletionTokens: "max_completion_tokens",
	memberStop:                "stop",
	memberSeed:                "seed",
	memberLogitBias:           "logit_bias",
	memberLogprobs:            "logprobs",
	memberTopLogprobs:         "top_logprobs",
	memberStream:              "stream",
	memberStreamOptions:       "stream_options",
	memberResponseFormat:      "response_format",
	memberTools:               "tools",
	memberToolChoice:          "tool_choice",
	memberReasoning:           "reasoning",
	memberReasoningEffort:     "reasoning_effort",
	memberIncludeReasoning:    "include_reasoning",
	memberUser:                "user",
	memberParallelToolCalls:   "parallel_tool_calls",
	memberN:                   "n",
}

var requestMembers = jsonx.NewNames(memberNames...)

func (r *Request) decodeModel() *Invalid {
	v := r.members[memberModel]
	if e := RequiredString("model", v); e != nil {
		return e
	}
	name, ok := v.Text()
	if !ok {
		r.name = v.AppendText(r.name[:0])
		name = r.name
	}
	switch {
	case len(name) == 0:
		return WrongValue("model", "must not be empty")
	case len(name) > MaxModelName:
		return WrongValue("model", "must be at most 256 bytes long")
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return WrongValue("model", "must not hold control characters")
		}
	}
	r.Model = name
	return nil
}

// numberRules are the members that are numbers with a range, both ends included.
var numberRules = [...]struct {
	member  int
	lo, hi  float64
	integer bool
	want    string // completes "must be "
}{
	{memberTemperature, 0, 2, false, "between 0 and 2"},
	{memberTopP, 0, 1, false, "between 0 and 1"},
	{memberTopK, 0, math.Inf(1), true, "0 or more"},
	{memberMinP, 0, 1, false, "between 0 and 1"},
	{memberFrequencyPenalty, -2, 2, false, "between -2 and 2"},
	{memberPresencePenalty, -2, 2, false, "between -2 and 2"},
	{memberRepetitionPenalty, 0.1, 2, false, "between 0.1 and 2"},
	{memberSeed, math.Inf(-1), math.Inf(1), true, "an integer of 64 bits"},
	{memberTopLogprobs, 0, math.Inf(1), true, "0 or more"},
}

func (r *Request) checkNumbers() *Invalid {
	for i := range numberRules {
		rule := &numberRules[i]
		v := r.members[rule.member]
		if !Given(v) {
			continue
		}
		if rule.integer {
			n, e := integer(memberNames[rule.member], v)
			if e != nil {
				return e
			}
			if float64(n) < rule.lo {
				return WrongValue(memberNames[rule.member], "must be "+rule.want)
			}
			continue
		}
		if !v.IsNumber() {
			return WrongType(memberNames[rule.member], "a number", v)
		}
		if f, ok := v.Float(); !ok || f < rule.lo || f > rule.hi {
			return WrongValue(memberNames[rule.member], "must be "+rule.want)
		}
	}
	return nil
}

// integer reads a value that must be an integer that fits into 64 bits.
func integer(name string, v jsonx.Value) (int64, *Invalid) {
	if !v.IsNumber() {
		return 0, WrongType(name, "an integer", v)
	}
	n, ok := v.Int()
	if !ok {
		return 0, WrongValue(name, "must be an integer of 64 bits")
	}
	return n, nil
}

// decodeTokenLimit reads the two spellings of one limit.
func (r *Request) decodeTokenLimit() *Invalid {
	for _, m := range [...]int{memberMaxTokens, memberMaxCompletionTokens} {
		v := r.members[m]
		if !Given(v) {
			continue
		}
		n, e := integer(memberNames[m], v)
		switch {
		case e != nil:
			return e
		case n < 0:
			return WrongValue(memberNames[m], "must be 0 or more")
		case m == memberMaxCompletionTokens && r.MaxTokens >= 0 && n != int64(r.MaxTokens):
			return WrongValue(memberNames[m], "must be the same as max_tokens when both are given; send one of them")
		}
		r.MaxTokens = int(n)
	}
	return nil
}

func (r *Request) decodeChoices() *Invalid {
	v := r.members[memberN]
	if !Given(v) {
		return nil
	}
	n, e := integer("n", v)
	if e != nil {
		return e
	}
	if n < 1 || n > translate.MaxChoices {
		return WrongValue("n", "must be between 1 and "+strconv.Itoa(translate.MaxChoices))
	}
	r.N = int(n)
	return nil
}

func (r *Request) checkStop() *Invalid {
	v := r.members[memberStop]
	if !Given(v) || v.IsString() {
		return nil
	}
	if !v.IsArray() {
		return WrongType("stop", "a string or an array of strings", v)
	}
	for it := v.Iter(); it.Next(); {
		if s := it.Value(); !s.IsString() {
			return WrongType("", "a string", s).At("stop", it.Index())
		}
	}
	return nil
}

// checkPlain checks the members of which only the type is known.
func (r *Request) checkPlain() *Invalid {
	if e := OptionalObject("logit_bias", r.members[memberLogitBias]); e != nil {
		return e
	}
	for _, m := range [...]int{memberLogprobs, memberParallelToolCalls} {
		if _, e := OptionalBool(memberNames[m], r.members[m], false); e != nil {
			return e
		}
	}
	return OptionalString("user", r.members[memberUser])
}

const (
	optionIncludeUsage    = "include_usage"
	optionContinuousUsage = "continuous_usage_stats"
)

var streamOptionNames = jsonx.NewNames(optionIncludeUsage, optionContinuousUsage)

func (r *Request) decodeStream() (e *Invalid) {
	if r.Stream, e = OptionalBool("stream", r.members[memberStream], false); e != nil {
		return e
	}
	options := r.members[memberStreamOptions]
	if e = OptionalObject("stream_options", options); e != nil {
		return e
	}
	if !Given(options) {
		return nil
	}
	var out [2]jsonx.Value
	if e = ReadFields(options, streamOptionNames, out[:]); e != nil {
		return e.In("stream_options")
	}
	if r.IncludeUsage, e = OptionalBool(optionIncludeUsage, out[0], false); e != nil {
		return e.In("stream_options")
	}
	if r.ContinuousUsage, e = OptionalBool(optionContinuousUsage, out[1], false); e != nil {
		return e.In("stream_options")
	}
	r.ContinuousUsage = r.ContinuousUsage && r.IncludeUsage // as vLLM has it
	return nil
}

// Messages returns the array of messages as the client sent it; r.Messages().Raw() is its text.
func (r *Request) Messages() jsonx.Value { return r.members[memberMessages] }

// Tools returns the `tools` array, which may be absent.
func (r *Request) Tools() jsonx.Value { return r.members[memberTools] }

// EstimateTokens returns about how many tokens the prompt is, for limits and for routing: the text
// at bytesPerToken (4 when it is not positive), what a template adds to each message, and images by
// their size. The answer's tokens are not in it.
func (r *Request) EstimateTokens(bytesPerToken float64) int {
	if !(bytesPerToken > 0) {
		bytesPerToken = 4
	}
	n := int(math.Ceil(float64(r.PromptBytes)/bytesPerToken)) + tokensPerMessage*r.messages
	for i := range r.Images {
		n += r.Images[i].estimateTokens()
	}
	return n + mediumTokens*len(r.Media)
}

// tokensPerMessage is what chat templates spend on marking the role and the end of a message.
const tokensPerMessage = 4
