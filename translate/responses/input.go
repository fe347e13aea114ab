package responses

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

type itemKind uint8

const (
	itemUser itemKind = iota
	itemAssistant
	itemSystem // system or developer
	itemToolCall
	itemOutput
	itemReasoning
	itemCompaction
	itemCompactionTrigger // requests a compaction, at the end of the input
	itemForeign           // only another provider runs or reads the item
)

var itemMemberNames = jsonx.NewNameIndex("type", "role", "content", "call_id", "name", "arguments", "output", "id",
	"namespace", "input", "encrypted_content")

// The members of an item that the edge reads. All other members (ids, statuses, phases) are
// ignored.
const (
	fieldTypeIndex = iota
	fieldRoleIndex
	fieldContentIndex
	fieldCallIDIndex
	fieldNameIndex
	fieldArgumentsIndex
	fieldOutputIndex
	fieldIDIndex
	fieldNamespaceIndex
	fieldInputIndex
	fieldEncryptedContentIndex
	fieldCount
)

type inputItem struct {
	kind   itemKind
	custom bool
	m      [fieldCount]jsonx.Value
}

func (i *inputItem) contentOrOutput() jsonx.Value {
	if i.kind == itemOutput {
		return i.m[fieldOutputIndex]
	}
	return i.m[fieldContentIndex]
}

func (r *Request) checkInput() *requestFault {
	v := r.members[memberInputIndex]
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError("input")
	case v.IsString():
		return nil
	case !v.IsArray():
		return chat.WrongTypeError("input", "a string or an array of items", v)
	}
	said := false
	var foreign map[string]bool // see conversationWriter.omittedCallIDs
	for it := v.Iter(); it.Next(); {
		item, f := checkItem(it.Value())
		if f != nil {
			return f.InElement("input", it.Index())
		}
		if item.kind == itemForeign {
			r.dropped.AddItem(item.m[fieldTypeIndex])
			foreign = item.recordOmitted(foreign)
		}
		r.isSummary = item.kind == itemCompactionTrigger
		if r.firstExtension < 0 && (item.kind >= itemCompaction || item.custom || chat.IsGiven(item.m[fieldNamespaceIndex])) {
			r.firstExtension = it.Index()
		}
		said = said || item.isConversation() && !item.answersOmitted(foreign)
	}
	if !said {
		return chat.WrongValueError("input", "must hold at least one message or call")
	}
	return nil
}

func (i *inputItem) isConversation() bool {
	return i.kind != itemReasoning && i.kind != itemCompactionTrigger && i.kind != itemForeign
}

func checkItem(v jsonx.Value) (inputItem, *requestFault) {
	var i inputItem
	f := chat.ReadElement("an object", v, itemMemberNames, i.m[:])
	if f == nil {
		f = i.classify()
	}
	if f != nil {
		return i, f
	}
	switch i.kind {
	case itemUser, itemAssistant, itemSystem:
		f = i.checkContent("content", i.m[fieldContentIndex])
	case itemToolCall:
		f = i.checkToolCall()
	case itemOutput:
		if f = chat.CheckRequiredString("call_id", i.m[fieldCallIDIndex]); f == nil {
			f = i.checkContent("output", i.m[fieldOutputIndex])
		}
	case itemCompaction, itemCompactionTrigger: // a compaction is checked when it is opened
	case itemReasoning, itemForeign: // unreadable items are dropped
	}
	return i, f
}

func (i *inputItem) classify() *requestFault {
	t := i.m[fieldTypeIndex]
	if f := chat.CheckOptionalString("type", t); f != nil {
		return f
	}
	switch {
	case t.EqualText("message"), !chat.IsGiven(t) && (i.m[fieldRoleIndex].Exists() || !i.m[fieldIDIndex].Exists()):
		return i.classifyRole()
	case t.EqualText("function_call"):
		i.kind = itemToolCall
	case t.EqualText("function_call_output"):
		i.kind = itemOutput
	case t.EqualText("custom_tool_call"):
		i.kind, i.custom = itemToolCall, true
	case t.EqualText("custom_tool_call_output"):
		i.kind, i.custom = itemOutput, true
	case t.EqualText("reasoning"):
		i.kind = itemReasoning
	case t.EqualText("compaction"), t.EqualText("compaction_summary"), t.EqualText("context_compaction"):
		i.kind = itemCompaction
	case t.EqualText("compaction_trigger"):
		i.kind = itemCompactionTrigger
	case t.EqualText("item_reference"), !chat.IsGiven(t):
		return chat.UnsupportedError("id", "Nothing is stored here that an item could refer to: "+
			"set store to false, so that the client sends items in full")
	case new(dialects.DroppedParts).AddItem(t):
		i.kind = itemForeign
	default:
		return chat.UnsupportedError("type", "An item must be message, function_call, "+
			"function_call_output, custom_tool_call, custom_tool_call_output or reasoning")
	}
	return nil
}

func (i *inputItem) classifyRole() *requestFault {
	role := i.m[fieldRoleIndex]
	if f := chat.CheckRequiredString("role", role); f != nil {
		return f
	}
	switch {
	case role.EqualText("user"):
		i.kind = itemUser
	case role.EqualText("assistant"):
		i.kind = itemAssistant
	case role.EqualText("system"), role.EqualText("developer"):
		i.kind = itemSystem
	default:
		return chat.WrongValueError("role", "must be user, assistant, system or developer")
	}
	return nil
}

func (i *inputItem) checkToolCall() *requestFault {
	f := chat.FirstInvalidMember(
		chat.CheckRequiredString("call_id", i.m[fieldCallIDIndex]),
		chat.CheckFunctionName(i.m[fieldNameIndex]),
		chat.CheckOptionalString("namespace", i.m[fieldNamespaceIndex]),
	)
	if f == nil && i.custom {
		return chat.CheckRequiredString("input", i.m[fieldInputIndex])
	}
	if v := i.m[fieldArgumentsIndex]; f == nil && chat.IsGiven(v) && !v.IsString() {
		f = chat.WrongTypeError("arguments", "a string that holds JSON", v)
	}
	if f == nil {
		f = chat.CheckRequiredString("arguments", i.m[fieldArgumentsIndex])
	}
	return f
}

// checkContent checks a content or an output: a string or an array of parts.
func (i *inputItem) checkContent(name string, v jsonx.Value) *requestFault {
	switch {
	case !chat.IsGiven(v):
		return chat.MissingError(name)
	case v.IsString():
		return nil
	case !v.IsArray():
		return chat.WrongTypeError(name, "a string or an array of parts", v)
	}
	for it := v.Iter(); it.Next(); {
		if f := i.checkPart(it.Value()); f != nil {
			return f.InElement(name, it.Index())
		}
	}
	return nil
}

var partMemberNames = jsonx.NewNameIndex("type", "text", "refusal", "image_url", "detail", "file_id", "file_url", "file_data",
	"filename", "input_audio")

// The members of a part that the edge reads.
const (
	partTypeIndex = iota
	partTextIndex
	partRefusalIndex
	partImageURLIndex
	partDetailIndex
	partFileIDIndex
	partFileURLIndex
	partFileDataIndex
	partFilenameIndex
	partInputAudioIndex
	partMemberCount
)

func (i *inputItem) checkPart(v jsonx.Value) *requestFault {
	var p [partMemberCount]jsonx.Value
	f := chat.ReadElement("an object", v, partMemberNames, p[:])
	if f == nil {
		f = chat.CheckRequiredString("type", p[partTypeIndex])
	}
	switch {
	case f != nil:
		return f
	case p[partTypeIndex].EqualText("input_text"), p[partTypeIndex].EqualText("output_text"):
		return chat.CheckRequiredString("text", p[partTextIndex])
	case p[partTypeIndex].EqualText("refusal"):
		return chat.CheckRequiredString("refusal", p[partRefusalIndex])
	}
	return i.checkMedium(&p)
}

func readItem(v jsonx.Value) (i inputItem) {
	if itemMemberNames.Fields(v, i.m[:]) != nil || i.classify() != nil {
		panic("BUG: an item was not checked")
	}
	return i
}

func readPart(v jsonx.Value) (p [partMemberCount]jsonx.Value) {
	if partMemberNames.Fields(v, p[:]) != nil {
		panic("BUG: a part was not checked")
	}
	return p
}

// rawPartText returns a part's text, as the contents of a JSON string. A medium has no text.
func rawPartText(p *[partMemberCount]jsonx.Value) []byte {
	v := p[partTextIndex]
	switch {
	case isMedium(p):
		return nil
	case p[partTypeIndex].EqualText("refusal"):
		v = p[partRefusalIndex]
	}
	return v.RawContents()
}

const escapedLineEnd = `\n`

// appendText appends the text of a string or of parts. It separates parts with line ends.
func appendText(dst []byte, v jsonx.Value) []byte {
	if v.IsString() {
		return append(dst, v.RawContents()...)
	}
	start := len(dst)
	for it := v.Iter(); it.Next(); {
		p := readPart(it.Value())
		dst = appendSeparated(dst, start, escapedLineEnd, rawPartText(&p))
	}
	return dst
}

// appendSeparated appends text. If text and dst[start:] are not empty, appendSeparated first
// appends glue.
func appendSeparated(dst []byte, start int, glue string, text []byte) []byte {
	if len(text) > 0 && len(dst) > start {
		dst = append(dst, glue...)
	}
	return append(dst, text...)
}
