package endpoint

import (
	"penstock/config"
	"penstock/translate/forward"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// completions is POST /v1/completions, the legacy form of chat. A key that may chat may use it.
var completions = &Endpoint{
	Path:          "/v1/completions",
	Operation:     config.OpChat,
	Traced:        "text_completion",
	Dialect:       withChatErrors("completions", "prompt"),
	CachesPrompts: true,
	New: func() Request {
		r := new(completionRequest)
		r.begin(&r.own, engine.OpCompletions, upstreams.PoolText)
		return r
	},
}

// completionRequest is the codec of a completion.
type completionRequest struct {
	jsonRequest
	own forward.Request
}

// Decode implements Request.
func (r *completionRequest) Decode(in Input) error { return r.own.DecodeCompletion(in.Body.Bytes()) }

// Estimate implements Request.
func (r *completionRequest) Estimate(bytesPerToken float64) (prompt, output int) {
	prompt, _ = r.jsonRequest.Estimate(bytesPerToken)
	return prompt, expectedOutput(r.own.MaxTokens) * r.own.Choices
}

// Fill implements Request. Engines report cached tokens for completions, and for no other requests
// that are passed on.
func (r *completionRequest) Fill(to Target) (Sending, error) {
	r.own.SetSalt(to.Salt)
	return r.jsonRequest.Fill(to)
}

// Stream implements Request.
func (r *completionRequest) Stream(about Answer) Stream {
	events := new(forwardedEvents)
	events.Reset(about.Model.ID, r.own.Choices)
	events.SetPrompts(r.own.Prompts)
	return events
}
