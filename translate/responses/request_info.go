package responses

import (
	"strings"

	"penstock/translate/dialects"
)

// RequestInfo holds the facts about a request that its answer repeats, and that errors about it
// need. It owns them all, so it outlives the body. The zero value is ready.
type RequestInfo struct {
	members []byte // members of the response object, each with a comma before it
	images  dialects.Images
	tools   clientTools
	dropped dialects.Dropped

	logprobs   bool // the answer includes log probabilities
	reasoning  bool // it includes sealed reasoning
	compacts   bool // it is a summary of the conversation
	chatFormat bool // the format came in response_format
}

// ReadsReasoning reports whether the answer requires reading the engine's reasoning: to seal it, or
// to separate its log probabilities from those of the text.
func (e *RequestInfo) ReadsReasoning() bool { return e.reasoning || e.logprobs }

// Dropped returns the names of the parts that the request lost in translation.
func (e *RequestInfo) Dropped() []string { return e.dropped.Names() }

func (e *RequestInfo) reset() {
	if cap(e.members) > keepBuffer {
		e.members = nil
	}
	e.images.Reset()
	*e = RequestInfo{members: e.members[:0], images: e.images}
}

// keepBuffer is the largest buffer that is kept from one request to the next.
const keepBuffer = 64 << 10

// Locate renames the member in an error of the chat request's Decode or Check to its name in the
// Responses request. Other errors are returned unchanged.
func (e *RequestInfo) Locate(err error) error { return dialects.Locate(err, e.nameOf) }

// nameOf returns the name in Responses of a member of the chat request.
func (e *RequestInfo) nameOf(name string) string {
	switch name {
	case "max_completion_tokens", "max_tokens":
		return "max_output_tokens"
	case "reasoning_effort":
		return "reasoning.effort"
	case "messages":
		return "input"
	}
	if strings.HasPrefix(name, "response_format") && !e.chatFormat {
		return "text.format"
	}
	switch m, rest := e.images.Find(name); {
	case m == nil || !strings.HasPrefix(rest, ".image_url"):
		return name
	case rest == ".image_url.detail":
		return m.Path("detail")
	default:
		return m.Path(m.Member)
	}
}
