package answer

import "penstock/translate/chat/toolcall"

// Options says what the client gets from one answer. The proxy fills Options from the request and
// the route; this package only reads it. The zero value omits everything optional.
type Options struct {
	// Model is the public model id. It replaces the engine's own name in the answer and in every
	// chunk.
	Model string
	// ID and Created (Unix seconds) are used if the engine gave none.
	ID      string
	Created int64
	// N is the number of choices that the client asked for, or 0 if that is unknown. A stream that
	// breaks off before it has N choices is incomplete. A stream that the engine ended with [DONE]
	// is complete, because some engines ignore n.
	N int
	// Tools holds the names of the tools that the request offers.
	Tools toolcall.Names
	// SingleToolCall is true if the request forbids parallel tool calls. Each choice then keeps
	// only its first tool call.
	SingleToolCall bool
	// PromptTokens is the edge's estimate of the prompt, for an engine that sends no counts.
	PromptTokens int
	// IncludeUsage is true if the client asked for a usage chunk at the end of the stream. Whole
	// completions always keep their usage.
	IncludeUsage bool
	// ContinuousUsage is true if the client also asked for usage in every chunk. The engine then
	// sends usage in every chunk.
	ContinuousUsage bool
	// StripReasoning removes reasoning, reasoning_content and reasoning_details (include_reasoning:
	// false).
	StripReasoning bool
	// StripTimings removes timings from chunks before the end, because the client has not asked for
	// them.
	StripTimings bool
}
