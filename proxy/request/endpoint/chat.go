package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
)

// chatCompletionsEndpoint is POST /v1/chat/completions. It forwards requests and changes as few
// bytes as possible.
var chatCompletionsEndpoint = &Endpoint{
	Path:          "/v1/chat/completions",
	Operation:     config.OpChat,
	Traced:        traceOpChat,
	Dialect:       ChatDialect,
	CachesPrompts: true,
	New: func() Request {
		r := chatCodecPool.Get().(*chatRequest)
		r.chat = newChatRequest()
		return r
	},
}

// NewChatCopyRequest returns a codec for a copy of a request that was translated from the given
// dialect to chat. An engine gets the same bytes for the copy as for the original request.
func NewChatCopyRequest(of *Dialect) Request {
	r := chatCompletionsEndpoint.New().(*chatRequest)
	r.mayLowerEffort, r.usageAtStart = of != ChatDialect, of == messagesDialect
	return r
}

const traceOpChat = "chat"

type chatRequest struct {
	chatBase
	writer *answer.Stream // nil until Stream is called
	callID []byte
}

var (
	chatCodecPool  = sync.Pool{New: func() any { return new(chatRequest) }}
	chatStreamPool = sync.Pool{New: func() any { return new(answer.Stream) }}
)

func (r *chatRequest) Decode(in DecodeInput) (err error) {
	if in.Snapshot.Config.Strict {
		err = r.chat.Decode(in.Body.Bytes())
	} else {
		err = r.chat.DecodeWithRepair(in.Body.Bytes())
	}
	r.wantsStream = r.chat.Stream
	return err
}

func setAnswerOptions(r *chatRequest, about *CallInfo) {
	r.answer.setOptions(about, &r.chat.Request)
	o := &r.answer.options
	o.IncludeUsage, o.ContinuousUsage = r.chat.IncludeUsage, r.chat.ContinuousUsage
	o.StripReasoning = !r.chat.Reasoning.Include
	o.StripTimings = about.Model.Retry.Resume > 0 && !chat.RequestsTimings(&r.chat.Request)
}

const chatIDPrefix = "chatcmpl-"

func (r *chatRequest) NewUnaryAnswer(about CallInfo) UnaryAnswer {
	setAnswerOptions(r, &about)
	if about.Streamed { // the answer is assembled from a stream
		r.answer.options.ID = answerID(chatIDPrefix, about.RequestID)
	}
	r.callID, r.answer.writer, r.answer.isChat = about.RequestID, r, true
	return &r.answer
}

func (r *chatRequest) AppendCompletion(dst []byte, c *answer.ChatCompletion) ([]byte, error) {
	// Unusual answers need the id: TGI sends an empty id, and other engines omit ids of tool calls.
	r.answer.options.ID = answerID(chatIDPrefix, r.callID)
	return c.Append(dst, &r.answer.options), nil
}

func (r *chatRequest) NewStream(about CallInfo) Stream {
	setAnswerOptions(r, &about)
	r.answer.options.ID = answerID(chatIDPrefix, about.RequestID)
	if r.writer == nil {
		r.writer = chatStreamPool.Get().(*answer.Stream)
	}
	r.writer.Reset(&r.answer.options)
	return r.wrapStream(r.writer)
}

func (r *chatRequest) Recycle() {
	r.recycle()
	if r.writer != nil {
		r.writer.Reset(nil)
		chatStreamPool.Put(r.writer)
	}
	r.writer, r.callID = nil, nil
	chatCodecPool.Put(r)
}
