package proxy

import (
	"sync"

	"penstock/config"
	"penstock/translate"
	"penstock/translate/messages"
)

// messagesCall is what a call in the Messages dialect needs beside the chat request that it
// becomes.
type messagesCall struct {
	request *messages.Request // until the model is known: errors about the chat request are told in its words
	echo    messages.RequestInfo
	stream  messages.Stream
	counted *[]byte // the chat request of a count_tokens call, until it is over
}

var (
	messagesCalls    = sync.Pool{New: func() any { return new(messagesCall) }}
	messagesRequests = sync.Pool{New: func() any { return new(messages.Request) }}
)

// beginMessages prepares for a request in the Messages dialect.
func (c *Call) beginMessages() {
	c.messages = messagesCalls.Get().(*messagesCall)
	c.messages.request = messagesRequests.Get().(*messages.Request)
}

// releaseRequest gives the request back but for the echo, which is all of it that an answer needs.
func (m *messagesCall) releaseRequest() {
	if m.request != nil {
		m.echo = m.request.Info
		m.request.Reset()
		messagesRequests.Put(m.request)
		m.request = nil
	}
}

// releaseMessages gives back what a Messages call holds.
func (c *Call) releaseMessages() {
	m := c.messages
	if m == nil {
		return
	}
	m.releaseRequest()
	m.stream.Reset(nil)
	m.echo = messages.RequestInfo{}
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
		m.echo.Model, m.echo.ID, m.echo.RequestID = c.answer.Model, c.answer.ID, string(c.id)
		m.echo.PromptTokens = c.promptTokens
		m.stream.Reset(&m.echo)
		c.stream = &m.stream
	},
	unary: func(c *Call, dst, completion []byte) ([]byte, error) {
		whole, err := c.parseWhole(completion)
		if err != nil {
			return dst, err
		}
		return messages.AppendResponse(dst, whole, &c.messages.echo)
	},
}

func explainMessages(c *Call, err error) error { return c.messages.request.Locate(err) }

// decodeMessages puts the chat request that the client's body amounts to in its place.
func (c *Call) decodeMessages(body []byte) error {
	c.beginMessages()
	o := messages.Options{InPlace: c.snap.InPlace, Refuse: c.snap.Refused, Strict: c.snap.Config.Strict}
	return c.translate(func(dst []byte) ([]byte, error) {
		return c.messages.request.Decode(dst, body, c.chat, o)
	})
}
