package responses

import "penstock/translate/jsonx"

// The members that the edge reads, in the order of the contract's table. Members after
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
	// A strict edge accepts none of the following members. The members up to memberResponseFormat
	// have the same name in chat.
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
	memberInclude // may request log probabilities; the members after include have no effect
	memberTruncation
	memberServiceTier
	memberUser
	memberStreamOptions
	memberPromptCacheRetention
	memberContextManagement
	memberClientMetadata
	memberMaxTokens // this member and the next are chat's names for max_output_tokens, which takes precedence
	memberMaxCompletionTokens
	memberN
	memberLogprobs
	memberGenerate // only in messages over WebSocket
	memberCount
)

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

var requestMembers = jsonx.NewNameIndex(memberNames...)

type memberValues [memberCount]jsonx.Value
