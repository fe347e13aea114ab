package responses

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// conversation writes the messages of the chat request. The output for an item depends only on that
// item and on earlier items. If a conversation continues, the bytes of its earlier messages
// therefore do not change.
type conversation struct {
	w         *dialects.ChatWriter
	images    *dialects.Images
	inPlace   bool // system messages stay at their position
	opener    chat.Opener
	model     []byte // the model in the client's spelling, for the opener
	turn      *assistantTurn
	arguments *chat.Arguments
	names     *shownNames
	foreign   map[string]bool // ids of omitted tool calls, whose outputs are also omitted
	dropped   *dialects.Dropped
	pending   []imagePart // images in outputs, for the next user message

	end        string // text of a user message to add after the input
	unreadable int    // the first compaction that cannot be read, or -1
}

type imagePart struct {
	part  [partCount]jsonx.Value
	place dialects.Image
}

func placeOfImage(item int, list string, part int) dialects.Image {
	return dialects.Image{List: "input", Parts: list, Item: item, At: part, Nested: -1, Member: "image_url"}
}

func (c *conversation) write(input, instructions jsonx.Value) {
	c.w.String(`,"messages":[`)
	first := c.leading(input, instructions)
	if input.IsString() {
		c.text("user", input)
	}
	for it := input.Iter(); it.Next(); {
		if i := readItem(it.Value()); it.Index() >= first || i.kind != itemSystem {
			c.item(&i, it.Index())
		}
	}
	c.turn.end(c.w)
	c.endImages()
	if c.end != "" {
		c.w.Message("user")
		c.w.String(`,"content":"` + c.end + `"}`)
	}
	c.w.String(`]`)
}

// blankLine joins texts from different sources in a JSON string.
const blankLine = `\n\n`

// leading writes the leading system message. It consists of the instructions and the text of system
// and developer items. If inPlace is true, only items at the start of the conversation are
// included. leading returns the index of the first item whose system text is not included.
func (c *conversation) leading(input, instructions jsonx.Value) (first int) {
	w, start := c.w, len(c.w.Out)
	w.Message("system")
	w.String(`,"content":"`)
	begin := len(w.Out)
	if chat.Given(instructions) {
		w.Out = append(w.Out, instructions.Inside()...)
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
			w.String(blankLine)
		}
		empty := len(w.Out)
		if w.Out = appendText(w.Out, i.content()); len(w.Out) == empty {
			w.Out = w.Out[:before]
		}
	}
	if len(w.Out) > begin {
		w.String(`"}`)
	} else {
		w.Out = w.Out[:start]
		w.Messages--
	}
	return first
}

func (c *conversation) item(i *item, index int) {
	if i.answers(c.foreign) {
		c.dropped.Item(i.m[fieldType])
		return
	}
	switch i.kind {
	case itemReasoning:
		c.turn.think(i, c)
		return
	case itemForeign:
		c.foreign = i.noteForeign(c.foreign)
		return
	case itemTrigger:
		return
	case itemAssistant, itemToolCall:
	default:
		c.turn.end(c.w)
		c.turn.reasoning = c.turn.reasoning[:0] // reasoning without a message is dropped
	}
	if i.kind != itemOutput {
		c.endImages()
	}
	switch i.kind {
	case itemAssistant:
		if len(c.turn.toolCalls) == 0 {
			c.turn.end(c.w)
		}
		c.turn.say(i.content())
	case itemToolCall:
		c.turn.toolCall(i, c)
	case itemOutput:
		c.output(i, index)
	case itemUser:
		c.user(i, index)
	case itemSystem: // only if inPlace is true
		c.text("system", i.content())
	case itemCompaction:
		c.compaction(i, index)
	case itemReasoning, itemTrigger, itemForeign:
	}
}

func (i *item) noteForeign(ids map[string]bool) map[string]bool {
	if id := i.m[fieldCallID]; id.IsString() {
		if ids == nil {
			ids = map[string]bool{}
		}
		ids[string(id.AppendText(nil))] = true
	}
	return ids
}

func (i *item) answers(ids map[string]bool) bool {
	return i.kind == itemOutput && len(ids) > 0 && ids[string(i.m[fieldCallID].AppendText(nil))]
}

func (c *conversation) text(role string, v jsonx.Value) {
	c.w.Message(role)
	c.w.String(`,"content":"`)
	c.w.Out = appendText(c.w.Out, v)
	c.w.String(`"}`)
}

// user writes a user message. If there are no images, the content is a string, which every template
// accepts.
func (c *conversation) user(i *item, index int) {
	v := i.content()
	if !hasImage(v) {
		c.text("user", v)
		return
	}
	c.w.Message("user")
	c.w.String(`,"content":[`)
	n := 0
	for it := v.Iter(); it.Next(); {
		p := readPart(it.Value())
		text := textOf(&p)
		switch {
		case isImage(&p):
			c.image(&imagePart{p, placeOfImage(index, "content", it.Index())}, n)
		case len(text) > 0:
			c.w.Comma(n)
			c.w.TextPart(text)
		default:
			continue
		}
		n++
	}
	c.w.String(`]}`)
}

func (c *conversation) image(m *imagePart, n int) {
	m.place.Message, m.place.Part = c.w.Messages-1, n
	*c.images = append(*c.images, m.place)
	c.w.Comma(n)
	c.w.Raw(`{"type":"image_url","image_url":{"url":`, m.part[partImageURL])
	c.w.Member(`,"detail":`, m.part[partDetail])
	c.w.String(`}}`)
}

// output writes a tool message. It stores images for a later message, because few engines accept
// images in tool messages.
func (c *conversation) output(i *item, index int) {
	c.w.Message("tool")
	c.w.Raw(`,"tool_call_id":`, i.m[fieldCallID])
	c.w.String(`,"content":"`)
	v := i.content()
	c.w.Out = appendText(c.w.Out, v)
	c.w.String(`"}`)
	for it := v.Iter(); hasImage(v) && it.Next(); {
		if p := readPart(it.Value()); isImage(&p) {
			c.pending = append(c.pending, imagePart{p, placeOfImage(index, "output", it.Index())})
		}
	}
}

// endImages writes a user message with the images of the preceding outputs. This message follows
// all outputs of the turn, because no other message may appear between them.
func (c *conversation) endImages() {
	if len(c.pending) == 0 {
		return
	}
	c.w.Message("user")
	c.w.String(`,"content":[`)
	for n := range c.pending {
		c.image(&c.pending[n], n)
	}
	c.w.String(`]}`)
	c.pending = c.pending[:0]
}

// assistantTurn collects the messages of one assistant turn. If there is text between a tool call
// and its output, assistantTurn joins the text with the tool call, because templates require
// results directly after tool calls.
type assistantTurn struct {
	open      bool
	text      []byte // contents of a JSON string
	toolCalls []byte
	count     int
	reasoning []byte // contents of a JSON string; reasoning[own:] is for the next message
	own       int
}

func (a *assistantTurn) reset() {
	if cap(a.text)+cap(a.toolCalls)+cap(a.reasoning) > keepBuffer {
		*a = assistantTurn{}
	}
	*a = assistantTurn{text: a.text[:0], toolCalls: a.toolCalls[:0], reasoning: a.reasoning[:0]}
}

// think adds a reasoning item. It separates consecutive reasoning items with a blank line. If there
// is text between two reasoning items, it writes no blank line, so that the model receives its
// earlier answer unchanged.
func (a *assistantTurn) think(i *item, c *conversation) {
	before := len(a.reasoning)
	if before > a.own {
		a.reasoning = append(a.reasoning, blankLine...)
	}
	begin := len(a.reasoning)
	all, opened := reasoningOf(a.reasoning, i, c.opener, c.model)
	if a.reasoning = all; !opened {
		c.dropped.Reasoning()
	}
	if len(all) == begin {
		a.reasoning = a.reasoning[:before]
	}
}

func (a *assistantTurn) say(v jsonx.Value) {
	a.open, a.own = true, len(a.reasoning)
	if len(a.text) > 0 {
		a.text = append(a.text, lineEnd...)
	}
	a.text = appendText(a.text, v)
}

func (a *assistantTurn) toolCall(i *item, c *conversation) {
	a.open, a.own = true, len(a.reasoning)
	a.toolCalls = dialects.AppendToolCall(a.toolCalls, a.count, i.m[fieldCallID])
	a.toolCalls = c.names.append(a.toolCalls, i.m[fieldNamespace], i.m[fieldName], i.custom)
	a.toolCalls = i.appendArguments(append(a.toolCalls, `,"arguments":`...), c.arguments)
	a.toolCalls = append(a.toolCalls, `}}`...)
	a.count++
}

func (i *item) appendArguments(dst []byte, arguments *chat.Arguments) []byte {
	if !i.custom {
		return arguments.Append(dst, i.m[fieldArguments])
	}
	dst = append(dst, `"{\"input\":`...)
	return append(jsonx.AppendEscaped(dst, i.m[fieldInput].Raw()), `}"`...)
}

func (a *assistantTurn) end(w *dialects.ChatWriter) {
	if !a.open {
		return
	}
	w.Message("assistant")
	if len(a.text) == 0 && a.count > 0 {
		w.String(`,"content":null`)
	} else {
		w.Quoted(`,"content":`, a.text)
	}
	if a.own > 0 {
		w.Quoted(`,"`+chat.NameReasoningContent+`":`, a.reasoning[:a.own])
	}
	if a.count > 0 {
		w.String(`,"tool_calls":[`)
		w.Out = append(w.Out, a.toolCalls...)
		w.String(`]`)
	}
	w.String(`}`)
	*a = assistantTurn{
		text: a.text[:0], toolCalls: a.toolCalls[:0], reasoning: append(a.reasoning[:0], a.reasoning[a.own:]...),
	}
}
