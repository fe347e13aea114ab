package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// fault says what is wrong with one member of a request. The text of one about an unsupported
// parameter is a sentence of its own, without its stop.
type fault = chat.Invalid

// refusal turns f into the error that leaves the package. Clients know "Unsupported parameter: X"
// from "broken request" by its wording.
func refusal(f *fault) *apierr.Error {
	if f.Code == apierr.CodeUnsupportedParameter {
		return apierr.Invalid(f.Param, f.Code, "Unsupported parameter: %s. %s.", f.Param, f.Text)
	}
	return apierr.Invalid(f.Param, f.Code, "%s %s.", f.Param, f.Text)
}

// requiredName checks the name of a function.
func requiredName(v jsonx.Value) *fault {
	if f := chat.RequiredString("name", v); f != nil {
		return f
	}
	name, ok := v.Text()
	if !ok {
		name = v.AppendText(nil)
	}
	switch {
	case len(name) == 0:
		return chat.WrongValue("name", "must not be empty")
	case len(name) > maxName:
		return chat.WrongValue("name", "must be at most 256 bytes long")
	}
	return nil
}

// optional checks a member that may be absent, null or of the kind that is says.
func optional(name, want string, v jsonx.Value, is func(jsonx.Value) bool) *fault {
	if chat.Given(v) && !is(v) {
		return chat.WrongType(name, want, v)
	}
	return nil
}

func optionalBool(name string, v jsonx.Value) *fault {
	return optional(name, "true or false", v, jsonx.Value.IsBool)
}

// optionalCount checks a member that may be absent, null or an integer of 0 or more.
func optionalCount(name string, v jsonx.Value) *fault {
	if !chat.Given(v) {
		return nil
	}
	if !v.IsNumber() {
		return chat.WrongType(name, "an integer", v)
	}
	if n, ok := v.Int(); !ok || n < 0 {
		return chat.WrongValue(name, "must be an integer of 0 or more")
	}
	return nil
}
