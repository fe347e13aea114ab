package engineerror

import (
	"strings"
)

// classifyAbsence returns AbsentModel only if the message or a dedicated member says that the model
// is missing. A 404 alone is not enough. Engines also answer 404 for an image in the request, and
// proxies and web frameworks in front of engines answer 404 for a path.
func (e *Error) classifyAbsence(status int, aboutModel bool, message string) Absence {
	text := strings.ToLower(strings.TrimSpace(message))
	if len(text) > maxMessageBytes {
		text = text[:maxMessageBytes]
	}
	switch {
	case status == 405:
		return AbsentPath
	case aboutModel, modelMissingCodes[strings.ToLower(e.Code)], modelMissingCodes[strings.ToLower(e.Type)],
		containsAny(text, modelMissingPhrases), modelMissingPattern.MatchString(text):
		return AbsentModel
	case text == "", pathMissingPattern.MatchString(text):
		return AbsentPath
	}
	return AbsentNothing
}
