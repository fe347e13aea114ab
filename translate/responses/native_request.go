package responses

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// NativeSegments appends to segs the pieces of the request for an engine that speaks this dialect
// itself: the client's bytes, with these changes and no others. The model has the engine's name;
// the token limit and the effort are the checked ones; store is false; members that steer an engine
// go, and so do prompt_cache_key, include (it asks for reasoning, which is not shown),
// previous_input_messages (a second, unchecked conversation) and the tools that are
// no functions or that tool_choice does not allow. Arguments of tool calls that are no JSON object
// become one, as engines refuse others. body is one that Decode has accepted; the pieces borrow
// from it.
func NativeSegments(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte {
	var d jsonx.Doc
	if d.Parse(body, parseOptions) != nil {
		panic("BUG: a body that was decoded is not JSON")
	}
	root := d.Root()
	var edits jsonx.Edits
	n.Edit(&edits, root)
	n.Limit(&edits, root, "max_output_tokens")
	n.Lower(&edits, root.Get("reasoning").Get("effort"))
	if v := root.Get("store"); v.Exists() {
		edits.Set(v, []byte("false"))
	} else {
		edits.Add(root, []byte(`"store":false`))
	}
	for _, name := range [...]string{"prompt_cache_key", "include", "previous_input_messages"} {
		if v := root.Get(name); v.Exists() {
			edits.Delete(v)
		}
	}
	choice := root.Get("tool_choice")
	limited := choice.Get("type").EqualText("allowed_tools")
	for it := root.Get("tools").Iter(); it.Next(); {
		t := it.Value()
		if !t.Get("type").EqualText("function") || limited && !listed(choice.Get("tools"), t.Get("name")) {
			edits.Delete(t)
		}
	}
	if limited {
		edits.Set(choice, modeOf(choice))
	}
	wrapArguments(&edits, root.Get("input"))
	return edits.Segments(segs, body)
}

// wrapArguments makes objects of the arguments of tool calls that hold none.
func wrapArguments(edits *jsonx.Edits, input jsonx.Value) {
	if !input.IsArray() {
		return
	}
	var args chat.Arguments
	for it := input.Iter(); it.Next(); {
		v := it.Value().Get("arguments")
		if !it.Value().Get("type").EqualText("function_call") || !v.IsString() {
			continue
		}
		if with := args.Append(nil, v); !bytes.Equal(with, v.Raw()) {
			edits.Set(v, with)
		}
	}
}

// listed reports whether a list of tools has one of that name.
func listed(tools, name jsonx.Value) bool {
	want := string(name.AppendText(nil))
	for it := tools.Iter(); it.Next(); {
		if it.Value().Get("name").EqualText(want) {
			return true
		}
	}
	return false
}
