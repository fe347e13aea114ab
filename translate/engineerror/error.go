package engineerror

import (
	"strconv"
	"strings"
)

// MaxBody is the maximum size of an engine's error that is held, after a Shortener has processed
// it. Engines repeat the request in the error, so the original error may be as long as the request.
const MaxBody = 256 << 10

// maxDepth is the depth to which an error is indexed.
const maxDepth = 7

// Error is an engine's report of a failure, in an answer's body or in an event of a stream. Its
// texts may quote the request: they may be shown to the client that made the request, but must
// never be logged.
type Error struct {
	// Status is the HTTP status that the body itself gives, 400 to 599, or 0. An error in a stream
	// has only this status, because the stream itself started with 200.
	Status int
	// Type and Code are the engine's words if they are identifiers; otherwise they are empty.
	// Numbers are not codes: see Status.
	Type, Code string
	// Message is clean: valid UTF-8, one line, at most 1 KiB, no control characters. Addresses,
	// absolute paths and anything that looks like a key are redacted, because such text more likely
	// comes from the engine than from the client. Models have the engine's names until Rename
	// replaces them.
	Message string

	// ContextOverflow is true if the prompt, or the prompt and the requested tokens, do not fit
	// into the engine's context. ContextPrompt and ContextMax are the sizes of the prompt and the
	// context in tokens, both 0 unless the engine's message has both. ContextAnswer is the number
	// of tokens that were requested in addition to a prompt that fits. It is 0 if the prompt itself
	// does not fit, or if the engine gives only the sum, which is then in ContextPrompt.
	// ContextAtLeast is true if ContextPrompt is a lower bound, because the engine stopped
	// counting. ContextExcess is the number of tokens by which the prompt exceeds the context, if
	// the engine gives only this number.
	ContextOverflow, ContextAtLeast          bool
	ContextExcess                            int
	ContextPrompt, ContextAnswer, ContextMax int

	// ClientFault is true if the request is at fault, whatever the status: no other engine of this
	// kind would accept the request, and this engine is healthy.
	ClientFault bool

	// Absent is what a 404 or 405 is about.
	Absent Absence

	// Subject says what in the request must be changed for the engine to accept the request.
	Subject Subject
}

// Error returns the status and none of the engine's words, so that the result may be logged.
func (e *Error) Error() string {
	switch {
	case e.ContextOverflow:
		return "engine error: context overflow"
	case e.Status != 0:
		return "engine error: status " + strconv.Itoa(e.Status)
	}
	return "engine error"
}

// AboutImages reports whether the engine's message says that the model does not accept the images.
func (e *Error) AboutImages() bool { return containsAny(strings.ToLower(e.Message), imageTexts) }

// Subject says what in a request an engine refuses, but may accept if it is changed.
type Subject uint8

// The subjects. SubjectOther stands for everything that no change of the request would fix.
const (
	SubjectOther  Subject = iota
	SubjectEffort         // the word for the reasoning effort, unknown to the engine or the model's template
	SubjectRoles          // consecutive turns with one role, while the model's template requires alternating roles
)

// Absence is what an engine's 404 reports as missing.
type Absence uint8

// AbsentNothing also stands for a 404 about something that the request names, such as an image or a
// file. The request is then at fault.
const (
	AbsentNothing Absence = iota
	AbsentModel
	AbsentPath // the engine lacks the endpoint, or does not accept the method there
)
