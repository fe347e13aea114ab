package endpoint

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/responses"
)

// responsesEndpoint is POST /v1/responses: stateless, translated to chat and back.
var responsesEndpoint = &Endpoint{
	Path:          "/v1/responses",
	Operation:     config.OpResponses,
	Traced:        tracedChat,
	Dialect:       responsesDialect,
	CachesPrompts: true,
	New: func() Request {
		r := responsesCodecs.Get().(*responsesRequest)
		r.beginTranslated(&r.stream, &nativeResponses)
		r.lowerEffort = true
		return r
	},
}

// responsesRequest is the codec of a Responses request.
type responsesRequest struct {
	translatedRequest
	stream responses.Stream
}

// The client's form of a request is needed only while it is translated.
var (
	responsesCodecs   = sync.Pool{New: func() any { return new(responsesRequest) }}
	responsesRequests = sync.Pool{New: func() any { return new(responses.Request) }}
	nativeResponses   = nativeDialect{
		operation: config.OpResponses,
		segments:  responses.NativeSegments,
		reader:    func() translate.NativeReader { return new(responses.Native) },
	}
)

// Decode implements Request.
func (r *responsesRequest) Decode(in Input) error {
	client := responsesRequests.Get().(*responses.Request)
	defer responsesRequests.Put(client)
	err := r.translate(in.Body, func(dst []byte) ([]byte, error) {
		return client.Decode(dst, in.Body.Client(), r.chat, &r.stream.RequestInfo, optionsOf(in.Snapshot))
	})
	if err == nil {
		r.keepForNative(in.Snapshot)
	}
	return err
}

// Check implements Request.
func (r *responsesRequest) Check(m *snapshot.Model, now time.Time) (Checked, error) {
	out, err := r.chatBase.Check(m, now)
	if err != nil {
		err = r.stream.RequestInfo.Locate(err)
	}
	return out, err
}

func (r *responsesRequest) describe(about *Answer) {
	id, created := answerID("", about.RequestID), about.Created.Unix()
	r.stream.Reset(&dialects.Identity{Model: about.Model.ID, ID: id, Created: created, Now: unixNow, PromptTokens: about.PromptTokens})
	// For a stream of the engine that is put together before it is translated. The log probabilities
	// of reasoning are known by its text.
	r.options = answer.Options{Model: about.Model.ID, Created: created, N: 1, ID: id, StripReasoning: !r.stream.RequestInfo.Logprobs()}
	r.noteOffered(about.Model)
}

func unixNow() int64 { return time.Now().Unix() }

// Unary implements Request.
func (r *responsesRequest) Unary(about Answer) Unary {
	r.describe(&about)
	return r
}

// Stream implements Request.
func (r *responsesRequest) Stream(about Answer) Stream {
	r.describe(&about)
	r.events.Stream = &r.stream
	return &r.events
}

// Recycle implements Request.
func (r *responsesRequest) Recycle() {
	r.recycle()
	responsesCodecs.Put(r)
}
