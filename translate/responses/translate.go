package responses

import (
	"strconv"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// translate appends the chat request that a checked Request amounts to, and decodes it into c.
// inPlace keeps system messages where they stand in the conversation, instead of folding them into
// the one that leads it.
//
// The error is about what chat checks better: the model's name, the ranges of numbers, the effort,
// and images.
func (r *Request) translate(dst []byte, c *chat.Request, e *RequestInfo, inPlace bool) ([]byte, error) {
	start := len(dst)
	w := writer{dst: dst, info: e, inPlace: inPlace, assistant: &r.turn, arguments: &r.arguments}
	w.raw(`{"model":`, r.members[memberModel])
	w.messages(r)
	w.settings(r)
	w.dst = append(w.dst, '}')
	r.fillInfo(e)
	if err := c.Decode(w.dst[start:]); err != nil {
		return w.dst, e.Locate(err)
	}
	return w.dst, nil
}

// writer writes the chat request. What it writes of an item depends on that item and on those
// before it alone, but for the leading system message: so a conversation that goes on has its
// earlier messages in the same bytes.
type writer struct {
	dst     []byte
	info    *RequestInfo
	inPlace bool

	count     int        // messages so far
	assistant *assistant // the turn that is being put together
	arguments *chat.Arguments
	images    []imageRef // of outputs, to follow them in a user message
}

// assistant is one message of the assistant: a text, tool calls, or both.
type assistant struct {
	open      bool
	text      []byte // contents of a JSON string
	toolCalls []byte // elements of tool_calls
}

// imageRef is an image part and where it stands.
type imageRef struct {
	part [partCount]jsonx.Value
	at   dialects.Image
}

func (w *writer) string(s string) { w.dst = append(w.dst, s...) }

// raw appends s and the text of v as the client wrote it.
func (w *writer) raw(s string, v jsonx.Value) {
	w.dst = append(append(w.dst, s...), v.Raw()...)
}

// member is raw for an optional member.
func (w *writer) member(s string, v jsonx.Value) {
	if chat.Given(v) {
		w.raw(s, v)
	}
}

// quoted appends contents as a JSON string.
func (w *writer) quoted(contents []byte) {
	w.dst = append(append(append(w.dst, '"'), contents...), '"')
}

// message begins a message.
func (w *writer) message(role string) {
	if w.count > 0 {
		w.dst = append(w.dst, ',')
	}
	w.count++
	w.string(`{"role":"` + role + `"`)
}

// text writes a message that is text alone.
func (w *writer) text(role string, v jsonx.Value) {
	w.message(role)
	w.string(`,"content":"`)
	w.dst = appendText(w.dst, v)
	w.string(`"}`)
}

// messages writes the conversation.
func (w *writer) messages(r *Request) {
	w.string(`,"messages":[`)
	first := w.system(r)
	v := r.members[memberInput]
	if v.IsString() {
		w.message("user")
		w.raw(`,"content":`, v)
		w.string(`}`)
	}
	for it := v.Iter(); it.Next(); {
		if i := readItem(it.Value()); it.Index() >= first || i.kind != itemSystem {
			w.item(&i, it.Index())
		}
	}
	w.endAssistant()
	w.endImages()
	w.dst = append(w.dst, ']')
}

// blankLine joins system texts of different origin, inside of a JSON string.
const blankLine = `\n\n`

// system writes the leading system message: the instructions, then the text of system and developer
// items, all of them or, in place, those at the beginning. It returns the first item whose system
// text has not been told by it.
func (w *writer) system(r *Request) (first int) {
	text := r.system[:0]
	if v := r.members[memberInstructions]; chat.Given(v) {
		text = append(text, v.Inside()...)
	}
	input := r.members[memberInput]
	for it := input.Iter(); it.Next(); first++ {
		i := readItem(it.Value())
		if i.kind != itemSystem {
			if w.inPlace {
				break
			}
			continue
		}
		at := len(text)
		if text = appendText(append(text, blankLine...), i.content()); len(text) == at+len(blankLine) {
			text = text[:at]
		} else if at == 0 {
			text = append(text[:0], text[len(blankLine):]...)
		}
	}
	r.system = text
	if len(text) > 0 {
		w.message("system")
		w.string(`,"content":`)
		w.quoted(text)
		w.string(`}`)
	}
	return first
}

// item writes one item, or keeps it for what follows.
func (w *writer) item(i *item, index int) {
	switch i.kind {
	case itemAssistant:
		w.endImages()
		w.say(i)
	case itemToolCall:
		w.endImages()
		w.toolCall(i)
	case itemOutput:
		w.endAssistant()
		w.output(i, index)
	case itemUser:
		w.endAssistant()
		w.endImages()
		w.user(i, index)
	case itemSystem: // in place
		w.endAssistant()
		w.endImages()
		w.text("system", i.content())
	case itemReasoning:
	}
}

// user writes a user message. Text alone is a string, which every template takes.
func (w *writer) user(i *item, index int) {
	v := i.content()
	if !hasImage(v) {
		w.text("user", v)
		return
	}
	w.message("user")
	w.string(`,"content":[`)
	n := 0
	for it := v.Iter(); it.Next(); {
		p := readPart(it.Value())
		text := textOf(&p)
		image := p[partType].EqualText("input_image")
		if !image && len(text) == 0 {
			continue
		}
		if n > 0 {
			w.dst = append(w.dst, ',')
		}
		if image {
			w.image(&imageRef{p, imageAt(index, "content", it.Index())}, n)
		} else {
			w.string(`{"type":"text","text":`)
			w.quoted(text)
			w.string(`}`)
		}
		n++
	}
	w.string(`]}`)
}

// imageAt is where an image stands in the client's request.
func imageAt(item int, list string, part int) dialects.Image {
	return dialects.Image{List: "input", Parts: list, Item: item, At: part, Nested: -1, Member: "image_url"}
}

// image writes an image as part n of the message that is being written.
func (w *writer) image(m *imageRef, n int) {
	m.at.Message, m.at.Part = w.count-1, n
	w.info.images = append(w.info.images, m.at)
	w.raw(`{"type":"image_url","image_url":{"url":`, m.part[partImageURL])
	switch detail := m.part[partDetail]; {
	case detail.EqualText(detailOriginal):
		w.string(`,"detail":"high"`)
	case chat.Given(detail):
		w.raw(`,"detail":`, detail)
	}
	w.string(`}}`)
}

// say takes a message of the assistant. One that stands between a tool call and its output joins
// the message of the tool call, because templates want results right behind tool calls.
func (w *writer) say(i *item) {
	a := w.assistant
	if a.open && len(a.toolCalls) == 0 {
		w.endAssistant()
	}
	a.open = true
	if len(a.text) > 0 {
		a.text = append(a.text, lineEnd...)
	}
	a.text = appendText(a.text, i.content())
}

// toolCall adds a function call.
func (w *writer) toolCall(i *item) {
	a := w.assistant
	a.open = true
	if len(a.toolCalls) > 0 {
		a.toolCalls = append(a.toolCalls, ',')
	}
	a.toolCalls = append(append(a.toolCalls, `{"id":`...), i.m[fieldCallID].Raw()...)
	a.toolCalls = append(append(a.toolCalls, `,"type":"function","function":{"name":`...), i.m[fieldName].Raw()...)
	a.toolCalls = append(a.toolCalls, `,"arguments":`...)
	a.toolCalls = append(w.arguments.Append(a.toolCalls, i.m[fieldArguments]), `}}`...)
}

// endAssistant writes the message that has been put together.
func (w *writer) endAssistant() {
	a := w.assistant
	if !a.open {
		return
	}
	w.message("assistant")
	w.string(`,"content":`)
	if len(a.text) == 0 && len(a.toolCalls) > 0 {
		w.string(`null`)
	} else {
		w.quoted(a.text)
	}
	if len(a.toolCalls) > 0 {
		w.string(`,"tool_calls":[`)
		w.dst = append(w.dst, a.toolCalls...)
		w.string(`]`)
	}
	w.string(`}`)
	*a = assistant{text: a.text[:0], toolCalls: a.toolCalls[:0]}
}

// output writes the output of a tool call: its text in a tool message. Images are kept, since few
// engines take them there.
func (w *writer) output(i *item, index int) {
	w.message("tool")
	w.raw(`,"tool_call_id":`, i.m[fieldCallID])
	w.string(`,"content":"`)
	v := i.content()
	w.dst = appendText(w.dst, v)
	w.string(`"}`)
	if !hasImage(v) {
		return
	}
	for it := v.Iter(); it.Next(); {
		if p := readPart(it.Value()); p[partType].EqualText("input_image") {
			w.images = append(w.images, imageRef{p, imageAt(index, "output", it.Index())})
		}
	}
}

// endImages writes the user message with the images of the outputs before it. It comes behind all
// of them, because nothing may stand between the results of one turn.
func (w *writer) endImages() {
	if len(w.images) == 0 {
		return
	}
	w.message("user")
	w.string(`,"content":[`)
	for n := range w.images {
		if n > 0 {
			w.dst = append(w.dst, ',')
		}
		w.image(&w.images[n], n)
	}
	w.string(`]}`)
	w.images = w.images[:0]
}

// settings writes everything but the conversation.
func (w *writer) settings(r *Request) {
	if on, _ := r.members[memberStream].Bool(); on {
		w.string(`,"stream":true`)
	}
	w.member(`,"temperature":`, r.members[memberTemperature])
	w.member(`,"top_p":`, r.members[memberTopP])
	if n, ok := r.members[memberMaxOutputTokens].Int(); ok {
		w.string(`,"max_completion_tokens":`)
		w.dst = strconv.AppendInt(w.dst, n, 10)
	}
	w.member(`,"reasoning_effort":`, r.members[memberReasoning].Get("effort"))
	w.passed(r)
	w.format(r)
	if r.tools.any() {
		w.tools(r)
	}
}

// passed writes the members that chat has under the same name, for chat to check.
func (w *writer) passed(r *Request) {
	w.info.logprobs = r.wantsLogprobs()
	for m := memberPresencePenalty; m < memberResponseFormat; m++ {
		if v := r.members[m]; chat.Given(v) && (m != memberTopLogprobs || w.info.logprobs || !idle(m, v)) {
			w.raw(`,"`+memberNames[m]+`":`, v)
		}
	}
	if w.info.logprobs { // engines refuse the other one without it
		w.string(`,"logprobs":true`)
	}
}

// format writes response_format.
func (w *writer) format(r *Request) {
	v, chats := r.chatFormat()
	if w.info.chatFormat = chats; chats {
		w.raw(`,"response_format":`, v)
		return
	}
	m, ok := r.format()
	if !ok {
		return
	}
	w.raw(`,"response_format":{"type":`, m[formatType])
	if m[formatType].EqualText("json_schema") {
		w.raw(`,"json_schema":{"name":`, m[formatName])
		w.member(`,"description":`, m[formatDescription])
		w.raw(`,"schema":`, m[formatSchema])
		w.member(`,"strict":`, m[formatStrict])
		w.string(`}`)
	}
	w.string(`}`)
}

// tools writes the functions, and how they may be used.
func (w *writer) tools(r *Request) {
	w.string(`,"tools":[`)
	n := 0
	for it := r.members[memberTools].Iter(); it.Next(); {
		m, function := readTool(it.Value())
		if !function || !r.tools.allows(it.Index()) {
			continue
		}
		if n > 0 {
			w.dst = append(w.dst, ',')
		}
		n++
		w.raw(`{"type":"function","function":{"name":`, m[toolName])
		w.member(`,"description":`, m[toolDescription])
		w.member(`,"parameters":`, m[toolParameters])
		w.member(`,"strict":`, m[toolStrict])
		w.string(`}}`)
	}
	w.string(`]`)
	w.choice(r)
	w.member(`,"parallel_tool_calls":`, r.members[memberParallelToolCalls])
}

// choice writes tool_choice. A list of allowed tools has become the list of tools.
func (w *writer) choice(r *Request) {
	v := r.members[memberToolChoice]
	switch {
	case v.IsString():
		w.raw(`,"tool_choice":`, v)
	case r.tools.limited:
		w.string(`,"tool_choice":`)
		w.dst = append(w.dst, modeOf(v)...)
	case v.IsObject():
		w.raw(`,"tool_choice":{"type":"function","function":{"name":`, v.Get("name"))
		w.string(`}}`)
	}
}
