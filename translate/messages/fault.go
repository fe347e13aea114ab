package messages

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// fault says what is wrong with one member of a request.
type fault = chat.Invalid

func element(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// requiredText is chat.RequiredString for one that must not be empty.
func requiredText(name string, v jsonx.Value) *fault {
	if f := chat.RequiredString(name, v); f != nil {
		return f
	}
	if len(inside(v)) == 0 {
		return chat.WrongValue(name, "must not be empty")
	}
	return nil
}

// optionalBool reads a member that may be absent, null or a boolean; false when it is not given.
func optionalBool(name string, v jsonx.Value) (bool, *fault) {
	if !chat.Given(v) {
		return false, nil
	}
	b, ok := v.Bool()
	if !ok {
		return false, chat.WrongType(name, "true or false", v)
	}
	return b, nil
}

// inside returns the contents of a string as they stand in the source.
func inside(v jsonx.Value) []byte {
	raw := v.Raw()
	return raw[1 : len(raw)-1]
}
