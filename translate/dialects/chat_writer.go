package dialects

import (
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// ChatWriter writes a chat request. It copies the client's values byte for byte.
type ChatWriter struct {
	Out      []byte
	Messages int
}

// WriteString appends s unchanged.
func (w *ChatWriter) WriteString(s string) { w.Out = append(w.Out, s...) }

// Raw appends s and v.
func (w *ChatWriter) Raw(s string, v jsonx.Value) { w.Out = append(append(w.Out, s...), v.Raw()...) }

// Member is like Raw, but appends nothing if v is absent.
func (w *ChatWriter) Member(s string, v jsonx.Value) {
	if chat.IsGiven(v) {
		w.Raw(s, v)
	}
}

// Quoted appends s and contents as a JSON string. contents must already be escaped.
func (w *ChatWriter) Quoted(s string, contents []byte) {
	w.Out = append(append(append(append(w.Out, s...), '"'), contents...), '"')
}

// WriteUnknownMembers appends the members of root that are unknown in the client's dialect, unless
// refused lists them.
func (w *ChatWriter) WriteUnknownMembers(root jsonx.Value, own *jsonx.NameIndex, refused *chat.RefusedMembers) {
	for it := root.Iter(); it.Next(); {
		if k := it.Key(); own.Index(k) < 0 && refused.IsPassedOn(k) {
			w.Out = append(append(w.Out, ",\""...), k.Name()...)
			w.Raw(`":`, it.Value())
		}
	}
}

// Comma appends a comma before every element of a list except the first.
func (w *ChatWriter) Comma(n int) {
	if n > 0 {
		w.Out = append(w.Out, ',')
	}
}

// BeginMessage starts a message with the given role.
func (w *ChatWriter) BeginMessage(role string) {
	w.Comma(w.Messages)
	w.Messages++
	w.WriteString(`{"role":"` + role + `"`)
}

// TextPart appends a text part to a message's content.
func (w *ChatWriter) TextPart(contents []byte) {
	w.Quoted(`{"type":"text","text":`, contents)
	w.WriteString(`}`)
}

// Function appends a tool. If parameters is absent, Function writes noSchema instead.
func (w *ChatWriter) Function(name, description, parameters, strict jsonx.Value, noSchema string) {
	w.Raw(`{"type":"function","function":{"name":`, name)
	w.Member(`,"description":`, description)
	if chat.IsGiven(parameters) {
		w.Raw(`,"parameters":`, parameters)
	} else {
		w.WriteString(noSchema)
	}
	w.Member(`,"strict":`, strict)
	w.WriteString(`}}`)
}

// ChooseFunction appends a tool_choice that names one function.
func (w *ChatWriter) ChooseFunction(name jsonx.Value) {
	w.Raw(`,"tool_choice":{"type":"function","function":{"name":`, name)
	w.WriteString(`}}`)
}

// AppendToolCallStart appends the start of a tool call, everything before the function's name. The
// caller appends the name, the arguments and "}}".
func AppendToolCallStart(dst []byte, n int, id jsonx.Value) []byte {
	if n > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `{"id":`...), id.Raw()...)
	return append(dst, `,"type":"function","function":{"name":`...)
}
