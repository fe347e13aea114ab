package responses

import (
	"strings"

	"penstock/translate/dialects"
)

// RequestInfo holds the facts about a request that are repeated in the answer or needed for errors
// about the request. It has its own copies, so the body can be released before it. The zero value
// is ready.
type RequestInfo struct {
	members []byte // members of the response object, each after a comma
	images  dialects.Images
	tools   clientTools
	dropped dialects.Dropped

	logprobs   bool // the answer includes log probabilities
	reasoning  bool // the answer includes sealed reasoning
	compacts   bool // the answer is a summary of the conversation
	chatFormat bool // the format was given in response_format
}

// ReadsReasoning reports whether the engine's reasoning must be read for the answer. This is the
// case if it must be sealed, or if its log probabilities must be told from the text's.
func (e *RequestInfo) ReadsReasoning() bool { return e.reasoning || e.logprobs }

// Dropped names what the request lost in translation.
func (e *RequestInfo) Dropped() []string { return e.dropped.Names() }

func (e *RequestInfo) reset() {
	if cap(e.members) > keepBuffer {
		e.members = nil
	}
	e.images.Reset()
	*e = RequestInfo{members: e.members[:0], images: e.images}
}

// keepBuffer is the maximum size of a buffer that is kept for the next request.
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
