package chat

import (
	"strconv"

	"penstock/translate/jsonx"
)

// The limit on a completion's tokens: the client's own, lowered to the model's, or the model's where the client gave none. It
// has one name in the contract and several more in engines, which read them first; so those are lowered with it.

// limitAliases are the members that engines read a token limit from beside the contract's.
var limitAliases = [...]string{"n_predict", "num_predict", "max_new_tokens", "max_output_tokens", "max_predict"}

// limitOptions is the object that some engines read the same from.
const limitOptions = "options"

// Bound is the model's limit on the tokens of a completion, as the last Check found it; 0: none.
func (r *Request) Bound() int { return r.bound }

// TokenLimit is the limit that engines are told: MaxTokens, or the model's own where the client gave none; -1: none. Check
// sets it.
func (r *Request) TokenLimit() int {
	if r.MaxTokens < 0 {
		return r.told
	}
	return r.MaxTokens
}

// ToldLimit returns the limit that an engine is told for a request that gives none: bound, or -1 when there is none, or when the
// prompt and bound may have no room in the context together. The context is then the smaller bound, and engines
// would refuse what they would otherwise answer: so the prompt is to be estimated high, see DenseText.
func ToldLimit(bound, context, prompt int) int {
	if bound <= 0 || context > 0 && prompt+bound > context {
		return -1
	}
	return bound
}

// DenseText is the number of bytes of text in a token where there are few: in code, in other scripts, in numbers. Prose has
// four and more.
const DenseText = 2

// overBound calls f with the name of each member of root that an engine could take for a higher token limit than bound. more
// is another alias, or empty.
func overBound(root jsonx.Value, bound int, more string, f func(name string, v jsonx.Value)) {
	for it := root.Iter(); it.Next(); {
		if !it.Key().Fold(limitOptions) {
			overMember(it.Key(), it.Value(), bound, more, f)
			continue
		}
		for in := it.Value().Iter(); in.Next(); {
			overMember(in.Key(), in.Value(), bound, "", f)
		}
	}
}

func overMember(name jsonx.Key, v jsonx.Value, bound int, more string, f func(name string, v jsonx.Value)) {
	if n, ok := v.Int(); !Given(v) || ok && n >= 0 && n <= int64(bound) {
		return
	}
	if more != "" && name.Fold(more) {
		f(more, v)
		return
	}
	for _, alias := range limitAliases {
		if name.Fold(alias) {
			f(alias, v)
		}
	}
}

// LowerAliases notes that members which engines read a token limit from, beside the contract's own, are at most bound. more is
// one that is an alias in this dialect alone, or empty. Without a bound nothing is changed.
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
	overBound(root, bound, more, func(name string, _ jsonx.Value) {
		e = WrongValue(name, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
	})
	return e
}
