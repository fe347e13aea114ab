package messages

import (
	"bytes"
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// countedMembers lists the members of a request on which the token count depends.
var countedMembers = [...]string{"messages", "system", "tools", "tool_choice", "thinking"}

// AppendCountSegments appends to segs the pieces of a count_tokens request for an engine with a token
// counter. The pieces are slices of body, which Decode must have accepted. Together they form the
// client's request with these changes:
//   - The model's name is the engine's.
//   - Members that do not affect the count are removed, because they might steer the engine.
//   - Server tools, their blocks in the history and the billing block are removed.
//   - A tool_choice without tools is removed, because engines reject it.
//   - A tool call's input that is not an object is replaced with an object, because engines would
//     reject it.
//   - Sealed thinking is opened, or removed if that fails.
func AppendCountSegments(segs [][]byte, body []byte, n *chat.CountRequest) [][]byte {
	root := reparse(body)
	hasTools := root.Get("tools").Index(0).Exists()
	var edits jsonx.Edits
	for it := root.Iter(); it.Next(); {
		switch {
		case it.Key().Equals("model"):
			edits.Set(it.Value(), jsonx.AppendStringS(nil, n.Served))
		case !isCounted(it.Key()) || !chat.IsGiven(it.Value()) || !hasTools && it.Key().Equals("tool_choice"):
			edits.Delete(it.Value())
		}
	}
	omitServerTools(&edits, root)
	editHistory(&edits, root, n)
	return edits.Segments(segs, body)
}

func isCounted(k jsonx.Key) bool {
	for _, name := range countedMembers {
		if k.Equals(name) {
			return true
		}
	}
	return false
}

// reparse returns the root of a body that Decode accepted.
func reparse(body []byte) jsonx.Value {
	var d jsonx.Doc
	if d.Parse(body, jsonx.Options{MaxDepth: parseOptions.MaxDepth, MaxNodes: parseOptions.MaxNodes, Record: 7}) != nil {
		panic("BUG: a body that was decoded is not JSON")
	}
	return d.Root()
}

func omitServerTools(edits *jsonx.Edits, root jsonx.Value) {
	for it := root.Get("tools").Iter(); it.Next(); {
		kind := it.Value().Get("type")
		if !chat.IsGiven(kind) || kind.EqualText("custom") {
			continue
		}
		if t := findClientTool(kind); t != nil {
			edits.Set(it.Value(), t.definition(it.Value().Get("name")))
		} else {
			edits.Delete(it.Value())
		}
	}
	if system := root.Get("system"); system.IsArray() {
		for it := system.Iter(); it.Next(); {
			if text := it.Value().Get("text"); text.IsString() && bytes.HasPrefix(text.RawContents(), billingHeader) {
				edits.Delete(it.Value())
			}
		}
	}
	wrapInputs(edits, root.Get("messages"))
}

// wrapInputs replaces inputs that are not objects. Clients send back such inputs after a malformed
// tool call.
func wrapInputs(edits *jsonx.Edits, messages jsonx.Value) {
	var args chat.ToolArguments
	for it := messages.Iter(); it.Next(); {
		content := it.Value().Get("content")
		if !content.IsArray() {
			continue
		}
		for block := content.Iter(); block.Next(); {
			input := block.Value().Get("input")
			if block.Value().Get("type").EqualText("tool_use") && chat.IsGiven(input) && !input.IsObject() {
				edits.Set(input, bytes.Clone(args.Object(input)))
			}
		}
	}
}

// ReadCount reads the response to a count_tokens request.
func ReadCount(answer []byte) (tokens int, ok bool) {
	var d jsonx.Doc
	if d.Parse(answer, jsonx.Options{Record: 1}) != nil {
		return 0, false
	}
	n, ok := d.Root().Get("input_tokens").Int()
	if !ok || n < 0 || n > maxCount {
		return 0, false
	}
	return int(n), true
}

// maxCount is the highest accepted count. No prompt has that many tokens.
const maxCount = 1 << 31

// AppendCount appends the response to a count_tokens request.
func AppendCount(dst []byte, tokens int) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, int64(tokens), 10)
	return append(dst, '}')
}
