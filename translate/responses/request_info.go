package responses

import (
	"strings"

	"penstock/translate/dialects"
)

// RequestInfo contains copies of the request data that the answer and the errors need, so the body
// can be released before the answer. The zero value is ready for use.
type RequestInfo struct {
	members []byte // members of the response object, each with a leading comma
	images  dialects.ImagePositions
	tools   clientTools
	dropped dialects.DroppedParts

	logprobs           bool
	includesReasoning  bool
	isSummary          bool // the answer is a summary of the conversation
	usesResponseFormat bool // the client used response_format instead of text.format
}

// MustReadReasoning reports whether the edge must read the engine's reasoning. The edge reads the
// reasoning to seal it, or to separate the log probabilities of the reasoning from those of the
// text.
func (e *RequestInfo) MustReadReasoning() bool { return e.includesReasoning || e.logprobs }

// Dropped names the parts of the request that were lost in translation.
func (e *RequestInfo) Dropped() []string { return e.dropped.Names() }

func (e *RequestInfo) reset() {
	if cap(e.members) > maxKeptBuffer {
		e.members = nil
	}
	e.images.Reset()
	*e = RequestInfo{members: e.members[:0], images: e.images}
}

const maxKeptBuffer = 64 << 10

// RelocateError replaces the parameter of an error about the chat request with its name in the
// Responses request. It returns other errors unchanged.
func (e *RequestInfo) RelocateError(err error) error {
	return dialects.RelocateError(err, e.clientParam)
}

func (e *RequestInfo) clientParam(name string) string {
	switch name {
	case "max_completion_tokens", "max_tokens":
		return "max_output_tokens"
	case "reasoning_effort":
		return "reasoning.effort"
	case "messages":
		return "input"
	}
	if strings.HasPrefix(name, "response_format") && !e.usesResponseFormat {
		return "text.format"
	}
	switch m, rest := e.images.Find(name); {
	case m == nil:
		return name
	case strings.HasPrefix(rest, ".input_audio"):
		return m.Path(rest[1:])
	case !strings.HasPrefix(rest, ".image_url") && !strings.HasPrefix(rest, ".file"):
		return name
	case rest == ".image_url.detail":
		return m.Path("detail")
	default:
		return m.Path(m.Member)
	}
}
