package proxy

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/translate"
	"penstock/translate/dialects"
	"penstock/translate/responses"
)

// endpointResponses is POST /v1/responses: stateless, translated to chat and back.
var endpointResponses = &endpoint{
	path:        "/v1/responses",
	operation:   config.OpResponses,
	dialect:     dialectResponses,
	lowerEffort: true,
	decode:      (*Call).decodeResponses,
	native: &native{
		segments: responses.NativeSegments,
		reader:   func() translate.NativeReader { return new(responses.Native) },
	},
	explain: func(c *Call, err error) error { return c.responses.RequestInfo.Locate(err) },
	answer: func(c *Call) {
		c.beginResponse()
		c.stream = c.responses
	},
	unary: func(c *Call, dst, completion []byte) ([]byte, error) {
		whole, err := c.parseWhole(completion)
		if err != nil {
			return dst, err
		}
		return c.responses.AppendWhole(dst, whole)
	},
}

// Requests are needed only while they are translated, answers as long as the call.
var (
	responsesRequests = sync.Pool{New: func() any { return new(responses.Request) }}
	responsesAnswers  = sync.Pool{New: func() any { return new(responses.Stream) }}
)

// decodeResponses reads a Responses body, and puts the chat request that it amounts to in its
// place.
func (c *Call) decodeResponses(body []byte) error {
	o := dialects.Options{InPlace: c.snap.InPlace, Refuse: c.snap.Refused, Strict: c.snap.Config.Strict}
	return c.translate(func(dst []byte) ([]byte, error) {
		r := responsesRequests.Get().(*responses.Request)
		defer responsesRequests.Put(r)
		c.responses = responsesAnswers.Get().(*responses.Stream)
		return r.Decode(dst, body, c.chat, &c.responses.RequestInfo, o)
	})
}

// beginResponse prepares for the engine's reply.
func (c *Call) beginResponse() {
	id := string(c.id[len("req_"):])
	c.responses.Reset(&dialects.Identity{
		Model: c.model.Config.ID, ID: id, Created: c.record.Start.Unix(), Now: unixNow, PromptTokens: c.promptTokens,
	})
	// For a stream of the engine that is put together before it is translated.
	c.answer.Model, c.answer.Created, c.answer.N, c.answer.ID = c.model.Config.ID, c.record.Start.Unix(), 1, id
	c.noteOffers()
	c.answer.StripReasoning = !c.responses.RequestInfo.Logprobs() // those of reasoning are told apart by its text
}

func unixNow() int64 { return time.Now().Unix() }

// releaseResponses gives back what a Responses call holds.
func (c *Call) releaseResponses() {
	if c.responses != nil {
		c.responses.Release()
		responsesAnswers.Put(c.responses)
		c.responses = nil
	}
}
