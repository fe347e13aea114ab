package endpoint

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/dialects"
	"penstock/translate/messages"
)

// messagesEndpoint is POST /v1/messages, translated to chat and back.
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

// messagesRequest is the codec of a Messages request.
type messagesRequest struct {
	translatedRequest
	stream messages.Stream
}

// The client's form of a request is needed only while it is translated.
var (
	messagesCodecs   = sync.Pool{New: func() any { return new(messagesRequest) }}
	messagesRequests = sync.Pool{New: func() any { return new(messages.Request) }}
	nativeMessages   = nativeDialect{
		operation: config.OpMessages,
		segments:  messages.NativeSegments,
		reader:    func() translate.NativeReader { return new(messages.Native) },
	}
)

func newMessagesRequest() *messagesRequest {
	r := messagesCodecs.Get().(*messagesRequest)
	r.beginTranslated(&r.stream, &nativeMessages)
	r.countsAtStart = true
	return r
}

// Decode implements Request.
func (r *messagesRequest) Decode(in Input) error {
	if err := r.decode(in, optionsOf(in.Snapshot)); err != nil {
		return err
	}
	r.keepForNative(in.Snapshot)
	return nil
}

func (r *messagesRequest) decode(in Input, o dialects.Options) error {
	client := messagesRequests.Get().(*messages.Request)
	defer messagesRequests.Put(client)
	return r.translate(in.Body, func(dst []byte) ([]byte, error) {
		return client.Decode(dst, in.Body.Client(), r.chat, &r.stream.RequestInfo, o)
	})
}

// Check implements Request.
func (r *messagesRequest) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	out, err := r.chatBase.Check(m, now)
	if err != nil {
		err = r.stream.RequestInfo.Locate(err)
	}
	return out, err
}

func (r *messagesRequest) describe(about *Answer) {
	r.chatBase.describe(about)
	r.options.ID = answerID("msg_", about.RequestID)
	r.stream.Reset(&dialects.Identity{
		Model: r.options.Model, ID: r.options.ID, RequestID: string(about.RequestID), PromptTokens: about.PromptTokens,
	})
}

// Unary implements Request.
func (r *messagesRequest) Unary(about Answer) Unary {
	r.describe(&about)
	return r
}

// Stream implements Request.
func (r *messagesRequest) Stream(about Answer) Stream {
	r.describe(&about)
	r.events.Stream = &r.stream
	return &r.events
}

// Recycle implements Request.
func (r *messagesRequest) Recycle() {
	r.recycle()
	messagesCodecs.Put(r)
}
