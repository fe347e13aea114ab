package chat

import (
	"math"
	"strconv"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// A completion's token limit is the client's own, lowered to the model's limit and to the room in
// the engine's context. If the client gave none, the model's limit applies. The limit has one name
// in the contract. Engines have further names for it, which they read first, so limits under the
// engines' names are also lowered.

// limitName is the meaning of a member from which some engine reads how much to generate.
type limitName uint8

const (
	limitMost    limitName = iota // the maximum number of tokens
	limitInside                   // a maximum as well, within an object; at the top level this is the contract's own name
	limitLeast                    // the minimum number of tokens
	limitChoices                  // a number of choices
	limitObject                   // an object or a list of objects with any of these
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
	{samplingParams + "_list", limitObject}, // vLLM-Omni: one for each stage
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

// eachLimit calls f for each member of root whose name is in limitNames. If more is not empty, it
// is an additional name for the maximum number of tokens. f's argument outer names the object in
// root that contains the member, if any.
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

// TokenLimit is a completion's token limit, which includes reasoning.
type TokenLimit struct {
	// Max is the client's limit, from either member; -1: none. Check may lower it.
	Max int

	bound    int // the model's limit; 0: none
	fallback int // the limit for engines if Max is -1; -1: none
	fitted   int // the highest limit that fits into the next engine's context; -1: unknown
	said     int // tokens of the answer that an earlier engine has generated
	named    NamedLimits
}

// NamedLimits holds a request's limits under names other than the dialect's own.
type NamedLimits struct {
	Given bool // at least one such limit is given
	Least int  // the lowest maximum; 0: none
	// Choices is the maximum number of choices or beams that an engine could generate.
	Choices int
	atMin   int // the minimum that an engine must generate; 0: none
	param   string
}

// ReadLimits reads root's limits under other names. more is an additional name, or empty.
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

// leniently returns the number that an engine may read from v, or 0 if v cannot be read as a
// number. vLLM's reader, pydantic, accepts numeric text and whole floating-point numbers as
// numbers, and true as 1.
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

// Check refuses a minimum that exceeds the answer's limit. most is that limit, or 0 if there is
// none.
func (n *NamedLimits) Check(most int) *Invalid {
	if most = smaller(most, n.Least); most > 0 && n.atMin > most {
		return WrongValue(n.param, "must be at most "+strconv.Itoa(most)+", the limit of the answer's tokens")
	}
	return nil
}

// Bound returns the limit to which the limits under other names are lowered, or 0 if they are not
// changed. limit is the engine's limit, or -1, and model is the model's limit. The engine's limit
// does not change a request without other names.
func (n *NamedLimits) Bound(limit, model int) int {
	if !n.Given {
		return model
	}
	if limit >= 0 {
		model = smaller(model, max(limit, 1))
	}
	return smaller(model, n.Least)
}

// Lower returns the given limit, or the lowest limit under another name if that is lower.
func (n *NamedLimits) Lower(limit int) int {
	if n.Least > 0 {
		return min(limit, n.Least)
	}
	return limit
}

// noTokenLimit is the TokenLimit before a request is decoded.
var noTokenLimit = TokenLimit{Max: -1, fallback: -1, fitted: -1}

// Bound returns the limit to which the limits under other names are lowered, or 0 if they are not
// changed. The result is the lowest of the client's limits, the model's limit according to the last
// Check, and the room in the engine's context if the client asks for more.
func (t *TokenLimit) Bound() int {
	bound := t.named.Bound(t.TokenLimit(), t.bound)
	if t.fitted > 0 && t.fitted < t.Max {
		return smaller(bound, t.fitted)
	}
	return bound
}

// Asked returns the limit that the client gave under any name, or -1 if there is none.
func (t *TokenLimit) Asked() int {
	if t.Max < 0 && t.named.Least > 0 {
		return smaller(t.named.Least, t.bound)
	}
	return t.Max
}

// Generated returns how many completions engines generate for a request: the given number of
// choices, or the number that the request gives under other names, whichever is greater.
func (t *TokenLimit) Generated(choices int) int { return max(choices, t.named.Choices) }

// TokenLimit returns the limit for engines, or -1 if there is none. The limit is Max, or the
// model's own limit if the client gave none, minus the tokens that have been generated. Check sets
// it, and Fit lowers it for one engine.
func (t *TokenLimit) TokenLimit() int {
	limit := t.Left(t.said)
	if t.fitted >= 0 {
		return min(limit, t.fitted)
	}
	return limit
}

// Left returns the number of tokens that the limit leaves after said tokens, or -1 if there is no
// limit.
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

// Fit lowers the limit to the room in the next engine's context. A negative limit undoes an earlier
// call.
func (t *TokenLimit) Fit(limit int) { t.fitted = limit }

// decode reads the limit under its two names.
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

// LeastAnswer is the number of tokens that a prompt must leave in a context for the answer.
// Otherwise the answer would be cut off after a few words, so the request is refused. Agents then
// shorten their conversation.
const LeastAnswer = 256

// FitLimit returns the limit to send to an engine instead of asked. It is the room that the prompt
// leaves in the context, minus 2 % of the context, because prompt is only an estimate of the
// prompt's tokens. The limit is never lower than an eighth of the context or LeastAnswer, unless
// the client asked for less. If the estimate is too high, a lower limit would cut off the answer
// for no reason. An estimate that is too low costs only a refusal, which contains the count. A
// context of 0 is unknown.
func FitLimit(asked, context, prompt int) int {
	if context <= 0 {
		return asked
	}
	return min(asked, max(context-prompt-context/50, context/8, LeastAnswer))
}

// RefitLimit returns the limit to send to an engine that has refused a request because limit and
// prompt together do not fit into its context. sent is the refused limit. prompt and context are
// numbers from the engine's message, or 0 if the message has none. If least is true, prompt is only
// a lower bound, because the engine stopped counting. ok is false if no useful limit fits.
func RefitLimit(sent, prompt, context int, least bool) (limit int, ok bool) {
	limit = min(sent, LeastAnswer)
	switch {
	case prompt <= 0 || context <= 0:
	case least:
		limit = max(limit, sent/2)
	case context-prompt < limit:
		return 0, false
	default: // one less than the room, because some engines want the sum to be below the context
		limit = max(limit, context-prompt-1)
	}
	return limit, limit < sent
}

// DefaultLimit returns the limit to send to an engine for a request without a limit. It is bound,
// or -1 if there is no bound or if prompt and bound together may exceed the context. In the latter
// case the context itself limits the answer, and with a limit engines would refuse requests that
// they otherwise answer. The prompt's estimate must therefore be high (see DenseText).
func DefaultLimit(bound, context, prompt int) int {
	if bound <= 0 || context > 0 && prompt+bound > context {
		return -1
	}
	return bound
}

// DenseText is the number of bytes per token in dense text, such as code, other scripts and
// numbers. Prose has four or more bytes per token.
const DenseText = 2

// overBound calls f with the path of each member of root that an engine could read as a token limit
// above the bound. more is another alias, or empty.
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

// LowerAliases lowers to the bound all token limits that engines read from members other than the
// contract's own. more is an alias in this dialect only, or empty. If bound is 0, nothing is
// changed.
func LowerAliases(edits *jsonx.Edits, root jsonx.Value, bound int, more string) {
	if bound <= 0 {
		return
	}
	overBound(root, bound, more, func(_ string, v jsonx.Value) {
		edits.Set(v, strconv.AppendInt(nil, int64(bound), 10))
	})
}

// RefuseAliases refuses the limits that LowerAliases would lower.
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
