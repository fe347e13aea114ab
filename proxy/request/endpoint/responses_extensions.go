package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/responses"
)

// responsesCompactEndpoint is POST /v1/responses/compact. The model writes a summary of the
// conversation. The client receives the summary in sealed form, and later sends it instead of the
// conversation. The call is charged and counted like any other call.
var responsesCompactEndpoint = &Endpoint{
	Path:          "/v1/responses/compact",
	listedPath:    "/v1/responses",
	Operation:     config.OpCompact,
	Traced:        traceOpChat,
	Dialect:       responsesDialect,
	CachesPrompts: true,
	New:           func() Request { return newResponsesExtensionRequest(true) },
}

// inputTokensEndpoint is POST /v1/responses/input_tokens. Engines cannot count tokens in this
// dialect, so the edge estimates the number of prompt tokens. The estimate is based on token counts
// that the model's engines have reported earlier.
var inputTokensEndpoint = &Endpoint{
	Path:       "/v1/responses/input_tokens",
	listedPath: "/v1/responses",
	Operation:  config.OpResponses,
	Traced:     traceOpChat,
	Dialect:    responsesDialect,
	New:        func() Request { return newResponsesExtensionRequest(false) },
	Local: &LocalTokenCount{Append: func(dst []byte, _ Request, about CallInfo) []byte {
		return responses.AppendInputTokens(dst, about.PromptTokens)
	}},
}

// responsesExtensionWriter is the writer for endpoints below /v1/responses that extend the API. These
// endpoints compact a request or count its tokens, and do not stream.
type responsesExtensionWriter struct {
	responsesWriter
	isCompact bool
}

var responsesExtensionCodecPool = sync.Pool{New: func() any { return &translatedRequest{dialect: new(responsesExtensionWriter)} }}

func newResponsesExtensionRequest(compacts bool) Request {
	r := responsesExtensionCodecPool.Get().(*translatedRequest)
	r.dialect.(*responsesExtensionWriter).isCompact = compacts
	r.chat = newChatRequest()
	r.mayLowerEffort = true
	return r
}

func (w *responsesExtensionWriter) Decode(dst, client []byte, into *chat.Request, o dialects.Options) ([]byte, error) {
	switch {
	case o.Strict:
		return dst, strictModeError()
	case w.isCompact && !o.MayCompact:
		return dst, apierr.NotFound(apierr.CodeNotFound, "%s.", responses.NoCompactionText)
	}
	o.Compact, o.Count = w.isCompact, !w.isCompact
	return w.responsesWriter.Decode(dst, client, into, o)
}

func (w *responsesExtensionWriter) AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error) {
	return w.AppendCompaction(dst, c)
}

func (w *responsesExtensionWriter) Recycle(r *translatedRequest) { responsesExtensionCodecPool.Put(r) }
