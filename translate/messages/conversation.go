package messages

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

var messageNames = jsonx.NewNames("role", "content")

type conversation struct {
	w         *dialects.ChatWriter
	images    *dialects.Images
	dropped   *dialects.Dropped
	arguments *chat.Arguments
	past      past
	inPlace   bool // system messages stay at their position
	kept      bool // at least part of one message has been written
	emptied   bool
	// begun is true if the last message read is assistant text without tool calls.
	begun bool
}

// write writes the leading system message, then one or more messages for each client message.
func (c *conversation) write(v, system jsonx.Value) *fault {
	switch {
	case !chat.Given(v):
		return chat.Missing("messages")
	case !v.IsArray():
		return chat.WrongType("messages", "an array of messages", v)
	}
	c.w.String(`"messages":[`)
	if f := c.leading(v, system); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if f := c.message(it.Index(), it.Value()); f != nil {
			return f.At("messages", it.Index())
		}
	}
	if c.w.Messages == 0 {
		return chat.WrongValue("messages", "must hold at least one message")
	}
	if c.emptied && !c.kept {
		return chat.WrongValue("messages", "must hold more than blocks that only their vendor's servers read")
	}
	c.w.String(`]`)
	return nil
}

func (c *conversation) open(role string) content {
	w := content{w: c.w, images: c.images, start: len(c.w.Out), dropped: c.dropped}
	c.w.Message(role)
	w.begin()
	return w
}

// leading writes the leading system message, which every chat template accepts. It contains the
// top-level system text. Unless inPlace is true, it also contains the texts of all system messages.
func (c *conversation) leading(messages, system jsonx.Value) *fault {
	w := c.open("system")
	if chat.Given(system) {
		if f := systemText(system, &w, "system"); f != nil {
			return f
		}
	}
	for it := messages.Iter(); !c.inPlace && it.Next(); {
		var m [2]jsonx.Value
		if chat.ReadFields(it.Value(), messageNames, m[:]) != nil || !m[0].EqualText("system") {
			continue // message reports the error
		}
		if f := systemText(m[1], &w, "content"); f != nil {
			return f.At("messages", it.Index())
		}
	}
	w.endOrDrop()
	return nil
}

func (c *conversation) message(i int, v jsonx.Value) *fault {
	var m [2]jsonx.Value
	f := chat.ReadElement("an object", v, messageNames, m[:])
	if f == nil {
		f = chat.RequiredString("role", m[0])
	}
	if f != nil {
		return f
	}
	content := m[1]
	c.begun = false
	switch {
	case m[0].EqualText("user"):
		c.past.user(content)
		return c.user(i, content)
	case m[0].EqualText("assistant"):
		return c.assistant(i, content)
	case !m[0].EqualText("system"):
		return chat.WrongValue("role", "must be user, assistant or system")
	case !c.inPlace:
		return nil // its text is in the leading message
	}
	w := c.open("system")
	if f := systemText(content, &w, "content"); f != nil {
		return f
	}
	w.endOrDrop()
	return nil
}

// billing is the start of a block that Claude Code puts before its system prompt. The edge removes
// this block, because it changes with every request, and the engine could not use its prefix cache.
var billing = []byte("x-anthropic-billing-header:")

// systemText writes a system text, which is a string or a list of text blocks.
func systemText(v jsonx.Value, w *content, name string) *fault {
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

// user writes the tool results first, because most templates reject other messages between a call
// and its result. The images in the results follow, and then the other blocks of the message.
func (c *conversation) user(i int, v jsonx.Value) *fault {
	if v.IsString() {
		w := c.open("user")
		w.text(v.Inside())
		w.end()
		c.kept = true
		return nil
	}
	if !v.IsArray() {
		if !chat.Given(v) {
			return chat.Missing("content")
		}
		return chat.WrongType("content", "a string or an array of content blocks", v)
	}
	results := 0
	said := content{dropped: c.dropped}
	shown := 0 // number of images in results
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
		case b.kind == blockToolResult:
			var n int
			n, f = c.result(&b)
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
	c.note(&said, results)
	if said.textsSeen+said.imagesSeen+shown == 0 && results > 0 {
		return nil
	}
	w := c.open("user")
	w.parts, w.from = said.imagesSeen+shown > 0, i
	if shown > 0 {
		putBlocks(v, &w, true)
	}
	putBlocks(v, &w, false)
	w.end()
	return nil
}

// note records whether a message has any content left after blocks were omitted. more is the number
// of tool calls or results that are written separately.
func (c *conversation) note(w *content, more int) {
	stays := w.textsSeen+w.imagesSeen+more > 0 || w.leftOut == 0
	c.kept, c.emptied = c.kept || stays, c.emptied || !stays
}

// If results is true, putBlocks adds only the images in a turn's tool results. Otherwise it adds
// everything except the results.
func putBlocks(v jsonx.Value, w *content, results bool) {
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

// result writes a tool result. It returns the number of images in the result, which belong in the
// next message.
func (c *conversation) result(b *block) (images int, f *fault) {
	if f := requiredText("tool_use_id", b.fields[fieldToolUseID]); f != nil {
		return 0, f
	}
	failed, f := chat.OptionalBool("is_error", b.fields[fieldIsError], false)
	if f != nil {
		return 0, f
	}
	c.w.Message("tool")
	c.w.Raw(`,"tool_call_id":`, b.fields[fieldToolUseID])
	w := content{w: c.w, skipImages: true, dropped: c.dropped}
	w.begin()
	if failed {
		c.w.String("Error: ")
	}
	if f := b.visitContent(b.fields[fieldContent], &w); f != nil {
		return 0, f
	}
	w.end()
	return w.imagesSeen, nil
}

func (c *conversation) assistant(i int, v jsonx.Value) *fault {
	w := c.open("assistant")
	switch {
	case !chat.Given(v):
		return chat.Missing("content")
	case v.IsString():
		w.text(v.Inside())
		c.begun, c.kept = w.n > 0, true
		w.end()
		return nil
	case !v.IsArray():
		return chat.WrongType("content", "a string or an array of content blocks", v)
	}
	toolCalls, thoughts := 0, 0
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
		case b.kind == blockText, b.kind == blockCompaction, b.kind == blockIgnored:
			f = b.visit(&w)
		case b.kind == blockToolUse:
			toolCalls++
		case c.past.has(i, &b):
			thoughts++
		case b.kind >= blockThinking:
			c.past.clear(&b)
		default:
			f = chat.WrongValue("type", "is not a kind of block that an assistant's message has")
		}
		if f != nil {
			return f.At("content", it.Index())
		}
	}
	c.begun = w.n > 0 && toolCalls == 0
	c.note(&w, toolCalls)
	c.w.String(`"`)
	if thoughts > 0 {
		c.thinking(v)
	}
	if toolCalls == 0 {
		c.w.String(`}`)
		return nil
	}
	c.w.String(`,"tool_calls":[`)
	n := 0
	for it := v.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		if b.kind != blockToolUse {
			continue
		}
		if f := c.writeToolCall(n, &b); f != nil {
			return f.At("content", it.Index())
		}
		n++
	}
	c.w.String(`]}`)
	return nil
}

// thinking writes the thinking of a message. It separates consecutive blocks with a blank line. If
// there is text between two blocks, it writes no blank line, so that the model receives its earlier
// answer unchanged.
func (c *conversation) thinking(blocks jsonx.Value) {
	start := len(c.w.Out)
	c.w.String(`,"` + chat.NameReasoningContent + `":"`)
	empty := len(c.w.Out)
	run := empty // text offset of the directly preceding blocks
	for it := blocks.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		before := len(c.w.Out)
		if b.kind != blockThinking && b.kind != blockRedactedThinking {
			run = before
			continue
		}
		if before > run {
			c.w.String(`\n\n`)
		}
		begin := len(c.w.Out)
		if c.w.Out = c.past.appendText(c.w.Out, &b); len(c.w.Out) == begin {
			c.w.Out = c.w.Out[:before]
		}
	}
	if len(c.w.Out) == empty {
		c.w.Out = c.w.Out[:start]
		return
	}
	c.w.String(`"`)
}

// writeToolCall writes a tool call. If engines can read the input, it is copied unchanged into the
// arguments string.
func (c *conversation) writeToolCall(n int, b *block) *fault {
	if f := requiredText("id", b.fields[fieldID]); f != nil {
		return f
	}
	if f := requiredText("name", b.fields[fieldName]); f != nil {
		return f
	}
	out := dialects.AppendToolCall(c.w.Out, n, b.fields[fieldID])
	out = append(append(out, b.fields[fieldName].Raw()...), `,"arguments":`...)
	switch input := b.fields[fieldInput]; {
	case !chat.Given(input):
		out = append(out, `"{}"`...)
	case input.IsObject():
		out = append(jsonx.AppendEscaped(append(out, '"'), input.Raw()), '"')
	default: // malformed arguments that the edge sent to the client in an earlier answer
		out = c.arguments.Append(out, input)
	}
	c.w.Out = out
	c.w.String(`}}`)
	return nil
}
