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
	memberModelIndex = iota
	memberMessagesIndex
	memberTemperatureIndex
	memberTopPIndex
	memberTopKIndex
	memberMinPIndex
	memberFrequencyPenaltyIndex
	memberPresencePenaltyIndex
	memberRepetitionPenaltyIndex
	memberMaxTokensIndex
	memberMaxCompletionTokensIndex
	memberStopIndex
	memberSeedIndex
	memberLogitBiasIndex
	memberLogprobsIndex
	memberTopLogprobsIndex
	memberStreamIndex
	memberStreamOptionsIndex
	memberResponseFormatIndex
	memberToolsIndex
	memberToolChoiceIndex
	memberReasoningIndex
	memberReasoningEffortIndex
	memberIncludeReasoningIndex
	memberUserIndex
	memberParallelToolCallsIndex
	memberNIndex // number of choices; a stream is complete only once every choice has ended
	memberNCmplIndex
	memberPromptCacheKeyIndex // of any JSON type, because it is only a hint about where the prompt is cached
	memberCount
)

var memberNames = []string{
	memberModelIndex:               "model",
	memberMessagesIndex:            "messages",
	memberTemperatureIndex:         "temperature",
	memberTopPIndex:                "top_p",
	memberTopKIndex:                "top_k",
	memberMinPIndex:                "min_p",
	memberFrequencyPenaltyIndex:    "frequency_penalty",
	memberPresencePenaltyIndex:     "presence_penalty",
	memberRepetitionPenaltyIndex:   "repetition_penalty",
	memberMaxTokensIndex:           nameMaxTokens,
	memberMaxCompletionTokensIndex: nameMaxCompletionTokens,
	memberStopIndex:                "stop",
	memberSeedIndex:                "seed",
	memberLogitBiasIndex:           "logit_bias",
	memberLogprobsIndex:            "logprobs",
	memberTopLogprobsIndex:         "top_logprobs",
	memberStreamIndex:              "stream",
	memberStreamOptionsIndex:       "stream_options",
	memberResponseFormatIndex:      "response_format",
	memberToolsIndex:               "tools",
	memberToolChoiceIndex:          "tool_choice",
	memberReasoningIndex:           "reasoning",
	memberReasoningEffortIndex:     "reasoning_effort",
	memberIncludeReasoningIndex:    "include_reasoning",
	memberUserIndex:                "user",
	memberParallelToolCallsIndex:   "parallel_tool_calls",
	memberNIndex:                   "n",
	memberNCmplIndex:               nameNCmpl,
	memberPromptCacheKeyIndex:      "prompt_cache_key",
}

// nameNCmpl is llama.cpp's name for n. If both are present, llama.cpp ignores n.
const nameNCmpl = "n_cmpl"

var requestMembers = jsonx.NewNameIndex(memberNames...)

// usualMemberSet is the set of members that need no checks other than their individual rules. If a
// request has no other members, CheckBounds and ReadAliasLimits are skipped. This is true of most
// requests.
const usualMemberSet uint64 = 1<<memberModelIndex | 1<<memberMessagesIndex | 1<<memberTemperatureIndex | 1<<memberTopPIndex | 1<<memberTopKIndex | 1<<memberMinPIndex |
	1<<memberFrequencyPenaltyIndex | 1<<memberPresencePenaltyIndex | 1<<memberRepetitionPenaltyIndex |
	1<<memberMaxTokensIndex | 1<<memberMaxCompletionTokensIndex | 1<<memberSeedIndex | 1<<memberStreamIndex | 1<<memberStreamOptionsIndex |
	1<<memberReasoningEffortIndex | 1<<memberUserIndex | 1<<memberParallelToolCallsIndex

// Sets of members that are decoded or changed together.
const (
	limitMemberSet  uint64 = 1<<memberMaxTokensIndex | 1<<memberMaxCompletionTokensIndex
	streamMemberSet uint64 = 1<<memberStreamIndex | 1<<memberStreamOptionsIndex
	toolMemberSet   uint64 = 1<<memberToolsIndex | 1<<memberToolChoiceIndex

	reasoningMemberSet uint64 = 1<<memberReasoningIndex | 1<<memberReasoningEffortIndex | 1<<memberIncludeReasoningIndex

	rareMemberSet uint64 = 1<<memberNIndex | 1<<memberNCmplIndex | 1<<memberStopIndex | 1<<memberLogitBiasIndex | 1<<memberLogprobsIndex |
		1<<memberParallelToolCallsIndex | 1<<memberUserIndex
)

// numberRules contains the rules for members that are numbers within a range, both ends included.
var numberRules = [memberCount]struct {
	lo, hi  float64
	integer bool
	want    string // completes "must be "; empty for other members
}{
	memberTemperatureIndex:       {0, 2, false, "between 0 and 2"},
	memberTopPIndex:              {0, 1, false, "between 0 and 1"},
	memberTopKIndex:              {0, math.Inf(1), true, "0 or more"},
	memberMinPIndex:              {0, 1, false, "between 0 and 1"},
	memberFrequencyPenaltyIndex:  {-2, 2, false, "between -2 and 2"},
	memberPresencePenaltyIndex:   {-2, 2, false, "between -2 and 2"},
	memberRepetitionPenaltyIndex: {0.1, 2, false, "between 0.1 and 2"},
	memberSeedIndex:              {math.Inf(-1), math.Inf(1), true, "an integer of 64 bits"},
	memberTopLogprobsIndex:       {0, math.Inf(1), true, "0 or more"},
}

// numberMemberSet is the set of members in numberRules.
var numberMemberSet = func() (set uint64) {
	for m := range numberRules {
		if numberRules[m].want != "" {
			set |= 1 << m
		}
	}
	return set
}()

// checkNumbers checks those members in found that must be numbers.
func (m *memberValues) checkNumbers(found uint64) *InvalidMember {
	for set := found & numberMemberSet; set != 0; set &= set - 1 {
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
	v := m[memberStopIndex]
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
	if e := CheckOptionalObject("logit_bias", m[memberLogitBiasIndex]); e != nil {
		return e
	}
	for _, i := range [...]int{memberLogprobsIndex, memberParallelToolCallsIndex} {
		if _, e := ReadOptionalBool(memberNames[i], m[i], false); e != nil {
			return e
		}
	}
	return CheckOptionalString("user", m[memberUserIndex])
}
