package chat

import (
	"strconv"

	"penstock/translate/jsonx"
)

// MaxFunctionName is the maximum length of a function name. The names of MCP tools are often much
// longer than the 64 bytes that some vendors allow.
const MaxFunctionName = 256

var (
	toolMemberNames         = jsonx.NewNameIndex("type", "function")
	toolFunctionMemberNames = jsonx.NewNameIndex("name", "description", "parameters", "strict")
	choiceMemberNames       = jsonx.NewNameIndex("name")
	toolChoiceMemberNames   = jsonx.NewNameIndex("type", "function", "allowed_tools")
	allowedMemberNames      = jsonx.NewNameIndex("mode", "tools")
)

// ToolUse contains the tool settings of a request.
type ToolUse struct {
	// Offered is true if at least one tool is defined.
	Offered bool
	// Forced is true if the model must call a tool. Unused is true if it must not.
	Forced, Unused bool
	// Single is true if parallel_tool_calls is false.
	Single bool

	choiceIsAny   bool
	namedFunction jsonx.Value
	allowed       allowedTools
}

func (u *ToolUse) reset() { *u = ToolUse{allowed: allowedTools{positions: u.allowed.positions[:0]}} }

func (u *ToolUse) check(rules *ModelRules) *InvalidMember {
	if u.choiceIsAny && rules.Strict {
		return UnsupportedError("tool_choice", "must be auto, none, required or an object that names a function")
	}
	return nil
}

func (u *ToolUse) decode(tools jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(tools):
		return nil
	case !tools.IsArray():
		return WrongTypeError("tools", "an array of tool definitions", tools)
	}
	for it := tools.Iter(); it.Next(); {
		if e := checkTool(it.Value()); e != nil {
			return e.InElement("tools", it.Index())
		}
		u.Offered = true
	}
	return nil
}

func checkTool(v jsonx.Value) *InvalidMember {
	var t [2]jsonx.Value
	if e := ReadElement("an object", v, toolMemberNames, t[:]); e != nil {
		return e
	}
	if e := checkFunctionType(t[0]); e != nil {
		return e
	}
	function, e := readRequiredFunction(t[1])
	if e != nil {
		return e
	}
	return checkFunction(function).InObject("function")
}

func checkFunction(v jsonx.Value) *InvalidMember {
	var f [4]jsonx.Value
	if e := ReadFields(v, toolFunctionMemberNames, f[:]); e != nil {
		return e
	}
	if e := FirstInvalidMember(CheckFunctionName(f[0]), CheckOptionalString("description", f[1])); e != nil {
		return e
	}
	if e := CheckOptionalObject("parameters", f[2]); e != nil {
		return e
	}
	_, e := ReadOptionalBool("strict", f[3], false)
	return e
}

// CheckFunctionName checks that v is a valid function name.
func CheckFunctionName(v jsonx.Value) *InvalidMember {
	if e := CheckRequiredString("name", v); e != nil {
		return e
	}
	switch name := textBytes(v); {
	case len(name) == 0:
		return WrongValueError("name", "must not be empty")
	case len(name) > MaxFunctionName:
		return WrongValueError("name", "must be at most 256 bytes long")
	}
	return nil
}

// choiceAny is Mistral's word for required.
const choiceAny = "any"

// decodeChoice accepts auto, none, required, Mistral's any, one named function, or a list of
// allowed tools. The engine checks whether the named function is defined.
func (u *ToolUse) decodeChoice(v, tools jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(v):
		return nil
	case v.IsString():
		u.Forced, u.Unused = v.EqualText("required"), v.EqualText("none")
		if u.Forced || u.Unused || v.EqualText("auto") {
			return nil
		}
		if u.choiceIsAny = v.EqualText(choiceAny); u.choiceIsAny {
			u.Forced = true
			return nil
		}
		return WrongValueError("tool_choice", "must be auto, none, required or an object that names a function")
	case !v.IsObject():
		return WrongTypeError("tool_choice", "a string or an object", v)
	}
	return u.decodeChoiceObject(v, tools).InObject("tool_choice")
}

func (u *ToolUse) decodeChoiceObject(v, tools jsonx.Value) *InvalidMember {
	var t [3]jsonx.Value
	if e := ReadFields(v, toolChoiceMemberNames, t[:]); e != nil {
		return e
	}
	if e := CheckRequiredString("type", t[0]); e != nil {
		return e
	}
	switch {
	case t[0].EqualText("allowed_tools"):
		return u.decodeAllowed(t[2], tools)
	case !t[0].EqualText("function"):
		return WrongValueError("type", "must be function or allowed_tools")
	}
	name, e := functionName(t[1])
	u.namedFunction, u.Forced = name, true
	return e
}

func functionName(v jsonx.Value) (name jsonx.Value, e *InvalidMember) {
	function, e := readRequiredFunction(v)
	if e != nil {
		return v, e
	}
	var f [1]jsonx.Value
	if e = ReadFields(function, choiceMemberNames, f[:]); e == nil {
		e = CheckFunctionName(f[0])
	}
	return f[0], e.InObject("function")
}

type allowedTools struct {
	limited   bool
	mode      string
	positions []int
}

func (u *ToolUse) decodeAllowed(v, tools jsonx.Value) *InvalidMember {
	switch {
	case !IsGiven(v):
		return MissingError("allowed_tools")
	case !v.IsObject():
		return WrongTypeError("allowed_tools", "an object", v)
	}
	var m [2]jsonx.Value
	e := ReadFields(v, allowedMemberNames, m[:])
	if e == nil {
		u.allowed.limited = true
		find := func(v jsonx.Value) (int, *InvalidMember) { return findAllowed(v, tools) }
		u.allowed.mode, u.allowed.positions, e = ReadAllowedTools(u.allowed.positions, m[0], m[1], find)
		u.Forced = u.allowed.mode == "required"
	}
	return e.InObject("allowed_tools")
}

// ReadAllowedTools reads a list of allowed tools. Engines do not support these lists, so they
// receive only the allowed tools, and the mode (auto by default) as tool_choice. find returns the
// position of an element in tools.
func ReadAllowedTools(
	positions []int, mode, list jsonx.Value, find func(jsonx.Value) (int, *InvalidMember),
) (word string, at []int, e *InvalidMember) {
	if e := CheckOptionalString("mode", mode); e != nil {
		return "", positions, e
	}
	switch {
	case !IsGiven(mode), mode.EqualText("auto"):
		word = "auto"
	case mode.EqualText("required"):
		word = "required"
	case mode.EqualText("none"):
		word = "none"
	default:
		return "", positions, WrongValueError("mode", "must be auto, required or none")
	}
	switch {
	case !IsGiven(list):
		return word, positions, MissingError("tools")
	case !list.IsArray():
		return word, positions, WrongTypeError("tools", "an array of tools", list)
	}
	for it := list.Iter(); it.Next(); {
		if it.Index() == maxTools { // limits the work, because find searches all tools for each element
			return word, positions, WrongValueError("tools", "must hold at most "+strconv.Itoa(maxTools)+" tools")
		}
		position, e := find(it.Value())
		if e != nil {
			return word, positions, e.InElement("tools", it.Index())
		}
		positions = append(positions, position)
	}
	if len(positions) == 0 {
		return word, positions, WrongValueError("tools", "must name at least one function")
	}
	return word, positions, nil
}

// FunctionNotDefinedText is the error text for an allowed function that tools does not define.
const FunctionNotDefinedText = "names a function that is not in tools"

func findAllowed(v, tools jsonx.Value) (int, *InvalidMember) {
	var t [2]jsonx.Value
	if e := ReadElement("an object", v, toolMemberNames, t[:]); e != nil {
		return 0, e
	}
	if e := checkFunctionType(t[0]); e != nil {
		return 0, e
	}
	name, e := functionName(t[1])
	if e != nil {
		return 0, e
	}
	if at := findToolByName(tools, name); at >= 0 {
		return at, nil
	}
	return 0, WrongValueError("name", FunctionNotDefinedText).InObject("function")
}

var responseFormatMemberNames = jsonx.NewNameIndex("type", "json_schema")

func (r *Request) decodeResponseFormat() *InvalidMember {
	v := r.members[memberResponseFormatIndex]
	var f [2]jsonx.Value
	if e := ReadObject("response_format", v, responseFormatMemberNames, f[:]); e != nil || !IsGiven(v) {
		return e
	}
	return r.decodeFormat(f[0], f[1]).InObject("response_format")
}

func (r *Request) decodeFormat(kind, schema jsonx.Value) *InvalidMember {
	if e := CheckRequiredString("type", kind); e != nil {
		return e
	}
	switch {
	case kind.EqualText("text"):
		return nil
	case kind.EqualText("json_object"):
		r.StructuredOutput = true
		return nil
	case !kind.EqualText("json_schema"):
		return WrongValueError("type", "must be text, json_object or json_schema")
	case !IsGiven(schema):
		return MissingError("json_schema")
	}
	r.StructuredOutput, r.schema = true, true
	return CheckOptionalObject("json_schema", schema)
}
