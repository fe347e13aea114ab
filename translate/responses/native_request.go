package responses

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// NativeSegments appends to segs the pieces of the request for an engine that speaks this dialect
// itself: the client's bytes, with these changes and no others. The model has the engine's name;
// the token limit and the effort are the checked ones; unknown words of hints are the nearest; store
// is false; members that steer an
// engine go, and so do prompt_cache_key, include (engines seal no reasoning),
// previous_input_messages (a second, unchecked conversation) and the tools that run elsewhere or
// that tool_choice does not allow. Tools of a namespace become functions. Arguments of tool calls
// that are no JSON object become one, as engines refuse others. body is one that Decode has
// accepted; the pieces borrow from it.
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
	for _, h := range hints {
		object := root.Get(memberNames[h.member])
		if word, known := h.read(object); !known {
			edits.Set(object.Get(h.name), jsonx.AppendStringS(nil, word))
		}
	}
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
	var t tools
	if t.decode(root.Get("tools")) != nil || t.checkChoice(root.Get("tool_choice")) != nil {
		panic("BUG: tools that were decoded are not right")
	}
	t.edit(&edits, root.Get("tools"))
	editHistory(&edits, root.Get("input"), &t.shown)
	editReasoning(&edits, root.Get("input"), n)
	return edits.Segments(segs, body)
}

// edit notes the changes to the list of tools, which v is, and to tool_choice: tools that the
// engine is not shown go, and those of a namespace become functions.
func (t *tools) edit(edits *jsonx.Edits, v jsonx.Value) {
	entry := 0
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		if readTool(x)[toolType].EqualText("function") {
			if !t.shows(entry) {
				edits.Delete(x)
			}
			entry++
			continue
		}
		var with []byte
		for ; entry < len(t.entries) && t.entries[entry].element == it.Index(); entry++ {
			if t.shows(entry) {
				with = appendJoined(with, 0, ",", append(t.entries[entry].appendFunction([]byte(`{"type":"function",`)), '}'))
			}
		}
		if with != nil {
			edits.Set(x, with)
		} else {
			edits.Delete(x)
		}
	}
	switch choice := t.choice; {
	case t.limited:
		edits.Set(choice, modeOf(choice))
	case choice.IsObject():
		name := t.shown.append(nil, choice.Get("namespace"), choice.Get("name"), choice.Get("type").EqualText("custom"))
		edits.Set(choice, append(append([]byte(`{"type":"function","name":`), name...), '}'))
	}
}

// editHistory notes the changes to the history: items that are left out go, names of tools are
// those that the engine knows, and arguments that are no JSON object become one.
func editHistory(edits *jsonx.Edits, input jsonx.Value, names *shownNames) {
	if !input.IsArray() {
		return
	}
	var (
		args    chat.Arguments
		foreign map[string]bool
	)
	for it := input.Iter(); it.Next(); {
		i := readItem(it.Value())
		if i.kind == itemForeign {
			foreign = i.noteForeign(foreign)
		}
		if i.kind == itemForeign || i.answers(foreign) {
			edits.Delete(it.Value())
			continue
		}
		if i.kind == itemOutput && i.custom {
			edits.Set(i.m[fieldType], []byte(`"function_call_output"`))
		}
		if i.kind != itemToolCall {
			continue
		}
		space := i.m[fieldNamespace]
		if space.Exists() {
			edits.Delete(space)
		}
		if space.Exists() || i.custom {
			edits.Set(i.m[fieldName], names.append(nil, space, i.m[fieldName], i.custom))
		}
		if i.custom {
			edits.Set(i.m[fieldType], []byte(`"function_call"`))
			edits.Delete(i.m[fieldInput])
			edits.Add(it.Value(), i.appendArguments([]byte(`"arguments":`), &args))
			continue
		}
		v := i.m[fieldArguments]
		if with := args.Append(nil, v); !bytes.Equal(with, v.Raw()) {
			edits.Set(v, with)
		}
	}
}
