package dialects

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// Options says how to translate a request. The zero value moves system text into the leading
// message and is as tolerant as possible.
type Options struct {
	// InPlace reports whether the model, in the client's spelling, accepts system messages in the
	// middle of a conversation; nil: no model does. InPlace is called once, before anything is
	// written, and must not keep the name.
	InPlace func(model []byte) bool
	// Opener opens sealed reasoning and compactions in the history. A compaction belongs to no
	// model, so its model is empty. If Opener is nil, nothing is opened.
	Opener chat.Opener
	// RedactThinking seals the reasoning in a Messages answer unless the request asks for its text.
	RedactThinking bool
	// Refuse holds the members that steer an engine. They are refused and never passed on, so that
	// a request means the same on every endpoint.
	Refuse *chat.RefusedMembers
	// Hosted returns the members that are refused in a request for the model, in addition to
	// Refuse. The model's name is in the client's spelling and must not be kept. If Hosted is nil,
	// there are none. Only Messages calls Hosted. In Responses, agents send some of these members,
	// so they are dropped.
	Hosted func(model []byte) *chat.RefusedMembers
	// Strict refuses what is otherwise tolerated: tools that are not functions, Responses members
	// that have no effect here, and halves of surrogate pairs in the conversation, which are
	// otherwise replaced in the body.
	Strict bool
	// Count is true if the prompt is only counted. The request then has no stream and, in Messages,
	// no token limit. Engines get the Messages body without the members in Refuse.
	Count bool
	// MayCompact is true if the edge has keys for sealing conversation summaries. Compact requests
	// a summary, whatever the request says. Only Responses has summaries.
	MayCompact, Compact bool
}

// Identity is what the edge knows about an answer.
type Identity struct {
	Model   string       // public id
	ID      string       // unique; missing tool call ids are derived from it
	Created int64        // Unix seconds
	Now     func() int64 // Unix seconds, called when the answer is complete

	Seal         seal.Box // for reasoning that the client carries but may not read
	RequestID    string   // for errors within a stream
	Tools        []byte   // the names offered to the engine, as in answer.Options
	SingleCall   bool     // the request forbids parallel tool calls
	PromptTokens int      // the edge's estimate of the prompt, for an engine that sends no counts
}
