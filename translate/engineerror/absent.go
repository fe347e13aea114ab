package engineerror

import (
	"strings"
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
