package endpoint

import (
	"cmp"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// chatFeature is the feature that an engine needs for chat and for the dialects translated to chat.
var chatFeature = upstreams.OperationFeature(config.OpChat)

// RequiredFeatures returns the features that a request needs from an engine. c is nil if the
// request is not a chat request.
func RequiredFeatures(ep *Endpoint, c *chat.Request) upstreams.Features {
	if c == nil {
		return upstreams.OperationFeature(ep.engineOperation())
	}
	f := chatFeature
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

func (ep *Endpoint) engineOperation() string {
	switch ep.Path {
	case completionsEndpoint.Path:
		return engine.OpCompletions
	case imageEditsEndpoint.Path:
		return engine.OpImageEdits
	case responsesCompactEndpoint.Path:
		return config.OpResponses
	}
	return cmp.Or(ep.profileOperation, ep.Operation)
}
