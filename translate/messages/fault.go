package messages

import (
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// fault says what is wrong with one member of a request.
type fault = chat.Invalid

// requiredText is chat.RequiredString for one that must not be empty.
func requiredText(name string, v jsonx.Value) *fault {
	if f := chat.RequiredString(name, v); f != nil {
		return f
	}
	if len(v.Inside()) == 0 {
		return chat.WrongValue(name, "must not be empty")
	}
	return nil
}
