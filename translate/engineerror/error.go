package engineerror

import (
	"strconv"
	"strings"
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

	// Subject is what of the request the engine would take in another form.
	Subject Subject
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

// AboutImages reports whether the engine's message is about images that the model does not take.
func (e *Error) AboutImages() bool { return containsAny(strings.ToLower(e.Message), imageTexts) }

// Subject is the part of a request that an engine refuses as it stands, and may take in another
// form.
type Subject uint8

// The subjects. SubjectOther is everything that no other form of the request would mend.
const (
	SubjectOther  Subject = iota
	SubjectEffort         // the word of the reasoning effort, which the engine or the model's template does not know
	SubjectRoles          // turns of one role in a row, where the model's template wants roles to alternate
)

// Absence is what an engine's 404 says is not there.
type Absence uint8

// AbsentNothing is also what a 404 says that is about something the request names, as an image or a
// file: then the request is to blame.
const (
	AbsentNothing Absence = iota
	AbsentModel
	AbsentPath // the engine does not have the endpoint, or not with this method
)
