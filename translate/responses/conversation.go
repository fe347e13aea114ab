package responses

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// conversationWriter writes the messages of the chat request. The output for an item depends only
// on that item and on earlier items. If a conversation continues, the bytes of its earlier messages
// therefore do not change.
type conversationWriter struct {
	w              *dialects.ChatWriter
	images         *dialects.ImagePositions
	inPlace        bool // system messages stay at their position
	opener         chat.ReasoningOpener
	model          []byte // the model in the client's spelling, for the opener
	turn           *assistantTurn
	arguments      *chat.ToolArguments
	names          *engineNames
	omittedCallIDs map[string]bool // ids of omitted tool calls, whose outputs are also omitted
	dropped        *dialects.DroppedParts
	pendingMedia   []mediaPart // media in outputs, for the next user message

	trailingText    string // text of a user message to add after the input
	firstUnreadable int    // the first compaction that cannot be read, or -1
}

func (c *conversationWriter) write(input, instructions jsonx.Value) {
	c.w.WriteString(`,"messages":[`)
	first := c.writeLeadingSystem(input, instructions)
	if input.IsString() {
		c.writeText("user", input)
	}
	for it := input.Iter(); it.Next(); {
		if i := readItem(it.Value()); it.Index() >= first || i.kind != itemSystem {
			c.writeItem(&i, it.Index())
		}
	}
	c.turn.writeTo(c.w)
	c.writePendingMedia()
	if c.trailingText != "" {
		c.w.BeginMessage("user")
		c.w.WriteString(`,"content":"` + c.trailingText + `"}`)
	}
	c.w.WriteString(`]`)
}

// escapedBlankLine joins texts from different sources in a JSON string.
const escapedBlankLine = `\n\n`

// writeLeadingSystem writes the leading system message. It consists of the instructions and the
// text of system and developer items. If inPlace is true, only items at the start of the
// conversation are included. writeLeadingSystem returns the index of the first item whose system
// text is not included.
func (c *conversationWriter) writeLeadingSystem(input, instructions jsonx.Value) (first int) {
	w, start := c.w, len(c.w.Out)
	w.BeginMessage("system")
	w.WriteString(`,"content":"`)
	begin := len(w.Out)
	if chat.IsGiven(instructions) {
		w.Out = append(w.Out, instructions.RawContents()...)
	}
	for it := input.Iter(); it.Next(); first++ {
		i := readItem(it.Value())
		if i.kind != itemSystem {
			if c.inPlace {
				break
			}
			continue
		}
		before := len(w.Out)
		if before > begin {
			w.WriteString(escapedBlankLine)
		}
		empty := len(w.Out)
		if w.Out = appendText(w.Out, i.contentOrOutput()); len(w.Out) == empty {
			w.Out = w.Out[:before]
		}
	}
	if len(w.Out) > begin {
		w.WriteString(`"}`)
	} else {
		w.Out = w.Out[:start]
		w.Messages--
	}
	return first
}

func (c *conversationWriter) writeItem(i *inputItem, index int) {
	if i.answersOmitted(c.omittedCallIDs) {
		c.dropped.AddItem(i.m[fieldTypeIndex])
		return
	}
	switch i.kind {
	case itemReasoning:
		c.turn.addReasoning(i, c)
		return
	case itemForeign:
		c.omittedCallIDs = i.recordOmitted(c.omittedCallIDs)
		return
	case itemCompactionTrigger:
		return
	case itemAssistant, itemToolCall:
	default:
		c.turn.writeTo(c.w)
		c.turn.reasoning = c.turn.reasoning[:0] // reasoning without a message is dropped
	}
	if i.kind != itemOutput {
		c.writePendingMedia()
	}
	switch i.kind {
	case itemAssistant:
		if len(c.turn.toolCalls) == 0 {
			c.turn.writeTo(c.w)
		}
		c.turn.addText(i.contentOrOutput())
	case itemToolCall:
		c.turn.addToolCall(i, c)
	case itemOutput:
		c.writeOutput(i, index)
	case itemUser:
		c.writeUser(i, index)
	case itemSystem: // only if inPlace is true
		c.writeText("system", i.contentOrOutput())
	case itemCompaction:
		c.writeCompaction(i, index)
	case itemReasoning, itemCompactionTrigger, itemForeign:
	}
}

func (i *inputItem) recordOmitted(ids map[string]bool) map[string]bool {
	if id := i.m[fieldCallIDIndex]; id.IsString() {
		if ids == nil {
			ids = map[string]bool{}
		}
		ids[string(id.AppendText(nil))] = true
	}
	return ids
}

func (i *inputItem) answersOmitted(ids map[string]bool) bool {
	return i.kind == itemOutput && len(ids) > 0 && ids[string(i.m[fieldCallIDIndex].AppendText(nil))]
}

func (c *conversationWriter) writeText(role string, v jsonx.Value) {
	c.w.BeginMessage(role)
	c.w.WriteString(`,"content":"`)
	c.w.Out = appendText(c.w.Out, v)
	c.w.WriteString(`"}`)
}

// writeUser writes a user message. If there are no media, the content is a string, which every
// template accepts.
func (c *conversationWriter) writeUser(i *inputItem, index int) {
	v := i.contentOrOutput()
	if !hasMedium(v) {
		c.writeText("user", v)
		return
	}
	c.w.BeginMessage("user")
	c.w.WriteString(`,"content":[`)
	n := 0
	for it := v.Iter(); it.Next(); {
		p := readPart(it.Value())
		text := rawPartText(&p)
		switch {
		case isMedium(&p):
			m := newMediaPart(&p, index, "content", it.Index())
			c.writeMedium(&m, n)
		case len(text) > 0:
			c.w.WriteCommaUnlessFirst(n)
			c.w.WriteTextPart(text)
		default:
			continue
		}
		n++
	}
	c.w.WriteString(`]}`)
}

// writeOutput writes a tool message. It stores media for a later message, because few engines
// accept media in tool messages.
func (c *conversationWriter) writeOutput(i *inputItem, index int) {
	c.w.BeginMessage("tool")
	c.w.WriteRaw(`,"tool_call_id":`, i.m[fieldCallIDIndex])
	c.w.WriteString(`,"content":"`)
	v := i.contentOrOutput()
	c.w.Out = appendText(c.w.Out, v)
	c.w.WriteString(`"}`)
	for it := v.Iter(); it.Next(); {
		if p := readPart(it.Value()); isMedium(&p) {
			c.pendingMedia = append(c.pendingMedia, newMediaPart(&p, index, "output", it.Index()))
		}
	}
}

// writePendingMedia writes a user message with the media of the preceding outputs. This message
// follows all outputs of the turn, because no other message may appear between them.
func (c *conversationWriter) writePendingMedia() {
	if len(c.pendingMedia) == 0 {
		return
	}
	c.w.BeginMessage("user")
	c.w.WriteString(`,"content":[`)
	for n := range c.pendingMedia {
		c.writeMedium(&c.pendingMedia[n], n)
	}
	c.w.WriteString(`]}`)
	c.pendingMedia = c.pendingMedia[:0]
}

// assistantTurn collects the messages of one assistant turn. If there is text between a tool call
// and its output, assistantTurn joins the text with the tool call, because templates require
// results directly after tool calls.
type assistantTurn struct {
	open          bool
	text          []byte // contents of a JSON string
	toolCalls     []byte
	toolCallCount int
	reasoning     []byte // contents of a JSON string; reasoning[usedReasoning:] is for the next message
	usedReasoning int
}

func (a *assistantTurn) reset() {
	if cap(a.text)+cap(a.toolCalls)+cap(a.reasoning) > maxKeptBuffer {
		*a = assistantTurn{}
	}
	*a = assistantTurn{text: a.text[:0], toolCalls: a.toolCalls[:0], reasoning: a.reasoning[:0]}
}

// addReasoning adds a reasoning item. It separates consecutive reasoning items with a blank line.
// If there is text between two reasoning items, it writes no blank line, so that the model receives
// its earlier answer unchanged.
func (a *assistantTurn) addReasoning(i *inputItem, c *conversationWriter) {
	before := len(a.reasoning)
	if before > a.usedReasoning {
		a.reasoning = append(a.reasoning, escapedBlankLine...)
	}
	begin := len(a.reasoning)
	all, opened := appendReasoning(a.reasoning, i, c.opener, c.model)
	if a.reasoning = all; !opened {
		c.dropped.AddReasoning()
	}
	if len(all) == begin {
		a.reasoning = a.reasoning[:before]
	}
}

func (a *assistantTurn) addText(v jsonx.Value) {
	a.open, a.usedReasoning = true, len(a.reasoning)
	if len(a.text) > 0 {
		a.text = append(a.text, escapedLineEnd...)
	}
	a.text = appendText(a.text, v)
}

func (a *assistantTurn) addToolCall(i *inputItem, c *conversationWriter) {
	a.open, a.usedReasoning = true, len(a.reasoning)
	a.toolCalls = dialects.AppendToolCallStart(a.toolCalls, a.toolCallCount, i.m[fieldCallIDIndex])
	a.toolCalls = c.names.appendName(a.toolCalls, i.m[fieldNamespaceIndex], i.m[fieldNameIndex], i.custom)
	a.toolCalls = i.appendArguments(append(a.toolCalls, `,"arguments":`...), c.arguments)
	a.toolCalls = append(a.toolCalls, `}}`...)
	a.toolCallCount++
}

func (i *inputItem) appendArguments(dst []byte, arguments *chat.ToolArguments) []byte {
	if !i.custom {
		return arguments.AppendArguments(dst, i.m[fieldArgumentsIndex])
	}
	dst = append(dst, `"{\"input\":`...)
	return append(jsonx.AppendEscaped(dst, i.m[fieldInputIndex].Raw()), `}"`...)
}

func (a *assistantTurn) writeTo(w *dialects.ChatWriter) {
	if !a.open {
		return
	}
	w.BeginMessage("assistant")
	if len(a.text) == 0 && a.toolCallCount > 0 {
		w.WriteString(`,"content":null`)
	} else {
		w.WriteQuoted(`,"content":`, a.text)
	}
	if a.usedReasoning > 0 {
		w.WriteQuoted(`,"`+chat.NameReasoningContent+`":`, a.reasoning[:a.usedReasoning])
	}
	if a.toolCallCount > 0 {
		w.WriteString(`,"tool_calls":[`)
		w.Out = append(w.Out, a.toolCalls...)
		w.WriteString(`]`)
	}
	w.WriteString(`}`)
	*a = assistantTurn{
		text: a.text[:0], toolCalls: a.toolCalls[:0], reasoning: append(a.reasoning[:0], a.reasoning[a.usedReasoning:]...),
	}
}
