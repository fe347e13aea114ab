package proxy

import (
	"slices"
	"sync"

	"penstock/config"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
)

// Streams of the chat dialect and views of whole answers are needed by the calls that they are the
// answers of, and by no other.
var (
	passthroughs = sync.Pool{New: func() any { return new(answer.Stream) }}
	completions  = sync.Pool{New: func() any { return new(answer.Completion) }}
)

// endpointChat is POST /v1/chat/completions: the pass-through, where bytes are preserved.
var endpointChat = &endpoint{
	path:      "/v1/chat/completions",
	operation: config.OpChat,
	dialect:   dialectChat,
	decode: func(c *Call, body []byte) error {
		if c.snap.Config.Strict {
			return c.chat.Decode(body)
		}
		return c.chat.DecodeMended(body)
	},
	answer: func(c *Call) {
		c.describeAnswer()
		if c.attempt.streamed { // a whole one goes by the engine's id, if it has one
			c.answer.ID = c.answerID("chatcmpl-")
		}
		c.answer.IncludeUsage, c.answer.ContinuousUsage = c.chat.IncludeUsage, c.chat.ContinuousUsage
		c.answer.StripReasoning = !c.chat.Reasoning.Include
		if !c.record.Stream {
			return
		}
		if c.passthrough == nil {
			c.passthrough = passthroughs.Get().(*answer.Stream)
		}
		c.passthrough.Reset(&c.answer)
		c.stream = c.passthrough
	},
	unary: func(c *Call, dst, completion []byte) ([]byte, error) {
		whole, err := c.parseWhole(completion)
		if err != nil {
			return dst, err
		}
		if id := whole.ID(); !id.Exists() || id.IsNull() {
			c.answer.ID = c.answerID("chatcmpl-")
		}
		return whole.Append(dst, &c.answer), nil
	},
}

// parseWhole reads a whole chat completion, which is borrowed until the call ends, and notes its
// usage.
func (c *Call) parseWhole(completion []byte) (*answer.Completion, error) {
	if c.completion == nil {
		c.completion = completions.Get().(*answer.Completion)
	}
	if err := c.completion.Parse(completion); err != nil {
		return nil, err
	}
	c.usage = c.completion.Usage()
	c.noteMarkup(c.completion.Markup())
	return c.completion, nil
}

// releaseAnswer gives back what the call's answer was made with.
func (c *Call) releaseAnswer() {
	if c.passthrough != nil {
		c.passthrough.Reset(nil)
		passthroughs.Put(c.passthrough)
		c.passthrough = nil
	}
	if c.completion != nil {
		c.completion.Reset()
		completions.Put(c.completion)
		c.completion = nil
	}
	c.releaseMessages()
	c.releaseResponses()
}

// describeAnswer says of the answer what is the same in every dialect that is chat underneath.
func (c *Call) describeAnswer() {
	c.answer.Model = c.model.Config.ID
	c.answer.Created = c.record.Start.Unix()
	c.answer.N = c.chat.N
	c.answer.PromptTokens = c.promptTokens
	c.noteOffers()
}

// noteOffers notes what the request offers the model, for noteMarkup.
func (c *Call) noteOffers() {
	m := c.model.Config
	c.offered = translate.Offered{
		Tools: c.chat.ToolUse.Offered,
		Reasoning: c.chat.Reasoning.Effort != "" && c.chat.Reasoning.Effort != "none" || len(m.SupportedReasoningEfforts) > 0 ||
			slices.Contains(m.SupportedFeatures, chat.FeatureReasoning),
	}
}

// noteMarkup notes for the metrics that the engine shows markup which it should have read.
func (c *Call) noteMarkup(m translate.Markup) {
	if m.Suspect(c.offered) {
		c.record.Markup = m.String()
	}
}

// answerID is what an answer is called that gets its id here: prefix and the call's own.
func (c *Call) answerID(prefix string) string { return prefix + string(c.id[len("req_"):]) }
