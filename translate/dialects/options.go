package dialects

import (
	"penstock/translate/chat"
	"penstock/translate/seal"
)

// Options says how a request is to be translated. The zero value folds system text into the message
// that leads the conversation and tolerates what can be tolerated.
type Options struct {
	// InPlace reports whether the model, named as the client wrote it, takes system messages in the
	// middle of a conversation; nil: none does. It is asked once, before anything is written, and
	// must not keep the name.
	InPlace func(model []byte) bool
	// Opener opens the sealed reasoning of the history, and its compactions, which belong to no model:
	// their model is empty; nil: none is opened.
	Opener chat.Opener
	// RedactThinking seals the reasoning of a Messages answer unless the request asks for its text.
	RedactThinking bool
	// Refuse are the members that steer an engine. They are not passed on in any case; they are
	// refused so that a request means the same on every endpoint.
	Refuse *chat.RefusedMembers
	// Hosted returns the members that are refused of a request for the model, named as the client
	// wrote it; nil: none beyond Refuse. It must not keep the name. Messages alone asks: Responses
	// has members among them that agents send, and that go no further.
	Hosted func(model []byte) *chat.RefusedMembers
	// Strict refuses what is otherwise tolerated without effect: tools that are no functions,
	// members of Responses that change nothing here, and halves of surrogate pairs in the
	// conversation, which are otherwise replaced in the body.
	Strict bool
	// Count reads the body as one whose prompt is only counted: there is no stream, and on Messages,
	// whose body goes to engines without the members that Refuse names, no token limit.
	Count bool
	// MayCompact says that the edge has keys for the summaries of conversations. Compact asks for
	// one, whatever the request asks for. Responses alone has them.
	MayCompact, Compact bool
}

// Identity is what the edge knows about an answer.
type Identity struct {
	Model   string       // public id
	ID      string       // unique; the edge makes the missing ids of tool calls from it
	Created int64        // Unix seconds
	Now     func() int64 // Unix seconds, asked when the answer is complete

	Seal         seal.Box // for reasoning that the client carries and may not read
	RequestID    string   // for the errors of a stream
	Tools        []byte   // the names on offer to the engine, as in answer.Options
	SingleCall   bool     // the request forbids parallel tool calls
	PromptTokens int      // our estimate of the prompt, for an engine that counts nothing
}
