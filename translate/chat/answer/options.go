package answer

import "penstock/translate/chat/toolcall"

// Options are the options of one answer for the client. The proxy fills them from the request and
// the route; this package only reads them. The zero value omits all optional parts.
type Options struct {
	// Model is the public model id: it replaces the engine's own name in the answer and in every
	// chunk.
	Model string
	// ID and Created (Unix seconds) are used if the engine gave none.
	ID      string
	Created int64
	// N is the number of choices that the client asked for, 0 when unknown. A stream that breaks off
	// before it had N choices is incomplete. A stream that the engine ended with [DONE] is complete,
	// because some engines ignore n.
	N int
	// Tools are the names of the tools that the request offers.
	Tools toolcall.Names
	// SingleToolCall says that the request forbids parallel tool calls, so each choice keeps only
	// its first.
	SingleToolCall bool
	// PromptTokens is our estimate of the prompt, for an engine that sends no counts.
	PromptTokens int
	// IncludeUsage says that the client asked for the usage chunk of a stream. Whole completions
	// always keep their usage.
	IncludeUsage bool
	// ContinuousUsage says that the client also asked for usage in every chunk. The engine then sends
	// it.
	ContinuousUsage bool
	// StripReasoning removes reasoning, reasoning_content and reasoning_details (include_reasoning:
	// false).
	StripReasoning bool
	// StripTimings removes timings from chunks before the end, because the client has not asked for
	// them.
	StripTimings bool
}
