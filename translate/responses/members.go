package responses

import "penstock/translate/jsonx"

// The members that the edge reads, in the order of the contract's table. The members after
// memberPromptCacheKey are not in the table.
const (
	memberModel = iota
	memberInput
	memberStream
	memberTemperature
	memberTopP
	memberMaxOutputTokens
	memberTools
	memberToolChoice
	memberParallelToolCalls
	memberText
	memberReasoning
	memberMetadata
	memberStore
	memberPreviousResponseID
	memberPromptCacheKey
	memberInstructions
	memberBackground
	memberConversation
	memberPrompt
	memberMaxToolCalls
	memberSafetyIdentifier
	// A strict edge accepts none of the following members. The first ones have the same name in
	// chat.
	memberPresencePenalty
	memberFrequencyPenalty
	memberStop
	memberSeed
	memberTopK
	memberMinP
	memberRepetitionPenalty
	memberLogitBias
	memberTemplateKwargs
	memberTopLogprobs
	memberResponseFormat
	memberInclude // requests log probabilities, or has no effect; the members after it have none
	memberTruncation
	memberServiceTier
	memberUser
	memberStreamOptions
	memberPromptCacheRetention
	memberContextManagement
	memberClientMetadata
	memberMaxTokens // chat's names for max_output_tokens, read if that is not given
	memberMaxCompletionTokens
	memberN
	memberLogprobs
	memberGenerate // in messages over WebSocket
	memberCount
)

// memberNames has the order of the constants.
var memberNames = []string{
	"model", "input", "stream", "temperature", "top_p", "max_output_tokens", "tools", "tool_choice",
	"parallel_tool_calls", "text", "reasoning", "metadata", "store", "previous_response_id",
	"prompt_cache_key", "instructions", "background", "conversation", "prompt", "max_tool_calls",
	"safety_identifier", "presence_penalty", "frequency_penalty", "stop", "seed", "top_k", "min_p",
	"repetition_penalty", "logit_bias", "chat_template_kwargs", "top_logprobs", "response_format",
	"include", "truncation", "service_tier", "user", "stream_options", "prompt_cache_retention",
	"context_management", "client_metadata", "max_tokens", "max_completion_tokens", "n", "logprobs",
	"generate",
}

var requestMembers = jsonx.NewNames(memberNames...)

// members holds the members of a request.
type members [memberCount]jsonx.Value
