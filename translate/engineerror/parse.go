package engineerror

import (
	"bytes"
	"strings"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// ParseErrorBody reads the body of a response whose status is not 200, or the data of an error
// event. For an event, status is 0. It understands the errors of all known engines:
//   - {"error":{…}}, and {"error":"…"} with or without error_type,
//   - the same members at the top level,
//   - FastAPI's {"detail":…},
//   - an error whose message is another error as JSON (Ollama passes on its runner's error this
//     way),
//   - plain text.
//
// If the body is truncated, ParseErrorBody reads as much as possible. HTML and unreadable bodies
// yield no message.
func ParseErrorBody(status int, contentType string, body []byte) Error {
	var e Error
	cut := len(body) >= MaxBodyBytes
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '{' || body[0] == '[' || body[0] == '"':
		var d jsonx.Doc
		switch {
		case len(body) <= translate.MaxAnswerBytes && d.Parse(body, jsonx.Options{Record: maxDepth}) == nil:
			e.readErrorValue(d.Root(), 0)
		case cut && d.Parse(closeContainers(body), jsonx.Options{Record: maxDepth}) == nil:
			e.readErrorValue(d.Root(), 0)
		}
	case body[0] == '<' || strings.Contains(contentType, "html"):
	default:
		e.Message = string(body[:min(len(body), 2*maxMessageBytes)])
	}
	e.classify(status)
	return e
}

// ReadObject reads an error object from a stream event that was already parsed.
func ReadObject(root jsonx.Value) Error {
	var e Error
	e.readErrorValue(root, 0)
	e.classify(0)
	return e
}

// classify cleans the message and classifies the error. The HTTP status is 0 inside a stream.
func (e *Error) classify(status int) {
	aboutModel, refusedByTemplate := e.Absent == AbsentModel, false
	if i := strings.LastIndex(e.Message, templateErrorPrefix); i >= 0 {
		e.Message, refusedByTemplate = e.Message[i+len(templateErrorPrefix):], true
	}
	said := e.Message
	e.Message, e.Absent = cleanMessage(e.Message), AbsentNothing
	lower := strings.ToLower(e.Message)
	if e.Type == "exceed_context_size_error" || e.Code == "context_length_exceeded" || isOverflowMessage(lower) {
		e.ContextOverflow, e.ClientFault = true, true
		if e.ContextPrompt == 0 || e.ContextMax == 0 {
			e.ContextPrompt, e.ContextAnswer, e.ContextMax = overflowSizes(lower)
			e.ContextAtLeast = e.ContextAnswer > 0 && strings.Contains(lower, lowerBoundPrefix)
			if e.ContextMax == 0 {
				e.ContextExcess = sizeAfter(lower, excessPrefix)
			}
		}
	} else {
		e.ContextPrompt, e.ContextMax = 0, 0
	}
	if status < 300 { // a success status does not describe the error; a redirect's status is kept
		status = e.Status
	}
	if status == 0 && containsAny(lower, overloadPhrases) {
		e.Status, status = 429, 429
	}
	switch status {
	case 0, 400, 422, 500, 501:
		e.Subject = classifySubject(lower)
	}
	switch status {
	case 400, 413, 422:
		e.ClientFault = true
	case 404, 405:
		if e.Absent = e.classifyAbsence(status, aboutModel, said); e.Absent == AbsentNothing {
			e.ClientFault = requestObjectPattern.MatchString(lower)
		}
	case 0, 500, 501:
		e.ClientFault = e.ClientFault || clientErrorTypes[e.Type] || containsAny(lower, clientFaultPhrases) ||
			refusedByTemplate || e.Subject != SubjectOther
	}
}

// classifySubject returns the subject of a message. The message must be in lower case.
func classifySubject(lower string) RejectedSubject {
	switch {
	case containsAny(lower, rolesPhrases):
		return SubjectRoles
	case containsAny(lower, effortPhrases):
		return SubjectEffort
	}
	return SubjectOther
}
