package proxy

import (
	"penstock/config"
	"penstock/translate"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// The endpoints here pass requests on: of what comes and goes only the model is changed.

var (
	endpointEmbeddings = passing("/v1/embeddings", config.OpEmbeddings, "input", (*forward.Request).DecodeEmbeddings)
	endpointRerank     = passing("/v1/rerank", config.OpRerank, "documents", (*forward.Request).DecodeRerank)
	endpointImages     = passing("/v1/images/generations", config.OpImages, "prompt", (*forward.Request).DecodePlain)
)

// passing is an endpoint with JSON in, JSON out, and no streams, whose text is in the member
// prompt.
func passing(path, operation, prompt string, decode func(r *forward.Request, body []byte) error) *endpoint {
	return &endpoint{
		path:      path,
		operation: operation,
		dialect:   &dialect{name: operation, appendError: chatError, prompt: prompt},
		nonChat:   true,
		pool:      upstreams.PoolText,
		decode: func(c *Call, body []byte) error {
			r := new(forward.Request)
			c.payload = jsonPayload{Request: r}
			return decode(r, body)
		},
		answer:   func(*Call) {},
		unary:    passOn,
		forwards: always,
	}
}

// always is forwards of endpoints whose answers are JSON that is passed on.
func always(*Call) (isJSON, ok bool) { return true, true }

// endpointEdits is POST /v1/images/edits: a form in, JSON out.
var endpointEdits = &endpoint{
	path:       "/v1/images/edits",
	operation:  config.OpImages,
	enginePath: engine.OpImageEdits,
	dialect:    endpointImages.dialect,
	nonChat:    true,
	pool:       upstreams.PoolText,
	form:       func(c *Call) form { return &forward.Edit{Refuse: c.snap.Refused} },
	decode:     decodeUpload,
	answer:     func(*Call) {},
	unary:      passOn,
	forwards:   func(c *Call) (isJSON, ok bool) { return true, c.upload.ended },
}

// endpointCompletions is POST /v1/completions, the legacy form of chat. A key that may chat may use
// it.
var endpointCompletions = &endpoint{
	path:       "/v1/completions",
	operation:  config.OpChat,
	enginePath: engine.OpCompletions,
	dialect:    &dialect{name: "completions", appendError: chatError, prompt: "prompt"},
	nonChat:    true,
	pool:       upstreams.PoolText,
	decode: func(c *Call, body []byte) error {
		r := new(forward.Request)
		c.payload = jsonPayload{Request: r, output: func() int { return expectedOutput(r.MaxTokens) * r.Choices }}
		err := r.DecodeCompletion(body)
		c.record.Stream = r.Stream
		return err
	},
	answer: func(c *Call) {
		if c.record.Stream {
			s := new(forward.Stream)
			p := c.payload.(jsonPayload)
			s.Reset(c.model.Config.ID, p.Choices)
			s.SetPrompts(p.Prompts)
			c.stream = s
		}
	},
	unary:    passOn,
	forwards: always,
}

// passOn is whole of an answer in JSON that is passed on.
func passOn(c *Call, dst, body []byte) ([]byte, error) {
	var a forward.Answer
	if err := a.Parse(body); err != nil {
		return dst, err
	}
	c.noteCounts(a.Usage())
	return a.Append(dst, c.model.Config.ID), nil
}

// noteForwarded notes what a large answer has told so far.
func (c *Call) noteForwarded() {
	var u translate.Usage
	if c.forward != nil {
		u = c.forward.Usage()
	}
	c.noteCounts(u)
}

// noteCounts notes what an answer that is passed on says of the tokens. The prompt of one that says
// nothing is estimated.
func (c *Call) noteCounts(u translate.Usage) {
	if c.usage = u; !u.Known && c.ep.pool == upstreams.PoolText {
		c.usage = translate.Usage{Prompt: c.promptTokens, Estimated: true}
	}
}
