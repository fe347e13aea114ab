package responses

import (
	"strings"

	"penstock/translate/dialects"
)

// RequestInfo are the facts about a request that its answer repeats, and that errors about it need.
// It owns them all, so it outlives the body. The zero value is ready.
type RequestInfo struct {
	members []byte // members of the response object, each with a comma before it
	images  dialects.Images
	tools   clientTools
	dropped dialects.Dropped

	logprobs   bool // the answer has log probabilities
	reasoning  bool // it has sealed reasoning
	compacts   bool // it is a summary of the conversation
	chatFormat bool // the format was given in response_format
}

// ReadsReasoning reports whether the engine's reasoning must be read to write the answer: to seal
// it, or to tell its log probabilities from those of the text.
func (e *RequestInfo) ReadsReasoning() bool { return e.reasoning || e.logprobs }

// Dropped returns the names of what was left out of the request.
func (e *RequestInfo) Dropped() []string { return e.dropped.Names() }

func (e *RequestInfo) reset() {
	if cap(e.members) > keepBuffer {
		e.members = nil
	}
	e.images.Reset()
	*e = RequestInfo{members: e.members[:0], images: e.images}
}

// keepBuffer is the size up to which a buffer is kept from one request to the next.
const keepBuffer = 64 << 10

// Locate puts an error of the chat request's Decode or Check under the name that its member has in
// the Responses request. Other errors pass.
func (e *RequestInfo) Locate(err error) error { return dialects.Locate(err, e.nameOf) }

// nameOf returns the name that a member of the chat request has in Responses.
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
