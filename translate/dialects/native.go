package dialects

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// NativeReader is what the readers of engines that speak a dialect themselves have in common: the
// event that is read, and the chat chunk that it becomes. The zero value is ready.
type NativeReader struct {
	Chunk []byte // of the last event
	Ended bool   // the engine has ended its answer

	doc jsonx.Doc
}

// The errors of answers that break the form of any JSON dialect.
var (
	errForm   = &translate.BadAnswer{Reason: "an event that is no JSON object"}
	errMember = &translate.BadAnswer{Reason: translate.DuplicateMember}
)

// Reset makes n ready for another answer.
func (n *NativeReader) Reset() {
	n.doc.Reset()
	*n = NativeReader{doc: n.doc, Chunk: n.Chunk[:0]}
}

// Event begins an event, whose members of those names it finds. It reports false for one that
// brings nothing. The error is a *translate.BadAnswer.
func (n *NativeReader) Event(ev sse.Event, record int, names *jsonx.Names, members []jsonx.Value) (bool, error) {
	if n.Ended || ev.Blank() {
		return false, nil
	}
	n.Chunk = n.Chunk[:0]
	root, err := n.parse(ev.Data, record)
	if err == nil {
		err = Members(root, names, members)
	}
	return err == nil, err
}

func (n *NativeReader) parse(data []byte, record int) (jsonx.Value, error) {
	if n.doc.Parse(data, jsonx.Options{Record: record}) != nil || !n.doc.Root().IsObject() {
		return jsonx.Value{}, errForm
	}
	return n.doc.Root(), nil
}

// Text makes a chunk of a piece of text, and reports whether there is any.
func (n *NativeReader) Text(member string, v jsonx.Value) bool {
	if !v.HasText() {
		return false
	}
	n.Chunk = answer.AppendTextChunk(n.Chunk, member, v.Inside())
	return true
}

// ToolCall makes a chunk of a piece of a tool call; see answer.AppendToolCallChunk.
func (n *NativeReader) ToolCall(index int, id, name, args []byte) {
	n.Chunk = answer.AppendToolCallChunk(n.Chunk, index, id, name, args)
}

// Whole begins a whole answer. failed reports that an error stands in its place. The error is a
// *translate.BadAnswer.
func (n *NativeReader) Whole(body []byte, record int) (root jsonx.Value, failed bool, err error) {
	root, err = n.parse(body, record)
	return root, err == nil && chat.Given(root.Get("error")), err
}

// Members finds the members of those names in v. The error is a *translate.BadAnswer.
func Members(v jsonx.Value, names *jsonx.Names, members []jsonx.Value) error {
	if names.Fields(v, members) != nil {
		return errMember
	}
	return nil
}

// IsError reports whether an event is an error, by its type, by the error in it or by its name:
// engines forget one or the other.
func IsError(ev sse.Event, kind, fault jsonx.Value) bool {
	return chat.Given(fault) || kind.EqualText("error") || bytes.Equal(ev.Name, []byte("error"))
}

// Text returns the contents of a string, nothing for any other value.
func Text(v jsonx.Value) []byte {
	if !v.IsString() {
		return nil
	}
	return v.Inside()
}

// Usage makes counts of an engine's. cached is a part of prompt, reasoning of completion.
func Usage(prompt, cached, completion, reasoning int) translate.Usage {
	u := translate.Usage{Prompt: prompt, Cached: cached, Completion: completion, Reasoning: reasoning, Known: true}
	u.Reconcile()
	return u
}
