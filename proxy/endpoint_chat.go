package proxy

import (
	"penstock/config"
)

// endpointChat is POST /v1/chat/completions: the pass-through, where bytes are preserved.
var endpointChat = &endpoint{
	path:      "/v1/chat/completions",
	operation: config.OpChat,
	dialect:   dialectChat,
	decode:    func(c *Call, body []byte) error { return c.chat.Decode(body) },
	answer: func(c *Call) {
		c.answerAs("chatcmpl-")
		c.answer.IncludeUsage = c.chat.IncludeUsage
		c.answer.StripReasoning = !c.chat.IncludeReasoning
		c.passthrough.Reset(&c.answer)
		c.stream = c.passthrough
	},
	whole: func(c *Call, dst, completion []byte) ([]byte, error) {
		if err := c.completion.Parse(completion); err != nil {
			return dst, err
		}
		c.usage = c.completion.Usage()
		return c.completion.Append(dst, &c.answer), nil
	},
}

// answerAs says what every answer, put together from a stream or not, is called: prefix and the call's own id.
func (c *Call) answerAs(prefix string) {
	c.answer.Model = c.model.config.ID
	c.answer.Created = c.record.Start.Unix()
	c.answer.N = c.chat.N
	c.answer.ID = prefix + string(c.id[len("req_"):])
}
