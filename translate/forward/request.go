package forward

import (
	"bytes"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// Request is a JSON request from which the edge reads the model. While the Request is in use, the
// body and all slices from the Request must not change. The zero value is ready for use. A Request
// is not safe for concurrent use.
type Request struct {
	// The decoded name in the client's spelling: 1 to chat.MaxModelName bytes without control
	// characters.
	Model  []byte
	Stream bool
	// Choices is the total number of a completion's choices, for all prompts.
	Choices   int
	Prompts   int
	Generated int // total number of choices that the engine generates: best_of for each prompt
	// MaxTokens is the token limit for each completion, or -1 if the client gave none.
	MaxTokens     int
	Vectors       VectorForm
	Rerank        RerankFormat
	rerankMembers rerankMembers

	body       []byte
	doc        jsonx.Doc
	edits      jsonx.Edits
	modelValue jsonx.Value

	completion   bool // a legacy completion, so token limits apply
	limit        limitMember
	modelLimit   int // the model's limit on tokens, or 0
	engineLimit  int // the token limit for the engine, or -1 to send the client's limit
	aliasLimits  chat.AliasLimits
	contextLimit int // the highest token limit that fits into the next engine's context, or -1 if unknown
	prompt       jsonx.Value

	added addedMembers

	defaulted defaultMember
	omitted   jsonx.Value
}

type limitMember struct {
	jsonx.Value
	unlimited bool // the client's limit is -1, which means as many tokens as fit
}

// defaultMember is a member that the edge adds because the client did not set it.
type defaultMember struct {
	client      jsonx.Value // the client's member: null or absent
	name, value []byte      // value is nil if no member is added
}

// requestOptions indexes the members of the request, and the elements of members that are arrays.
var requestOptions = jsonx.Options{Record: 2, Paired: true}

// Decode reads a JSON object with a string model. The error is an *apierr.Error.
func (r *Request) Decode(body []byte) error {
	if err := r.doc.Parse(body, requestOptions); err != nil {
		if len(body) == 0 {
			return apierr.Invalid("", apierr.CodeInvalidJSON, "The request body is empty. Send a JSON object.")
		}
		return apierr.FromJSONError(err, "")
	}
	r.body = body
	r.Choices, r.MaxTokens, r.Stream, r.Vectors, r.Rerank = 1, -1, false, VectorsAsSent, RerankFormat{}
	r.completion, r.limit, r.modelLimit, r.engineLimit, r.contextLimit = false, limitMember{}, 0, -1, -1
	r.prompt, r.added, r.aliasLimits = jsonx.Value{}, addedMembers{}, chat.AliasLimits{}
	r.defaulted, r.omitted, r.rerankMembers = defaultMember{}, jsonx.Value{}, rerankMembers{}
	if !r.doc.Root().IsObject() {
		return apierr.Invalid("", apierr.CodeInvalidType, "The request body must be a JSON object.")
	}
	var out [1]jsonx.Value
	if err := r.Fields([]string{"model"}, out[:]); err != nil {
		return err
	}
	r.modelValue = out[0]
	var err error
	r.Model, err = readModelName(r.modelValue)
	return err
}

// Fields is like jsonx.Value.Fields. The error is an *apierr.Error.
func (r *Request) Fields(names []string, out []jsonx.Value) error {
	if err := r.doc.Root().Fields(names, out); err != nil {
		return apierr.FromJSONError(err, "")
	}
	return nil
}

// DecodeNoStream is Decode for an endpoint without streams.
func (r *Request) DecodeNoStream(body []byte) error {
	if err := r.Decode(body); err != nil {
		return err
	}
	if err := r.decodeStream(); err != nil {
		return err
	}
	if r.Stream {
		return chat.UnsupportedError("stream", "must be false or absent: this endpoint has no streams").Err()
	}
	return nil
}

// DecodeCompletion is Decode for the legacy completions. It also reads the members that determine
// the format of the answer.
func (r *Request) DecodeCompletion(body []byte) error {
	if err := r.Decode(body); err != nil {
		return err
	}
	if err := r.decodeStream(); err != nil {
		return err
	}
	if e := chat.CheckBounds(r.doc.Root()); e != nil {
		return e.Err()
	}
	var out [5]jsonx.Value
	if err := r.Fields([]string{"prompt", "n", "max_tokens", "best_of", nCmplName}, out[:]); err != nil {
		return err
	}
	prompts := 1
	if isList(out[0]) {
		prompts = out[0].Len()
	}
	n, err := r.readChoices(out[1], out[4])
	if err != nil {
		return err
	}
	if n > translate.MaxChoices || prompts*n > maxChoices {
		return apierr.Invalid("n", apierr.CodeInvalidValue, "n must be at most %d, and %d for all prompts together.",
			translate.MaxChoices, maxChoices)
	}
	best, err := checkCompletion(out[0], out[3], n)
	if err != nil {
		return err
	}
	r.Choices, r.Prompts, r.Generated = prompts*n, prompts, prompts*max(n, best)
	r.completion, r.limit.Value, r.prompt = true, out[2], out[0]
	r.MaxTokens, err = readIntAtLeast(out[2], "max_tokens", -1, -1)
	r.limit.unlimited = chat.IsGiven(out[2]) && r.MaxTokens < 0
	return err
}

// nCmplName is llama.cpp's name for n. If both are present, llama.cpp ignores n.
const nCmplName = "n_cmpl"

// readChoices returns the number of choices for each prompt. It is sent to the engine as n.
func (r *Request) readChoices(n, other jsonx.Value) (int, error) {
	if !chat.IsGiven(other) {
		return readIntAtLeast(n, "n", 1, 1)
	}
	count, err := readIntAtLeast(other, nCmplName, 1, 1)
	if err != nil {
		return 0, err
	}
	own, err := readIntAtLeast(n, "n", 1, count)
	if err == nil && own != count {
		err = chat.WrongValueError(nCmplName, "must be the same as n when both are given; send one of them").Err()
	}
	r.SetDefault("n", n, strconv.AppendInt(nil, int64(count), 10))
	return count, err
}

// isList reports whether prompt is a list of prompts. An array of numbers is one prompt.
func isList(prompt jsonx.Value) bool {
	first := prompt.Index(0)
	return prompt.IsArray() && (first.IsString() || first.IsArray())
}

const maxChoices = 4096

func (r *Request) decodeStream() error {
	var out [1]jsonx.Value
	if err := r.Fields([]string{"stream"}, out[:]); err != nil {
		return err
	}
	v := out[0]
	if !chat.IsGiven(v) {
		return nil
	}
	var ok bool
	if r.Stream, ok = v.Bool(); !ok {
		return chat.InvalidTypeError("stream", "must be true or false").Err()
	}
	return nil
}

// readIntAtLeast reads an optional integer with a lower bound. If v is absent or null, it returns
// the parameter absent.
func readIntAtLeast(v jsonx.Value, name string, lowest int64, absent int) (int, error) {
	if !chat.IsGiven(v) {
		return absent, nil
	}
	n, e := chat.ReadInteger(name, v)
	if e != nil {
		return 0, e.Err()
	}
	if n < lowest || n > 1<<40 {
		return 0, apierr.Invalid(name, apierr.CodeInvalidValue,
			"%s must be at least %d, and no larger than an engine could take.", name, lowest)
	}
	return int(n), nil
}

func readModelName(v jsonx.Value) ([]byte, error) {
	switch {
	case !chat.IsGiven(v):
		return nil, chat.MissingError("model").Err()
	case !v.IsString():
		return nil, chat.InvalidTypeError("model", "must be a string").Err()
	}
	name := v.AppendText(nil)
	return name, CheckModelName(name)
}

// CheckModelName returns an *apierr.Error for a name that no model can have.
func CheckModelName(name []byte) error {
	switch {
	case len(name) == 0:
		return chat.WrongValueError("model", "must not be empty").Err()
	case len(name) > chat.MaxModelName:
		return apierr.Invalid("model", apierr.CodeInvalidValue, "model must be at most %d bytes long.", chat.MaxModelName)
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return chat.WrongValueError("model", "must not hold control characters").Err()
		}
	}
	return nil
}

// CheckRules applies the model's rules. It rejects members that steer an engine, and the media that
// chat rejects. If a completion has no token limit or exceeds the model's limit, CheckRules sets
// the model's limit. The error is an *apierr.Error.
func (r *Request) CheckRules(rules *chat.ModelRules) error {
	if err := rules.Refuse.CheckMembers(r.doc.Root()); err != nil {
		return err
	}
	if err := chat.CheckMedia(r.doc.Root(), rules); err != nil {
		return err
	}
	if !r.completion {
		return nil
	}
	if r.limit.unlimited {
		if rules.Strict {
			return chat.WrongValueError("max_tokens", "must be at least 0").Err()
		}
		most := rules.MaxOutputLength
		if most <= 0 {
			most = rules.ContextLength // LowerTo lowers this to what fits into the context
		}
		if most > 0 {
			r.MaxTokens, r.engineLimit = most, most
		}
	}
	r.aliasLimits = chat.ReadAliasLimits(r.doc.Root(), chatTokenLimitMember)
	r.Generated = max(r.Generated, r.Prompts*r.aliasLimits.Choices)
	if limit := r.aliasLimits.LowerLimit(r.MaxTokens); limit < r.MaxTokens {
		r.MaxTokens, r.engineLimit = limit, limit
	}
	if rules.MaxOutputLength > 0 {
		if err := r.checkTokenLimit(rules); err != nil {
			return err
		}
	}
	most := rules.MaxOutputLength
	if r.MaxTokens >= 0 {
		most = max(r.MaxTokens, 1)
	}
	if e := r.aliasLimits.CheckMinimum(most); e != nil {
		return e.Err()
	}
	if rules.Strict && rules.ContextLength > 0 && r.MaxTokens > rules.ContextLength {
		return apierr.Invalid("max_tokens", apierr.CodeContextLength,
			"max_tokens alone is larger than the context of the model: %d tokens > %d maximum.",
			r.MaxTokens, rules.ContextLength)
	}
	return nil
}

// TokenLimit returns the token limit for the engine, or -1 if there is none.
func (r *Request) TokenLimit() int {
	limit := r.MaxTokens
	if r.engineLimit >= 0 {
		limit = r.engineLimit
	}
	if r.contextLimit >= 0 {
		return min(limit, r.contextLimit)
	}
	return limit
}

// ClientLimit returns the client's token limit from any member, or -1.
func (r *Request) ClientLimit() int {
	if r.MaxTokens < 0 && r.aliasLimits.Least > 0 {
		return r.aliasLimits.AliasBound(-1, r.modelLimit)
	}
	return r.MaxTokens
}

// LowerTo lowers the token limit to what fits into the next engine's context. A negative limit
// undoes an earlier call.
func (r *Request) LowerTo(limit int) { r.contextLimit = limit }

// LongestPrompt estimates the tokens in the longest prompt of a completion. The number is exact if
// the client sends tokens.
func (r *Request) LongestPrompt(bytesPerToken float64) int {
	if bytesPerToken <= 0 {
		bytesPerToken = 4
	}
	longest := 0
	of := func(v jsonx.Value) {
		n := int(float64(len(v.Raw())) / bytesPerToken)
		if v.IsArray() {
			n = bytes.Count(v.Raw(), commaBytes) + 1
		}
		longest = max(longest, n)
	}
	if isList(r.prompt) {
		for it := r.prompt.Iter(); it.Next(); {
			of(it.Value())
		}
		return longest
	}
	of(r.prompt)
	return longest
}

var commaBytes = []byte{','}

// chatTokenLimitMember is chat's name for the token limit. Some engines also read it in legacy
// completions.
const chatTokenLimitMember = "max_completion_tokens"

func (r *Request) checkTokenLimit(rules *chat.ModelRules) error {
	r.modelLimit = rules.MaxOutputLength
	switch {
	case r.MaxTokens < 0:
		r.engineLimit = chat.DefaultLimit(r.modelLimit, rules.ContextLength, r.Size()/chat.DenseBytesPerToken)
	case r.MaxTokens <= r.modelLimit:
	case rules.Strict:
		return apierr.Invalid("max_tokens", apierr.CodeInvalidValue,
			"max_tokens must be at most %d, the longest answer of the model.", r.modelLimit)
	default:
		r.MaxTokens, r.engineLimit = r.modelLimit, r.modelLimit
	}
	if rules.Strict {
		if e := chat.CheckAliasLimits(r.doc.Root(), r.modelLimit, chatTokenLimitMember); e != nil {
			return e.Err()
		}
	}
	return nil
}

// SetDefault sets the value of a member that is absent or null. v is the member's current value,
// and value is JSON text.
func (r *Request) SetDefault(name string, v jsonx.Value, value []byte) {
	if chat.IsGiven(v) {
		return
	}
	r.defaulted = defaultMember{v, jsonx.AppendStringS(nil, name), value}
}

// Omit omits the member v from the next engine's request. If v is absent, Omit undoes an earlier
// call.
func (r *Request) Omit(v jsonx.Value) { r.omitted = v }

// AppendSegments appends to segs the pieces of the body for the next engine. served is this
// engine's name for the model. Together, the pieces are the client's body, byte for byte, except
// for the model, the token limits and the members that the edge adds, replaces or omits. The pieces
// are valid until the next call to Segments, and only as long as the body.
func (r *Request) AppendSegments(segs [][]byte, served string) [][]byte {
	r.edits.Reset()
	r.edits.Set(r.modelValue, jsonx.AppendStringS(nil, served))
	switch m := &r.defaulted; {
	case m.value == nil:
	case m.client.Exists():
		r.edits.Set(m.client, m.value)
	default:
		r.edits.Add(r.doc.Root(), append(append(m.name[:len(m.name):len(m.name)], ':'), m.value...))
	}
	if r.omitted.Exists() {
		r.edits.Delete(r.omitted)
	}
	if r.rerankMembers.asTexts {
		r.rerankMembers.renameForTexts(&r.edits)
	}
	limit := r.TokenLimit()
	bound := r.aliasLimits.AliasBound(limit, r.modelLimit)
	if limit >= 0 && limit < r.MaxTokens {
		bound = limit
	}
	chat.LowerAliasLimits(&r.edits, r.doc.Root(), bound, chatTokenLimitMember)
	if r.limit.unlimited && limit < 0 {
		r.edits.Delete(r.limit.Value) // engines interpret -1 differently
	} else if r.engineLimit >= 0 || limit < r.MaxTokens {
		digits := strconv.AppendInt(nil, int64(limit), 10)
		if r.limit.Exists() {
			r.edits.Set(r.limit.Value, digits)
		} else {
			r.edits.Add(r.doc.Root(), append([]byte(`"max_tokens":`), digits...))
		}
	}
	if r.added.salt.IsSet() {
		salt := r.added.salt.StripClientSalt(&r.edits, r.doc.Root())
		r.edits.Add(r.doc.Root(), append(append(jsonx.AppendStringS(nil, r.added.salt.Member), ':'), salt...))
	}
	r.added.priority.ReplacePriority(&r.edits, r.doc.Root())
	return r.edits.Segments(segs, r.body)
}

// addedMembers contains the members that the edge adds for the next engine.
type addedMembers struct {
	salt     chat.CacheSalt
	priority chat.Priority
}

// SetPriority sets the priority in the next engine's queue.
func (r *Request) SetPriority(p chat.Priority) { r.added.priority = p }

// SetSalt sets how the next engine separates cached prompts.
func (r *Request) SetSalt(s chat.CacheSalt) { r.added.salt = s }

// Size returns the length of the body.
func (r *Request) Size() int { return len(r.body) }
