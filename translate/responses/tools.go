package responses

import (
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// tools is what the lists of tools amount to.
type tools struct {
	functions int   // how many of the tools are functions
	hosted    int   // the first tool that is none, -1 when there is no such
	allowed   []int // the positions of the functions that tool_choice allows, when limited
	limited   bool
}

func (t *tools) reset() { *t = tools{hosted: -1, allowed: t.allowed[:0]} }

// allows reports whether the tool at that position is to be shown to the engine.
func (t *tools) allows(i int) bool {
	if !t.limited {
		return true
	}
	for _, j := range t.allowed {
		if i == j {
			return true
		}
	}
	return false
}

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

// decodeTools checks the tools. Those that a host would run are dropped beside functions, because
// agents offer them unasked; alone they are refused.
func (r *Request) decodeTools() *fault {
	r.tools.reset()
	v := r.members[memberTools]
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
			r.tools.functions++
		case r.tools.hosted < 0:
			r.tools.hosted = it.Index()
		}
	}
	if r.tools.functions == 0 && r.tools.hosted >= 0 {
		return chat.Unsupported("tools", onlyFunctions+", and the list holds none")
	}
	return nil
}

// checkTool checks one tool and reports whether it is a function.
func checkTool(v jsonx.Value) (function bool, f *fault) {
	if !v.IsObject() {
		return false, chat.WrongType("", "an object", v)
	}
	var m [toolCount]jsonx.Value
	if f := chat.ReadFields(v, toolNames, m[:]); f != nil {
		return false, f
	}
	if f := chat.RequiredString("type", m[toolType]); f != nil {
		return false, f
	}
	switch {
	case m[toolType].EqualText("custom"):
		// Not dropped like the others: a model without its tool for patches writes them as prose.
		return false, chat.Unsupported("type", "Custom tools take free text, which the engines do not: define a function")
	case !m[toolType].EqualText("function"):
		return false, nil
	}
	for _, f := range [...]*fault{
		requiredName(m[toolName]),
		chat.OptionalString("description", m[toolDescription]),
		chat.OptionalObject("parameters", m[toolParameters]),
		optionalBool("strict", m[toolStrict]),
	} {
		if f != nil {
			return true, f
		}
	}
	return true, nil
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

// checkToolChoice checks the forms of tool_choice: three words, one function, or a list of allowed
// ones.
func (r *Request) checkToolChoice() *fault {
	v := r.members[memberToolChoice]
	switch {
	case !chat.Given(v):
		return nil
	case v.IsString():
		switch {
		case v.EqualText("auto"), v.EqualText("none"):
			return nil
		case !v.EqualText("required"):
			return chat.WrongValue("tool_choice", "must be auto, none, required or an object")
		case r.tools.functions == 0:
			return chat.WrongValue("tool_choice", "must not be required without tools")
		}
		return nil
	case !v.IsObject():
		return chat.WrongType("tool_choice", "a string or an object", v)
	}
	var m [choiceCount]jsonx.Value
	f := chat.ReadFields(v, choiceNames, m[:])
	if f == nil {
		f = chat.RequiredString("type", m[choiceType])
	}
	if f == nil {
		switch {
		case m[choiceType].EqualText("function"):
			_, f = r.findTool(m[choiceName])
		case m[choiceType].EqualText("allowed_tools"):
			f = r.checkAllowed(m[choiceMode], m[choiceTools])
		default:
			f = chat.Unsupported("type", onlyFunctions)
		}
	}
	if f != nil {
		return f.In("tool_choice")
	}
	return nil
}

// findTool returns the position of the function with that name.
func (r *Request) findTool(name jsonx.Value) (int, *fault) {
	if f := requiredName(name); f != nil {
		return 0, f
	}
	want, ok := name.Text()
	if !ok {
		want = name.AppendText(nil)
	}
	for it := r.members[memberTools].Iter(); it.Next(); {
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

// checkAllowed reads the list of allowed tools.
func (r *Request) checkAllowed(mode, list jsonx.Value) (f *fault) {
	r.tools.limited = true
	_, r.tools.allowed, f = chat.AllowedTools(r.tools.allowed, mode, list, r.checkAllowedTool)
	return f
}

func (r *Request) checkAllowedTool(v jsonx.Value) (int, *fault) {
	if !v.IsObject() {
		return 0, chat.WrongType("", "an object", v)
	}
	var m [2]jsonx.Value
	if f := chat.ReadFields(v, allowedNames, m[:]); f != nil {
		return 0, f
	}
	if f := chat.RequiredString("type", m[0]); f != nil {
		return 0, f
	}
	if !m[0].EqualText("function") {
		return 0, chat.Unsupported("type", onlyFunctions)
	}
	return r.findTool(m[1])
}
