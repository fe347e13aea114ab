package chat

import (
	"bytes"
	"errors"

	"penstock/translate/jsonx"
)

// Arguments writes the arguments of tool calls that a client sends back. Engines parse the
// arguments again to fill their templates, and refuse the whole request if they are not a JSON
// object. A single tool call that is malformed, or that was cut off by the token limit, would thus
// end a conversation permanently, although the tool message already reports the mistake to the
// model.
//
// The zero value is ready. An Arguments belongs to one request at a time.
type Arguments struct {
	doc           jsonx.Doc
	text, wrapped []byte
}

// malformed is the start of an object that contains, as text, arguments that are not a JSON object.
const malformed = `{"malformed_arguments":`

// Append appends v as the string that a tool call has in chat. A string that contains an object is
// not changed, except that halves of surrogate pairs become U+FFFD. For anything else Append writes
// what Object returns.
func (a *Arguments) Append(dst []byte, v jsonx.Value) []byte {
	object, whole := a.read(v)
	if whole {
		return append(dst, v.Raw()...)
	}
	return jsonx.AppendString(dst, object)
}

// Object returns the arguments in v as an object: the object within a string, or {} for an empty
// string. For anything else it returns an object that contains the text, so that the model can read
// what it wrote. The result is valid until the next use of a.
//
// The result is one complete JSON value without halves of surrogate pairs, whatever the client
// wrote. The engine's request contains the result unchanged, so an object that ended early would
// smuggle unchecked members from the client into that request.
func (a *Arguments) Object(v jsonx.Value) []byte {
	object, whole := a.read(v)
	if whole && a.doc.Parse(object, argumentOptions) != nil {
		return a.wrap(object)
	}
	return object
}

// Sound reports whether v is a string that Append does not change.
func (a *Arguments) Sound(v jsonx.Value) bool {
	_, whole := a.read(v)
	return whole
}

// read returns the object, and whether the object is the entire content of a string. If v is not a
// string, read takes its JSON text.
func (a *Arguments) read(v jsonx.Value) (object []byte, whole bool) {
	text := v.Raw()
	if v.IsString() {
		var plain bool
		if text, plain = v.Text(); !plain {
			a.text = v.AppendText(a.text[:0])
			text = a.text
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return noArguments, false
		}
		switch a.check(text) {
		case argumentsObject:
			return text, true
		case argumentsHalved:
			a.text = append(a.text[:0], text...)
			jsonx.MendLone(a.text)
			return a.text, false
		case argumentsMalformed:
		}
	}
	return a.wrap(text), false
}

// wrap returns an object that contains text.
func (a *Arguments) wrap(text []byte) []byte {
	a.wrapped = append(jsonx.AppendString(append(a.wrapped[:0], malformed...), text), '}')
	return a.wrapped
}

var noArguments = []byte("{}")

// argumentsKind classifies the text of arguments.
type argumentsKind uint8

const (
	argumentsMalformed argumentsKind = iota
	argumentsObject                  // an object, or text beyond the limits of this reader
	argumentsHalved                  // an object with halves of surrogate pairs in its own escapes
)

var argumentOptions = jsonx.Options{Record: 1, Paired: true}

func (a *Arguments) check(text []byte) argumentsKind {
	err := a.doc.Parse(text, argumentOptions)
	if err == nil {
		return a.object(argumentsObject)
	}
	if jsonx.IsLone(err) {
		if err = a.doc.Parse(text, jsonx.Options{Record: 1}); err == nil {
			return a.object(argumentsHalved)
		}
	}
	var limit *jsonx.LimitError
	if errors.As(err, &limit) {
		return argumentsObject
	}
	return argumentsMalformed
}

// object returns kind if the parsed value is an object, and argumentsMalformed otherwise.
func (a *Arguments) object(kind argumentsKind) argumentsKind {
	if !a.doc.Root().IsObject() {
		return argumentsMalformed
	}
	return kind
}

// Reset releases the text, and the buffers if they have grown large.
func (a *Arguments) Reset() {
	a.doc.Reset()
	if cap(a.text)+cap(a.wrapped) > keepArguments {
		a.text, a.wrapped = nil, nil
	}
}

// keepArguments is the maximum size of the buffers that are kept for the next request.
const keepArguments = 64 << 10

// ParseHistory is Doc.Parse for the body of a request. If the only errors are lone surrogates in
// the conversation, ParseHistory replaces them with U+FFFD in body itself, whose length does not
// change. Otherwise a single answer from an engine could end a conversation permanently, because
// clients send the answer back with every turn. members lists the request's members that contain
// the conversation; if it is empty, nothing is replaced.
//
// ParseHistory replaces halves in string values other than tool names, and in the keys of a tool
// call's input. Elsewhere (models, other keys, schemas) a half comes from the client itself, and
// replacing it would change what the client means.
func ParseHistory(d *jsonx.Doc, body []byte, o jsonx.Options, members ...string) error {
	err := d.Parse(body, o)
	if err == nil || len(members) == 0 || !jsonx.IsLone(err) {
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
				mendValues(body, it.Value())
			}
		}
	}
	return d.Parse(body, o)
}

// mendValues replaces halves in the strings within v. In a tool call's input it also replaces
// halves in keys, because the model wrote the keys and any member there is data.
func mendValues(body []byte, v jsonx.Value) {
	if v.Lone() {
		jsonx.MendLone(body[v.Start():v.End()])
	}
	for it := v.Iter(); it.Next(); {
		switch name := string(it.Key().Name()); {
		case v.IsObject() && name == "name":
		case v.IsObject() && name == "input":
			jsonx.MendLone(body[it.Value().Start():it.Value().End()])
		default:
			mendValues(body, it.Value())
		}
	}
}
