package messages

import (
	"bytes"
	"slices"

	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

var (
	toolNames   = jsonx.NewNames("type", "name", "description", "input_schema", "strict")
	choiceNames = jsonx.NewNames("type", "name", "disable_parallel_tool_use")
)

const (
	toolType = iota
	toolName
	toolDescription
	toolSchema
	toolStrict
	toolMembers
)

// tools writes tools, tool_choice and parallel_tool_calls. Server tools run on somebody else's
// servers; what is left when they are dropped are the functions.
func (r *Request) tools(strict bool) *fault {
	v := r.members[memberTools]
	if chat.Given(v) && !v.IsArray() {
		return chat.WrongType("tools", "an array of tool definitions", v)
	}
	functions, dropped, clients := 0, 0, 0
	for it := v.Iter(); it.Next(); {
		var t [toolMembers]jsonx.Value
		f := readTool(it.Value(), &t)
		switch {
		case f != nil:
		case isFunction(&t):
			if f = checkFunction(&t); f == nil {
				if functions == 0 {
					r.w.String(`,"tools":[`)
				}
				r.w.Comma(functions)
				functions++
				r.w.Function(t[toolName], t[toolDescription], t[toolSchema], t[toolStrict], noSchema)
			}
		case strict:
			f = chat.Unsupported("type", "must be custom or absent; only function tools are supported")
		default:
			dropped++
			if isClientTool(t[toolType]) {
				clients++
			}
		}
		if f != nil {
			return f.At("tools", it.Index())
		}
	}
	switch {
	case functions > 0:
		r.w.String(`]`)
	case clients > 0:
		return chat.Unsupported("tools", "must hold at least one tool with an input_schema; "+
			"bash, text_editor, memory and computer tools have none, and models here do not know them by name")
	case dropped > 0:
		return chat.Unsupported("tools", "must hold at least one function tool; server tools are not run here")
	}
	return r.toolChoice(functions > 0)
}

func readTool(v jsonx.Value, t *[toolMembers]jsonx.Value) *fault {
	if !v.IsObject() {
		return chat.WrongType("", "an object", v)
	}
	if f := chat.ReadFields(v, toolNames, t[:]); f != nil {
		return f
	}
	return chat.OptionalString("type", t[toolType])
}

func isFunction(t *[toolMembers]jsonx.Value) bool {
	return !chat.Given(t[toolType]) || t[toolType].EqualText("custom")
}

// isClientTool reports whether a type is one of Anthropic's tools that the client runs, and whose
// schema is not sent. A date follows.
func isClientTool(kind jsonx.Value) bool {
	name := kind.AppendText(nil)
	return slices.ContainsFunc(clientTools, func(prefix []byte) bool { return bytes.HasPrefix(name, prefix) })
}

var clientTools = [][]byte{[]byte("bash_"), []byte("text_editor_"), []byte("memory_"), []byte("computer_")}

// noSchema is what templates read of a tool without one.
const noSchema = `{"type":"object","properties":{}}`

func checkFunction(t *[toolMembers]jsonx.Value) *fault {
	f := chat.RequiredFunctionName(t[toolName])
	if f == nil {
		f = chat.OptionalString("description", t[toolDescription])
	}
	if f == nil {
		f = chat.OptionalObject("input_schema", t[toolSchema])
	}
	if f == nil {
		_, f = chat.OptionalBool("strict", t[toolStrict], false)
	}
	return f
}

func (r *Request) toolChoice(tools bool) *fault {
	v := r.members[memberToolChoice]
	if f := chat.OptionalObject("tool_choice", v); f != nil || !chat.Given(v) {
		return f
	}
	var c [3]jsonx.Value
	if f := chat.ReadFields(v, choiceNames, c[:]); f != nil {
		return f.In("tool_choice")
	}
	if f := chat.RequiredString("type", c[0]); f != nil {
		return f.In("tool_choice")
	}
	single, f := chat.OptionalBool("disable_parallel_tool_use", c[2], false)
	if f != nil {
		return f.In("tool_choice")
	}
	choice := ""
	forced := false
	switch {
	case c[0].EqualText("auto"):
		choice = `"auto"`
	case c[0].EqualText("none"):
		choice = `"none"`
	case c[0].EqualText("any"):
		choice, forced = `"required"`, true
	case c[0].EqualText("tool"):
		forced = true
	default:
		return chat.WrongValue("type", "must be one of auto, any, tool and none").In("tool_choice")
	}
	switch {
	case !tools && forced:
		return chat.WrongValue("tool_choice", "demands a call, but there are no tools")
	case !tools:
		return nil // engines refuse a choice of nothing
	case choice != "":
		r.w.String(`,"tool_choice":` + choice)
	default:
		if f := requiredText("name", c[1]); f != nil {
			return f.In("tool_choice")
		}
		if !r.defines(c[1]) {
			return chat.WrongValue("name", "must name one of the function tools").In("tool_choice")
		}
		r.w.ChooseFunction(c[1])
	}
	if single {
		r.w.String(`,"parallel_tool_calls":false`)
	}
	return nil
}

// defines reports whether a function tool has that name.
func (r *Request) defines(name jsonx.Value) bool {
	want := string(name.AppendText(nil))
	for it := r.members[memberTools].Iter(); it.Next(); {
		var t [toolMembers]jsonx.Value
		if readTool(it.Value(), &t) == nil && isFunction(&t) && t[toolName].EqualText(want) {
			return true
		}
	}
	return false
}
