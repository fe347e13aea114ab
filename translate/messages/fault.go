package messages

import (
	"errors"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// fault says what is wrong with one member of a request. Where the mistake is found only the member's own name is known;
// each level above puts its name in front. Paths hold indexes and names of ours, never what a client wrote.
type fault struct {
	param string
	code  string
	text  string // continues the sentence that the path begins
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

// err turns f into the error that leaves the package.
func (f *fault) err() error { return apierr.Invalid(f.param, f.code, "%s %s.", f.param, f.text) }

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

// unsupported says that a legal member, or its value, is not to be had here.
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

func requiredString(name string, v jsonx.Value) *fault {
	switch {
	case !given(v):
		return missing(name)
	case !v.IsString():
		return wrongType(name, "a string", v)
	}
	return nil
}

// requiredText is requiredString for one that must not be empty.
func requiredText(name string, v jsonx.Value) *fault {
	if f := requiredString(name, v); f != nil {
		return f
	}
	if len(inside(v)) == 0 {
		return wrongValue(name, "must not be empty")
	}
	return nil
}

func optionalString(name string, v jsonx.Value) *fault {
	if given(v) && !v.IsString() {
		return wrongType(name, "a string", v)
	}
	return nil
}

func optionalObject(name string, v jsonx.Value) *fault {
	if given(v) && !v.IsObject() {
		return wrongType(name, "an object", v)
	}
	return nil
}

// optionalBool reads a member that may be absent, null or a boolean; false when it is not given.
func optionalBool(name string, v jsonx.Value) (bool, *fault) {
	if !given(v) {
		return false, nil
	}
	b, ok := v.Bool()
	if !ok {
		return false, wrongType(name, "true or false", v)
	}
	return b, nil
}

// inside returns the contents of a string as they stand in the source.
func inside(v jsonx.Value) []byte {
	raw := v.Raw()
	return raw[1 : len(raw)-1]
}
