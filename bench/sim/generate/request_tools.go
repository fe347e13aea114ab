package generate

import (
	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
)

func (d *Decoder) checkTools(v *fastjson.Value) ([]*fastjson.Value, *profile.APIError) {
	t := v.Get("tools")
	if t == nil || t.Type() == fastjson.TypeNull {
		return nil, nil
	}
	if t.Type() != fastjson.TypeArray {
		if d.Profile.Family == "llamacpp" {
			return nil, &profile.APIError{Status: 500, Message: "Failed to parse tools: Expected 'tools' to be an array"}
		}
		return nil, profile.InvalidParam("tools", "Input should be a valid list: tools")
	}
	list := t.GetArray()
	for i, one := range list {
		if string(one.GetStringBytes("type")) != "function" || len(one.GetStringBytes("function", "name")) == 0 {
			if d.Profile.Family == "llamacpp" {
				return nil, &profile.APIError{Status: 500, Message: "Failed to parse tools: missing function"}
			}
			return nil, profile.InvalidParam("tools", "Input should be a function with a name: tools[%d]", i)
		}
	}
	return list, nil
}

// chooseTool decides whether the response calls a tool, and which one.
func (d *Decoder) chooseTool(v *fastjson.Value, q *Request, tools []*fastjson.Value) *profile.APIError {
	choice := v.Get("tool_choice")
	want, name := "auto", ""
	if choice != nil {
		switch choice.Type() {
		case fastjson.TypeNull:
		case fastjson.TypeString:
			want = string(choice.GetStringBytes())
			if want != "auto" && want != "none" && want != "required" {
				if d.Profile.Family == "llamacpp" {
					return &profile.APIError{Status: 500, Message: "Invalid tool_choice: " + want}
				}
				return profile.InvalidParam("tool_choice", "Invalid value for `tool_choice`: %s", want)
			}
		case fastjson.TypeObject:
			name = string(choice.GetStringBytes("function", "name"))
			if name == "" {
				return profile.InvalidParam("tool_choice", "Field required: tool_choice.function.name")
			}
			switch d.Profile.NamedTool {
			case profile.NamedToolRefused:
				return profile.InvalidParam("tool_choice", "Invalid tool_choice type: 'object'. Supported string values: none, auto, required")
			case profile.NamedToolAsAuto:
			default:
				want = "named"
			}
		default:
			return profile.InvalidParam("tool_choice", "Invalid value for `tool_choice`.")
		}
	}
	if len(tools) == 0 {
		if want == "required" || want == "named" {
			return profile.InvalidParam("tool_choice", "When using `tool_choice`, `tools` must be set.")
		}
		return nil
	}
	if d.Profile.FirstTool {
		want, name = "auto", ""
	}
	var tool *fastjson.Value
	if want == "named" {
		for _, t := range tools {
			if string(t.GetStringBytes("function", "name")) == name {
				tool = t
			}
		}
		if tool == nil {
			return profile.InvalidParam("tool_choice", "The tool specified in `tool_choice` does not match any of the specified `tools`")
		}
		q.namesTool = true
	}
	if want == "none" || d.Controls.Speak || want == "auto" && q.afterToolResult || q.hasFixed {
		return nil
	}
	n := max(1, d.Controls.ToolCalls, d.Faults.MinCalls)
	if p := v.Get("parallel_tool_calls"); p != nil && p.Type() == fastjson.TypeFalse || d.Profile.Family == "tgi" {
		n = 1
	}
	for i := range n {
		t := tool
		if t == nil {
			t = tools[i%len(tools)]
		}
		h := textgen.MixHash(q.Prompt.FullHash()^q.seed, uint64(i)+77)
		c := profile.ToolCall{
			ID:   d.Profile.CallID.FormatID(d.NextID()),
			Name: string(t.GetStringBytes("function", "name")),
			Args: string(textgen.AppendSchemaSample(nil, t.Get("function", "parameters"), t.Get("function", "parameters"), h, 0)),
		}
		if d.Faults.SplitNames {
			c.Head = len(c.Name) / 2
		}
		if d.Faults.BadArgs {
			c.Args = `{"city": "Par` + "\n" + `is", "days": }`
		}
		q.Calls = append(q.Calls, c)
	}
	return nil
}

func (d *Decoder) decodeResponseFormat(v *fastjson.Value, q *Request) *profile.APIError {
	f := v.Get("response_format")
	if f == nil || f.Type() == fastjson.TypeNull || q.hasFixed {
		return nil
	}
	seed := textgen.MixHash(q.Prompt.FullHash()^q.seed, 5)
	kind := string(f.GetStringBytes("type"))
	switch {
	case d.Profile.Formats == "schemas" && kind == "json_object":
		return profile.InvalidParam("response_format", "'response_format.type' must be 'json_schema' or 'text'")
	case d.Profile.Formats == "value" && (kind == "text" || f.Get("value") == nil):
		return &profile.APIError{Status: 422, Message: "Failed to deserialize the JSON body into the target type: response_format: missing field `value`"}
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		s := f.Get("schema")
		if d.Profile.Formats == "value" {
			s = f.Get("value")
		}
		if s != nil {
			q.fixed = string(textgen.AppendSchemaSample(nil, s, s, seed, 0))
		} else {
			q.fixed = `{"answer":` + string(textgen.AppendSampleWord(nil, seed)) + `,"steps":[1,2,3],"sure":true}`
		}
	case "json_schema":
		s := f.Get("json_schema", "schema")
		if d.Profile.Formats == "value" {
			s = f.Get("value", "schema")
		}
		if s == nil || s.Type() != fastjson.TypeObject {
			return profile.InvalidParam("response_format", "Field required: response_format.json_schema.schema")
		}
		q.fixed = string(textgen.AppendSchemaSample(nil, s, s, seed, 0))
	default:
		return profile.InvalidParam("response_format", "Invalid response_format type: %s", kind)
	}
	q.hasFixed = true
	return nil
}

// decodeReasoning determines how many reasoning tokens precede the text.
func (d *Decoder) decodeReasoning(v *fastjson.Value, q *Request) {
	switch effort := string(v.GetStringBytes("reasoning_effort")); effort {
	case "", "none":
	case "minimal", "low":
		q.reasoning = 8
	case "high", "xhigh", "max":
		q.reasoning = 32
	default:
		q.reasoning = 16
	}
	if t := v.Get("chat_template_kwargs", "enable_thinking"); t != nil {
		switch {
		case t.Type() == fastjson.TypeFalse:
			q.reasoning = 0
		case t.Type() == fastjson.TypeTrue && q.reasoning == 0:
			q.reasoning = 16
		}
	}
	if d.Controls.Reasoning >= 0 {
		q.reasoning = d.Controls.Reasoning
	}
	if d.Profile.Reasoning == "" { // the engine does not separate thoughts from text
		q.reasoning = 0
	}
	if r := v.Get("include_reasoning"); r != nil && r.Type() == fastjson.TypeFalse {
		q.ExcludeReasoning = true
	}
}
