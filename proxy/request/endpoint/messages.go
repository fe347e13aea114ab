package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/messages"
	"penstock/upstreams/engine"
)

// messagesEndpoint is POST /v1/messages. Its requests are translated to chat.
var messagesEndpoint = &Endpoint{
	Path:          "/v1/messages",
	Operation:     config.OpMessages,
	Traced:        tracedChat,
	Dialect:       messagesDialect,
	CachesPrompts: true,
	New: func() Request {
		r := newMessagesRequest()
		r.lowerEffort = true
		return r
	},
}

type messagesWriter struct{ messages.Stream }

// The parsed request in the client's dialect is needed only during translation, so it has a
// separate pool.
var (
	messagesCodecs   = sync.Pool{New: func() any { return &translatedRequest{dialect: new(messagesWriter)} }}
	messagesRequests = sync.Pool{New: func() any { return new(messages.Request) }}
)

func newMessagesRequest() *translatedRequest {
	r := messagesCodecs.Get().(*translatedRequest)
	r.chat = newChatRequest()
	r.countsAtStart = true
	return r
}

func (w *messagesWriter) Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error) {
	r := messagesRequests.Get().(*messages.Request)
	defer messagesRequests.Put(r)
	return r.Decode(dst, client, into, &w.RequestInfo, o)
}

func (w *messagesWriter) Locate(err error) error { return w.RequestInfo.Locate(err) }
func (w *messagesWriter) Dropped() []string      { return w.RequestInfo.Dropped() }

func (w *messagesWriter) Describe(about *CallInfo, o *answer.Options) {
	o.ID = answerID("msg_", about.RequestID)
	w.Reset(&dialects.Identity{
		Model: o.Model, ID: o.ID, RequestID: string(about.RequestID), PromptTokens: about.PromptTokens,
		Tools: o.Tools, SingleCall: o.SingleToolCall, Seal: about.Seal,
	})
}

func (w *messagesWriter) Recycle(r *translatedRequest) { messagesCodecs.Put(r) }

// countTokens is POST /v1/messages/count_tokens. If an engine can count tokens, it returns the
// engine's count; otherwise, an estimate.
var countTokens = &Endpoint{
	Path:          "/v1/messages/count_tokens",
	listedAs:      "/v1/messages",
	Operation:     config.OpMessages,
	Traced:        tracedChat,
	Dialect:       messagesDialect,
	CachesPrompts: true,
	New: func() Request {
		r := newMessagesRequest()
		r.counts = true
		return r
	},
	Local: &Local{
		Operation: engine.OpCountTokens,
		Segments:  messages.CountSegments,
		Read:      messages.ReadCount,
		Append: func(dst []byte, _ Request, about CallInfo) []byte {
			return messages.AppendCount(dst, about.PromptTokens)
		},
	},
}
