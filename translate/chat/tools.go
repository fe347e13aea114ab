package chat

import "penstock/translate/jsonx"

// MaxFunctionName is the length in bytes that the name of a function may have. Names of MCP tools
// go far beyond the 64 of some vendors.
const MaxFunctionName = 256

var (
	toolNames         = jsonx.NewNames("type", "function")
	toolFunctionNames = jsonx.NewNames("name", "description", "parameters", "strict")
	choiceNames       = jsonx.NewNames("name")
)

func (r *Request) decodeTools() *Invalid {
	v := r.members[memberTools]
	switch {
	case !Given(v):
		return nil
	case !v.IsArray():
		return WrongType("tools", "an array of tool definitions", v)
	}
	for it := v.Iter(); it.Next(); {
		if e := checkTool(it.Value()); e != nil {
			return e.At("tools", it.Index())
		}
		r.HasTools = true
	}
	if r.HasTools { // templates write the definitions into the prompt
		r.PromptBytes += v.End() - v.Start()
	}
	return nil
}

func checkTool(v jsonx.Value) *Invalid {
	if !v.IsObject() {
		return WrongType("", "an object", v)
	}
	var t [2]jsonx.Value
	if e := ReadFields(v, toolNames, t[:]); e != nil {
		return e
	}
	if e := functionType(t[0]); e != nil {
		return e
	}
	function, e := requiredFunction(t[1])
	if e != nil {
		return e
	}
	if e := checkFunction(function); e != nil {
		return e.In("function")
	}
	return nil
}

func checkFunction(v jsonx.Value) *Invalid {
	var f [4]jsonx.Value
	if e := ReadFields(v, toolFunctionNames, f[:]); e != nil {
		return e
	}
	if e := functionName(f[0]); e != nil {
		return e
	}
	if e := OptionalString("description", f[1]); e != nil {
		return e
	}
	if e := OptionalObject("parameters", f[2]); e != nil {
		return e
	}
	_, e := OptionalBool("strict", f[3], false)
	return e
}

func functionName(v jsonx.Value) *Invalid {
	if e := RequiredString("name", v); e != nil {
		return e
	}
	name, ok := v.Text()
	if !ok {
		name = v.AppendText(nil)
	}
	switch {
	case len(name) == 0:
		return WrongValue("name", "must not be empty")
	case len(name) > MaxFunctionName:
		return WrongValue("name", "must be at most 256 bytes long")
	}
	return nil
}

// choiceAny is Mistral's word for required.
const choiceAny = "any"

// checkToolChoice checks the forms of tool_choice: the three words, Mistral's for one of them, one
// named function, or a list of allowed tools. Whether the named function is defined is left to the
// engine, which says so by name.
func (r *Request) checkToolChoice() *Invalid {
	v := r.members[memberToolChoice]
	switch {
	case !Given(v):
		return nil
	case v.IsString():
		if v.EqualText("auto") || v.EqualText("none") || v.EqualText("required") {
			return nil
		}
		if r.anyTool = v.EqualText(choiceAny); r.anyTool {
			return nil
		}
		return WrongValue("tool_choice", "must be auto, none, required or an object that names a function")
	case !v.IsObject():
		return WrongType("tool_choice", "a string or an object", v)
	}
	var t [2]jsonx.Value
	if e := ReadFields(v, toolNames, t[:]); e != nil {
		return e.In("tool_choice")
	}
	if e := RequiredString("type", t[0]); e != nil {
		return e.In("tool_choice")
	}
	switch {
	case t[0].EqualText("allowed_tools"):
		return nil
	case !t[0].EqualText("function"):
		return WrongValue("type", "must be function or allowed_tools").In("tool_choice")
	}
	function, e := requiredFunction(t[1])
	if e != nil {
		return e.In("tool_choice")
	}
	var f [1]jsonx.Value
	if e := ReadFields(function, choiceNames, f[:]); e != nil {
		return e.In("function").In("tool_choice")
	}
	if e := functionName(f[0]); e != nil {
		return e.In("function").In("tool_choice")
	}
	return nil
}

var responseFormatNames = jsonx.NewNames("type", "json_schema")

func (r *Request) decodeResponseFormat() *Invalid {
	v := r.members[memberResponseFormat]
	if e := OptionalObject("response_format", v); e != nil {
		return e
	}
	if !Given(v) {
		return nil
	}
	var f [2]jsonx.Value
	if e := ReadFields(v, responseFormatNames, f[:]); e != nil {
		return e.In("response_format")
	}
	if e := RequiredString("type", f[0]); e != nil {
		return e.In("response_format")
	}
	switch {
	case f[0].EqualText("text"):
		return nil
	case f[0].EqualText("json_object"):
		r.StructuredOutput = true
		return nil
	case !f[0].EqualText("json_schema"):
		return WrongValue("type", "must be text, json_object or json_schema").In("response_format")
	case !Given(f[1]):
		return Missing("json_schema").In("response_format")
	case !f[1].IsObject():
		return WrongType("json_schema", "an object", f[1]).In("response_format")
	}
	r.StructuredOutput, r.schema = true, true
	return nil
}
