package pages

import (
	"cmp"
	"encoding/json"
	"strings"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// ErrorBody returns the body of an error.
func (s *Set) ErrorBody(a profile.APIError) []byte { return s.render("error", s.withKind(a)) }

// StreamErrorData returns an error as the data of an event. The data is always an object with an
// error member.
func (s *Set) StreamErrorData(a profile.APIError) []byte {
	return s.render("stream-error", s.withKind(a))
}

// withKind sets the error type that the engine uses for the error's status.
func (s *Set) withKind(a profile.APIError) profile.APIError {
	a.Kind = cmp.Or(a.Kind, s.p.ErrorTypeOf(a.Status))
	return a
}

// ErrorReply returns the reply for an error.
func (s *Set) ErrorReply(a profile.APIError) profile.Reply {
	ctype := s.types["error"]
	switch s.p.Family {
	case "ollama":
		if a.Status == 400 && (a.Unread || a.Param == "messages") {
			ctype = profile.OllamaContentType
		}
	case "tgi":
		if a.Unread { // TGI's HTTP library writes this message
			return s.p.PlainTextReply(a.Status, "Failed to parse the request body as JSON: "+a.Message)
		}
		if a.Status == 400 && a.Param != "" {
			a.Status, a.Message = 422, "Input validation error: "+a.Message
		}
	case "speaches", "kokoro":
		if a.Status == 400 && a.Param != "" && a.Code == "" {
			a.Status = 422
		}
	}
	return profile.Reply{Status: a.Status, Type: ctype, Body: s.ErrorBody(a)}
}

// TooLongError returns the engine's error for a request that exceeds the context. prompt is the
// number of prompt tokens, want is the number of requested tokens (negative if unknown), and size
// is the context length.
func (s *Set) TooLongError(prompt, want, size int) (err profile.APIError) {
	want = max(want, 0)
	text := s.render("too-long", tooLongData{prompt, want, size, size - prompt, prompt + want})
	if err := json.Unmarshal(text, &err); err != nil {
		panic("BUG: too-long of " + s.p.Name + ": " + err.Error())
	}
	return err
}

type tooLongData struct{ Prompt, Want, Size, Room, Sum int }

func (s *Set) fixedReply(r profile.FixedReply, method, path string) profile.Reply {
	ctype := r.Type
	if strings.HasPrefix(r.Body, "{") {
		ctype = s.p.JSONType
		path = strings.Trim(string(wire.AppendString(nil, path)), `"`)
	}
	body := strings.NewReplacer("%m", method, "%p", path).Replace(r.Body)
	return profile.Reply{Status: r.Status, Type: ctype, Body: []byte(body)}
}

// NotFound returns the reply for a path that the engine does not serve.
func (s *Set) NotFound(method, path string) profile.Reply {
	if s.p.NoPage.Status == 0 {
		return s.ErrorReply(profile.APIError{Status: 404, Message: "Invalid URL (" + method + " " + path + ")"})
	}
	return s.fixedReply(s.p.NoPage, method, path)
}

// MethodNotAllowed returns the reply for a method that the path does not support.
func (s *Set) MethodNotAllowed(method, path, allowed string) profile.Reply {
	no := s.p.NoMethod
	if no.Status == 0 {
		no = profile.FixedReply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}
	}
	r := s.fixedReply(no, method, path)
	if r.Status == 405 {
		r.Lines = "Allow: " + allowed + "\r\n"
	}
	return r
}

// Unauthorized returns the reply for a request without a valid key.
func (s *Set) Unauthorized() profile.Reply {
	if s.p.NoKey.Status != 0 {
		return s.fixedReply(s.p.NoKey, "", "")
	}
	return s.ErrorReply(profile.APIError{
		Status: 401, Message: "Incorrect API key provided.", Kind: "invalid_request_error", Code: "invalid_api_key",
	})
}
