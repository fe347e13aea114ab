package chat

import (
	"errors"
	"strconv"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// InvalidMember describes what is wrong with one member. The code that finds the mistake creates
// the InvalidMember with the member's name. The code for each outer level then prepends the name of
// that level. Paths therefore cost nothing if a request is correct, and contain no client text.
type InvalidMember struct {
	Param string
	Code  string
	Text  string // continues a sentence that starts with the path: "must be a number, not a string"
	Image bool   // see apierr.Error
}

// InObject prepends the name of the containing object to the path. InObject and InElement return
// nil if e is nil.
func (e *InvalidMember) InObject(name string) *InvalidMember {
	if e == nil {
		return nil
	}
	if e.Param != "" {
		name += "." + e.Param
	}
	e.Param = name
	return e
}

// prependName is like InObject, but the path may start with an index.
func (e *InvalidMember) prependName(name string) *InvalidMember {
	if e.Param != "" && e.Param[0] == '[' {
		e.Param = name + e.Param
		return e
	}
	return e.InObject(name)
}

// InElement prepends element i of an array to the path.
func (e *InvalidMember) InElement(name string, i int) *InvalidMember {
	if e == nil {
		return nil
	}
	return e.InObject(ElementPath(name, i))
}

// FirstInvalidMember returns the first mistake that is not nil, or nil.
func FirstInvalidMember(mistakes ...*InvalidMember) *InvalidMember {
	for _, e := range mistakes {
		if e != nil {
			return e
		}
	}
	return nil
}

// ElementPath returns the path of element i of an array.
func ElementPath(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// Err returns e as an *apierr.Error, or a nil error if e is nil.
func (e *InvalidMember) Err() error {
	if e == nil {
		return nil
	}
	err := apierr.Invalid(e.Param, e.Code, "%s %s.", e.Param, e.Text)
	err.Image = e.Image
	return err
}

// MarkAboutImage marks e as rejecting an image.
func (e *InvalidMember) MarkAboutImage() *InvalidMember {
	e.Image = true
	return e
}

// MissingError returns the error for a required member that is absent or null.
func MissingError(name string) *InvalidMember {
	return &InvalidMember{Param: name, Code: apierr.CodeMissingParameter, Text: "is required"}
}

// WrongTypeError returns the error for a value v of the wrong type. want describes the required
// type, for example "a string".
func WrongTypeError(name, want string, v jsonx.Value) *InvalidMember {
	return &InvalidMember{Param: name, Code: apierr.CodeInvalidType, Text: "must be " + want + ", not " + kindName(v)}
}

// InvalidTypeError returns the error for a type that is not allowed. text continues the sentence
// that starts with the path.
func InvalidTypeError(name, text string) *InvalidMember {
	return &InvalidMember{Param: name, Code: apierr.CodeInvalidType, Text: text}
}

// WrongValueError returns the error for a value that is not allowed. text continues the sentence
// that starts with the path.
func WrongValueError(name, text string) *InvalidMember {
	return &InvalidMember{Param: name, Code: apierr.CodeInvalidValue, Text: text}
}

// UnsupportedError returns the error for a member or value that is not supported.
func UnsupportedError(name, text string) *InvalidMember {
	return &InvalidMember{Param: name, Code: apierr.CodeUnsupportedParameter, Text: text}
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

// ReadFields reads members of v and rejects members that two readers could read differently.
func ReadFields(v jsonx.Value, names *jsonx.NameIndex, out []jsonx.Value) *InvalidMember {
	return invalidMember(names.Fields(v, out))
}

// invalidMember returns the error for a member that two readers could read differently.
func invalidMember(err error) *InvalidMember {
	if err == nil {
		return nil
	}
	var m *jsonx.MemberError
	if !errors.As(err, &m) {
		panic("BUG: jsonx.Fields returned another error: " + err.Error())
	}
	return &InvalidMember{Param: m.Name, Code: apierr.CodeDuplicateMember, Text: "is " + m.Remedy()}
}

// ReadElement is ReadFields for an array element that must be an object.
func ReadElement(want string, v jsonx.Value, names *jsonx.NameIndex, out []jsonx.Value) *InvalidMember {
	if !v.IsObject() {
		return WrongTypeError("", want, v)
	}
	return ReadFields(v, names, out)
}

// ReadObject is ReadFields for a member that may be absent, null or an object.
func ReadObject(name string, v jsonx.Value, names *jsonx.NameIndex, out []jsonx.Value) *InvalidMember {
	if e := CheckOptionalObject(name, v); e != nil {
		return e
	}
	return ReadFields(v, names, out).InObject(name)
}

// IsGiven reports whether an optional member is set. SDKs send null for unset members.
func IsGiven(v jsonx.Value) bool { return v.Exists() && !v.IsNull() }

func syntaxError(body []byte, err error) error {
	if len(body) == 0 {
		return apierr.Invalid("", apierr.CodeInvalidJSON, "The request body is empty. Send a JSON object.")
	}
	return apierr.FromJSONError(err, "")
}

// CheckOptionalString checks a member that may be absent, null or a string.
func CheckOptionalString(name string, v jsonx.Value) *InvalidMember {
	if IsGiven(v) && !v.IsString() {
		return WrongTypeError(name, "a string", v)
	}
	return nil
}

// CheckOptionalObject checks a member that may be absent, null or an object.
func CheckOptionalObject(name string, v jsonx.Value) *InvalidMember {
	if IsGiven(v) && !v.IsObject() {
		return WrongTypeError(name, "an object", v)
	}
	return nil
}

// ReadOptionalBool reads a member that may be absent, null or a boolean.
func ReadOptionalBool(name string, v jsonx.Value, absent bool) (bool, *InvalidMember) {
	if !IsGiven(v) {
		return absent, nil
	}
	b, ok := v.Bool()
	if !ok {
		return absent, WrongTypeError(name, "true or false", v)
	}
	return b, nil
}

// CheckRequiredString checks a member that must be a string.
func CheckRequiredString(name string, v jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(v):
		return MissingError(name)
	case !v.IsString():
		return WrongTypeError(name, "a string", v)
	}
	return nil
}
