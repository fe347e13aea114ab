package engineerror

import (
	"strings"
)

// absentIn determines what a 404 or 405 is about. It is about the model only if the engine says so
// explicitly or in a member for that purpose. Engines also answer 404 for a client's own image, and
// proxies in front of engines, or web frameworks, answer 404 for a path.
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
