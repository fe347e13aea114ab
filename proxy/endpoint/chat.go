package endpoint

import (
	"sync"

	"penstock/config"
	"penstock/translate/chat/answer"
)

// chatCompletions is POST /v1/chat/completions: the pass-through, where bytes are preserved.
var chatCompletions = &Endpoint{
	Path:          "/v1/chat/completions",
	Operation:     config.OpChat,
	Traced:        tracedChat,
	Dialect:       ChatDialect,
	CachesPrompts: true,
	New: func() Request {
		r := chatCodecs.Get().(*chatRequest)
		r.begin()
		return r
	},
}

// tracedChat is the operation of the dialects that are chat underneath.
const tracedChat = "chat"

// chatRequest is the codec of a chat request.
type chatRequest struct {
	chatBase
	stream *answer.Stream // of a streamed answer
	id     []byte         // of the call
}

var (
	chatCodecs  = sync.Pool{New: func() any { return new(chatRequest) }}
	chatStreams = sync.Pool{New: func() any { return new(answer.Stream) }}
)

// Decode implements Request.
func (r *chatRequest) Decode(in Input) error {
	decode := r.chat.DecodeMended
	if in.Snapshot.Config.Strict {
		decode = r.chat.Decode
	}
	err := decode(in.Body.Bytes())
	r.wantsStream = r.chat.Stream
	return err
}

// describe notes what the client's answer is to have.
func (r *chatRequest) describe(about *Answer) {
	r.chatBase.describe(about)
	o := &r.options
	if about.Streamed { // a whole one goes by the engine's id, if it has one
		o.ID = answerID(chatIDPrefix, about.RequestID)
	}
	o.IncludeUsage, o.ContinuousUsage, o.StripReasoning = r.chat.IncludeUsage, r.chat.ContinuousUsage, !r.chat.Reasoning.Include
}

const chatIDPrefix = "chatcmpl-"

// Unary implements Request.
func (r *chatRequest) Unary(about Answer) Unary {
	r.describe(&about)
	r.id = about.RequestID
	return r
}

// Append implements Unary.
func (r *chatRequest) Append(dst, completion []byte, _ Reply) ([]byte, error) {
	whole, err := r.parse(completion)
	if err != nil {
		return dst, err
	}
	if id := whole.ID(); !id.Exists() || id.IsNull() {
		r.options.ID = answerID(chatIDPrefix, r.id)
	}
	return whole.Append(dst, &r.options), nil
}

// Stream implements Request.
func (r *chatRequest) Stream(about Answer) Stream {
	r.describe(&about)
	if r.stream == nil {
		r.stream = chatStreams.Get().(*answer.Stream)
	}
	r.stream.Reset(&r.options)
	r.events.Stream = r.stream
	return &r.events
}

// Recycle implements Request.
func (r *chatRequest) Recycle() {
	r.recycle()
	if r.stream != nil {
		r.stream.Reset(nil)
		chatStreams.Put(r.stream)
		r.stream = nil
	}
	r.id = nil
	chatCodecs.Put(r)
}
