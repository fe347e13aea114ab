package chat

import (
	"slices"
	"strings"

	"penstock/translate/jsonx"
)

// Efforts are the reasoning efforts from least to most.
var Efforts = []string{"none", "low", "medium", "high", "xhigh"}

// Words of other vendors that clients send: minimal reads as low, max as xhigh.
const (
	effortMinimal = "minimal"
	effortMax     = "max"
)

// Reasoning is what a request says of the model's reasoning.
type Reasoning struct {
	// Effort is one of Efforts, or empty when the client did not say. Check may lower it.
	Effort string
	// Include is false when the client does not want to see reasoning.
	Include bool

	foreign bool   // the effort was written in a word of other vendors
	param   string // the path of the member that gave the effort
}

var reasoningNames = jsonx.NewNames("effort", "max_tokens", "enabled", "exclude")

// decode reads reasoning_effort and include_reasoning, and their other forms
// reasoning.effort and reasoning.exclude. A budget inside reasoning is checked and otherwise left
// alone: it can never raise the token limit, because nothing adds it up.
func (r *Reasoning) decode(members *members) (e *Invalid) {
	v := members[memberReasoning]
	if e = OptionalObject("reasoning", v); e != nil {
		return e
	}
	exclude := false
	if Given(v) {
		if exclude, e = r.decodeObject(v); e != nil {
			return e.In("reasoning")
		}
	}
	r.param = "reasoning.effort"
	if Given(members[memberReasoningEffort]) {
		r.param = "reasoning_effort"
	}
	effort, e := r.readEffort("reasoning_effort", members[memberReasoningEffort])
	switch {
	case e != nil:
		return e
	case effort == "":
	case r.Effort != "" && r.Effort != effort:
		return WrongValue("reasoning_effort", "must be the same as reasoning.effort when both are given; send one of them")
	default:
		r.Effort = effort
	}
	include, e := OptionalBool("include_reasoning", members[memberIncludeReasoning], true)
	r.Include = include && !exclude
	return e
}

func (r *Reasoning) decodeObject(v jsonx.Value) (exclude bool, e *Invalid) {
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
func (r *Reasoning) readEffort(name string, v jsonx.Value) (string, *Invalid) {
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

func (r *Reasoning) check(rules *ModelRules) *Invalid {
	if r.foreign && rules.Strict {
		return Unsupported(r.param, "must be one of none, low, medium, high and xhigh")
	}
	if rules.Efforts == nil || r.Effort == "" || slices.Contains(rules.Efforts, r.Effort) {
		return nil
	}
	if !rules.LowerEffort {
		if len(rules.Efforts) == 0 {
			return Unsupported(r.param, "cannot be used: the model offers no reasoning effort")
		}
		return Unsupported(r.param, "must be one that the model offers: "+strings.Join(rules.Efforts, ", "))
	}
	r.Effort = LowerEffort(rules.Efforts, r.Effort)
	return nil
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
