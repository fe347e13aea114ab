package responses

import (
	"errors"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// fault says what is wrong with one member of a request. Where the mistake is found only the member's own name is known;
// each level above puts its own in front. Paths hold indexes and names of ours, never what a client wrote.
type fault struct {
	param string
	code  string
	text  string // continues the sentence that the path begins; of an unsupported parameter, a sentence of its own
}

// in puts the name of the object that holds the member in front of the path.
func (f *fault) in(name string) *fault {
	if f.param != "" {
		name += "." + f.param
	}
	f.param = name
	return f
}

// at is in for element i of an array.
func (f *fault) at(name string, i int) *fault { return f.in(element(name, i)) }

func element(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// err turns f into the error that leaves the package. Clients know "Unsupported parameter: X" from "broken request" by
// its wording.
func (f *fault) err() *apierr.Error {
	if f.code == apierr.CodeUnsupportedParameter {
		return apierr.Invalid(f.param, f.code, "Unsupported parameter: %s. %s.", f.param, f.text)
	}
	return apierr.Invalid(f.param, f.code, "%s %s.", f.param, f.text)
}

func missing(name string) *fault {
	return &fault{name, apierr.CodeMissingParameter, "is required"}
}

// wrongType says that the member should be what want says ("a string") and is v.
func wrongType(name, want string, v jsonx.Value) *fault {
	kind := v.Kind().String()
	switch v.Kind() {
	case jsonx.Null:
	case jsonx.Array, jsonx.Object:
		kind = "an " + kind
	default:
		kind = "a " + kind
	}
	return &fault{name, apierr.CodeInvalidType, "must be " + want + ", not " + kind}
}

func wrongValue(name, text string) *fault {
	return &fault{name, apierr.CodeInvalidValue, text}
}

// unsupported says that a member, or what it asks for, is not to be had here. text is a sentence without its stop.
func unsupported(name, text string) *fault {
	return &fault{name, apierr.CodeUnsupportedParameter, text}
}

// readFields reads members of v and refuses those that two readers could take for different ones.
func readFields(v jsonx.Value, names *jsonx.Names, out []jsonx.Value) *fault {
	err := names.Fields(v, out)
	if err == nil {
		return nil
	}
	var m *jsonx.MemberError
	if !errors.As(err, &m) {
		panic("BUG: jsonx.Fields returned another error: " + err.Error())
	}
	return &fault{m.Name, apierr.CodeDuplicateMember, "is " + m.Problem.String()}
}

// given reports whether an optional member has a value: SDKs write null for what was not set.
func given(v jsonx.Value) bool { return v.Exists() && !v.IsNull() }

// requiredString checks a member that must be a string.
func requiredString(name string, v jsonx.Value) *fault {
	switch {
	case !given(v):
		return missing(name)
	case !v.IsString():
		return wrongType(name, "a string", v)
	}
	return nil
}

// requiredName checks the name of a function.
func requiredName(v jsonx.Value) *fault {
	if f := requiredString("name", v); f != nil {
		return f
	}
	name, ok := v.Text()
	if !ok {
		name = v.AppendText(nil)
	}
	switch {
	case len(name) == 0:
		return wrongValue("name", "must not be empty")
	case len(name) > maxName:
		return wrongValue("name", "must be at most 256 bytes long")
	}
	return nil
}

// optional checks a member that may be absent, null or of the kind that is says.
func optional(name, want string, v jsonx.Value, is func(jsonx.Value) bool) *fault {
	if given(v) && !is(v) {
		return wrongType(name, want, v)
	}
	return nil
}

func optionalString(name string, v jsonx.Value) *fault {
	return optional(name, "a string", v, jsonx.Value.IsString)
}

func optionalObject(name string, v jsonx.Value) *fault {
	return optional(name, "an object", v, jsonx.Value.IsObject)
}

func optionalBool(name string, v jsonx.Value) *fault {
	return optional(name, "true or false", v, jsonx.Value.IsBool)
}

// optionalCount checks a member that may be absent, null or an integer of 0 or more.
func optionalCount(name string, v jsonx.Value) *fault {
	if !given(v) {
		return nil
	}
	if !v.IsNumber() {
		return wrongType(name, "an integer", v)
	}
	if n, ok := v.Int(); !ok || n < 0 {
		return wrongValue(name, "must be an integer of 0 or more")
	}
	return nil
}
