package chat

import (
	"bytes"
	"errors"

	"penstock/translate/jsonx"
)

// ToolArguments writes the arguments of tool calls that a client sends back. Engines reject the
// whole request if the arguments are not a JSON object. A single malformed or truncated tool call
// would therefore make every later request of the conversation fail.
//
// The zero value is ready for use. One request at a time may use a ToolArguments.
type ToolArguments struct {
	doc           jsonx.Doc
	text, wrapped []byte
}

// malformedPrefix starts an object that quotes arguments which are not a JSON object.
const malformedPrefix = `{"malformed_arguments":`

// AppendArguments appends v as the arguments string of a chat tool call. If v is a string that
// contains an object, only lone surrogates are replaced. Any other value is replaced with the
// result of Object.
func (a *ToolArguments) AppendArguments(dst []byte, v jsonx.Value) []byte {
	object, whole := a.readArguments(v)
	if whole {
		return append(dst, v.Raw()...)
	}
	return jsonx.AppendString(dst, object)
}

// Object returns the arguments in v as an object. If they are not an object, Object quotes them in
// an object, so that the model can read what it wrote. The result is valid until the next use of a.
//
// The result is always one complete JSON value. It is copied into the engine's request, where an
// object that ended early would let the client add unchecked members.
func (a *ToolArguments) Object(v jsonx.Value) []byte {
	object, whole := a.readArguments(v)
	if whole && a.doc.Parse(object, argumentParseOptions) != nil {
		return a.wrapMalformed(object)
	}
	return object
}

// NeedsNoRepair reports whether v is a string that AppendArguments does not change.
func (a *ToolArguments) NeedsNoRepair(v jsonx.Value) bool {
	_, whole := a.readArguments(v)
	return whole
}

// readArguments returns the arguments in v. If v is not a string, they are its JSON text. whole
// reports whether v is a string that contains only the object.
func (a *ToolArguments) readArguments(v jsonx.Value) (object []byte, whole bool) {
	text := v.Raw()
	if v.IsString() {
		var plain bool
		if text, plain = v.Text(); !plain {
			a.text = v.AppendText(a.text[:0])
			text = a.text
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return emptyArguments, false
		}
		switch a.classifyArguments(text) {
		case argumentsObject:
			return text, true
		case argumentsLoneSurrogate:
			a.text = append(a.text[:0], text...)
			jsonx.ReplaceLoneSurrogates(a.text)
			return a.text, false
		case argumentsMalformed:
		}
	}
	return a.wrapMalformed(text), false
}

func (a *ToolArguments) wrapMalformed(text []byte) []byte {
	a.wrapped = append(jsonx.AppendString(append(a.wrapped[:0], malformedPrefix...), text), '}')
	return a.wrapped
}

var emptyArguments = []byte("{}")

type argumentsKind uint8

const (
	argumentsMalformed     argumentsKind = iota
	argumentsObject                      // an object, or text that exceeds this reader's limits
	argumentsLoneSurrogate               // an object whose escapes contain halves of surrogate pairs
)

var argumentParseOptions = jsonx.Options{Record: 1, Paired: true}

func (a *ToolArguments) classifyArguments(text []byte) argumentsKind {
	err := a.doc.Parse(text, argumentParseOptions)
	if err == nil {
		return a.requireObject(argumentsObject)
	}
	if jsonx.IsLoneSurrogateError(err) {
		if err = a.doc.Parse(text, jsonx.Options{Record: 1}); err == nil {
			return a.requireObject(argumentsLoneSurrogate)
		}
	}
	var limit *jsonx.LimitError
	if errors.As(err, &limit) {
		return argumentsObject
	}
	return argumentsMalformed
}

func (a *ToolArguments) requireObject(kind argumentsKind) argumentsKind {
	if !a.doc.Root().IsObject() {
		return argumentsMalformed
	}
	return kind
}

// Reset releases the text.
func (a *ToolArguments) Reset() {
	a.doc.Reset()
	if cap(a.text)+cap(a.wrapped) > maxKeptArguments {
		a.text, a.wrapped = nil, nil
	}
}

// maxKeptArguments is the maximum total size of the buffers that Reset retains for the next
// request.
const maxKeptArguments = 64 << 10

// ParseWithRepair does the same as Doc.Parse for the body of a request, but repairs a conversation.
// If the only errors are lone surrogates in the conversation, ParseWithRepair replaces them in body
// with U+FFFD, without changing the body's length. Otherwise a single bad answer from an engine
// could make every later request of the conversation fail. members lists the members that contain
// the conversation. If members is empty, nothing is replaced.
//
// ParseWithRepair replaces lone surrogates in string values other than tool names, and in the keys
// of a tool call's input. A lone surrogate anywhere else comes from the client, so the body is
// rejected.
func ParseWithRepair(d *jsonx.Doc, body []byte, o jsonx.Options, members ...string) error {
	err := d.Parse(body, o)
	if err == nil || len(members) == 0 || !jsonx.IsLoneSurrogateError(err) {
		return err
	}
	loose := o
	loose.Paired, loose.Record = false, jsonx.DefaultMaxDepth
	if other := d.Parse(body, loose); other != nil {
		return other
	}
	for it := d.Root().Iter(); it.Next(); {
		for _, name := range members {
			if string(it.Key().Name()) == name {
				replaceLoneSurrogates(body, it.Value())
			}
		}
	}
	return d.Parse(body, o)
}

// replaceLoneSurrogates replaces lone surrogates in string values. In the input of a tool call, it
// also replaces them in keys, because the model wrote the keys.
func replaceLoneSurrogates(body []byte, v jsonx.Value) {
	if v.HasLoneSurrogate() {
		jsonx.ReplaceLoneSurrogates(body[v.Start():v.End()])
	}
	for it := v.Iter(); it.Next(); {
		switch name := string(it.Key().Name()); {
		case v.IsObject() && name == "name":
		case v.IsObject() && name == "input":
			jsonx.ReplaceLoneSurrogates(body[it.Value().Start():it.Value().End()])
		default:
			replaceLoneSurrogates(body, it.Value())
		}
	}
}
