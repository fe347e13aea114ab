package chat

import (
	"math"
	"strconv"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// The token limit is the client's limit, lowered to the model's limit and to the free space in the
// engine's context. If the client sends no limit, the model's limit applies. Some engines accept
// other names for the limit and prefer them, so limits under these names are also lowered.

// limitMemberKind classifies the members that tell engines how much to generate.
type limitMemberKind uint8

const (
	limitKindMax       limitMemberKind = iota
	limitKindNestedMax                 // a maximum, but only within an object
	limitKindMin
	limitKindChoices
	limitKindObject // an object, or a list of objects, with any of these members
)

var limitNames = [...]struct {
	name string
	is   limitMemberKind
}{
	{"n_predict", limitKindMax}, // llama.cpp
	{"num_predict", limitKindMax},
	{"max_new_tokens", limitKindMax},
	{"max_output_tokens", limitKindMax},
	{"max_predict", limitKindMax},
	{nameMaxTokens, limitKindNestedMax},
	{nameMaxCompletionTokens, limitKindNestedMax},
	{"min_tokens", limitKindMin},
	{"min_new_tokens", limitKindMin},
	{"n", limitKindChoices},
	{nameNCmpl, limitKindChoices},
	{"best_of", limitKindChoices}, // older vLLM, and the beams of TensorRT-LLM
	{"options", limitKindObject},  // Ollama
	{samplingParamsName, limitKindObject},
	{samplingParamsName + "_list", limitKindObject}, // vLLM-Omni: one object for each stage
}

const (
	nameMaxTokens           = "max_tokens"
	nameMaxCompletionTokens = "max_completion_tokens"
)

var limitNameIndex = func() *jsonx.NameIndex {
	var names []string
	for _, n := range &limitNames {
		names = append(names, n.name)
	}
	return jsonx.NewNameIndex(names...)
}()

// visitLimits calls f for each member of root whose name is in limitNames or equals more. If the
// member is in an object within root, outer is the name of that object.
func visitLimits(root jsonx.Value, more string, f func(outer, name string, is limitMemberKind, v jsonx.Value)) {
	inside := func(outer string, v jsonx.Value) {
		for it := v.Iter(); it.Next(); {
			if i := limitNameIndex.Index(it.Key()); i >= 0 && limitNames[i].is != limitKindObject {
				f(outer, limitNames[i].name, limitNames[i].is, it.Value())
			}
		}
	}
	for it := root.Iter(); it.Next(); {
		i, v := limitNameIndex.Index(it.Key()), it.Value()
		switch {
		case more != "" && it.Key().EqualFold(more):
			f("", more, limitKindMax, v)
		case i < 0 || limitNames[i].is == limitKindNestedMax:
		case limitNames[i].is != limitKindObject:
			f("", limitNames[i].name, limitNames[i].is, v)
		case v.IsArray():
			for of := v.Iter(); of.Next(); {
				if of.Value().IsObject() {
					inside(limitNames[i].name, of.Value())
				}
			}
		case v.IsObject():
			inside(limitNames[i].name, v)
		}
	}
}

// TokenLimit is a completion's token limit, including reasoning.
type TokenLimit struct {
	// Max is the client's limit from max_tokens or max_completion_tokens, or -1. CheckRules may
	// lower it.
	Max int

	modelLimit   int // the model's limit, or 0
	defaultLimit int // the limit sent to engines if Max is -1; may itself be -1
	contextLimit int // the highest limit that fits into the next engine's context, or -1 if unknown
	generated    int // tokens of the answer that an earlier engine has generated
	aliases      AliasLimits
}

// AliasLimits contains the limits in members that are not part of the dialect.
type AliasLimits struct {
	Given bool // at least one such limit is given
	Least int  // the lowest maximum, or 0
	// Choices is the maximum number of choices or beams that an engine could generate.
	Choices   int
	minTokens int // the minimum that an engine must generate, or 0
	param     string
}

// ReadAliasLimits reads the limits of root in members that are not part of the dialect. more is an
// additional name, or empty.
func ReadAliasLimits(root jsonx.Value, more string) (n AliasLimits) {
	visitLimits(root, more, func(outer, name string, is limitMemberKind, v jsonx.Value) {
		if !IsGiven(v) {
			return
		}
		count, ok := v.Int()
		if count = min(count, 1<<40); !ok {
			count = 0
		}
		switch is {
		case limitKindMax, limitKindNestedMax:
			n.Given = true
			if count > 0 {
				n.Least = lowerLimit(n.Least, int(count))
			}
		case limitKindMin:
			if count := parseLenientInt(v); count > n.minTokens {
				n.minTokens, n.param = count, memberPath(outer, name)
			}
		case limitKindChoices:
			n.Choices = max(n.Choices, min(parseLenientInt(v), translate.MaxChoices))
		case limitKindObject:
		}
	})
	return n
}

// parseLenientInt reads an integer like pydantic, which vLLM uses. pydantic accepts numeric
// strings, floats without a fraction, and true as 1. parseLenientInt returns 0 if v cannot be read
// as a number.
func parseLenientInt(v jsonx.Value) int {
	if v.Kind() == jsonx.True {
		return 1
	}
	text := v.Raw()
	if v.IsString() {
		text, _ = v.Text()
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil || f < 0 || math.IsNaN(f) {
		return 0
	}
	return int(min(f, 1<<40))
}

func memberPath(outer, name string) string {
	if outer == "" {
		return name
	}
	return outer + "." + name
}

// CheckMinimum rejects a minimum that exceeds the token limit. most is this limit, or 0 if there
// is none.
func (n *AliasLimits) CheckMinimum(most int) *InvalidMember {
	if most = lowerLimit(most, n.Least); most > 0 && n.minTokens > most {
		return WrongValueError(n.param, "must be at most "+strconv.Itoa(most)+", the limit of the answer's tokens")
	}
	return nil
}

// AliasBound returns the value to which these limits are lowered, or 0 if they are unchanged. limit is
// the engine's limit, or -1. model is the model's limit.
func (n *AliasLimits) AliasBound(limit, model int) int {
	if !n.Given {
		return model
	}
	if limit >= 0 {
		model = lowerLimit(model, max(limit, 1))
	}
	return lowerLimit(model, n.Least)
}

// LowerLimit returns limit, or Least if that is lower and not 0.
func (n *AliasLimits) LowerLimit(limit int) int {
	if n.Least > 0 {
		return min(limit, n.Least)
	}
	return limit
}

var noTokenLimit = TokenLimit{Max: -1, defaultLimit: -1, contextLimit: -1}

// AliasBound returns the value to which limits under other names are lowered, or 0 if they are
// unchanged. The value is the minimum of the client's limits, the model's limit and, if the client
// requested more, the limit from LowerTo.
func (t *TokenLimit) AliasBound() int {
	bound := t.aliases.AliasBound(t.TokenLimit(), t.modelLimit)
	if t.contextLimit > 0 && t.contextLimit < t.Max {
		return lowerLimit(bound, t.contextLimit)
	}
	return bound
}

// ClientLimit returns the client's limit from any member, or -1.
func (t *TokenLimit) ClientLimit() int {
	if t.Max < 0 && t.aliases.Least > 0 {
		return lowerLimit(t.aliases.Least, t.modelLimit)
	}
	return t.Max
}

// GeneratedChoices returns how many completions engines generate. This is choices, or a greater
// number from a member that is not part of the dialect.
func (t *TokenLimit) GeneratedChoices(choices int) int { return max(choices, t.aliases.Choices) }

// TokenLimit returns the limit for engines, or -1 if there is none. It is the client's limit or, if
// the client sent none, the model's limit, minus the tokens already generated.
func (t *TokenLimit) TokenLimit() int {
	limit := t.TokensLeft(t.generated)
	if t.contextLimit >= 0 {
		return min(limit, t.contextLimit)
	}
	return limit
}

// TokensLeft returns how many more tokens may be generated, or -1 if there is no limit. said is
// the number of tokens already generated.
func (t *TokenLimit) TokensLeft(said int) int {
	limit := t.Max
	if limit < 0 {
		limit = t.defaultLimit
	}
	if limit < 0 {
		return -1
	}
	return max(limit-said, 0)
}

// GeneratedTokens returns the number of tokens in the answer that the next engine continues.
func (t *TokenLimit) GeneratedTokens() int { return t.generated }

// LowerTo lowers the limit to what fits into the next engine's context. A negative limit undoes an
// earlier call.
func (t *TokenLimit) LowerTo(limit int) { t.contextLimit = limit }

func (t *TokenLimit) decode(members *memberValues) *InvalidMember {
	for _, m := range [...]int{memberMaxTokensIndex, memberMaxCompletionTokensIndex} {
		v := members[m]
		if !IsGiven(v) {
			continue
		}
		n, e := ReadInteger(memberNames[m], v)
		switch {
		case e != nil:
			return e
		case n < 0:
			return WrongValueError(memberNames[m], "must be 0 or more")
		case m == memberMaxCompletionTokensIndex && t.Max >= 0 && n != int64(t.Max):
			return WrongValueError(memberNames[m], "must be the same as max_tokens when both are given; send one of them")
		}
		t.Max = int(n)
	}
	return nil
}

// lowerLimit returns the smaller of two limits, where 0 means no limit.
func lowerLimit(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// MinAnswerTokens is the minimum space for the answer in a context, in tokens. If there is less
// space, the answer would be truncated after a few words, so the edge rejects the request. Agents
// then shorten their conversation.
const MinAnswerTokens = 256

// FitLimit lowers the requested limit, asked, to the space that the prompt leaves in the context.
// It subtracts a margin of 2 % of the context, because prompt is only an estimate. The result is
// never lower than an eighth of the context or MinAnswerTokens, unless asked is lower. If the
// estimate is too low, the engine rejects the request and reports the real count. context is 0 if
// it is unknown.
func FitLimit(asked, context, prompt int) int {
	if context <= 0 {
		return asked
	}
	return min(asked, max(context-prompt-context/50, context/8, MinAnswerTokens))
}

// RefitLimit returns the next limit for an engine that rejected a request because the prompt plus
// the limit exceeds the engine's context. sent is the rejected limit. prompt and context are the
// numbers in the engine's message, or 0. If least is true, prompt is only a lower bound. If no
// useful limit fits, ok is false.
func RefitLimit(sent, prompt, context int, least bool) (limit int, ok bool) {
	limit = min(sent, MinAnswerTokens)
	switch {
	case prompt <= 0 || context <= 0:
	case least:
		limit = max(limit, sent/2)
	case context-prompt < limit:
		return 0, false
	default: // one less than the free space, because some engines require the sum to be less than the context
		limit = max(limit, context-prompt-1)
	}
	return limit, limit < sent
}

// DefaultLimit returns the limit to send to an engine for a request without a limit, or -1. It
// returns bound, the model's limit, only if prompt plus bound fits into the context. Otherwise
// the context limits the answer, and engines would reject an explicit limit. The caller should
// therefore overestimate the prompt (see DenseBytesPerToken).
func DefaultLimit(bound, context, prompt int) int {
	if bound <= 0 || context > 0 && prompt+bound > context {
		return -1
	}
	return bound
}

// DenseBytesPerToken is the number of bytes per token in code, numbers and scripts other than
// Latin. Prose has at least four bytes per token.
const DenseBytesPerToken = 2

// visitExceeding calls f with the path of each token limit that exceeds bound.
func visitExceeding(root jsonx.Value, bound int, more string, f func(path string, v jsonx.Value)) {
	visitLimits(root, more, func(outer, name string, is limitMemberKind, v jsonx.Value) {
		if is != limitKindMax && is != limitKindNestedMax {
			return
		}
		if n, ok := v.Int(); IsGiven(v) && (!ok || n < 0 || n > int64(bound)) {
			f(memberPath(outer, name), v)
		}
	})
}

// LowerAliasLimits lowers all token limits under other names to bound. more is the name of another such
// limit in this dialect, or empty. If bound is 0, nothing changes.
func LowerAliasLimits(edits *jsonx.Edits, root jsonx.Value, bound int, more string) {
	if bound <= 0 {
		return
	}
	visitExceeding(root, bound, more, func(_ string, v jsonx.Value) {
		edits.Set(v, strconv.AppendInt(nil, int64(bound), 10))
	})
}

// CheckAliasLimits returns an error for the first limit that LowerAliasLimits would lower.
func CheckAliasLimits(root jsonx.Value, bound int, more string) *InvalidMember {
	if bound <= 0 {
		return nil
	}
	var e *InvalidMember
	visitExceeding(root, bound, more, func(path string, _ jsonx.Value) {
		e = WrongValueError(path, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
	})
	return e
}
