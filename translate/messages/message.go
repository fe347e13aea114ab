package messages

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

var messageNames = jsonx.NewNames("role", "content")

// messages writes the messages: the leading system message, then one or more for each of the
// client's.
func (r *Request) messages(inPlace bool) *fault {
	v := r.members[memberMessages]
	switch {
	case !chat.Given(v):
		return chat.Missing("messages")
	case !v.IsArray():
		return chat.WrongType("messages", "an array of messages", v)
	}
	r.out = append(r.out, `"messages":[`...)
	if f := r.leading(v, inPlace); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if f := r.message(it.Index(), it.Value(), inPlace); f != nil {
			return f.At("messages", it.Index())
		}
	}
	if r.count == 0 {
		return chat.WrongValue("messages", "must hold at least one message")
	}
	r.out = append(r.out, ']')
	return nil
}

// leading writes the one system message that every chat template takes: the top-level text, and,
// unless they are to stay in place, the texts of the messages with role system.
func (r *Request) leading(messages jsonx.Value, inPlace bool) *fault {
	w := r.open("system")
	if v := r.members[memberSystem]; chat.Given(v) {
		if f := r.systemText(v, &w, "system"); f != nil {
			return f
		}
	}
	for it := messages.Iter(); !inPlace && it.Next(); {
		var m [2]jsonx.Value
		if chat.ReadFields(it.Value(), messageNames, m[:]) != nil || !m[0].EqualText("system") {
			continue // what is wrong is found in its turn
		}
		if f := r.systemText(m[1], &w, "content"); f != nil {
			return f.At("messages", it.Index())
		}
	}
	r.closeOrDrop(&w)
	return nil
}

// message writes what message i becomes.
func (r *Request) message(i int, v jsonx.Value, inPlace bool) *fault {
	if !v.IsObject() {
		return chat.WrongType("", "an object", v)
	}
	var m [2]jsonx.Value
	if f := chat.ReadFields(v, messageNames, m[:]); f != nil {
		return f
	}
	if f := chat.RequiredString("role", m[0]); f != nil {
		return f
	}
	content := m[1]
	r.begun = false
	switch {
	case m[0].EqualText("user"):
		return r.user(i, content)
	case m[0].EqualText("assistant"):
		return r.assistant(content)
	case !m[0].EqualText("system"):
		return chat.WrongValue("role", "must be user, assistant or system")
	case !inPlace:
		return nil // it is in the leading message
	}
	w := r.open("system")
	if f := r.systemText(content, &w, "content"); f != nil {
		return f
	}
	r.closeOrDrop(&w)
	return nil
}

// billing begins a block that Claude Code puts in front of its system prompt. It changes with every
// request and would cost the engine its prefix cache.
var billing = []byte("x-anthropic-billing-header:")

// systemText adds the text of a system prompt, a string or text blocks, to w.
func (r *Request) systemText(v jsonx.Value, w *content, name string) *fault {
	switch {
	case !chat.Given(v):
		return chat.Missing(name)
	case v.IsString():
		if text := v.Inside(); bytes.HasPrefix(text, billing) {
			_, rest, _ := bytes.Cut(text, []byte(`\n`))
			w.text(rest)
		} else {
			w.text(text)
		}
		return nil
	case !v.IsArray():
		return chat.WrongType(name, "a string or an array of text blocks", v)
	}
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		if f == nil && b.kind != blockText {
			f = chat.WrongValue("type", "must be text")
		}
		if f == nil {
			f = chat.RequiredString("text", b.fields[fieldText])
		}
		if f != nil {
			return f.At(name, it.Index())
		}
		if text := b.fields[fieldText].Inside(); !bytes.HasPrefix(text, billing) {
			w.text(text)
		}
	}
	return nil
}

// user writes the messages for a user's turn: first the results of tools, since most templates
// refuse anything between a call and its result, then what the user says, with the images of the
// results in front.
func (r *Request) user(i int, v jsonx.Value) *fault {
	if v.IsString() {
		w := r.open("user")
		w.text(v.Inside())
		r.close(&w)
		return nil
	}
	if !v.IsArray() {
		if !chat.Given(v) {
			return chat.Missing("content")
		}
		return chat.WrongType("content", "a string or an array of content blocks", v)
	}
	results := 0
	said := content{r: r, silent: true}
	shown := 0 // images in results
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
		case b.kind == blockToolResult:
			var n int
			n, f = r.result(&b)
			shown += n
			results++
		case b.kind == blockToolUse:
			f = chat.WrongValue("type", "must not be tool_use in a message of the user")
		default:
			f = b.visit(&said)
		}
		if f != nil {
			return f.At("content", it.Index())
		}
	}
	if said.texts+said.images+shown == 0 && results > 0 {
		return nil
	}
	w := r.open("user")
	w.parts, w.from = said.images+shown > 0, i
	if shown > 0 {
		r.put(v, &w, true)
	}
	r.put(v, &w, false)
	r.close(&w)
	return nil
}

// put adds the blocks of a user's turn, which have been found good, to w: the images of its
// results, or everything but the results.
func (r *Request) put(v jsonx.Value, w *content, results bool) {
	w.skipText = results
	for it := v.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		w.at, w.item = it.Index(), -1
		switch {
		case results != (b.kind == blockToolResult):
		case results:
			_ = b.visitContent(b.fields[fieldContent], w)
		default:
			_ = b.visit(w)
		}
	}
}

// result writes the tool message of a tool_result. It returns how many images the result has, which
// are for the message that follows.
func (r *Request) result(b *block) (images int, f *fault) {
	if f := requiredText("tool_use_id", b.fields[fieldToolUseID]); f != nil {
		return 0, f
	}
	failed, f := chat.OptionalBool("is_error", b.fields[fieldIsError], false)
	if f != nil {
		return 0, f
	}
	r.separate()
	r.out = append(append(r.out, `{"role":"tool","tool_call_id":`...), b.fields[fieldToolUseID].Raw()...)
	w := r.openContent()
	w.skipImages = true
	if failed {
		r.out = append(r.out, "Error: "...)
	}
	if f := b.visitContent(b.fields[fieldContent], &w); f != nil {
		return 0, f
	}
	r.close(&w)
	return w.images, nil
}

// assistant writes the message of an assistant's turn: its texts as one, and its tool calls.
func (r *Request) assistant(v jsonx.Value) *fault {
	w := r.open("assistant")
	switch {
	case !chat.Given(v):
		return chat.Missing("content")
	case v.IsString():
		w.text(v.Inside())
		r.begun = w.n > 0
		r.close(&w)
		return nil
	case !v.IsArray():
		return chat.WrongType("content", "a string or an array of content blocks", v)
	}
	toolCalls := 0
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
		case b.kind == blockText:
			f = b.visit(&w)
		case b.kind == blockToolUse:
			toolCalls++
		case b.kind != blockIgnored:
			f = chat.WrongValue("type", "is not a kind of block that an assistant's message has")
		}
		if f != nil {
			return f.At("content", it.Index())
		}
	}
	r.begun = w.n > 0 && toolCalls == 0
	if toolCalls == 0 {
		r.close(&w)
		return nil
	}
	r.out = append(r.out, `","tool_calls":[`...)
	n := 0
	for it := v.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		if b.kind != blockToolUse {
			continue
		}
		if n++; n > 1 {
			r.out = append(r.out, ',')
		}
		if f := r.writeToolCall(&b); f != nil {
			return f.At("content", it.Index())
		}
	}
	r.out = append(r.out, `]}`...)
	return nil
}

// writeToolCall writes a tool_use as a tool call. An input that engines can read goes into the
// string of the arguments as it stands.
func (r *Request) writeToolCall(b *block) *fault {
	if f := requiredText("id", b.fields[fieldID]); f != nil {
		return f
	}
	if f := requiredText("name", b.fields[fieldName]); f != nil {
		return f
	}
	input := b.fields[fieldInput]
	r.out = append(append(r.out, `{"id":`...), b.fields[fieldID].Raw()...)
	r.out = append(append(r.out, `,"type":"function","function":{"name":`...), b.fields[fieldName].Raw()...)
	r.out = append(r.out, `,"arguments":`...)
	switch {
	case !chat.Given(input):
		r.out = append(r.out, `"{}"`...)
	case input.IsObject():
		r.out = append(jsonx.AppendEscaped(append(r.out, '"'), input.Raw()), '"')
	default: // what the model once wrote, as the client had it from us
		r.out = r.arguments.Append(r.out, input)
	}
	r.out = append(r.out, `}}`...)
	return nil
}
