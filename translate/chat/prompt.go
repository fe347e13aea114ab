package chat

import (
	"math"

	"penstock/translate/jsonx"
)

// Prompt describes the part of a request that the model reads: the conversation and the size of the
// tool definitions.
type Prompt struct {
	promptFacts
	// Images are the image parts, in message order.
	Images []Image
	// Media are the parts with audio, video or a file, in message order.
	Media []MediaPart

	refusals    []refusalPart
	arguments   ToolArguments
	malformed   []jsonx.Value // tool call arguments in the history that engines would reject
	contentless []contentlessMessage
	reasoning   reasoningHistory
}

// promptFacts are the fields of Prompt that own no memory.
type promptFacts struct {
	// Bytes is the total JSON length of contents, tool calls and tool definitions, without images.
	Bytes int

	messageCount     int
	hasDeveloper     bool
	lastTurn         turnRole
	hasAdjacentTurns bool
}

type contentlessMessage struct {
	message, content jsonx.Value
	hasToolCalls     bool
}

// reset releases the body and keeps allocated memory.
func (p *Prompt) reset() {
	p.promptFacts = promptFacts{}
	clear(p.Images)
	p.Images = p.Images[:0]
	clear(p.Media)
	p.Media = p.Media[:0]
	clear(p.refusals)
	p.refusals = p.refusals[:0]
	clear(p.malformed)
	p.malformed = p.malformed[:0]
	clear(p.contentless)
	p.contentless = p.contentless[:0]
	p.arguments.Reset()
	p.reasoning.reset()
}

// EstimateTokens estimates the number of tokens in the prompt, for limits and for routing. It
// divides the length of the text by bytesPerToken, or by 4 if bytesPerToken is not positive. It
// adds the template's tokens for each message, and counts images by their size.
func (p *Prompt) EstimateTokens(bytesPerToken float64) int {
	if !(bytesPerToken > 0) {
		bytesPerToken = 4
	}
	n := int(math.Ceil(float64(p.Bytes)/bytesPerToken)) + tokensPerMessage*p.messageCount
	for i := range p.Images {
		n += p.Images[i].estimateTokens()
	}
	return n + estimatedMediumTokens*len(p.Media)
}

// tokensPerMessage is the number of tokens that chat templates add to mark the role and the end of
// a message.
const tokensPerMessage = 4

// ConversationPrefix returns the messages up to the end of the user's first message. All turns of a
// conversation share this prefix. It returns nil if r is nil.
func ConversationPrefix(r *Request) []byte {
	if r == nil {
		return nil
	}
	messages := r.Messages()
	for it := messages.Iter(); it.Next(); {
		if v := it.Value(); v.Get("role").EqualText("user") {
			return messages.Raw()[:v.End()-messages.Start()]
		}
	}
	return messages.Raw()
}

const (
	messageRoleIndex = iota
	messageContentIndex
	messageNameIndex
	messageToolCallIDIndex
	messageToolCallsIndex
	messageReasoningContentIndex
	messageReasoningIndex
	messageMediaIndex  // followed by the other members that contain media
	messageMemberCount = messageMediaIndex + 9
)

// messageMemberNames lists the members of a message, followed by members from which some engines read
// media.
var messageMemberNames = jsonx.NewNameIndex(
	append([]string{
		"role", "content", "name", "tool_call_id", "tool_calls", "reasoning_content", "reasoning",
	}, messageMediaNames...)...)

var messageMediaNames = []string{
	"image", "images", "image_url", "audio", "audios", "audio_url", "video", "videos", "video_url",
}

func (p *Prompt) decode(messages jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(messages):
		return MissingError("messages")
	case !messages.IsArray():
		return WrongTypeError("messages", "an array of messages", messages)
	}
	for it := messages.Iter(); it.Next(); {
		if e := p.decodeMessage(it.Index(), it.Value()); e != nil {
			return e.InElement("messages", it.Index())
		}
		p.messageCount++
	}
	if p.messageCount == 0 {
		return WrongValueError("messages", "must hold at least one message")
	}
	p.Bytes += p.reasoning.loopBytes
	return nil
}

func (p *Prompt) decodeMessage(i int, v jsonx.Value) *InvalidMember {
	if role, content, ok := v.ReadTwoMembers("role", "content"); ok && content.IsString() { // most messages
		if role := roleOf(role); role != "" {
			p.addContent(i, role, textLength(content))
			p.recordTurn(textTurnRole(role))
			return nil
		}
	}
	return p.decodeMembers(i, v)
}

// addContent adds the content of message i, which has the given number of bytes.
func (p *Prompt) addContent(i int, role string, bytes int) {
	p.hasDeveloper = p.hasDeveloper || role == "developer"
	p.Bytes += bytes
	p.reasoning.addMessage(i, role, bytes > 0)
}

// decodeMembers decodes a message of any form.
func (p *Prompt) decodeMembers(i int, v jsonx.Value) *InvalidMember {
	var m [messageMemberCount]jsonx.Value
	if !v.IsObject() {
		return WrongTypeError("", "an object", v)
	}
	found, _, err := messageMemberNames.ReadFields(v, m[:])
	if err != nil {
		return invalidMember(err)
	}
	role := roleOf(m[messageRoleIndex])
	if role == "" {
		if e := CheckRequiredString("role", m[messageRoleIndex]); e != nil {
			return e
		}
		return WrongValueError("role", "must be one of system, developer, user, assistant and tool")
	}
	before := p.Bytes
	if e := p.decodeContent(i, m[messageContentIndex], role == "assistant"); e != nil {
		return e
	}
	bytes := p.Bytes - before
	p.Bytes = before
	p.addContent(i, role, bytes)
	if role == "assistant" {
		p.reasoning.add(i, m[messageReasoningContentIndex], m[messageReasoningIndex])
	}
	if found == 1<<messageRoleIndex|1<<messageContentIndex && IsGiven(m[messageContentIndex]) {
		p.recordTurn(textTurnRole(role))
		return nil
	}
	if e := CheckOptionalString("name", m[messageNameIndex]); e != nil {
		return e
	}
	if e := CheckOptionalString("tool_call_id", m[messageToolCallIDIndex]); e != nil {
		return e
	}
	for k, v := range m[messageMediaIndex:] {
		if IsGiven(v) {
			if e := new(mediaChecker).checkMedium(v); e != nil {
				return e.prependName(messageMediaNames[k])
			}
		}
	}
	if !IsGiven(m[messageContentIndex]) {
		p.contentless = append(p.contentless, contentlessMessage{v, m[messageContentIndex], hasElements(m[messageToolCallsIndex])})
	}
	p.recordTurn(joinableRole(role, &m))
	return p.decodeToolCalls(m[messageToolCallsIndex])
}

// recordTurn records the turn to which the next message belongs.
func (p *Prompt) recordTurn(turn turnRole) {
	p.hasAdjacentTurns = p.hasAdjacentTurns || turn != turnUnjoinable && turn == p.lastTurn
	p.lastTurn = turn
}

func roleOf(v jsonx.Value) string {
	switch string(textBytes(v)) {
	case "system":
		return "system"
	case "developer":
		return "developer"
	case "user":
		return "user"
	case "assistant":
		return "assistant"
	case "tool":
		return "tool"
	}
	return ""
}

// decodeContent reads a message's content, which is a string, null, or an array of parts. assistant
// is true for an assistant message.
func (p *Prompt) decodeContent(i int, v jsonx.Value, assistant bool) *InvalidMember {
	switch {
	case !IsGiven(v):
		return nil
	case v.IsString():
		p.Bytes += textLength(v)
		return nil
	case !v.IsArray():
		return WrongTypeError("content", "a string, null or an array of content parts", v)
	}
	for it := v.Iter(); it.Next(); {
		if e := p.decodePart(i, it.Index(), it.Value(), assistant); e != nil {
			return e.InElement("content", it.Index())
		}
	}
	return nil
}

const (
	partTypeIndex = iota
	partTextIndex
	partRefusalIndex
	partFileIndex
	partImageURLIndex
	partOtherMediaIndex // followed by the other members that contain media
	partMemberCount     = partOtherMediaIndex + 7
)

// partMemberNames lists the members of a part, followed by members that contain media in other types of
// parts.
var partMemberNames = jsonx.NewNameIndex(append([]string{"type", "text", "refusal", "file"}, partMediaNames...)...)

var partMediaNames = []string{
	"image_url", "video_url", "audio_url", "input_audio", "image_embeds", "audio_embeds", "video_embeds", "image_pil",
}

// Agents send back parts with members that belong to other parts or to messages. decodePart rejects
// such a member only if it contains media, because some engines read media from any type of part.
func (p *Prompt) decodePart(i, j int, v jsonx.Value, assistant bool) *InvalidMember {
	var m [partMemberCount]jsonx.Value
	if e := ReadElement("an object with type text or image_url", v, partMemberNames, m[:]); e != nil {
		return e
	}
	if e := CheckRequiredString("type", m[partTypeIndex]); e != nil {
		return e
	}
	var (
		kind    = m[partTypeIndex]
		text    = kind.EqualText("text")
		refusal = !text && assistant && kind.EqualText("refusal")
		medium  *mediumPart
	)
	if !text && !refusal && !kind.EqualText("image_url") {
		if medium = findMediumPart(kind); medium == nil {
			return WrongValueError("type", "must be text or image_url, or input_audio, audio_url, video_url or file for models that take them")
		}
	}
	for k, v := range m[partImageURLIndex:] { // a part may contain only the medium of its type
		if IsGiven(v) && !kind.EqualText(partMediaNames[k]) {
			return misplacedMediaError(partMediaNames[k])
		}
	}
	switch {
	case text:
		if e := CheckRequiredString("text", m[partTextIndex]); e != nil {
			return e
		}
		p.Bytes += textLength(m[partTextIndex])
		return nil
	case refusal:
		if e := CheckRequiredString("refusal", m[partRefusalIndex]); e != nil {
			return e
		}
		p.Bytes += textLength(m[partRefusalIndex])
		p.refusals = append(p.refusals, refusalPart{v, m[partRefusalIndex]})
		return nil
	case medium != nil:
		return p.decodeMedium(i, j, medium, v.Get(medium.member))
	}
	return p.decodeImage(i, j, m[partImageURLIndex])
}

func misplacedMediaError(member string) *InvalidMember {
	return WrongValueError(member, "must not be in this part: a medium has a part of its own, with the type of the member's name")
}

const (
	callIDIndex = iota
	callTypeIndex
	callFunctionIndex
	callMemberCount
)

var (
	callMemberNames         = jsonx.NewNameIndex("id", "type", "function")
	callFunctionMemberNames = jsonx.NewNameIndex("name", "arguments")
)

func (p *Prompt) decodeToolCalls(v jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(v):
		return nil
	case !v.IsArray():
		return WrongTypeError("tool_calls", "an array of tool calls", v)
	}
	for it := v.Iter(); it.Next(); {
		if e := p.decodeToolCall(it.Value()); e != nil {
			return e.InElement("tool_calls", it.Index())
		}
	}
	return nil
}

func (p *Prompt) decodeToolCall(v jsonx.Value) *InvalidMember {
	var c [callMemberCount]jsonx.Value
	if e := ReadElement("an object", v, callMemberNames, c[:]); e != nil {
		return e
	}
	if e := FirstInvalidMember(CheckRequiredString("id", c[callIDIndex]), checkFunctionType(c[callTypeIndex])); e != nil {
		return e
	}
	function, e := readRequiredFunction(c[callFunctionIndex])
	if e != nil {
		return e
	}
	var f [2]jsonx.Value
	if e := ReadFields(function, callFunctionMemberNames, f[:]); e != nil {
		return e.InObject("function")
	}
	if e := CheckRequiredString("name", f[0]); e != nil {
		return e.InObject("function")
	}
	if IsGiven(f[1]) && !f[1].IsString() {
		return WrongTypeError("arguments", "a string that holds JSON", f[1]).InObject("function")
	}
	if e := CheckRequiredString("arguments", f[1]); e != nil {
		return e.InObject("function")
	}
	if !p.arguments.NeedsNoRepair(f[1]) {
		p.malformed = append(p.malformed, f[1])
	}
	p.Bytes += textLength(f[0]) + textLength(f[1])
	return nil
}

func checkFunctionType(v jsonx.Value) *InvalidMember {
	if e := CheckRequiredString("type", v); e != nil {
		return e
	}
	if !v.EqualText("function") {
		return WrongValueError("type", "must be function; other tools are not supported")
	}
	return nil
}

func readRequiredFunction(v jsonx.Value) (jsonx.Value, *InvalidMember) {
	switch {
	case !IsGiven(v):
		return v, MissingError("function")
	case !v.IsObject():
		return v, WrongTypeError("function", "an object", v)
	}
	return v, nil
}

func textLength(v jsonx.Value) int { return v.End() - v.Start() - 2 }
