package responses

import (
	"slices"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

type toolList struct {
	choice         jsonx.Value
	entries        []tool // the tools that the client runs, in order
	firstOther     int    // index of the first element that is not a function, or -1
	allowedEntries []int  // if hasAllowedList is true: positions of the entries that tool_choice allows
	callsForbidden bool   // the model must not call a tool, whatever tool_choice says
	hasAllowedList bool
	engineNames    engineNames
	dropped        dialects.DroppedParts
}

func (t *toolList) reset() {
	entries := t.entries[:0]
	if cap(entries) > maxKeptTools {
		entries = nil
	}
	*t = toolList{firstOther: -1, allowedEntries: t.allowedEntries[:0], entries: entries}
}

const maxKeptTools = 64

func (t *toolList) hasTools() bool {
	return len(t.entries) > 0 && (!t.hasAllowedList || len(t.allowedEntries) > 0)
}

func (t *toolList) isAllowed(entry int) bool {
	return !t.hasAllowedList || slices.Contains(t.allowedEntries, entry)
}

type tool struct {
	m [toolMemberCount]jsonx.Value
	// Index of the client's element, which is the tool or a namespace that contains it.
	element              int
	namespace            jsonx.Value // the namespace's name
	namespaceDescription jsonx.Value // the namespace's description; set only for the namespace's first tool
	engineName           string
}

var toolMemberNames = jsonx.NewNameIndex("type", "name", "description", "parameters", "strict", "tools", "format")

const (
	toolTypeIndex = iota
	toolNameIndex
	toolDescriptionIndex
	toolParametersIndex
	toolStrictIndex
	toolToolsIndex
	toolFormatIndex
	toolMemberCount
)

// maxTools limits both tool lists, because checkChoice searches all tools for each allowed tool.
const (
	maxTools                   = 1024
	tooManyToolDefinitionsText = "must hold at most 1024 tools"
)

const onlyClientToolsText = "Only function and custom tools run here, in the client"

// decode reads the list of tools. It drops hosted tools, because agents always offer them, but
// rejects them if there are no other tools.
func (t *toolList) decode(v jsonx.Value) *requestFault {
	t.reset()
	if f := checkOptional("tools", "an array of tools", v, jsonx.Value.IsArray); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if it.Index() == maxTools {
			return chat.WrongValueError("tools", tooManyToolDefinitionsText)
		}
		if f := t.add(it.Value(), it.Index()); f != nil {
			return f.InElement("tools", it.Index())
		}
	}
	if len(t.entries) == 0 && t.dropped != (dialects.DroppedParts{}) { // a namespace may be empty
		return chat.UnsupportedError("tools", onlyClientToolsText+", and the list holds none")
	}
	t.engineNames.assignNames(t.entries)
	return nil
}

func (t *toolList) add(v jsonx.Value, index int) *requestFault {
	x, f := checkTool(v)
	if f != nil {
		return f
	}
	x.element = index
	function := x.m[toolTypeIndex].EqualText("function")
	if !function && t.firstOther < 0 {
		t.firstOther = index
	}
	switch {
	case function, x.isCustom():
		t.entries = append(t.entries, x)
	case x.m[toolTypeIndex].EqualText("namespace"):
		return t.addNamespace(&x)
	default:
		t.dropped.AddTool(x.m[toolTypeIndex])
	}
	return nil
}

func (t *toolList) addNamespace(space *tool) *requestFault {
	about := space.m[toolDescriptionIndex]
	for it := space.m[toolToolsIndex].Iter(); it.Next(); {
		if len(t.entries) == maxTools {
			return chat.WrongValueError("tools", tooManyToolDefinitionsText)
		}
		x, f := checkTool(it.Value())
		switch {
		case f != nil:
			return f.InElement("tools", it.Index())
		case x.m[toolTypeIndex].EqualText("function"), x.isCustom():
			x.element, x.namespace, x.namespaceDescription = space.element, space.m[toolNameIndex], about
			t.entries, about = append(t.entries, x), jsonx.Value{}
		default:
			t.dropped.AddTool(x.m[toolTypeIndex])
		}
	}
	return nil
}

// checkTool checks a tool that the client runs. For other tools it reads only the type.
func checkTool(v jsonx.Value) (x tool, f *requestFault) {
	m := &x.m
	if f = chat.ReadElement("an object", v, toolMemberNames, m[:]); f == nil {
		f = chat.CheckRequiredString("type", m[toolTypeIndex])
	}
	switch {
	case f != nil:
	case x.isCustom():
		f = chat.FirstInvalidMember(
			chat.CheckFunctionName(m[toolNameIndex]),
			chat.CheckOptionalString("description", m[toolDescriptionIndex]),
			checkToolFormat(m[toolFormatIndex]),
		)
	case m[toolTypeIndex].EqualText("namespace"):
		f = chat.FirstInvalidMember(
			chat.CheckFunctionName(m[toolNameIndex]),
			chat.CheckOptionalString("description", m[toolDescriptionIndex]),
			checkOptional("tools", "an array of tools", m[toolToolsIndex], jsonx.Value.IsArray),
		)
	case m[toolTypeIndex].EqualText("function"):
		f = chat.FirstInvalidMember(
			chat.CheckFunctionName(m[toolNameIndex]),
			chat.CheckOptionalString("description", m[toolDescriptionIndex]),
			chat.CheckOptionalObject("parameters", m[toolParametersIndex]),
			checkOptionalBool("strict", m[toolStrictIndex]),
		)
	}
	return x, f
}

var toolFormatMemberNames = jsonx.NewNameIndex("type", "syntax", "definition")

func checkToolFormat(v jsonx.Value) *requestFault {
	var m [3]jsonx.Value
	if f := chat.ReadObject("format", v, toolFormatMemberNames, m[:]); f != nil || !chat.IsGiven(v) {
		return f
	}
	f := chat.FirstInvalidMember(
		chat.CheckRequiredString("type", m[0]),
		chat.CheckOptionalString("syntax", m[1]),
		chat.CheckOptionalString("definition", m[2]),
	)
	switch {
	case f != nil, m[0].EqualText("text"):
	case !m[0].EqualText("grammar"):
		f = chat.WrongValueError("type", "must be text or grammar")
	default:
		f = chat.CheckRequiredString("definition", m[2])
	}
	return f.InObject("format")
}

func (t *tool) isCustom() bool { return t.m[toolTypeIndex].EqualText("custom") }

func (t *tool) grammar() (text jsonx.Value) {
	if v := t.m[toolFormatIndex]; t.isCustom() && v.Get("type").EqualText("grammar") && v.Get("definition").HasText() {
		text = v.Get("definition")
	}
	return text
}

func readTool(v jsonx.Value) (m [toolMemberCount]jsonx.Value) {
	if toolMemberNames.Fields(v, m[:]) != nil {
		panic("BUG: a tool was not checked")
	}
	return m
}

var (
	choiceMemberNames  = jsonx.NewNameIndex("type", "name", "namespace", "mode", "tools")
	allowedMemberNames = jsonx.NewNameIndex("type", "name", "namespace")
)

const (
	choiceTypeIndex = iota
	choiceNameIndex
	choiceSpaceIndex
	choiceModeIndex
	choiceToolsIndex
	choiceMemberCount
)

// checkChoice checks tool_choice: auto, none or required, one function, or a list of allowed tools.
func (t *toolList) checkChoice(v jsonx.Value) *requestFault {
	t.choice = v
	switch {
	case !chat.IsGiven(v), v.EqualText("auto"), v.EqualText("none"):
		return nil
	case v.EqualText("required"):
		if len(t.entries) == 0 {
			return chat.WrongValueError("tool_choice", "must not be required without tools")
		}
		return nil
	case v.IsString():
		return chat.WrongValueError("tool_choice", "must be auto, none, required or an object")
	case !v.IsObject():
		return chat.WrongTypeError("tool_choice", "a string or an object", v)
	}
	var m [choiceMemberCount]jsonx.Value
	f := chat.ReadFields(v, choiceMemberNames, m[:])
	if f == nil {
		f = chat.CheckRequiredString("type", m[choiceTypeIndex])
	}
	switch {
	case f != nil:
	case runsInClient(m[choiceTypeIndex]):
		_, f = t.find(m[choiceTypeIndex], m[choiceNameIndex], m[choiceSpaceIndex])
	case m[choiceTypeIndex].EqualText("allowed_tools"):
		t.hasAllowedList = true
		_, t.allowedEntries, f = chat.ReadAllowedTools(t.allowedEntries, m[choiceModeIndex], m[choiceToolsIndex], t.findAllowed)
	default:
		f = chat.UnsupportedError("type", onlyClientToolsText)
	}
	return f.InObject("tool_choice")
}

func runsInClient(kind jsonx.Value) bool {
	return kind.EqualText("function") || kind.EqualText("custom")
}

// find returns the position of the tool with the given type, name and namespace.
func (t *toolList) find(kind, name, space jsonx.Value) (int, *requestFault) {
	if f := chat.FirstInvalidMember(chat.CheckFunctionName(name), chat.CheckOptionalString("namespace", space)); f != nil {
		return 0, f
	}
	want, within := string(name.AppendText(nil)), ""
	if chat.IsGiven(space) {
		within = string(space.AppendText(nil))
	}
	for i := range t.entries {
		x := &t.entries[i]
		if x.isCustom() == kind.EqualText("custom") && x.m[toolNameIndex].EqualText(want) &&
			(x.namespace.EqualText(within) || within == "" && !x.namespace.Exists()) {
			return i, nil
		}
	}
	if kind.EqualText("custom") {
		return 0, chat.WrongValueError("name", "names a custom tool that is not in tools")
	}
	return 0, chat.WrongValueError("name", chat.FunctionNotDefinedText)
}

func toolChoiceMode(choice jsonx.Value) []byte {
	if mode := choice.Get("mode"); chat.IsGiven(mode) {
		return mode.Raw()
	}
	return modeAuto
}

var modeAuto = []byte(`"auto"`)

func (t *toolList) findAllowed(v jsonx.Value) (int, *requestFault) {
	var m [3]jsonx.Value
	f := chat.ReadElement("an object", v, allowedMemberNames, m[:])
	if f == nil {
		f = chat.CheckRequiredString("type", m[0])
	}
	if f == nil && !runsInClient(m[0]) {
		f = chat.UnsupportedError("type", onlyClientToolsText)
	}
	if f != nil {
		return 0, f
	}
	return t.find(m[0], m[1], m[2])
}

// write writes the tools. If tool_choice is a list of allowed tools, it writes only the allowed
// tools.
func (t *toolList) write(w *dialects.ChatWriter) {
	if !t.hasTools() {
		return
	}
	w.WriteString(`,"tools":[`)
	n := 0
	for i := range t.entries {
		if !t.isAllowed(i) {
			continue
		}
		w.WriteCommaUnlessFirst(n)
		n++
		w.WriteString(`{"type":"function","function":{`)
		w.Out = append(t.entries[i].appendFunction(w.Out), `}}`...)
	}
	w.WriteString(`]`)
	switch v := t.choice; {
	case t.callsForbidden:
		w.WriteString(`,"tool_choice":"none"`)
	case v.IsString():
		w.WriteRaw(`,"tool_choice":`, v)
	case t.hasAllowedList:
		w.WriteString(`,"tool_choice":`)
		w.Out = append(w.Out, toolChoiceMode(v)...)
	case v.IsObject():
		w.WriteString(`,"tool_choice":{"type":"function","function":{"name":`)
		w.Out = append(t.engineNames.appendName(w.Out, v.Get("namespace"), v.Get("name"), v.Get("type").EqualText("custom")), `}}`...)
	}
}

func (t *tool) appendFunction(dst []byte) []byte {
	w := dialects.ChatWriter{Out: append(dst, `"name":`...)}
	if t.needsEngineName() {
		w.Out = jsonx.AppendStringS(w.Out, t.engineName)
	} else {
		w.Out = append(w.Out, t.m[toolNameIndex].Raw()...)
	}
	if about := rawContents(t.namespaceDescription); len(about) > 0 || t.isCustom() {
		text := appendSeparated(slices.Clone(about), 0, escapedBlankLine, rawContents(t.m[toolDescriptionIndex]))
		w.WriteQuoted(`,"description":`, t.appendInputRule(text))
	} else {
		w.WriteMember(`,"description":`, t.m[toolDescriptionIndex])
	}
	if t.isCustom() {
		w.WriteString(customParameters)
		return w.Out
	}
	w.WriteMember(`,"parameters":`, t.m[toolParametersIndex])
	w.WriteMember(`,"strict":`, t.m[toolStrictIndex])
	return w.Out
}

const customParameters = `,"parameters":{"type":"object","properties":{"input":{"type":"string"}},` +
	`"required":["input"],"additionalProperties":false}`

// appendInputRule appends a sentence to a custom tool's description. The sentence says that the
// input is not JSON. The grammar is only a hint to the model, because engines do not support this
// dialect's grammars.
func (t *tool) appendInputRule(dst []byte) []byte {
	if !t.isCustom() {
		return dst
	}
	dst = appendSeparated(dst, 0, escapedBlankLine, []byte(`Give the whole text as the string \"input\", without a code fence.`))
	if g := t.grammar(); g.Exists() {
		dst = append(dst, ` It must follow this grammar (`...)
		dst = append(append(dst, rawContents(t.m[toolFormatIndex].Get("syntax"))...), `):`+escapedLineEnd...)
		dst = append(dst, g.RawContents()...)
	}
	return dst
}

func rawContents(v jsonx.Value) []byte {
	if !v.IsString() {
		return nil
	}
	return v.RawContents()
}
