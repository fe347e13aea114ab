package proxy

import (
	"penstock/config"
	"penstock/translate/messages"
)

// messagesCall is what a call in the Messages dialect needs beside the chat request that it becomes.
type messagesCall struct {
	request messages.Request
	stream  messages.Stream
	counted *[]byte // the chat request of a count_tokens call, until it is over
}

// release lets go of the call, for the next one.
func (m *messagesCall) release() {
	m.request.Reset()
	m.stream.Reset(nil)
	if m.counted != nil {
		recycleBody(m.counted)
		m.counted = nil
	}
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
		reader:   func() nativeReader { return new(messages.Native) },
	},
	answer: func(c *Call) {
		c.answerAs("msg_")
		e := &c.messages.request.Echo
		e.Model, e.ID, e.RequestID = c.answer.Model, c.answer.ID, string(c.id)
		c.messages.stream.Reset(e)
		c.stream = &c.messages.stream
	},
	whole: func(c *Call, dst, completion []byte) ([]byte, error) {
		if err := c.completion.Parse(completion); err != nil {
			return dst, err
		}
		c.usage = c.completion.Usage()
		return messages.AppendResponse(dst, c.completion, &c.messages.request.Echo)
	},
}

func explainMessages(c *Call, err error) error { return c.messages.request.Explain(err) }

// decodeMessages puts the chat request that the client's body amounts to in its place.
func (c *Call) decodeMessages(body []byte) error {
	if c.messages == nil {
		c.messages = new(messagesCall)
	}
	o := messages.Options{InPlace: c.snap.inPlace, Strict: c.snap.Config.Strict}
	return c.translate(func(dst []byte) ([]byte, error) {
		return c.messages.request.Decode(dst, body, c.chat, o)
	})
}
