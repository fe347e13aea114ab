package proxy

import (
	"sync"

	"penstock/config"
	"penstock/translate"
	"penstock/translate/dialects"
	"penstock/translate/messages"
)

// messagesCall is what a call in the Messages dialect needs beside the chat request that it
// becomes.
type messagesCall struct {
	stream  messages.Stream
	counted *[]byte // the chat request of a count_tokens call, until it is over
}

// Requests are needed only while they are translated, the rest as long as the call.
var (
	messagesCalls    = sync.Pool{New: func() any { return new(messagesCall) }}
	messagesRequests = sync.Pool{New: func() any { return new(messages.Request) }}
)

// releaseMessages gives back what a Messages call holds.
func (c *Call) releaseMessages() {
	m := c.messages
	if m == nil {
		return
	}
	m.stream.Release()
	if m.counted != nil {
		recycleBody(m.counted)
		m.counted = nil
	}
	messagesCalls.Put(m)
	c.messages = nil
}

// endpointMessages is POST /v1/messages, translated to chat and back.
var endpointMessages = &endpoint{
	path:        "/v1/messages",
	operation:   config.OpMessages,
	dialect:     dialectMessages,
	lowerEffort: true,
	decode:      (*Call).decodeMessages,
	explain:     explainMessages,
	native: &native{
		segments: messages.NativeSegments,
		reader:   func() translate.NativeReader { return new(messages.Native) },
	},
	answer: func(c *Call) {
		c.describeAnswer()
		c.answer.ID = c.answerID("msg_")
		m := c.messages
		m.stream.Reset(&dialects.Identity{
			Model: c.answer.Model, ID: c.answer.ID, RequestID: string(c.id), PromptTokens: c.promptTokens,
		})
		c.stream = &m.stream
	},
	unary: func(c *Call, dst, completion []byte) ([]byte, error) {
		whole, err := c.parseWhole(completion)
		if err != nil {
			return dst, err
		}
		return c.messages.stream.AppendWhole(dst, whole)
	},
}

func explainMessages(c *Call, err error) error { return c.messages.stream.RequestInfo.Locate(err) }

// decodeMessages puts the chat request that the client's body amounts to in its place.
func (c *Call) decodeMessages(body []byte) error {
	o := dialects.Options{InPlace: c.snap.InPlace, Refuse: c.snap.Refused, Strict: c.snap.Config.Strict}
	return c.translate(func(dst []byte) ([]byte, error) { return c.translateMessages(dst, body, o) })
}

// translateMessages appends the chat request that a Messages body amounts to.
func (c *Call) translateMessages(dst, body []byte, o dialects.Options) ([]byte, error) {
	r := messagesRequests.Get().(*messages.Request)
	defer messagesRequests.Put(r)
	c.messages = messagesCalls.Get().(*messagesCall)
	return r.Decode(dst, body, c.chat, &c.messages.stream.RequestInfo, o)
}
