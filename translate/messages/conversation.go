package messages

import (
	"bytes"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

var messageMemberNames = jsonx.NewNameIndex("role", "content")

type conversationWriter struct {
	w          *dialects.ChatWriter
	images     *dialects.ImagePositions
	dropped    *dialects.DroppedParts
	arguments  *chat.ToolArguments
	history    thinkingHistory
	inPlace    bool // system messages stay at their position
	hasContent bool // at least part of one message has been written
	hasEmptied bool
	// endsWithText is true if the last message read is assistant text without tool calls.
	endsWithText bool
}

// write writes the leading system message, then one or more messages for each client message.
func (c *conversationWriter) write(v, system jsonx.Value) *requestFault {
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError("messages")
	case !v.IsArray():
		return chat.WrongTypeError("messages", "an array of messages", v)
	case !v.Index(0).Exists():
		return noMessagesError()
	}
	c.w.WriteString(`"messages":[`)
	if f := c.writeLeadingSystem(v, system); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if f := c.writeMessage(it.Index(), it.Value()); f != nil {
			return f.InElement("messages", it.Index())
		}
	}
	if c.w.Messages == 0 { // for example, a system message without text
		return noMessagesError()
	}
	if c.hasEmptied && !c.hasContent {
		return chat.WrongValueError("messages", "must hold more than blocks that only their vendor's servers read")
	}
	c.w.WriteString(`]`)
	return nil
}

func noMessagesError() *requestFault {
	return chat.WrongValueError("messages", "must hold at least one message")
}

func (c *conversationWriter) beginMessage(role string) contentWriter {
	w := contentWriter{w: c.w, images: c.images, start: len(c.w.Out), dropped: c.dropped}
	c.w.BeginMessage(role)
	w.beginContent()
	return w
}

// writeLeadingSystem writes the leading system message, which every chat template accepts. It
// contains the top-level system text. Unless inPlace is true, it also contains the texts of all
// system messages.
func (c *conversationWriter) writeLeadingSystem(messages, system jsonx.Value) *requestFault {
	w := c.beginMessage("system")
	if chat.IsGiven(system) {
		if f := writeSystemText(system, &w, "system"); f != nil {
			return f
		}
	}
	for it := messages.Iter(); !c.inPlace && it.Next(); {
		var m [2]jsonx.Value
		if chat.ReadFields(it.Value(), messageMemberNames, m[:]) != nil || !m[0].EqualText("system") {
			continue // writeMessage reports the error
		}
		if f := writeSystemText(m[1], &w, "content"); f != nil {
			return f.InElement("messages", it.Index())
		}
	}
	w.endOrDrop()
	return nil
}

func (c *conversationWriter) writeMessage(i int, v jsonx.Value) *requestFault {
	var m [2]jsonx.Value
	f := chat.ReadElement("an object", v, messageMemberNames, m[:])
	if f == nil {
		f = chat.CheckRequiredString("role", m[0])
	}
	if f != nil {
		return f
	}
	content := m[1]
	c.endsWithText = false
	switch {
	case m[0].EqualText("user"):
		c.history.recordUser(content)
		return c.writeUser(i, content)
	case m[0].EqualText("assistant"):
		return c.writeAssistant(i, content)
	case !m[0].EqualText("system"):
		return chat.WrongValueError("role", "must be user, assistant or system")
	case !c.inPlace:
		return nil // the leading message contains its text
	}
	w := c.beginMessage("system")
	if f := writeSystemText(content, &w, "content"); f != nil {
		return f
	}
	w.endOrDrop()
	return nil
}

// billingHeader is the start of a block that Claude Code puts before its system prompt. The edge
// removes this block. The block changes with every request, so the engine would never find the
// prompt in its prefix cache.
var billingHeader = []byte("x-anthropic-billing-header:")

// writeSystemText writes a system text, which is a string or a list of text blocks.
func writeSystemText(v jsonx.Value, w *contentWriter, name string) *requestFault {
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError(name)
	case v.IsString():
		if text := v.RawContents(); bytes.HasPrefix(text, billingHeader) {
			_, rest, _ := bytes.Cut(text, []byte(`\n`))
			w.writeText(rest)
		} else {
			w.writeText(text)
		}
		return nil
	case !v.IsArray():
		return chat.WrongTypeError(name, "a string or an array of text blocks", v)
	}
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		if f == nil && b.kind != blockText {
			f = chat.WrongValueError("type", "must be text")
		}
		if f == nil {
			f = chat.CheckRequiredString("text", b.fields[fieldTextIndex])
		}
		if f != nil {
			return f.InElement(name, it.Index())
		}
		if text := b.fields[fieldTextIndex].RawContents(); !bytes.HasPrefix(text, billingHeader) {
			w.writeText(text)
		}
	}
	return nil
}

// writeUser writes the tool results first, because most templates reject other messages between a
// call and its result. The images in the results follow, and then the other blocks of the message.
func (c *conversationWriter) writeUser(i int, v jsonx.Value) *requestFault {
	if v.IsString() {
		w := c.beginMessage("user")
		w.writeText(v.RawContents())
		w.endContent()
		c.hasContent = true
		return nil
	}
	if !v.IsArray() {
		if !chat.IsGiven(v) {
			return chat.MissingError("content")
		}
		return chat.WrongTypeError("content", "a string or an array of content blocks", v)
	}
	results := 0
	said := contentWriter{dropped: c.dropped}
	shown := 0 // number of images in results
	for it := v.Iter(); it.Next(); {
		b, f := readBlock(it.Value())
		switch {
		case f != nil:
		case b.kind == blockToolResult:
			var n int
			n, f = c.writeToolResult(&b)
			shown += n
			results++
		case b.kind == blockToolUse:
			f = chat.WrongValueError("type", "must not be tool_use in a message of the user")
		default:
			f = b.visit(&said)
		}
		if f != nil {
			return f.InElement("content", it.Index())
		}
	}
	c.recordContent(&said, results)
	if said.textsSeen+said.imagesSeen+shown == 0 && results > 0 {
		return nil
	}
	w := c.beginMessage("user")
	w.isParts, w.messageIndex = said.imagesSeen+shown > 0, i
	if shown > 0 {
		writeBlocks(v, &w, true)
	}
	writeBlocks(v, &w, false)
	w.endContent()
	return nil
}

// recordContent records whether a message has any content left after blocks were omitted. more is
// the number of tool calls or results that are written separately.
func (c *conversationWriter) recordContent(w *contentWriter, more int) {
	stays := w.textsSeen+w.imagesSeen+more > 0 || w.omittedCount == 0
	c.hasContent, c.hasEmptied = c.hasContent || stays, c.hasEmptied || !stays
}

// writeBlocks passes the blocks of a user message to w. If results is true, it passes only the
// images in tool results. Otherwise it passes everything except the tool results.
func writeBlocks(v jsonx.Value, w *contentWriter, results bool) {
	w.skipText = results
	for it := v.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		w.blockIndex, w.nestedIndex = it.Index(), -1
		switch {
		case results != (b.kind == blockToolResult):
		case results:
			_ = b.visitContent(b.fields[fieldContentIndex], w)
		default:
			_ = b.visit(w)
		}
	}
}

// writeToolResult writes a tool result. It returns the number of images in the result, which belong
// in the next message.
func (c *conversationWriter) writeToolResult(b *contentBlock) (images int, f *requestFault) {
	if f := requiredText("tool_use_id", b.fields[fieldToolUseIDIndex]); f != nil {
		return 0, f
	}
	failed, f := chat.ReadOptionalBool("is_error", b.fields[fieldIsErrorIndex], false)
	if f != nil {
		return 0, f
	}
	c.w.BeginMessage("tool")
	c.w.WriteRaw(`,"tool_call_id":`, b.fields[fieldToolUseIDIndex])
	w := contentWriter{w: c.w, skipImages: true, dropped: c.dropped}
	w.beginContent()
	if failed {
		c.w.WriteString("Error: ")
	}
	if f := b.visitContent(b.fields[fieldContentIndex], &w); f != nil {
		return 0, f
	}
	w.endContent()
	return w.imagesSeen, nil
}

func (c *conversationWriter) writeAssistant(i int, v jsonx.Value) *requestFault {
	w := c.beginMessage("assistant")
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError("content")
	case v.IsString():
		w.writeText(v.RawContents())
		c.endsWithText, c.hasContent = w.n > 0, true
		w.endContent()
		return nil
	case !v.IsArray():
		return chat.WrongTypeError("content", "a string or an array of content blocks", v)
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
		case c.history.keepsBlock(i, &b):
			thoughts++
		case b.kind >= blockThinking:
			c.history.recordCleared(&b)
		default:
			f = chat.WrongValueError("type", "is not a kind of block that an assistant's message has")
		}
		if f != nil {
			return f.InElement("content", it.Index())
		}
	}
	c.endsWithText = w.n > 0 && toolCalls == 0
	c.recordContent(&w, toolCalls)
	c.w.WriteString(`"`)
	if thoughts > 0 {
		c.writeThinking(v)
	}
	if toolCalls == 0 {
		c.w.WriteString(`}`)
		return nil
	}
	c.w.WriteString(`,"tool_calls":[`)
	n := 0
	for it := v.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		if b.kind != blockToolUse {
			continue
		}
		if f := c.writeToolCall(n, &b); f != nil {
			return f.InElement("content", it.Index())
		}
		n++
	}
	c.w.WriteString(`]}`)
	return nil
}

// writeThinking writes the thinking of a message. It separates consecutive blocks with a blank
// line. If there is text between two blocks, it writes no blank line, so that the model receives
// its earlier answer unchanged.
func (c *conversationWriter) writeThinking(blocks jsonx.Value) {
	start := len(c.w.Out)
	c.w.WriteString(`,"` + chat.NameReasoningContent + `":"`)
	empty := len(c.w.Out)
	run := empty // offset at which the current run of consecutive thinking blocks starts
	for it := blocks.Iter(); it.Next(); {
		b, _ := readBlock(it.Value())
		before := len(c.w.Out)
		if b.kind != blockThinking && b.kind != blockRedactedThinking {
			run = before
			continue
		}
		if before > run {
			c.w.WriteString(`\n\n`)
		}
		begin := len(c.w.Out)
		if c.w.Out = c.history.appendText(c.w.Out, &b); len(c.w.Out) == begin {
			c.w.Out = c.w.Out[:before]
		}
	}
	if len(c.w.Out) == empty {
		c.w.Out = c.w.Out[:start]
		return
	}
	c.w.WriteString(`"`)
}

// writeToolCall writes a tool call. If engines can read the input, it is copied unchanged into the
// arguments string.
func (c *conversationWriter) writeToolCall(n int, b *contentBlock) *requestFault {
	if f := requiredText("id", b.fields[fieldIDIndex]); f != nil {
		return f
	}
	if f := requiredText("name", b.fields[fieldNameIndex]); f != nil {
		return f
	}
	out := dialects.AppendToolCallStart(c.w.Out, n, b.fields[fieldIDIndex])
	out = append(append(out, b.fields[fieldNameIndex].Raw()...), `,"arguments":`...)
	switch input := b.fields[fieldInputIndex]; {
	case !chat.IsGiven(input):
		out = append(out, `"{}"`...)
	case input.IsObject():
		out = append(jsonx.AppendEscaped(append(out, '"'), input.Raw()), '"')
	default: // malformed arguments that the edge sent to the client in an earlier answer
		out = c.arguments.AppendArguments(out, input)
	}
	c.w.Out = out
	c.w.WriteString(`}}`)
	return nil
}
