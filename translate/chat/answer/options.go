package answer

import "penstock/translate/chat/toolcall"

// Options are the options of one answer for the client. The proxy fills them from the request
// and the route; this package only reads them. The zero value leaves out all optional parts.
type Options struct {
	// Model is the public model id: it replaces the engine's own name in the answer and in every
	// chunk.
	Model string
	// ID and Created (Unix seconds) are used where the engine gave none.
	ID      string
	Created int64
	// N is the number of choices that the client asked for, 0 when unknown. A stream that breaks
	// off before that many were seen is not whole; one that the engine ended with [DONE] is, as
	// some engines ignore n.
	N int
	// Tools are the names of the tools that the request offers.
	Tools toolcall.Names
	// SingleToolCall: the request forbids parallel tool calls, so that each choice keeps its first.
	SingleToolCall bool
	// PromptTokens is our estimate of the prompt, for an engine that counts nothing.
	PromptTokens int
	// IncludeUsage: the client asked for the usage chunk of a stream. Whole completions always keep
	// their usage.
	IncludeUsage bool
	// ContinuousUsage: it asked for usage in every chunk, too, and gets the engine's.
	ContinuousUsage bool
	// StripReasoning removes reasoning, reasoning_content and reasoning_details (include_reasoning:
	// false).
	StripReasoning bool
	// StripTimings removes timings from chunks before the end, for which the client has not asked.
	StripTimings bool
}
