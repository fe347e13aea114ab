package messages

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// NativeSegments appends to segs the pieces of the request for an engine that speaks this dialect
// itself: the client's bytes, with these changes and no others. The model has the engine's name;
// the token limit and the effort are the checked ones; unknown words of thinking are the nearest; members that steer an engine go, and so do
// server tools, their servers, their blocks in the history and the billing block, which no engine
// of ours is to see. Inputs of tool calls that are no objects become objects, as engines refuse
// others. Sealed thinking is opened, or goes where it cannot be; so does what the client or the
// model's rules clear. body is one that Decode has accepted; the pieces borrow from it.
func NativeSegments(segs [][]byte, body []byte, n *chat.NativeRequest) [][]byte {
	root := parseAgain(body)
	var edits jsonx.Edits
	n.Edit(&edits, root)
	n.Limit(&edits, root, "max_tokens")
	if n.Effort != "none" { // of thinking that is disabled; output_config has no word for it
		n.Lower(&edits, root.Get("output_config").Get("effort"))
	}
	for _, name := range [...]string{"mcp_servers", "container"} { // places that a client would have the engine go to
		if v := root.Get(name); v.Exists() {
			edits.Delete(v)
		}
	}
	editHint(&edits, &thinkingTypes, root.Get("thinking").Get("type"))
	editHint(&edits, &thinkingDisplays, root.Get("thinking").Get("display"))
	leaveOut(&edits, root)
	editHistory(&edits, root, n)
	return edits.Segments(segs, body)
}

// editHint puts the nearest word in the place of one that no engine knows.
func editHint(edits *jsonx.Edits, list *chat.WordList, v jsonx.Value) {
	if !chat.Given(v) {
		return
	}
	if word, known := list.Read(v); !known {
		edits.Set(v, jsonx.AppendStringS(nil, word))
	}
}

// parseAgain returns the root of a body that Decode has accepted.
func parseAgain(body []byte) jsonx.Value {
	var d jsonx.Doc
	if d.Parse(body, jsonx.Options{MaxDepth: parseOptions.MaxDepth, MaxNodes: parseOptions.MaxNodes, Record: 7}) != nil {
		panic("BUG: a body that was decoded is not JSON")
	}
	return d.Root()
}

// leaveOut notes what engines are not to see of the tools and the system prompt, and wraps inputs.
func leaveOut(edits *jsonx.Edits, root jsonx.Value) {
	for it := root.Get("tools").Iter(); it.Next(); {
		kind := it.Value().Get("type")
		if !chat.Given(kind) || kind.EqualText("custom") {
			continue
		}
		if t := clientToolOf(kind); t != nil {
			edits.Set(it.Value(), t.definition(it.Value().Get("name")))
		} else {
			edits.Delete(it.Value())
		}
	}
	if system := root.Get("system"); system.IsArray() {
		for it := system.Iter(); it.Next(); {
			if text := it.Value().Get("text"); text.IsString() && bytes.HasPrefix(text.Inside(), billing) {
				edits.Delete(it.Value())
			}
		}
	}
	wrapInputs(edits, root.Get("messages"))
}

// wrapInputs makes objects of the inputs of tool calls that are none. Clients send such inputs back
// after a malformed tool call.
func wrapInputs(edits *jsonx.Edits, messages jsonx.Value) {
	var args chat.Arguments
	for it := messages.Iter(); it.Next(); {
		content := it.Value().Get("content")
		if !content.IsArray() {
			continue
		}
		for block := content.Iter(); block.Next(); {
			input := block.Value().Get("input")
			if block.Value().Get("type").EqualText("tool_use") && chat.Given(input) && !input.IsObject() {
				edits.Set(input, bytes.Clone(args.Object(input)))
			}
		}
	}
}
