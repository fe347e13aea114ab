package engineerror

import (
	"bytes"
	"strconv"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// MaxBody is how much of an engine's complaint is held, once a Shortener has been at it.
// Engines repeat the request in it, so that it may be as long as that.
const MaxBody = 256 << 10

// maxDepth is the depth down to which an error is indexed.
const maxDepth = 7

// Error is an engine's report of a failure, in the body of an answer or in an event of its stream.
// Its texts may quote the request: they may be shown to the client that made it, and must
// never be logged.
type Error struct {
	// Status is the HTTP status that the body itself names, 400 to 599, or 0. A stream has no
	// other, since its real status was 200.
	Status int
	// Type and Code are the engine's words if they are identifiers; otherwise they are empty.
	// Numbers are not codes: see Status.
	Type, Code string
	// Message is clean: valid UTF-8, one line, at most 1 KiB, no control characters. Addresses,
	// absolute paths and what looks like a key are redacted, as they are more likely the engine's
	// than the client's. Models have their engine's names; see Rename.
	Message string

	// ContextOverflow: the prompt, or the prompt and the tokens asked for, do not fit into the
	// engine's context. ContextPrompt and ContextMax are the two sizes in tokens, both 0 unless the
	// engine's message has both. ContextAnswer is the number of tokens asked for beside a prompt
	// that fits; 0: the prompt itself does not fit, or the engine names only the sum, as
	// ContextPrompt. ContextAtLeast: the engine has counted the prompt no further than it had to.
	// ContextExcess is the number of tokens by which the prompt exceeds the context, from an engine
	// that names no other.
	ContextOverflow, ContextAtLeast          bool
	ContextExcess                            int
	ContextPrompt, ContextAnswer, ContextMax int

	// ClientFault: the request is to blame, whatever the status says: no other engine of the kind
	// would take it, and this one is not the worse for it.
	ClientFault bool

	// Absent is what a 404 or 405 is about.
	Absent Absence
}

// Error names the status and nothing that the engine said, so that it may be logged.
func (e *Error) Error() string {
	switch {
	case e.ContextOverflow:
		return "engine error: context overflow"
	case e.Status != 0:
		return "engine error: status " + strconv.Itoa(e.Status)
	}
	return "engine error"
}

// Parse reads the body of an answer whose status is not 200, or the data of an error event, for
// which status is 0. It understands the shapes of all engines that we know: {"error":{…}},
// {"error":"…"} with or without error_type, the same members at the top level, FastAPI's
// {"detail":…}, an error that carries another one as JSON in its message (Ollama hands on what its
// runner said), and plain text. Of a body of MaxBody, which may be the beginning of a longer one, it
// reads what is there. HTML and what cannot be read have no message. It never fails.
func Parse(status int, contentType string, body []byte) Error {
	var e Error
	cut := len(body) >= MaxBody
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '{' || body[0] == '[' || body[0] == '"':
		var d jsonx.Doc
		switch {
		case len(body) <= translate.MaxAnswer && d.Parse(body, jsonx.Options{Record: maxDepth}) == nil:
			e.read(d.Root(), 0)
		case cut && d.Parse(closeOpen(body), jsonx.Options{Record: maxDepth}) == nil:
			e.read(d.Root(), 0)
		}
	case body[0] == '<' || strings.Contains(contentType, "html"):
	default:
		e.Message = string(body[:min(len(body), 2*maxMessage)])
	}
	e.classify(status)
	return e
}

// ReadObject reads an error object that has been parsed already, from inside a stream.
func ReadObject(root jsonx.Value) Error {
	var e Error
	e.read(root, 0)
	e.classify(0)
	return e
}

// classify cleans the message and draws the conclusions. The HTTP status is 0 inside a stream.
func (e *Error) classify(status int) {
	said, aboutModel := e.Message, e.Absent == AbsentModel
	e.Message, e.Absent = clean(e.Message), AbsentNothing
	lower := strings.ToLower(e.Message)
	if e.Type == "exceed_context_size_error" || e.Code == "context_length_exceeded" || overflows(lower) {
		e.ContextOverflow, e.ClientFault = true, true
		if e.ContextPrompt == 0 || e.ContextMax == 0 {
			e.ContextPrompt, e.ContextAnswer, e.ContextMax = overflowSizes(lower)
			e.ContextAtLeast = e.ContextAnswer > 0 && strings.Contains(lower, lowerBound)
			if e.ContextMax == 0 {
				e.ContextExcess = sizeAfter(lower, excessMark)
			}
		}
	} else {
		e.ContextPrompt, e.ContextMax = 0, 0
	}
	if status < 300 { // what was sent as a good answer; a redirect is none, and no complaint either
		status = e.Status
	}
	if status == 0 && containsAny(lower, overloadTexts) {
		e.Status, status = 429, 429
	}
	switch status {
	case 400, 413, 422:
		e.ClientFault = true
	case 404, 405:
		if e.Absent = e.absentIn(status, aboutModel, said); e.Absent == AbsentNothing {
			e.ClientFault = true
		}
	case 0, 500, 501:
		e.ClientFault = e.ClientFault || clientTypes[e.Type] || containsAny(lower, clientTexts)
	}
}

// AboutImages reports whether the engine's message is about images that the model does not take.
func (e *Error) AboutImages() bool { return containsAny(strings.ToLower(e.Message), imageTexts) }

func containsAny(s string, list []string) bool {
	for _, part := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// ParseNative reads the error in an engine's event of its own dialect, which has a type where other
// errors have a status.
func ParseNative(data []byte) error {
	e := Parse(0, "", data)
	if e.Status == 0 && !e.ClientFault {
		switch {
		case e.Type == "overloaded_error":
			e.Status = 529
		case e.Type == "rate_limit_error", e.Code == "rate_limit_exceeded":
			e.Status = 429
		case e.Type == "timeout_error":
			e.Status = 504
		case e.Code == "invalid_prompt":
			e.ClientFault = true
		}
	}
	return &e
}
