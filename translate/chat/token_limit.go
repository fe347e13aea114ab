package chat

import (
	"math"
	"strconv"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// The limit on a completion's tokens: the client's own, lowered to the model's and to what the
// engine's context has room for, or the model's where the client gave none. It has one name in the
// contract and several more in engines, which read them first; so those are lowered with it.

// limitName is a name under which some engine reads how much it is to generate.
type limitName uint8

const (
	limitMost    limitName = iota // the most tokens
	limitInside                   // likewise, but the contract's own at the top
	limitLeast                    // the fewest
	limitChoices                  // how many choices it generates
	limitObject                   // an object, or a list of them, with any of those
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
	{"best_of", limitChoices}, // vLLM's of old, and the beams of TensorRT-LLM
	{"options", limitObject},  // Ollama
	{samplingParams, limitObject},
	{samplingParams + "_list", limitObject}, // vLLM-Omni: of each stage
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

// eachLimit calls f for each member of root under one of limitNames, or more, which is another name
// of the most tokens, or empty; outer is the object in root that it stands in, if any.
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

// TokenLimit is the limit on a completion's tokens, reasoning included.
type TokenLimit struct {
	// Max is the client's, whichever member said so; -1: none. Check may lower it.
	Max int

	bound    int // the model's; 0: none
	fallback int // for engines when Max is -1; -1: none
	fitted   int // the greatest that the next engine has room for; -1: not known
	said     int // of the answer, by an engine before the next one
	named    NamedLimits
}

// NamedLimits is what a request asks for under the names that are not the dialect's own.
type NamedLimits struct {
	Given bool // some name is
	Least int  // the smallest number that is a limit; 0: none
	// Choices is the greatest number of choices, or of beams, that some engine generates for it.
	Choices int
	atMin   int // how many tokens an engine is to generate at least; 0: it may stop
	param   string
}

// ReadLimits reads the limits of root under other names, of which more is one; or empty.
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

// leniently is the number that an engine may take v for: vLLM's reader, pydantic, takes text that
// is a number for one, a number with a fraction of nothing, and true for 1. It is 0 for others.
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

// Check refuses more tokens at least than most, the limit of the answer; 0: there is none.
func (n *NamedLimits) Check(most int) *Invalid {
	if most = smaller(most, n.Least); most > 0 && n.atMin > most {
		return WrongValue(n.param, "must be at most "+strconv.Itoa(most)+", the limit of the answer's tokens")
	}
	return nil
}

// Bound is what other names are lowered to beside limit, the one for the engine, or -1, and the
// model's; 0: they stay. A request that has no other name stays as it is.
func (n *NamedLimits) Bound(limit, model int) int {
	if !n.Given {
		return model
	}
	if limit >= 0 {
		model = smaller(model, max(limit, 1))
	}
	return smaller(model, n.Least)
}

// Lower returns limit, or the smallest under another name.
func (n *NamedLimits) Lower(limit int) int {
	if n.Least > 0 {
		return min(limit, n.Least)
	}
	return limit
}

// noTokenLimit is the TokenLimit of a request that has not been decoded.
var noTokenLimit = TokenLimit{Max: -1, fallback: -1, fitted: -1}

// Bound is what the limit's other names are lowered to: the smallest of all, the model's limit, as
// the last Check found it, or the room that the engine has where the client asks for more; 0: they
// stay.
func (t *TokenLimit) Bound() int {
	bound := t.named.Bound(t.TokenLimit(), t.bound)
	if t.fitted > 0 && t.fitted < t.Max {
		return smaller(bound, t.fitted)
	}
	return bound
}

// Asked is the limit that the client gave, under any name; -1: none.
func (t *TokenLimit) Asked() int {
	if t.Max < 0 && t.named.Least > 0 {
		return smaller(t.named.Least, t.bound)
	}
	return t.Max
}

// Generated is how many completions engines generate for a request of so many choices: those, or
// what it asks for under other names.
func (t *TokenLimit) Generated(choices int) int { return max(choices, t.named.Choices) }

// TokenLimit is the limit for engines: Max, or the model's own where the client gave none, less
// what has been said; -1: none. Check sets it, and Fit lowers it for one engine.
func (t *TokenLimit) TokenLimit() int {
	limit := t.Left(t.said)
	if t.fitted >= 0 {
		return min(limit, t.fitted)
	}
	return limit
}

// Left is how many tokens are left of the limit after so many; -1: there is no limit.
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

// Said is how many tokens the next engine is to go on with.
func (t *TokenLimit) Said() int { return t.said }

// Fit lowers the limit for the next engine to its room; a negative limit undoes an earlier one.
func (t *TokenLimit) Fit(limit int) { t.fitted = limit }

// decode reads the two spellings of the limit.
func (t *TokenLimit) decode(members *members) *Invalid {
	for _, m := range [...]int{memberMaxTokens, memberMaxCompletionTokens} {
		v := members[m]
		if !Given(v) {
			continue
		}
		n, e := integer(memberNames[m], v)
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

// smaller returns the smaller of two bounds, of which 0 is none.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// LeastAnswer is the number of tokens for an answer that a prompt must leave of a context. Agents
// are refused where it does not, and then shorten their conversation: a few words of an answer
// would only be cut.
const LeastAnswer = 256

// FitLimit returns what an engine is asked for in place of the limit asked, where prompt is an
// estimate of the prompt's tokens: what the context has room for beside it, less 2 % of the
// context, as the estimate is none too good. It is never lower than an eighth of the context or
// LeastAnswer, unless less was asked for. An estimate that is too high would otherwise cut the
// answer for no reason, while one that is too low costs no more than a refusal, which contains the
// count. 0 is a context that is not known.
func FitLimit(asked, context, prompt int) int {
	if context <= 0 {
		return asked
	}
	return min(asked, max(context-prompt-context/50, context/8, LeastAnswer))
}

// RefitLimit returns what an engine is asked for after it has refused sent tokens beside a prompt
// of so many tokens as not fitting into its context; both numbers are 0 if its message has none.
// least: it counted the prompt no further than it had to. ok is false when nothing that it is worth
// to ask for fits.
func RefitLimit(sent, prompt, context int, least bool) (limit int, ok bool) {
	limit = min(sent, LeastAnswer)
	switch {
	case prompt <= 0 || context <= 0:
	case least:
		limit = max(limit, sent/2)
	case context-prompt < limit:
		return 0, false
	default: // one less than there is room for: some engines want the sum to be below the context
		limit = max(limit, context-prompt-1)
	}
	return limit, limit < sent
}

// DefaultLimit returns the limit for an engine of a request that gives none: bound, or -1 when
// there is none, or when the prompt and bound may have no room in the context together. The context
// is then the smaller bound, and engines would refuse what they would otherwise answer: so the
// prompt is to be estimated high, see DenseText.
func DefaultLimit(bound, context, prompt int) int {
	if bound <= 0 || context > 0 && prompt+bound > context {
		return -1
	}
	return bound
}

// DenseText is the number of bytes of text in a token where there are few: in code, in other
// scripts, in numbers. Prose has four and more.
const DenseText = 2

// overBound calls f with the path of each member of root that an engine could take for a higher
// token limit than bound. more is another alias, or empty.
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

// LowerAliases notes that members which engines read a token limit from, beside the contract's own,
// are at most bound. more is one that is an alias in this dialect alone, or empty. Without a bound
// nothing is changed.
func LowerAliases(edits *jsonx.Edits, root jsonx.Value, bound int, more string) {
	if bound <= 0 {
		return
	}
	overBound(root, bound, more, func(_ string, v jsonx.Value) {
		edits.Set(v, strconv.AppendInt(nil, int64(bound), 10))
	})
}

// RefuseAliases refuses what LowerAliases would lower.
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
