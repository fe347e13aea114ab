package chat

import (
	"slices"

	"penstock/translate/jsonx"
)

// Efforts are the reasoning efforts from least to most.
var Efforts = []string{"none", "low", "medium", "high", "xhigh"}

// Words of other vendors that clients send: minimal reads as low, max as xhigh.
const (
	effortMinimal = "minimal"
	effortMax     = "max"
)

var reasoningNames = jsonx.NewNames("effort", "max_tokens", "enabled", "exclude")

// decodeReasoning reads reasoning_effort and include_reasoning, and their other forms
// reasoning.effort and reasoning.exclude. A budget inside reasoning is checked and otherwise left
// alone: it can never raise the token limit, because nothing adds it up.
func (r *Request) decodeReasoning() (e *Invalid) {
	v := r.members[memberReasoning]
	if e = OptionalObject("reasoning", v); e != nil {
		return e
	}
	exclude := false
	if Given(v) {
		if exclude, e = r.decodeReasoningObject(v); e != nil {
			return e.In("reasoning")
		}
	}
	effort, e := r.readEffort("reasoning_effort", r.members[memberReasoningEffort])
	switch {
	case e != nil:
		return e
	case effort == "":
	case r.Effort != "" && r.Effort != effort:
		return WrongValue("reasoning_effort", "must be the same as reasoning.effort when both are given; send one of them")
	default:
		r.Effort = effort
	}
	include, e := OptionalBool("include_reasoning", r.members[memberIncludeReasoning], true)
	r.IncludeReasoning = include && !exclude
	return e
}

func (r *Request) decodeReasoningObject(v jsonx.Value) (exclude bool, e *Invalid) {
	var m [4]jsonx.Value
	if e := ReadFields(v, reasoningNames, m[:]); e != nil {
		return false, e
	}
	effort, e := r.readEffort("effort", m[0])
	if e != nil {
		return false, e
	}
	if Given(m[1]) {
		n, e := integer("max_tokens", m[1])
		if e != nil {
			return false, e
		}
		if n < 0 {
			return false, WrongValue("max_tokens", "must be 0 or more")
		}
	}
	enabled, e := OptionalBool("enabled", m[2], true)
	if e != nil {
		return false, e
	}
	if !enabled && effort == "" {
		effort = "none"
	}
	r.Effort = effort
	return OptionalBool("exclude", m[3], false)
}

// readEffort returns the effort in the word of Efforts, or nothing when v is not given.
func (r *Request) readEffort(name string, v jsonx.Value) (string, *Invalid) {
	switch {
	case !Given(v):
		return "", nil
	case !v.IsString():
		return "", WrongType(name, "a string", v)
	case v.EqualText(effortMinimal):
		r.foreign = true
		return "low", nil
	case v.EqualText(effortMax):
		r.foreign = true
		return "xhigh", nil
	}
	for _, effort := range Efforts {
		if v.EqualText(effort) {
			return effort, nil
		}
	}
	return "", WrongValue(name, "must be one of none, low, medium, high and xhigh (unless the edge is strict, minimal is low and max is xhigh)")
}

// LowerEffort returns the effort of words that is nearest to effort without being above it; if all
// are above, the least of them. It returns nothing when words holds none of Efforts.
func LowerEffort(words []string, effort string) string {
	at := slices.Index(Efforts, effort)
	for i := at; i >= 0; i-- {
		if slices.Contains(words, Efforts[i]) {
			return Efforts[i]
		}
	}
	for _, e := range Efforts[at+1:] {
		if slices.Contains(words, e) {
			return e
		}
	}
	return ""
}
