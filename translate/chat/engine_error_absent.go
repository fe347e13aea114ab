package chat

import (
	"regexp"
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

// absentOf reads what a 404 or 405 is about. Only what an engine says of a model in so many words,
// or in a member made for it, is about the model: engines answer 404 for a client's own image as
// well, and a proxy before them or a web framework for a path.
func (e *EngineError) absentOf(status int, aboutModel bool, message string) Absence {
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

// modelWords are codes and types, in lower case, that say that a model is not there.
var modelWords = map[string]bool{
	"model_not_found":      true, // OpenAI, LM Studio
	"modelnotfound":        true,
	"modelnotfounderror":   true,
	"model_not_available":  true, // gateways
	"deploymentnotfound":   true, // Azure
	"deployment_not_found": true,
}

// modelTexts say it without a name between the words.
var modelTexts = []string{
	"model not found",
	"model does not exist",
	"no such model",
	"unknown model",
	"repository not found",   // mlx-lm, as Hugging Face told it
	"no endpoints found for", // OpenRouter
}

var (
	// modelNotThere is the same with the name, quoted or not, as in "The model `x` does not exist."
	modelNotThere = regexp.MustCompile("\\bmodel(?: with name| named| name| id)?:? [\"'`]?[^\"'`\\s]+[\"'`]? (?:(?:is |was )?not (?:found|installed|available|loaded)|does(?: not|n't) exist)")
	// pathNotThere is the whole message of web frameworks and proxies, or how it begins.
	pathNotThere = regexp.MustCompile(`^(?:(?:404:? ?)?(?:the )?(?:(?:page|file|route|path|url|endpoint|resource|requested (?:url|path|resource)(?: \S+)?) )?(?:was )?not found(?: \([^)]*\))?(?: on (?:this|the) server)?(?:[.!].*)?$|404$|invalid url\b|unexpected endpoint\b|unknown (?:endpoint|path|route|request url)\b|unrecognized request url\b|no route\b|cannot post /)`)
)
