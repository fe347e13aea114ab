package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
)

// chatCompletions is POST /v1/chat/completions. It forwards requests, changing as few bytes as
// possible.
var chatCompletions = &Endpoint{
	Path:          "/v1/chat/completions",
	Operation:     config.OpChat,
	Traced:        tracedChat,
	Dialect:       ChatDialect,
	CachesPrompts: true,
	New: func() Request {
		r := chatCodecs.Get().(*chatRequest)
		r.chat = newChatRequest()
		return r
	},
}

// ChatCopy returns the codec for copying a request that was translated from the given dialect to
// chat. An engine gets the same bytes for the copy as for the original request.
func ChatCopy(of *Dialect) Request {
	r := chatCompletions.New().(*chatRequest)
	r.lowerEffort, r.countsAtStart = of != ChatDialect, of == messagesDialect
	return r
}

const tracedChat = "chat"

type chatRequest struct {
	chatBase
	writer *answer.Stream // nil until Stream is called
	callID []byte
}

var (
	chatCodecs  = sync.Pool{New: func() any { return new(chatRequest) }}
	chatStreams = sync.Pool{New: func() any { return new(answer.Stream) }}
)

func (r *chatRequest) Decode(in Input) (err error) {
	if in.Snapshot.Config.Strict {
		err = r.chat.Decode(in.Body.Bytes())
	} else {
		err = r.chat.DecodeMended(in.Body.Bytes())
	}
	r.wantsStream = r.chat.Stream
	return err
}

func describeChat(r *chatRequest, about *CallInfo) {
	r.answer.begin(about, r.chat)
	o := &r.answer.options
	if about.Streamed { // without streaming, the answer keeps the engine's id if it has one
		o.ID = answerID(chatIDPrefix, about.RequestID)
	}
	o.IncludeUsage, o.ContinuousUsage = r.chat.IncludeUsage, r.chat.ContinuousUsage
	o.StripReasoning = !r.chat.Reasoning.Include
	o.StripTimings = about.Model.Retry.Resume > 0 && !chat.AsksTimings(r.chat)
}

const chatIDPrefix = "chatcmpl-"

func (r *chatRequest) Unary(about CallInfo) Unary {
	describeChat(r, &about)
	r.callID, r.answer.writer, r.answer.plain = about.RequestID, r, true
	return &r.answer
}

func (r *chatRequest) AppendWhole(dst []byte, c *answer.Completion) ([]byte, error) {
	if !c.ID().HasText() { // TGI sends an empty id
		r.answer.options.ID = answerID(chatIDPrefix, r.callID)
	}
	return c.Append(dst, &r.answer.options), nil
}

func (r *chatRequest) Stream(about CallInfo) Stream {
	describeChat(r, &about)
	if r.writer == nil {
		r.writer = chatStreams.Get().(*answer.Stream)
	}
	r.writer.Reset(&r.answer.options)
	return r.stream(r.writer)
}

func (r *chatRequest) Recycle() {
	r.recycle()
	if r.writer != nil {
		r.writer.Reset(nil)
		chatStreams.Put(r.writer)
	}
	r.writer, r.callID = nil, nil
	chatCodecs.Put(r)
}
