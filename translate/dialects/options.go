package dialects

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// Options says how to translate a request. The zero value moves all system text into the first
// message and accepts as much as possible.
type Options struct {
	// InPlace reports whether the model accepts system messages in the middle of a conversation. If
	// InPlace is nil, no model does. The translation calls InPlace once, before it writes any
	// output. InPlace must not retain model.
	InPlace func(model []byte) bool
	// Opener opens sealed reasoning and compactions. Compactions are sealed for an empty model
	// name. If Opener is nil, sealed blobs are not opened.
	Opener chat.ReasoningOpener
	// RedactThinking seals the reasoning in a Messages answer unless the client requests the
	// reasoning text.
	RedactThinking bool
	// Refuse lists the members that steer an engine. These members are never passed on.
	Refuse *chat.RefusedMembers
	// Hosted returns additional members to reject for the model. It may be nil, and must not retain
	// model. Only Messages calls Hosted. Responses drops these members instead, because agents send
	// some of them.
	Hosted func(model []byte) *chat.RefusedMembers
	// Strict rejects requests that the edge otherwise accepts. These requests contain:
	//
	//   - tools that are not functions,
	//   - members that are unknown or have no effect on the edge, or
	//   - halves of surrogate pairs in the conversation, which the edge otherwise replaces.
	Strict bool
	// Count is true if the request only counts the prompt's tokens. Such a request has no stream
	// and, in Messages, no token limit.
	Count bool
	// MayCompact is true if the edge has keys for sealing summaries. If Compact is true, the edge
	// requests a summary even if the client does not. Only Responses supports summaries.
	MayCompact, Compact bool
}

// AnswerIdentity identifies an answer and the call to which it belongs.
type AnswerIdentity struct {
	Model   string       // public id
	ID      string       // unique; the edge derives missing tool call ids from it
	Created int64        // Unix seconds
	Now     func() int64 // Unix seconds, called when the answer is complete

	Seal         seal.Box // seals reasoning that the client stores but must not read
	RequestID    string   // for errors within a stream
	Tools        []byte
	SingleCall   bool
	PromptTokens int // the edge's estimate of the prompt tokens, for engines that send no counts
}
