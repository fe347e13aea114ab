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

// WriteRaw appends s and v.
func (w *ChatWriter) WriteRaw(s string, v jsonx.Value) {
	w.Out = append(append(w.Out, s...), v.Raw()...)
}

// WriteMember is like WriteRaw, but appends nothing if v is absent.
func (w *ChatWriter) WriteMember(s string, v jsonx.Value) {
	if chat.IsGiven(v) {
		w.WriteRaw(s, v)
	}
}

// WriteQuoted appends s and contents as a JSON string. contents must already be escaped.
func (w *ChatWriter) WriteQuoted(s string, contents []byte) {
	w.Out = append(append(append(append(w.Out, s...), '"'), contents...), '"')
}

// WriteUnknownMembers appends the members of root that are unknown in the client's dialect, unless
// refused lists them.
func (w *ChatWriter) WriteUnknownMembers(root jsonx.Value, own *jsonx.NameIndex, refused *chat.RefusedMembers) {
	for it := root.Iter(); it.Next(); {
		if k := it.Key(); own.Index(k) < 0 && refused.IsPassedOn(k) {
			w.Out = append(append(w.Out, ",\""...), k.Name()...)
			w.WriteRaw(`":`, it.Value())
		}
	}
}

// WriteCommaUnlessFirst appends a comma before every element of a list except the first.
func (w *ChatWriter) WriteCommaUnlessFirst(n int) {
	if n > 0 {
		w.Out = append(w.Out, ',')
	}
}

// BeginMessage starts a message with the given role.
func (w *ChatWriter) BeginMessage(role string) {
	w.WriteCommaUnlessFirst(w.Messages)
	w.Messages++
	w.WriteString(`{"role":"` + role + `"`)
}

// WriteTextPart appends a text part to a message's content.
func (w *ChatWriter) WriteTextPart(contents []byte) {
	w.WriteQuoted(`{"type":"text","text":`, contents)
	w.WriteString(`}`)
}

// WriteFunction appends a tool. If parameters is absent, it writes noSchema instead.
func (w *ChatWriter) WriteFunction(name, description, parameters, strict jsonx.Value, noSchema string) {
	w.WriteRaw(`{"type":"function","function":{"name":`, name)
	w.WriteMember(`,"description":`, description)
	if chat.IsGiven(parameters) {
		w.WriteRaw(`,"parameters":`, parameters)
	} else {
		w.WriteString(noSchema)
	}
	w.WriteMember(`,"strict":`, strict)
	w.WriteString(`}}`)
}

// WriteToolChoice appends a tool_choice that names one function.
func (w *ChatWriter) WriteToolChoice(name jsonx.Value) {
	w.WriteRaw(`,"tool_choice":{"type":"function","function":{"name":`, name)
	w.WriteString(`}}`)
}

// AppendToolCallStart appends everything in a tool call that precedes the function's name. The
// caller appends the name, the arguments and "}}".
func AppendToolCallStart(dst []byte, n int, id jsonx.Value) []byte {
	if n > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `{"id":`...), id.Raw()...)
	return append(dst, `,"type":"function","function":{"name":`...)
}
