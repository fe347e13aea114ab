package messages

import (
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

var (
	toolMemberNames   = jsonx.NewNameIndex("type", "name", "description", "input_schema", "strict")
	choiceMemberNames = jsonx.NewNameIndex("type", "name", "disable_parallel_tool_use")
)

const (
	toolTypeIndex = iota
	toolNameIndex
	toolDescriptionIndex
	toolSchemaIndex
	toolStrictIndex
	toolMemberCount
)

// writeTools writes functions and client tools. It drops server tools, because they run on the
// vendor's servers.
func (r *Request) writeTools(strict bool) *requestFault {
	v := r.members[memberToolsIndex]
	if chat.IsGiven(v) && !v.IsArray() {
		return chat.WrongTypeError("tools", "an array of tool definitions", v)
	}
	functions, dropped := 0, 0
	for it := v.Iter(); it.Next(); {
		var t [toolMemberCount]jsonx.Value
		f := readTool(it.Value(), &t)
		switch {
		case f != nil:
		case isFunction(&t):
			if f = checkFunction(&t); f == nil {
				r.startToolElement(functions)
				functions++
				r.w.WriteFunction(t[toolNameIndex], t[toolDescriptionIndex], t[toolSchemaIndex], t[toolStrictIndex], defaultParametersMember)
			}
		case strict:
			f = chat.UnsupportedError("type", "must be custom or absent; only function tools are supported")
		case findClientTool(t[toolTypeIndex]) != nil:
			if f = chat.CheckFunctionName(t[toolNameIndex]); f == nil {
				r.startToolElement(functions)
				functions++
				findClientTool(t[toolTypeIndex]).write(&r.w, t[toolNameIndex])
			}
		default:
			dropped++
			r.info.dropped.AddTool(t[toolTypeIndex])
		}
		if f != nil {
			return f.InElement("tools", it.Index())
		}
	}
	switch {
	case functions > 0:
		r.w.WriteString(`]`)
	case dropped > 0:
		return chat.UnsupportedError("tools", "must hold at least one tool that you run, other than computer use; "+
			"server tools are not run here")
	}
	return r.writeToolChoice(functions > 0)
}

func (r *Request) startToolElement(n int) {
	if n == 0 {
		r.w.WriteString(`,"tools":[`)
	}
	r.w.WriteCommaUnlessFirst(n)
}

func readTool(v jsonx.Value, t *[toolMemberCount]jsonx.Value) *requestFault {
	if f := chat.ReadElement("an object", v, toolMemberNames, t[:]); f != nil {
		return f
	}
	return chat.CheckOptionalString("type", t[toolTypeIndex])
}

func isFunction(t *[toolMemberCount]jsonx.Value) bool {
	return !chat.IsGiven(t[toolTypeIndex]) || t[toolTypeIndex].EqualText("custom")
}

const defaultParametersMember = `,"parameters":{"type":"object","properties":{}}`

func checkFunction(t *[toolMemberCount]jsonx.Value) *requestFault {
	_, strict := chat.ReadOptionalBool("strict", t[toolStrictIndex], false)
	return chat.FirstInvalidMember(
		chat.CheckFunctionName(t[toolNameIndex]),
		chat.CheckOptionalString("description", t[toolDescriptionIndex]),
		checkSchema(t[toolSchemaIndex]),
		strict,
	)
}

// checkSchema requires that the schema describes an object. For any other schema, an engine would
// write a tool_use that no client can read.
func checkSchema(v jsonx.Value) *requestFault {
	f := chat.CheckOptionalObject("input_schema", v)
	if kind := v.Get("type"); f == nil && chat.IsGiven(kind) && !kind.EqualText("object") {
		f = chat.WrongValueError("type", "must be object").InObject("input_schema")
	}
	return f
}

// writeToolChoice writes nothing if there are no tools, because engines reject a tool_choice
// without tools.
func (r *Request) writeToolChoice(tools bool) *requestFault {
	v := r.members[memberToolChoiceIndex]
	var c [3]jsonx.Value
	if f := chat.ReadObject("tool_choice", v, choiceMemberNames, c[:]); f != nil || !chat.IsGiven(v) {
		return f
	}
	kind, name := c[0], c[1]
	if f := chat.CheckRequiredString("type", kind); f != nil {
		return f.InObject("tool_choice")
	}
	single, f := chat.ReadOptionalBool("disable_parallel_tool_use", c[2], false)
	word := ""
	switch {
	case f != nil:
	case kind.EqualText("auto"):
		word = "auto"
	case kind.EqualText("none"):
		word = "none"
	case kind.EqualText("any"):
		word = "required"
	case !kind.EqualText("tool"):
		f = chat.WrongValueError("type", "must be one of auto, any, tool and none")
	case tools:
		if f = requiredText("name", name); f == nil && !r.definesTool(name) {
			f = chat.WrongValueError("name", "must name one of the function tools")
		}
	}
	switch {
	case f != nil:
		return f.InObject("tool_choice")
	case !tools && (word == "" || word == "required"):
		return chat.WrongValueError("tool_choice", "demands a call, but there are no tools")
	case !tools:
		return nil
	case word != "":
		r.w.WriteString(`,"tool_choice":"` + word + `"`)
	default:
		r.w.WriteToolChoice(name)
	}
	if single {
		r.w.WriteString(`,"parallel_tool_calls":false`)
	}
	return nil
}

func (r *Request) definesTool(name jsonx.Value) bool {
	want := string(name.AppendText(nil))
	for it := r.members[memberToolsIndex].Iter(); it.Next(); {
		var t [toolMemberCount]jsonx.Value
		if readTool(it.Value(), &t) == nil && t[toolNameIndex].EqualText(want) &&
			(isFunction(&t) || findClientTool(t[toolTypeIndex]) != nil) {
			return true
		}
	}
	return false
}
