package chat

import (
	"slices"
	"strconv"

	"penstock/translate/apierr"
)

// CheckRules applies a model's rules to a decoded request. It lowers the token limit and the effort
// to the model's maximum. The error is an *apierr.Error. CheckRules may be called again with
// another model's rules, which then apply to the client's original values.
//
// CheckRules never rejects a prompt because of its length. Only the engine can count the tokens.
func (r *Request) CheckRules(rules *ModelRules) error {
	if !r.onlyUsual || rules.Refuse.refusesUsual() {
		if err := rules.Refuse.CheckMembers(r.doc.Root()); err != nil {
			return err
		}
	}
	r.Prompt.reasoning.keepMode = rules.ReasoningHistory
	if r.clientValues.saved {
		r.Tokens.Max, r.Tokens.contextLimit, r.Reasoning.Effort = r.clientValues.max, -1, r.clientValues.effort
	}
	r.clientValues = clientValues{true, r.Tokens.Max, r.Reasoning.Effort}
	return r.checkAgainstModel(rules).Err()
}

type clientValues struct {
	saved  bool
	max    int
	effort string
}

func (r *Request) checkAgainstModel(rules *ModelRules) *InvalidMember {
	if e := r.checkFeatures(rules); e != nil {
		return e
	}
	if len(r.Prompt.Images) > 0 {
		if e := r.Prompt.checkImages(rules); e != nil {
			return e
		}
	}
	if len(r.Prompt.Media) > 0 {
		if e := r.Prompt.checkMedia(rules); e != nil {
			return e
		}
	}
	if e := r.checkTopMedia(rules); e != nil {
		return e
	}
	if e := r.Reasoning.check(rules); e != nil {
		return e
	}
	if e := r.checkTokenLimit(rules); e != nil {
		return e
	}
	return r.ToolUse.check(rules)
}

func (r *Request) checkFeatures(rules *ModelRules) *InvalidMember {
	if rules.Features == nil {
		return nil
	}
	offers := func(feature string) bool { return slices.Contains(rules.Features, feature) }
	switch {
	case r.ToolUse.Offered && !offers(FeatureTools):
		return UnsupportedError("tools", "cannot be used: the model does not offer tool calling")
	case r.StructuredOutput && !offers(FeatureStructuredOutputs) && (r.schema || !offers(FeatureJSONMode)):
		return UnsupportedError("response_format", "must be text or absent: the model does not offer structured outputs")
	case rules.Efforts == nil && r.Reasoning.Effort != "" && r.Reasoning.Effort != "none" && !offers(FeatureReasoning):
		if !rules.LowerEffort {
			return UnsupportedError(r.Reasoning.param, "must be none or absent: the model does not offer reasoning")
		}
		r.Reasoning.Effort = ""
	}
	return nil
}

func (r *Request) checkTokenLimit(rules *ModelRules) *InvalidMember {
	bound, context := rules.MaxOutputLength, rules.ContextTokens(len(r.Prompt.Images) > 0)
	if v := rules.Vision; v != nil && len(r.Prompt.Images) > 0 {
		bound = lowerLimit(bound, v.MaxTokens)
	}
	r.Tokens.aliases = AliasLimits{}
	if !r.onlyUsual {
		r.Tokens.aliases = ReadAliasLimits(r.doc.Root(), "")
	}
	r.Tokens.Max = r.Tokens.aliases.LowerLimit(r.Tokens.Max)
	param := "max_tokens"
	if IsGiven(r.members[memberMaxCompletionTokensIndex]) {
		param = "max_completion_tokens"
	}
	if bound > 0 && r.Tokens.Max > bound {
		if rules.Strict {
			return WrongValueError(param, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
		}
		r.Tokens.Max = bound
	}
	most := bound
	if r.Tokens.Max >= 0 {
		most = max(r.Tokens.Max, 1)
	}
	if e := r.Tokens.aliases.CheckMinimum(most); e != nil {
		return e
	}
	r.Tokens.modelLimit, r.Tokens.defaultLimit = bound, -1
	if r.Tokens.Max < 0 && bound > 0 {
		r.Tokens.defaultLimit = DefaultLimit(bound, context, r.Prompt.EstimateTokens(DenseBytesPerToken))
	}
	if rules.Strict {
		if e := CheckAliasLimits(r.doc.Root(), bound, ""); e != nil {
			return e
		}
	}
	if rules.Strict && context > 0 && r.Tokens.Max > context {
		text := "alone is larger than the context of the model: "
		return &InvalidMember{Param: param, Code: apierr.CodeContextLength, Text: text +
			strconv.Itoa(r.Tokens.Max) + " tokens > " + strconv.Itoa(context) + " maximum"}
	}
	return nil
}
