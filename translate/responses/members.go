package responses

import "penstock/translate/jsonx"

// The members that the edge reads, in the order of the contract's table. Members after
// memberPromptCacheKeyIndex are not in the table.
const (
	memberModelIndex = iota
	memberInputIndex
	memberStreamIndex
	memberTemperatureIndex
	memberTopPIndex
	memberMaxOutputTokensIndex
	memberToolsIndex
	memberToolChoiceIndex
	memberParallelToolCallsIndex
	memberTextIndex
	memberReasoningIndex
	memberMetadataIndex
	memberStoreIndex
	memberPreviousResponseIDIndex
	memberPromptCacheKeyIndex
	memberInstructionsIndex
	memberBackgroundIndex
	memberConversationIndex
	memberPromptIndex
	memberMaxToolCallsIndex
	memberSafetyIdentifierIndex
	// A strict edge accepts none of the following members. The members up to memberResponseFormatIndex
	// have the same name in chat.
	memberPresencePenaltyIndex
	memberFrequencyPenaltyIndex
	memberStopIndex
	memberSeedIndex
	memberTopKIndex
	memberMinPIndex
	memberRepetitionPenaltyIndex
	memberLogitBiasIndex
	memberTemplateKwargsIndex
	memberTopLogprobsIndex
	memberResponseFormatIndex
	memberIncludeIndex // may request log probabilities; the members after include have no effect
	memberTruncationIndex
	memberServiceTierIndex
	memberUserIndex
	memberStreamOptionsIndex
	memberPromptCacheRetentionIndex
	memberContextManagementIndex
	memberClientMetadataIndex
	memberMaxTokensIndex // this member and the next are chat's names for max_output_tokens, which takes precedence
	memberMaxCompletionTokensIndex
	memberNIndex
	memberLogprobsIndex
	memberGenerateIndex // only in messages over WebSocket
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
