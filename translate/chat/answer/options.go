package answer

import "penstock/translate/chat/toolcall"

// WriteOptions says how to write one answer for the client. This package does not modify it. The zero
// value omits all optional members.
type WriteOptions struct {
	// Model is the public model id. It replaces the engine's name in the answer and in every chunk.
	Model string
	// ID and Created (Unix seconds) are used if the engine sends neither.
	ID      string
	Created int64
	// N is the number of choices that the client requested, or 0 if it is unknown. If a stream
	// breaks off before N choices have arrived, it is incomplete. If the stream ends with [DONE],
	// it is complete even with fewer choices, because some engines ignore n.
	N int
	// Tools lists the names of the tools that the request offers.
	Tools toolcall.ToolNames
	// SingleToolCall is true if the request forbids parallel tool calls.
	SingleToolCall bool
	// PromptTokens is the edge's estimate of the prompt's size. It is used if the engine sends no
	// counts.
	PromptTokens int
	// IncludeUsage is true if the client requested a usage chunk. Whole completions always include
	// usage.
	IncludeUsage bool
	// ContinuousUsage is true if the client requested usage in every chunk. In this case, the edge
	// also requests it from the engine.
	ContinuousUsage bool
	// StripReasoning removes reasoning, reasoning_content and reasoning_details.
	StripReasoning bool
	// StripTimings removes timings from chunks before the end.
	StripTimings bool
}
