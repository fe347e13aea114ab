package endpoint

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/responses"
	"penstock/translate/sse"
)

// ResponsesEndpoint is POST /v1/responses. It is stateless and translated to chat.
var ResponsesEndpoint = &Endpoint{
	Path:          "/v1/responses",
	Operation:     config.OpResponses,
	Traced:        traceOpChat,
	Dialect:       responsesDialect,
	CachesPrompts: true,
	New:           newResponsesRequest,
}

// ResponsesWarmUpEndpoint is the variant of ResponsesEndpoint for a request with "generate": false.
// The request is checked and counted, and its answer is a stream without output. Both endpoints
// have the same path.
var ResponsesWarmUpEndpoint = &Endpoint{
	Path:      ResponsesEndpoint.Path,
	Operation: config.OpResponses,
	Traced:    traceOpChat,
	Dialect:   responsesDialect,
	New:       newResponsesRequest,
	Local:     &LocalTokenCount{Append: appendEmptyStream},
}

func newResponsesRequest() Request {
	r := responsesCodecPool.Get().(*translatedRequest)
	r.chat = newChatRequest()
	r.mayLowerEffort = true
	return r
}

// emptyStreamEvent is the event that an engine would send if it generated no tokens.
const emptyStreamEvent = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`

func appendEmptyStream(dst []byte, r Request, about CallInfo) []byte {
	s := r.NewStream(about)
	out, err := s.Append(dst, sse.Event{Data: []byte(emptyStreamEvent)})
	if err == nil {
		out, err = s.Finish(out)
	}
	if err != nil {
		panic("BUG: a stream without output: " + err.Error())
	}
	return out
}

type responsesWriter struct{ responses.Stream }

// The parsed request in the client's dialect is needed only during translation, so it has a
// separate pool.
var (
	responsesCodecPool   = sync.Pool{New: func() any { return &translatedRequest{dialect: new(responsesWriter)} }}
	responsesRequestPool = sync.Pool{New: func() any { return new(responses.Request) }}
)

func (w *responsesWriter) Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error) {
	r := responsesRequestPool.Get().(*responses.Request)
	defer responsesRequestPool.Put(r)
	return r.Decode(dst, client, into, &w.RequestInfo, o)
}

func (w *responsesWriter) RelocateError(err error) error { return w.RequestInfo.RelocateError(err) }
func (w *responsesWriter) Dropped() []string             { return w.RequestInfo.Dropped() }

func (w *responsesWriter) PrepareAnswer(about *CallInfo, o *answer.WriteOptions) {
	id := answerID("", about.RequestID)
	w.Reset(&dialects.AnswerIdentity{
		Model: o.Model, ID: id, Created: o.Created, Now: unixNow, PromptTokens: about.PromptTokens,
		Tools: o.Tools, SingleCall: o.SingleToolCall, Seal: about.Seal,
	})
	o.ID, o.N, o.PromptTokens, o.StripReasoning = id, 1, 0, !w.RequestInfo.MustReadReasoning()
}

func unixNow() int64 { return time.Now().Unix() }

func (w *responsesWriter) Recycle(r *translatedRequest) { responsesCodecPool.Put(r) }
