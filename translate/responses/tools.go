package responses

import (
	"slices"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// tools is what the lists of tools amount to.
type tools struct {
	list      jsonx.Value
	choice    jsonx.Value
	functions int   // how many of the tools are functions
	hosted    int   // the first tool that is none, -1 when there is no such
	allowed   []int // the positions of the functions that tool_choice allows, when limited
	limited   bool  // tool_choice is a list of allowed tools
}

func (t *tools) reset() { *t = tools{hosted: -1, allowed: t.allowed[:0]} }

// any reports whether the engine is shown a tool.
func (t *tools) any() bool {
	return t.functions > 0 && (!t.limited || len(t.allowed) > 0)
}

var toolNames = jsonx.NewNames("type", "name", "description", "parameters", "strict")

// The members of a tool.
const (
	toolType = iota
	toolName
	toolDescription
	toolParameters
	toolStrict
	toolCount
)

// maxTools bounds both lists of tools, for every allowed one is looked for among all.
const (
	maxTools = 1024
	tooMany  = "must hold at most 1024 tools"
)

const onlyFunctions = "Only function tools run here, in the client"

// decode checks the tools. Those that a host would run are dropped beside functions, because
// agents offer them unasked; alone they are refused.
func (t *tools) decode(v jsonx.Value) *fault {
	t.reset()
	t.list = v
	if f := optional("tools", "an array of tools", v, jsonx.Value.IsArray); f != nil {
		return f
	}
	for it := v.Iter(); it.Next(); {
		if it.Index() == maxTools {
			return chat.WrongValue("tools", tooMany)
		}
		function, f := checkTool(it.Value())
		switch {
		case f != nil:
			return f.At("tools", it.Index())
		case function:
			t.functions++
		case t.hosted < 0:
			t.hosted = it.Index()
		}
	}
	if t.functions == 0 && t.hosted >= 0 {
		return chat.Unsupported("tools", onlyFunctions+", and the list holds none")
	}
	return nil
}

// checkTool checks one tool and reports whether it is a function.
func checkTool(v jsonx.Value) (function bool, f *fault) {
	var m [toolCount]jsonx.Value
	if f = chat.ReadElement("an object", v, toolNames, m[:]); f == nil {
		f = chat.RequiredString("type", m[toolType])
	}
	switch {
	case f != nil:
		return false, f
	case m[toolType].EqualText("custom"):
		// Not dropped like the others: a model without its tool for patches writes them as prose.
		return false, chat.Unsupported("type", "Custom tools take free text, which the engines do not: define a function")
	case !m[toolType].EqualText("function"):
		return false, nil
	}
	return true, chat.First(
		chat.RequiredFunctionName(m[toolName]),
		chat.OptionalString("description", m[toolDescription]),
		chat.OptionalObject("parameters", m[toolParameters]),
		optionalBool("strict", m[toolStrict]),
	)
}

// readTool returns the members of a tool that has been checked.
func readTool(v jsonx.Value) (m [toolCount]jsonx.Value, function bool) {
	if toolNames.Fields(v, m[:]) != nil {
		panic("BUG: a tool was not checked")
	}
	return m, m[toolType].EqualText("function")
}

var (
	choiceNames  = jsonx.NewNames("type", "name", "mode", "tools")
	allowedNames = jsonx.NewNames("type", "name")
)

// The members of tool_choice.
const (
	choiceType = iota
	choiceName
	choiceMode
	choiceTools
	choiceCount
)

// checkChoice checks the forms of tool_choice: three words, one function, or a list of allowed
// ones.
func (t *tools) checkChoice(v jsonx.Value) *fault {
	t.choice = v
	switch {
	case !chat.Given(v), v.EqualText("auto"), v.EqualText("none"):
		return nil
	case v.EqualText("required"):
		if t.functions == 0 {
			return chat.WrongValue("tool_choice", "must not be required without tools")
		}
		return nil
	case v.IsString():
		return chat.WrongValue("tool_choice", "must be auto, none, required or an object")
	case !v.IsObject():
		return chat.WrongType("tool_choice", "a string or an object", v)
	}
	var m [choiceCount]jsonx.Value
	f := chat.ReadFields(v, choiceNames, m[:])
	if f == nil {
		f = chat.RequiredString("type", m[choiceType])
	}
	switch {
	case f != nil:
	case m[choiceType].EqualText("function"):
		_, f = t.find(m[choiceName])
	case m[choiceType].EqualText("allowed_tools"):
		t.limited = true
		_, t.allowed, f = chat.AllowedTools(t.allowed, m[choiceMode], m[choiceTools], t.findAllowed)
	default:
		f = chat.Unsupported("type", onlyFunctions)
	}
	return f.In("tool_choice")
}

// find returns the position of the function with that name.
func (t *tools) find(name jsonx.Value) (int, *fault) {
	if f := chat.RequiredFunctionName(name); f != nil {
		return 0, f
	}
	want, ok := name.Text()
	if !ok {
		want = name.AppendText(nil)
	}
	for it := t.list.Iter(); it.Next(); {
		if m, function := readTool(it.Value()); function && m[toolName].EqualText(string(want)) {
			return it.Index(), nil
		}
	}
	return 0, chat.WrongValue("name", chat.NotDefined)
}

// modeOf returns the mode of a list of allowed tools, which is auto unless it is given.
func modeOf(choice jsonx.Value) []byte {
	if mode := choice.Get("mode"); chat.Given(mode) {
		return mode.Raw()
	}
	return modeAuto
}

var modeAuto = []byte(`"auto"`)

// findAllowed returns the position of the function that an element of a list of allowed tools
// names.
func (t *tools) findAllowed(v jsonx.Value) (int, *fault) {
	var m [2]jsonx.Value
	f := chat.ReadElement("an object", v, allowedNames, m[:])
	if f == nil {
		f = chat.RequiredString("type", m[0])
	}
	if f == nil && !m[0].EqualText("function") {
		f = chat.Unsupported("type", onlyFunctions)
	}
	if f != nil {
		return 0, f
	}
	return t.find(m[1])
}

// write writes the functions that the engine is shown, and tool_choice. A list of allowed tools has
// become the list of tools.
func (t *tools) write(w *dialects.ChatWriter) {
	if !t.any() {
		return
	}
	w.String(`,"tools":[`)
	n := 0
	for it := t.list.Iter(); it.Next(); {
		m, function := readTool(it.Value())
		if !function || t.limited && !slices.Contains(t.allowed, it.Index()) {
			continue
		}
		w.Comma(n)
		n++
		w.Function(m[toolName], m[toolDescription], m[toolParameters], m[toolStrict], "")
	}
	w.String(`]`)
	switch v := t.choice; {
	case v.IsString():
		w.Raw(`,"tool_choice":`, v)
	case t.limited:
		w.String(`,"tool_choice":`)
		w.Out = append(w.Out, modeOf(v)...)
	case v.IsObject():
		w.ChooseFunction(v.Get("name"))
	}
}
