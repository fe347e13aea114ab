package chat

import (
	"math"
	"math/bits"

	"penstock/translate/jsonx"
)

// memberValues contains the values of the members that the edge reads. The constants below are its
// indexes.
type memberValues [memberCount]jsonx.Value

// The members that the edge reads, in the order of the contract's table. Members after user are not
// in the table.
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
	memberN // number of choices; a stream is complete only once every choice has ended
	memberNCmpl
	memberPromptCacheKey // of any JSON type, because it is only a hint about where the prompt is cached
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
	memberMaxTokens:           nameMaxTokens,
	memberMaxCompletionTokens: nameMaxCompletionTokens,
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
	memberNCmpl:               nameNCmpl,
	memberPromptCacheKey:      "prompt_cache_key",
}

// nameNCmpl is llama.cpp's name for n. If both are present, llama.cpp ignores n.
const nameNCmpl = "n_cmpl"

var requestMembers = jsonx.NewNameIndex(memberNames...)

// usualMembers is the set of members that need no checks other than their individual rules. If a
// request has no other members, CheckBounds and ReadAliasLimits are skipped. This is true of most
// requests.
const usualMembers uint64 = 1<<memberModel | 1<<memberMessages | 1<<memberTemperature | 1<<memberTopP | 1<<memberTopK | 1<<memberMinP |
	1<<memberFrequencyPenalty | 1<<memberPresencePenalty | 1<<memberRepetitionPenalty |
	1<<memberMaxTokens | 1<<memberMaxCompletionTokens | 1<<memberSeed | 1<<memberStream | 1<<memberStreamOptions |
	1<<memberReasoningEffort | 1<<memberUser | 1<<memberParallelToolCalls

// Sets of members that are decoded or changed together.
const (
	limitMembers  uint64 = 1<<memberMaxTokens | 1<<memberMaxCompletionTokens
	streamMembers uint64 = 1<<memberStream | 1<<memberStreamOptions
	toolMembers   uint64 = 1<<memberTools | 1<<memberToolChoice

	reasoningMembers uint64 = 1<<memberReasoning | 1<<memberReasoningEffort | 1<<memberIncludeReasoning

	rareMembers uint64 = 1<<memberN | 1<<memberNCmpl | 1<<memberStop | 1<<memberLogitBias | 1<<memberLogprobs |
		1<<memberParallelToolCalls | 1<<memberUser
)

// numberRules contains the rules for members that are numbers within a range, both ends included.
var numberRules = [memberCount]struct {
	lo, hi  float64
	integer bool
	want    string // completes "must be "; empty for other members
}{
	memberTemperature:       {0, 2, false, "between 0 and 2"},
	memberTopP:              {0, 1, false, "between 0 and 1"},
	memberTopK:              {0, math.Inf(1), true, "0 or more"},
	memberMinP:              {0, 1, false, "between 0 and 1"},
	memberFrequencyPenalty:  {-2, 2, false, "between -2 and 2"},
	memberPresencePenalty:   {-2, 2, false, "between -2 and 2"},
	memberRepetitionPenalty: {0.1, 2, false, "between 0.1 and 2"},
	memberSeed:              {math.Inf(-1), math.Inf(1), true, "an integer of 64 bits"},
	memberTopLogprobs:       {0, math.Inf(1), true, "0 or more"},
}

// numberMembers is the set of members in numberRules.
var numberMembers = func() (set uint64) {
	for m := range numberRules {
		if numberRules[m].want != "" {
			set |= 1 << m
		}
	}
	return set
}()

// checkNumbers checks those members in found that must be numbers.
func (m *memberValues) checkNumbers(found uint64) *InvalidMember {
	for set := found & numberMembers; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		rule, name, v := &numberRules[i], memberNames[i], m[i]
		if !IsGiven(v) {
			continue
		}
		if rule.integer {
			n, e := ReadInteger(name, v)
			if e != nil {
				return e
			}
			if float64(n) < rule.lo {
				return WrongValueError(name, "must be "+rule.want)
			}
			continue
		}
		if !v.IsNumber() {
			return WrongTypeError(name, "a number", v)
		}
		if f, ok := v.Float(); !ok || f < rule.lo || f > rule.hi {
			return WrongValueError(name, "must be "+rule.want)
		}
	}
	return nil
}

// ReadInteger reads a value that must be a 64-bit integer.
func ReadInteger(name string, v jsonx.Value) (int64, *InvalidMember) {
	if !v.IsNumber() {
		return 0, WrongTypeError(name, "an integer", v)
	}
	n, ok := v.Int()
	if !ok {
		return 0, WrongValueError(name, "must be an integer of 64 bits")
	}
	return n, nil
}

func (m *memberValues) checkStop() *InvalidMember {
	v := m[memberStop]
	if !IsGiven(v) || v.IsString() {
		return nil
	}
	if !v.IsArray() {
		return WrongTypeError("stop", "a string or an array of strings", v)
	}
	for it := v.Iter(); it.Next(); {
		if s := it.Value(); !s.IsString() {
			return WrongTypeError("", "a string", s).InElement("stop", it.Index())
		}
	}
	return nil
}

func (m *memberValues) checkSimpleMembers() *InvalidMember {
	if e := CheckOptionalObject("logit_bias", m[memberLogitBias]); e != nil {
		return e
	}
	for _, i := range [...]int{memberLogprobs, memberParallelToolCalls} {
		if _, e := ReadOptionalBool(memberNames[i], m[i], false); e != nil {
			return e
		}
	}
	return CheckOptionalString("user", m[memberUser])
}
