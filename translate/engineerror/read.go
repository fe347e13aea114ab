package engineerror

import (
	"bytes"
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

const maxNestedMessages = 4

// readErrorValue prefers the innermost error object, because it is closest to the cause.
func (e *Error) readErrorValue(v jsonx.Value, depth int) {
	switch v.Kind() {
	case jsonx.String:
		e.readMessage(v, depth)
		return
	case jsonx.Array: // FastAPI's list of faults; some engines put a single error in a list
		e.readFaultList(v, depth)
		return
	case jsonx.Object:
	default:
		return
	}
	if depth == maxNestedMessages {
		return
	}
	var inner jsonx.Value
	said := false
	for it := v.Iter(); it.Next(); {
		m := it.Value()
		switch string(it.Key().Raw()) {
		case "error", "detail", "errors":
			if IsTruthy(m) {
				inner = m
			}
		case "message", "msg":
			if m.HasText() {
				e.readMessage(m, depth)
				said = true
			}
		case "type", "error_type":
			e.readIdentifier(&e.Type, m)
		case "code", "status", "status_code":
			if !e.readStatus(m) {
				e.readIdentifier(&e.Code, m)
			}
		case "param":
			if text, ok := m.Text(); ok && string(text) == "model" {
				e.Absent = AbsentModel // used only if the status is 404
			}
		case "n_prompt_tokens":
			e.ContextPrompt = translate.CountOrZero(m)
		case "n_ctx":
			e.ContextMax = translate.CountOrZero(m)
		}
	}
	// A string next to a message is the error's class (Kokoro).
	if inner.Exists() && !(said && inner.IsString()) {
		e.readErrorValue(inner, depth+1)
	}
}

// readMessage stores a message. If the message is itself an error in JSON, readMessage reads that
// error instead.
func (e *Error) readMessage(v jsonx.Value, depth int) {
	text := v.AppendText(nil)
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' && depth < maxNestedMessages {
		var d jsonx.Doc
		if d.Parse(trimmed, jsonx.Options{Record: maxDepth}) == nil {
			if inner := d.Root(); inner.Get("error").Exists() || inner.Get("message").Exists() {
				e.readErrorValue(inner, depth+1)
				return
			}
		}
	}
	e.Message = string(text)
}

// readFaultList reads FastAPI's faults, such as {"loc":["body","messages"],"msg":"Field required"}.
func (e *Error) readFaultList(v jsonx.Value, depth int) {
	var text []byte
	for it := v.Iter(); it.Next() && len(text) < maxMessageBytes; {
		fault := it.Value()
		if !fault.Get("msg").HasText() {
			if depth < maxNestedMessages {
				e.readErrorValue(fault, depth+1)
			}
			continue
		}
		if len(text) > 0 {
			text = append(text, "; "...)
		}
		for at := fault.Get("loc").Iter(); at.Next(); {
			if at.Index() > 0 {
				text = append(text, '.')
			}
			if at.Value().IsString() {
				text = at.Value().AppendText(text)
			} else {
				text = append(text, at.Value().Raw()...)
			}
			text = text[:min(len(text), 2*maxMessageBytes)]
		}
		text = append(text, ": "...)
		text = fault.Get("msg").AppendText(text)
	}
	if len(text) > 0 {
		e.Message = string(text)
	}
}

// readStatus stores a status. It reports whether v is a number or a string of digits.
func (e *Error) readStatus(v jsonx.Value) bool {
	n, ok := v.Int()
	if text, plain := v.Text(); plain {
		i, err := strconv.Atoi(string(text[:min(len(text), 4)]))
		n, ok = int64(i), err == nil && len(text) <= 4
	}
	if ok && n >= 400 && n <= 599 {
		e.Status = int(n)
	}
	return ok
}

func (e *Error) readIdentifier(to *string, v jsonx.Value) {
	text, ok := v.Text()
	if !ok || len(text) == 0 || len(text) > 64 {
		return
	}
	for _, c := range text {
		if c != '_' && c != '-' && c != '.' && !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') {
			return
		}
	}
	if '0' <= text[0] && text[0] <= '9' { // SGLang sends the status as the type
		return
	}
	if secretKeyLengthAt(string(text)) > 0 {
		return
	}
	*to = string(text)
}

// IsTruthy reports whether v is true in a JavaScript or Python condition.
func IsTruthy(v jsonx.Value) bool {
	switch v.Kind() {
	case jsonx.True, jsonx.Object, jsonx.Array:
		return true
	case jsonx.String:
		return v.End()-v.Start() > 2
	case jsonx.Number:
		f, ok := v.Float()
		return !ok || f != 0
	}
	return false
}
