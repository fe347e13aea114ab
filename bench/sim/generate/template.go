package generate

import (
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// refuseByTemplate refuses requests that the model's chat template would refuse. It uses error
// messages from known templates, and the status that the engine sends.
func (d *Decoder) refuseByTemplate(v *fastjson.Value) *profile.APIError {
	if d.AlternateRoles && !rolesAlternate(v.GetArray("messages")) {
		return d.templateError(400, "Conversation roles must alternate user/assistant/user/assistant/...")
	}
	effort := string(v.GetStringBytes("reasoning_effort"))
	if len(d.Efforts) > 0 && effort != "" && !slices.Contains(d.Efforts, effort) {
		status := 400
		if d.Profile.Family == "vllm" { // up to version 0.28
			status = 500
		}
		return d.templateError(status, "Unexpected reasoning effort "+effort+". Supported types are "+strings.Join(d.Efforts, ", "))
	}
	return nil
}

func (d *Decoder) templateError(status int, text string) *profile.APIError {
	if d.Profile.Family == "llamacpp" {
		return &profile.APIError{
			Status: 500, Message: "\n------------\nWhile executing CallExpression at line 2, column 78 in source:\n" +
				"... == 0) -%}{{- raise_exception('" + text[:min(len(text), 40)] + "...\n  ^\nError: Jinja Exception: " + text,
		}
	}
	return &profile.APIError{Status: status, Message: text}
}

// rolesAlternate reports whether user and assistant messages alternate after an optional system
// message. As in Mistral's template, tool calls and their results do not count.
func rolesAlternate(messages []*fastjson.Value) bool {
	n := 0
	for i, m := range messages {
		switch role := string(m.GetStringBytes("role")); role {
		case "system":
			if i > 0 {
				return false
			}
		case "user", "assistant":
			if len(m.GetArray("tool_calls")) > 0 {
				continue
			}
			if (role == "user") != (n%2 == 0) {
				return false
			}
			n++
		case "tool":
		default: // developer
			return false
		}
	}
	return true
}

// checkEffort refuses reasoning_effort values that the engine itself does not accept.
func (d *Decoder) checkEffort(v *fastjson.Value) *profile.APIError {
	effort := string(v.GetStringBytes("reasoning_effort"))
	if effort == "" || len(d.Profile.Efforts) == 0 || slices.Contains(d.Profile.Efforts, effort) {
		return nil
	}
	if d.Profile.Family == "ollama" {
		return &profile.APIError{Status: 400, Message: `invalid reasoning value: "` + effort + `" (must be "high", "medium", "low", "max", or "none")`}
	}
	return profile.InvalidParam("reasoning_effort", "1 validation error: {'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be '%s'\"}",
		strings.Join(d.Profile.Efforts, "', '"))
}

// checkContent refuses a message without content if the engine does.
func (d *Decoder) checkContent(m *fastjson.Value) *profile.APIError {
	if c := m.Get("content"); c != nil && c.Type() != fastjson.TypeNull {
		return nil
	}
	calls := len(m.GetArray("tool_calls")) > 0
	switch d.Profile.NullContent {
	case profile.NullContentRefused:
	case profile.NullContentNeedsCalls:
		if calls {
			return nil
		}
	default:
		return nil
	}
	switch d.Profile.Family {
	case "ollama":
		return &profile.APIError{Status: 400, Message: "invalid message content type: <nil>"}
	case "tgi":
		return &profile.APIError{Status: 422, Message: "data did not match any variant of untagged enum MessageBody"}
	}
	return &profile.APIError{Status: 400, Message: "Invalid 'content': 'content' field must be a string or an array of objects."}
}
