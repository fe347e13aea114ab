package endpoint

import (
	"penstock/config"
	"penstock/translate/messages"
	"penstock/upstreams/engine"
)

// countTokens is POST /v1/messages/count_tokens: an engine's own count where one has a counter,
// otherwise an estimate. It never fails for want of an engine.
var countTokens = &Endpoint{
	Path:          "/v1/messages/count_tokens",
	listedAs:      "/v1/messages",
	Operation:     config.OpMessages,
	Traced:        tracedChat,
	Dialect:       messagesDialect,
	CachesPrompts: true,
	New:           func() Request { return &countRequest{newMessagesRequest()} },
	Local: &Local{
		Operation: engine.OpCountTokens,
		Segments:  messages.CountSegments,
		Read:      messages.ReadCount,
		Append:    messages.AppendCount,
	},
}

// countRequest is a Messages request whose prompt is only counted. The client's own body is kept
// beside the chat request that it amounts to, since engines with a counter speak Messages.
type countRequest struct{ *messagesRequest }

// Decode implements Request. A count goes to engines without the members that they refuse.
func (r *countRequest) Decode(in Input) error {
	o := optionsOf(in.Snapshot)
	o.Refuse, o.Count = nil, true
	return r.decode(in, o)
}

// Estimate implements Request: nothing is generated.
func (r *countRequest) Estimate(bytesPerToken float64) (prompt, output int) {
	prompt, _ = r.messagesRequest.Estimate(bytesPerToken)
	return prompt, 0
}
