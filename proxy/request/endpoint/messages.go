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
	Traced:        traceOpChat,
	Dialect:       messagesDialect,
	CachesPrompts: true,
	New: func() Request {
		r := newMessagesRequest()
		r.mayLowerEffort = true
		return r
	},
}

type messagesWriter struct{ messages.Stream }

// The parsed request in the client's dialect is needed only during translation, so it has a
// separate pool.
var (
	messagesCodecPool   = sync.Pool{New: func() any { return &translatedRequest{dialect: new(messagesWriter)} }}
	messagesRequestPool = sync.Pool{New: func() any { return new(messages.Request) }}
)

func newMessagesRequest() *translatedRequest {
	r := messagesCodecPool.Get().(*translatedRequest)
	r.chat = newChatRequest()
	r.usageAtStart = true
	return r
}

func (w *messagesWriter) Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error) {
	r := messagesRequestPool.Get().(*messages.Request)
	defer messagesRequestPool.Put(r)
	return r.Decode(dst, client, into, &w.RequestInfo, o)
}

func (w *messagesWriter) RelocateError(err error) error { return w.RequestInfo.RelocateError(err) }
func (w *messagesWriter) Dropped() []string             { return w.RequestInfo.Dropped() }

func (w *messagesWriter) PrepareAnswer(about *CallInfo, o *answer.WriteOptions) {
	o.ID = answerID("msg_", about.RequestID)
	w.Reset(&dialects.AnswerIdentity{
		Model: o.Model, ID: o.ID, RequestID: string(about.RequestID), PromptTokens: about.PromptTokens,
		Tools: o.Tools, SingleCall: o.SingleToolCall, Seal: about.Seal,
	})
}

func (w *messagesWriter) Recycle(r *translatedRequest) { messagesCodecPool.Put(r) }

// countTokensEndpoint is POST /v1/messages/count_tokens. It returns an engine's count if an engine
// can count tokens, and otherwise an estimate.
var countTokensEndpoint = &Endpoint{
	Path:          "/v1/messages/count_tokens",
	listedPath:    "/v1/messages",
	Operation:     config.OpMessages,
	Traced:        traceOpChat,
	Dialect:       messagesDialect,
	CachesPrompts: true,
	New: func() Request {
		r := newMessagesRequest()
		r.countsOnly = true
		return r
	},
	Local: &LocalTokenCount{
		Operation: engine.OpCountTokens,
		Segments:  messages.AppendCountSegments,
		Read:      messages.ReadCount,
		Append: func(dst []byte, _ Request, about CallInfo) []byte {
			return messages.AppendCount(dst, about.PromptTokens)
		},
	},
}
