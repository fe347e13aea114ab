package endpoint

import (
	"penstock/config"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// What is chat at an engine although a client asks for it otherwise.
var (
	chatFeature = upstreams.FeatureOf(config.OpChat)
	nativeChats = upstreams.FeatureOf(config.OpMessages) | upstreams.FeatureOf(config.OpResponses)
)

// FeaturesOf returns what a request asks of an engine. Of a dialect that some engines speak
// themselves it asks for that and for chat: NeedsAt says which it is at an engine.
func FeaturesOf(ep *Endpoint, r Request) upstreams.Features {
	c := r.Chat()
	if c == nil {
		return upstreams.FeatureOf(ep.operationAtEngine())
	}
	f := chatFeature | upstreams.FeatureOf(ep.Operation)
	switch {
	case !c.ToolUse.Offered || c.ToolUse.Unused:
	case c.ToolUse.Forced:
		f |= upstreams.FeatureForcedTool
	default:
		f |= upstreams.FeatureTools
	}
	if c.HasSchema() {
		f |= upstreams.FeatureSchema
	}
	if len(c.Prompt.Images) > 0 {
		f |= upstreams.FeatureImages
	}
	if c.Reasoning.Effort != "" {
		f |= upstreams.FeatureEffort
	}
	return f
}

// NeedsAt returns what is asked of one engine, which gets the request in the client's dialect or as
// chat.
func NeedsAt(f upstreams.Features, native bool) upstreams.Features {
	if native && f&nativeChats != 0 {
		return f &^ chatFeature
	}
	if f&chatFeature != 0 {
		return f &^ nativeChats
	}
	return f
}

// operationAtEngine is the operation by which engines know the endpoint.
func (ep *Endpoint) operationAtEngine() string {
	switch ep.Path {
	case completions.Path:
		return engine.OpCompletions
	case imageEdits.Path:
		return engine.OpImageEdits
	}
	return ep.Operation
}
