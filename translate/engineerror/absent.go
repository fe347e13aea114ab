package engineerror

import (
	"strings"
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

// absentIn reads what a 404 or 405 is about. Only what an engine says of a model in so many words,
// or in a member made for it, is about the model: engines answer 404 for a client's own image as
// well, and a proxy before them or a web framework for a path.
func (e *Error) absentIn(status int, aboutModel bool, message string) Absence {
	text := strings.ToLower(strings.TrimSpace(message))
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	switch {
	case status == 405:
		return AbsentPath
	case aboutModel, modelWords[strings.ToLower(e.Code)], modelWords[strings.ToLower(e.Type)],
		containsAny(text, modelTexts), modelNotThere.MatchString(text):
		return AbsentModel
	case text == "", pathNotThere.MatchString(text):
		return AbsentPath
	}
	return AbsentNothing
}
