package chat

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// This file is what the readers of other dialects share: an engine that is let speak Messages or
// Responses itself is read as if it had spoken chat, so that whatever comes behind (the writers,
// the counts, the end of a stream) is the same for all.

// Native says what of a request in another dialect is changed for an engine that speaks that
// dialect itself.
type Native struct {
	Served    string    // the name that the engine knows the model by
	Stream    bool      // ask for events even if the client wants one answer
	MaxTokens int       // the checked token limit, or the model's own; -1: none
	Bound     int       // the model's own, that other names of it are lowered to; 0: none
	Effort    string    // the checked effort; empty: not given
	Refuse    *Refusals // members that steer an engine; the request goes without them
}

// Edit notes the changes that are the same in every dialect: model and stream, and the members that
// steer an engine.
func (n *Native) Edit(edits *jsonx.Edits, root jsonx.Value) {
	edits.Set(root.Get("model"), jsonx.AppendStringS(nil, n.Served))
	for it := root.Iter(); it.Next(); {
		if _, found := n.Refuse.find(it.Key()); found {
			edits.Delete(it.Value())
		} else if pattern := n.Refuse.findInside(it.Key(), it.Value()); pattern != "" {
			edits.Delete(it.Value())
		}
	}
	if !n.Stream {
		return
	}
	if v := root.Get("stream"); v.Exists() {
		edits.Set(v, textTrue)
	} else {
		edits.Add(root, []byte(`"stream":true`))
	}
}

// Limit notes that the member name of root, the token limit, is the checked one, in digits, and
// lowers its other names. own is the one that the dialect has for it.
func (n *Native) Limit(edits *jsonx.Edits, root jsonx.Value, own string) {
	if n.Bound > 0 {
		overBound(root, n.Bound, "", func(name string, v jsonx.Value) {
			if name != own {
				edits.Set(v, strconv.AppendInt(nil, int64(n.Bound), 10))
			}
		})
	}
	if n.MaxTokens < 0 {
		return
	}
	digits := strconv.AppendInt(nil, int64(n.MaxTokens), 10)
	if v := root.Get(own); v.Exists() {
		edits.Set(v, digits)
	} else {
		edits.Add(root, append([]byte(`"`+own+`":`), digits...))
	}
}

// Lower notes that v, an effort as the client gave it, is the checked one. A word of the dialect's
// own stays where it means the checked one: max is xhigh, minimal is low.
func (n *Native) Lower(edits *jsonx.Edits, v jsonx.Value) {
	switch {
	case !v.IsString(), n.Effort == "", v.EqualText(n.Effort):
	case v.EqualText(effortMax) && n.Effort == "xhigh", v.EqualText(effortMinimal) && n.Effort == "low":
	default:
		edits.Set(v, jsonx.AppendStringS(nil, n.Effort))
	}
}

// The members of a delta for AppendTextChunk.
const (
	MemberContent   = "content"
	MemberRefusal   = "refusal"
	MemberReasoning = "reasoning_content"
)

const (
	chunkStart = `{"choices":[{"index":0,"delta":{`
	chunkEnd   = `}}]}`
)

// AppendRoleChunk appends the chunk that a stream begins with, and the counts if they are known.
func AppendRoleChunk(dst []byte, u translate.Usage) []byte {
	dst = append(dst, chunkStart+`"role":"assistant"}}]`...)
	return append(appendUsageMember(dst, u), '}')
}

// AppendTextChunk appends a chunk with a piece of text. text is the contents of a JSON string.
func AppendTextChunk(dst []byte, member string, text []byte) []byte {
	dst = append(append(append(dst, chunkStart+`"`...), member...), `":"`...)
	return append(append(dst, text...), `"`+chunkEnd...)
}

// AppendToolCallChunk appends a chunk with a piece of the tool call of that index. id and name come
// once, in its first piece; args continues the arguments. All are contents of JSON strings and may
// be empty.
func AppendToolCallChunk(dst []byte, index int, id, name, args []byte) []byte {
	dst = strconv.AppendInt(append(dst, chunkStart+`"tool_calls":[{"index":`...), int64(index), 10)
	if len(id) > 0 {
		dst = append(append(append(dst, `,"id":"`...), id...), '"')
	}
	dst = append(dst, `,"function":{`...)
	if len(name) > 0 {
		dst = append(append(append(dst, `"name":"`...), name...), `",`...)
	}
	return append(append(append(dst, `"arguments":"`...), args...), `"}}]`+chunkEnd...)
}

// AppendEndChunk appends the chunk that ends a choice, with the counts if they are known. stop is
// the stop sequence that was met, the contents of a JSON string, or nothing.
func AppendEndChunk(dst []byte, finish string, stop []byte, u translate.Usage) []byte {
	dst = append(dst, chunkStart+`}`...)
	dst = appendFinish(dst, finish, stop)
	return append(appendUsageMember(append(dst, `}]`...), u), '}')
}

func appendFinish(dst []byte, finish string, stop []byte) []byte {
	dst = append(append(append(dst, `,"finish_reason":"`...), finish...), '"')
	if len(stop) > 0 {
		dst = append(append(append(dst, `,"stop_reason":"`...), stop...), '"')
	}
	return dst
}

func appendUsageMember(dst []byte, u translate.Usage) []byte {
	if !u.Known {
		return dst
	}
	return appendUsage(append(dst, `,"usage":`...), u)
}

// CompletionBuilder writes a whole completion. The texts are contents of JSON strings. The zero
// value is ready.
type CompletionBuilder struct {
	Content, Refusal, Reasoning []byte
	ToolCalls                   int
	toolCalls                   []byte
}

// AddToolCall adds a tool call.
func (w *CompletionBuilder) AddToolCall(id, name, args []byte) {
	if w.ToolCalls++; w.ToolCalls > 1 {
		w.toolCalls = append(w.toolCalls, ',')
	}
	w.toolCalls = append(append(w.toolCalls, `{"id":"`...), id...)
	w.toolCalls = append(append(w.toolCalls, `","type":"function","function":{"name":"`...), name...)
	w.toolCalls = append(append(w.toolCalls, `","arguments":"`...), args...)
	w.toolCalls = append(w.toolCalls, `"}}`...)
}

// Append appends the completion.
func (w *CompletionBuilder) Append(dst []byte, finish string, stop []byte, u translate.Usage) []byte {
	dst = append(dst, `{"choices":[{"index":0,"message":{"role":"assistant","content":"`...)
	dst = append(append(dst, w.Content...), '"')
	for _, t := range [...]struct {
		name string
		text []byte
	}{{MemberRefusal, w.Refusal}, {MemberReasoning, w.Reasoning}} {
		if len(t.text) > 0 {
			dst = append(append(append(dst, `,"`...), t.name...), `":"`...)
			dst = append(append(dst, t.text...), '"')
		}
	}
	if w.ToolCalls > 0 {
		dst = append(append(append(dst, `,"tool_calls":[`...), w.toolCalls...), ']')
	}
	dst = append(dst, '}')
	dst = appendFinish(dst, finish, stop)
	return append(appendUsageMember(append(dst, `}]`...), u), '}')
}

// The errors of native answers that break the form of any JSON dialect.
var (
	errNativeForm   = &translate.BadAnswer{Reason: "an event that is no JSON object"}
	errNativeMember = &translate.BadAnswer{Reason: translate.DuplicateMember}
)

// ParseNative parses an event, or a whole answer, of an engine in another dialect. The error is a
// *BadAnswer.
func ParseNative(doc *jsonx.Doc, data []byte, record int) error {
	if doc.Parse(data, jsonx.Options{Record: record}) != nil || !doc.Root().IsObject() {
		return errNativeForm
	}
	return nil
}

// NativeMembers finds the members of those names in v. The error is a *BadAnswer.
func NativeMembers(v jsonx.Value, names *jsonx.Names, members []jsonx.Value) error {
	if names.Fields(v, members) != nil {
		return errNativeMember
	}
	return nil
}

// NativeText returns the contents of a string, nothing for any other value.
func NativeText(v jsonx.Value) []byte {
	if !v.IsString() {
		return nil
	}
	return v.Inside()
}

// NativeUsage makes counts of a native answer. cached is a part of prompt, reasoning of completion.
func NativeUsage(prompt, cached, completion, reasoning int) translate.Usage {
	u := translate.Usage{Prompt: prompt, Cached: cached, Completion: completion, Reasoning: reasoning, Known: true}
	u.Reconcile()
	return u
}
