package engineerror

import (
	"strconv"
	"strings"
)

// MaxBodyBytes is the maximum size of an error body after a StringShortener has truncated its strings.
// Engines quote the request in errors, so the original body may be as long as the request.
const MaxBodyBytes = 256 << 10

const maxDepth = 7

// Error is a failure that an engine reports. Its texts may quote the request, so they may be sent
// to the client that made the request, but must never be logged.
type Error struct {
	// Status is the HTTP status in the body, 400 to 599, or 0. An error in a stream has no other
	// status, because the stream itself started with 200.
	Status int
	// Type and Code are identifiers or empty. A numeric code is stored in Status, never in Code.
	Type, Code string
	// Message is clean: valid UTF-8, one line, at most 1 KiB, no control characters. Addresses,
	// absolute paths and anything that looks like a key are redacted. The message contains the
	// engine's name for the model until RenameModel replaces it.
	Message string

	// ContextOverflow is true if the prompt, alone or with the requested tokens, does not fit into
	// the engine's context. All sizes are in tokens:
	//   - ContextPrompt and ContextMax are the sizes of the prompt and the context. Both are 0
	//     if the message lacks either size.
	//   - ContextAtLeast is true if ContextPrompt is a lower bound.
	//   - ContextAnswer is the requested size of the answer if the prompt itself fits, and
	//     otherwise 0. If the engine reports only the sum of prompt and answer, ContextPrompt is
	//     this sum.
	//   - ContextExcess is the number of tokens by which the prompt exceeds the context, if the
	//     engine reports only this number.
	ContextOverflow, ContextAtLeast          bool
	ContextExcess                            int
	ContextPrompt, ContextAnswer, ContextMax int

	// ClientFault is true if the request is at fault, whatever the status is. Other engines of the
	// same kind would also reject the request.
	ClientFault bool

	// Absent says what is missing according to a 404 or 405.
	Absent Absence

	// Subject is the part of the request that must change before the engine accepts the request.
	Subject RejectedSubject
}

// Error returns the status without any text from the engine, so it may be logged.
func (e *Error) Error() string {
	switch {
	case e.ContextOverflow:
		return "engine error: context overflow"
	case e.Status != 0:
		return "engine error: status " + strconv.Itoa(e.Status)
	}
	return "engine error"
}

// IsAboutImages reports whether the message says that the model does not accept the images.
func (e *Error) IsAboutImages() bool { return containsAny(strings.ToLower(e.Message), imagePhrases) }

// RejectedSubject names the part of a request that an engine rejects.
type RejectedSubject uint8

// SubjectOther means that the edge knows no change that would make the request acceptable.
const (
	SubjectOther  RejectedSubject = iota
	SubjectEffort                 // the effort, which the engine or the model's template does not support
	SubjectRoles                  // consecutive turns with one role; the template requires alternating roles
)

// Absence says what an engine's 404 or 405 reports as missing.
type Absence uint8

// AbsentNothing includes a 404 about an image or a file that the request names.
const (
	AbsentNothing Absence = iota
	AbsentModel
	AbsentPath // the engine lacks the endpoint, or does not accept the method there
)
