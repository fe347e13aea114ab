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

// limitName classifies the members that tell engines how much to generate.
type limitName uint8

const (
	limitMost   limitName = iota
	limitInside           // a maximum, but only within an object
	limitLeast
	limitChoices
	limitObject // an object, or a list of objects, with any of these members
)

var limitNames = [...]struct {
	name string
	is   limitName
}{
	{"n_predict", limitMost}, // llama.cpp
	{"num_predict", limitMost},
	{"max_new_tokens", limitMost},
	{"max_output_tokens", limitMost},
	{"max_predict", limitMost},
	{nameMaxTokens, limitInside},
	{nameMaxCompletionTokens, limitInside},
	{"min_tokens", limitLeast},
	{"min_new_tokens", limitLeast},
	{"n", limitChoices},
	{nameOfChoices, limitChoices},
	{"best_of", limitChoices}, // older vLLM, and the beams of TensorRT-LLM
	{"options", limitObject},  // Ollama
	{samplingParams, limitObject},
	{samplingParams + "_list", limitObject}, // vLLM-Omni: one object for each stage
}

const (
	nameMaxTokens           = "max_tokens"
	nameMaxCompletionTokens = "max_completion_tokens"
)

var limitIndex = func() *jsonx.Names {
	var names []string
	for _, n := range &limitNames {
		names = append(names, n.name)
	}
	return jsonx.NewNames(names...)
}()

// eachLimit calls f for each member of root whose name is in limitNames or equals more. If the
// member is in an object within root, outer is the name of that object.
func eachLimit(root jsonx.Value, more string, f func(outer, name string, is limitName, v jsonx.Value)) {
	inside := func(outer string, v jsonx.Value) {
		for it := v.Iter(); it.Next(); {
			if i := limitIndex.Index(it.Key()); i >= 0 && limitNames[i].is != limitObject {
				f(outer, limitNames[i].name, limitNames[i].is, it.Value())
			}
		}
	}
	for it := root.Iter(); it.Next(); {
		i, v := limitIndex.Index(it.Key()), it.Value()
		switch {
		case more != "" && it.Key().Fold(more):
			f("", more, limitMost, v)
		case i < 0 || limitNames[i].is == limitInside:
		case limitNames[i].is != limitObject:
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
	// Max is the client's limit from max_tokens or max_completion_tokens, or -1. Check may lower
	// it.
	Max int

	bound    int // the model's limit, or 0
	fallback int // the limit sent to engines if Max is -1; may itself be -1
	fitted   int // the highest limit that fits into the next engine's context, or -1 if unknown
	said     int // tokens of the answer that an earlier engine has generated
	named    NamedLimits
}

// NamedLimits contains the limits in members that are not part of the dialect.
type NamedLimits struct {
	Given bool // at least one such limit is given
	Least int  // the lowest maximum, or 0
	// Choices is the maximum number of choices or beams that an engine could generate.
	Choices int
	atMin   int // the minimum that an engine must generate, or 0
	param   string
}

// ReadLimits reads the limits of root in members that are not part of the dialect. more is an
// additional name, or empty.
func ReadLimits(root jsonx.Value, more string) (n NamedLimits) {
	eachLimit(root, more, func(outer, name string, is limitName, v jsonx.Value) {
		if !Given(v) {
			return
		}
		count, ok := v.Int()
		if count = min(count, 1<<40); !ok {
			count = 0
		}
		switch is {
		case limitMost, limitInside:
			n.Given = true
			if count > 0 {
				n.Least = smaller(n.Least, int(count))
			}
		case limitLeast:
			if count := leniently(v); count > n.atMin {
				n.atMin, n.param = count, pathOf(outer, name)
			}
		case limitChoices:
			n.Choices = max(n.Choices, min(leniently(v), translate.MaxChoices))
		case limitObject:
		}
	})
	return n
}

// leniently reads an integer like pydantic, which vLLM uses. pydantic accepts numeric strings,
// floats without a fraction, and true as 1. leniently returns 0 if v cannot be read as a number.
func leniently(v jsonx.Value) int {
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

func pathOf(outer, name string) string {
	if outer == "" {
		return name
	}
	return outer + "." + name
}

// Check rejects a minimum that exceeds most, the token limit. If most is 0, there is no limit.
func (n *NamedLimits) Check(most int) *Invalid {
	if most = smaller(most, n.Least); most > 0 && n.atMin > most {
		return WrongValue(n.param, "must be at most "+strconv.Itoa(most)+", the limit of the answer's tokens")
	}
	return nil
}

// Bound returns the value to which these limits are lowered, or 0 if they are unchanged. limit is
// the engine's limit, or -1. model is the model's limit.
func (n *NamedLimits) Bound(limit, model int) int {
	if !n.Given {
		return model
	}
	if limit >= 0 {
		model = smaller(model, max(limit, 1))
	}
	return smaller(model, n.Least)
}

// Lower returns the minimum of limit and these limits.
func (n *NamedLimits) Lower(limit int) int {
	if n.Least > 0 {
		return min(limit, n.Least)
	}
	return limit
}

var noTokenLimit = TokenLimit{Max: -1, fallback: -1, fitted: -1}

// Bound returns the value to which limits under other names are lowered, or 0 if they are
// unchanged. The value is the minimum of the client's limits, the model's limit and, if the client
// requested more, the limit from Fit.
func (t *TokenLimit) Bound() int {
	bound := t.named.Bound(t.TokenLimit(), t.bound)
	if t.fitted > 0 && t.fitted < t.Max {
		return smaller(bound, t.fitted)
	}
	return bound
}

// Asked returns the client's limit from any member, or -1.
func (t *TokenLimit) Asked() int {
	if t.Max < 0 && t.named.Least > 0 {
		return smaller(t.named.Least, t.bound)
	}
	return t.Max
}

// Generated returns how many completions engines generate. This is choices, or a greater number
// from a member that is not part of the dialect.
func (t *TokenLimit) Generated(choices int) int { return max(choices, t.named.Choices) }

// TokenLimit returns the limit for engines, or -1 if there is none. It is the client's limit, or
// else the model's, minus the tokens already generated.
func (t *TokenLimit) TokenLimit() int {
	limit := t.Left(t.said)
	if t.fitted >= 0 {
		return min(limit, t.fitted)
	}
	return limit
}

// Left returns how many more tokens may be generated after said tokens, or -1 if there is no limit.
func (t *TokenLimit) Left(said int) int {
	limit := t.Max
	if limit < 0 {
		limit = t.fallback
	}
	if limit < 0 {
		return -1
	}
	return max(limit-said, 0)
}

// Said returns the number of tokens in the answer that the next engine continues.
func (t *TokenLimit) Said() int { return t.said }

// Fit lowers the limit to what fits into the next engine's context. A negative limit undoes an
// earlier call.
func (t *TokenLimit) Fit(limit int) { t.fitted = limit }

func (t *TokenLimit) decode(members *members) *Invalid {
	for _, m := range [...]int{memberMaxTokens, memberMaxCompletionTokens} {
		v := members[m]
		if !Given(v) {
			continue
		}
		n, e := Integer(memberNames[m], v)
		switch {
		case e != nil:
			return e
		case n < 0:
			return WrongValue(memberNames[m], "must be 0 or more")
		case m == memberMaxCompletionTokens && t.Max >= 0 && n != int64(t.Max):
			return WrongValue(memberNames[m], "must be the same as max_tokens when both are given; send one of them")
		}
		t.Max = int(n)
	}
	return nil
}

// smaller returns the smaller of two limits, where 0 means no limit.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// LeastAnswer is the minimum space for the answer in a context, in tokens. If there is less space,
// the answer would be truncated after a few words, so the edge rejects the request. Agents then
// shorten their conversation.
const LeastAnswer = 256

// FitLimit returns the limit to send to an engine instead of asked. The limit is the space that the
// prompt leaves in the context, minus a margin of 2 %, because prompt is only an estimate. The
// limit is never lower than an eighth of the context or LeastAnswer, unless the client requested
// less. If the estimate is too low, the engine rejects the request and reports the real count.
// context is 0 if it is unknown.
func FitLimit(asked, context, prompt int) int {
	if context <= 0 {
		return asked
	}
	return min(asked, max(context-prompt-context/50, context/8, LeastAnswer))
}

// RefitLimit returns the next limit for an engine that rejected a request because the prompt plus
// the limit exceeds the engine's context. sent is the rejected limit. prompt and context are the
// numbers in the engine's message, or 0. If least is true, prompt is only a lower bound. If no
// useful limit fits, ok is false.
func RefitLimit(sent, prompt, context int, least bool) (limit int, ok bool) {
	limit = min(sent, LeastAnswer)
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

// DefaultLimit returns the limit to send to an engine for a request without a limit, or -1. If
// prompt plus bound may exceed the context, the context limits the answer, and engines would reject
// an explicit limit. The caller should therefore overestimate the prompt (see DenseText).
func DefaultLimit(bound, context, prompt int) int {
	if bound <= 0 || context > 0 && prompt+bound > context {
		return -1
	}
	return bound
}

// DenseText is the number of bytes per token in code, numbers and scripts other than Latin. Prose
// has at least four.
const DenseText = 2

// overBound calls f with the path of each token limit that exceeds bound.
func overBound(root jsonx.Value, bound int, more string, f func(path string, v jsonx.Value)) {
	eachLimit(root, more, func(outer, name string, is limitName, v jsonx.Value) {
		if is != limitMost && is != limitInside {
			return
		}
		if n, ok := v.Int(); Given(v) && (!ok || n < 0 || n > int64(bound)) {
			f(pathOf(outer, name), v)
		}
	})
}

// LowerAliases lowers all token limits under other names to bound. more is the name of another such
// limit in this dialect, or empty. If bound is 0, nothing changes.
func LowerAliases(edits *jsonx.Edits, root jsonx.Value, bound int, more string) {
	if bound <= 0 {
		return
	}
	overBound(root, bound, more, func(_ string, v jsonx.Value) {
		edits.Set(v, strconv.AppendInt(nil, int64(bound), 10))
	})
}

// RefuseAliases returns an error for the first limit that LowerAliases would lower.
func RefuseAliases(root jsonx.Value, bound int, more string) *Invalid {
	if bound <= 0 {
		return nil
	}
	var e *Invalid
	overBound(root, bound, more, func(path string, _ jsonx.Value) {
		e = WrongValue(path, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
	})
	return e
}
