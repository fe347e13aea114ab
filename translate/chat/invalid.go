package chat

import (
	"errors"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// invalid says what is wrong with one member. It is built where the mistake is found, which knows the member's own name,
// and each level above puts its own name in front: paths cost nothing as long as nothing is wrong, and they can only
// hold indexes and names of ours.
type invalid struct {
	param string
	code  string
	text  string // continues the sentence that the path begins: "must be a number, not a string"
}

// in puts the name of the object that holds the member in front of the path.
func (e *invalid) in(name string) *invalid {
	if e.param != "" {
		name += "." + e.param
	}
	e.param = name
	return e
}

// at is in for element i of an array.
func (e *invalid) at(name string, i int) *invalid {
	return e.in(name + "[" + strconv.Itoa(i) + "]")
}

// err turns e into the error that leaves the package.
func (e *invalid) err() error {
	return apierr.Invalid(e.param, e.code, "%s %s.", e.param, e.text)
}

func missing(name string) *invalid {
	return &invalid{name, apierr.CodeMissingParameter, "is required"}
}

// wrongType says that the member should be what want says ("a string") and is v.
func wrongType(name, want string, v jsonx.Value) *invalid {
	return &invalid{name, apierr.CodeInvalidType, "must be " + want + ", not " + kindName(v)}
}

func wrongValue(name, text string) *invalid {
	return &invalid{name, apierr.CodeInvalidValue, text}
}

// unsupported says that a legal member, or its value, is not to be had here.
func unsupported(name, text string) *invalid {
	return &invalid{name, apierr.CodeUnsupportedParameter, text}
}

func kindName(v jsonx.Value) string {
	switch v.Kind() {
	case jsonx.Null:
		return "null"
	case jsonx.Array, jsonx.Object:
		return "an " + v.Kind().String()
	}
	return "a " + v.Kind().String()
}

// readFields reads members of v and refuses those that two readers could take for different ones.
func readFields(v jsonx.Value, names *jsonx.Names, out []jsonx.Value) *invalid {
	err := names.Fields(v, out)
	if err == nil {
		return nil
	}
	var m *jsonx.MemberError
	if !errors.As(err, &m) {
		panic("BUG: jsonx.Fields returned another error: " + err.Error())
	}
	return &invalid{m.Name, apierr.CodeDuplicateMember, "is " + m.Problem.String()}
}

// given reports whether an optional member has a value: SDKs write null for what was not set.
func given(v jsonx.Value) bool { return v.Exists() && !v.IsNull() }

// syntaxError turns an error of jsonx.Doc.Parse into one for the client.
func syntaxError(body []byte, err error) error {
	if len(body) == 0 {
		return apierr.Invalid("", apierr.CodeInvalidJSON, "The request body is empty. Send a JSON object.")
	}
	return apierr.FromJSON(err, "")
}

// optionalString checks a member that may be absent, null or a string.
func optionalString(name string, v jsonx.Value) *invalid {
	if given(v) && !v.IsString() {
		return wrongType(name, "a string", v)
	}
	return nil
}

// optionalObject checks a member that may be absent, null or an object.
func optionalObject(name string, v jsonx.Value) *invalid {
	if given(v) && !v.IsObject() {
		return wrongType(name, "an object", v)
	}
	return nil
}

// optionalBool reads a member that may be absent, null or a boolean.
func optionalBool(name string, v jsonx.Value, absent bool) (bool, *invalid) {
	if !given(v) {
		return absent, nil
	}
	b, ok := v.Bool()
	if !ok {
		return absent, wrongType(name, "true or false", v)
	}
	return b, nil
}

// requiredString checks a member that must be a string.
func requiredString(name string, v jsonx.Value) *invalid {
	switch {
	case !given(v):
		return missing(name)
	case !v.IsString():
		return wrongType(name, "a string", v)
	}
	return nil
}
