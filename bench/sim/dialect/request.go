package dialect

import (
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// raw is JSON text.
type raw string

// object writes an object of pairs; an absent value has no member.
func object(pairs ...any) raw {
	o := wire.Members{'{'}
	for i := 1; i < len(pairs); i += 2 {
		var value raw
		switch v := pairs[i].(type) {
		case string:
			value = raw(wire.AppendString(nil, v))
		case raw:
			value = v
		case []raw:
			value = raw(list(v))
		case *fastjson.Value:
			if v != nil {
				value = raw(v.MarshalTo(nil))
			}
		}
		if value != "" {
			o.Raw(pairs[i-1].(string), string(value))
		}
	}
	return raw(append(o, '}'))
}

func list(values []raw) string {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return string(append(b, ']'))
}

// chatRequest is a chat request as it is put together.
type chatRequest struct {
	members  []any // pairs
	messages []raw
}

func (c *chatRequest) set(name string, value any) { c.members = append(c.members, name, value) }

func (c *chatRequest) message(pairs ...any) { c.messages = append(c.messages, object(pairs...)) }

// copy takes members over under the names given in pairs: theirs, chat's.
func (c *chatRequest) copy(v *fastjson.Value, pairs ...string) {
	for i := 1; i < len(pairs); i += 2 {
		if m := v.Get(pairs[i-1]); m != nil && m.Type() != fastjson.TypeNull {
			c.set(pairs[i], m)
		}
	}
}

// setTools sets the functions that are offered; none: no member.
func (c *chatRequest) setTools(tools []raw) {
	if tools != nil {
		c.set("tools", tools)
	}
}

func (c *chatRequest) json() []byte {
	return []byte(object(append(c.members, "messages", c.messages)...))
}

// function is a tool, a choice of one or a call of it.
func function(pairs ...any) raw { return object("type", "function", "function", object(pairs...)) }

func text(of *fastjson.Value) raw { return object("type", "text", "text", of) }

func image(url any) raw { return object("type", "image_url", "image_url", object("url", url)) }

// texts joins the texts of a string or of a list of parts.
func texts(v *fastjson.Value) string {
	if v == nil || v.Type() != fastjson.TypeArray {
		return string(v.GetStringBytes())
	}
	var all []string
	for _, part := range v.GetArray() {
		if t := part.Get("text"); t != nil {
			all = append(all, string(t.GetStringBytes()))
		}
	}
	return strings.Join(all, "\n")
}

// ChatOf makes a chat request of one in the dialect.
func ChatOf(kind Kind, v *fastjson.Value) ([]byte, *profile.APIError) {
	if kind == Messages {
		return chatOfMessages(v)
	}
	return chatOfResponses(v)
}

func chatOfMessages(v *fastjson.Value) ([]byte, *profile.APIError) {
	c := new(chatRequest)
	if !v.Exists("messages") {
		return nil, profile.Invalid("messages", "'messages' is required")
	}
	c.copy(v, "model", "model", "max_tokens", "max_tokens", "stream", "stream", "temperature", "temperature",
		"top_p", "top_p", "stop_sequences", "stop", "sim", "sim")
	if s := v.Get("system"); s != nil {
		c.message("role", "system", "content", texts(s))
	}
	for _, m := range v.GetArray("messages") {
		role := string(m.GetStringBytes("role"))
		if role != "user" && role != "assistant" && role != "system" {
			return nil, profile.Invalid("messages", "messages: Unexpected role %q", role)
		}
		c.turn(role, m.Get("content"))
	}
	var tools []raw
	for _, t := range v.GetArray("tools") {
		if t.Get("input_schema") == nil {
			return nil, profile.Invalid("tools", "tools: server tools are not run here")
		}
		tools = append(tools, function("name", string(t.GetStringBytes("name")), "parameters", t.Get("input_schema")))
	}
	c.setTools(tools)
	switch kind := string(v.GetStringBytes("tool_choice", "type")); kind {
	case "":
	case "any":
		c.set("tool_choice", "required")
	case "tool":
		c.set("tool_choice", function("name", string(v.GetStringBytes("tool_choice", "name"))))
	default:
		c.set("tool_choice", kind)
	}
	effort, thinks := v.Get("output_config", "effort"), string(v.GetStringBytes("thinking", "type"))
	switch {
	case thinks == "disabled":
		c.set("reasoning_effort", "none")
	case effort != nil && effort.Type() == fastjson.TypeString:
		c.set("reasoning_effort", effort)
	case thinks == "enabled", thinks == "adaptive":
		c.set("reasoning_effort", "medium")
	}
	return c.json(), nil
}

// turn adds a message of Messages: results first, then what was said.
func (c *chatRequest) turn(role string, content *fastjson.Value) {
	if content.Type() != fastjson.TypeArray {
		c.message("role", role, "content", content)
		return
	}
	var parts, calls []raw
	var thought any
	for _, b := range content.GetArray() {
		switch string(b.GetStringBytes("type")) {
		case "text":
			parts = append(parts, text(b.Get("text")))
		case "image":
			source := b.Get("source")
			url := string(source.GetStringBytes("url"))
			if url == "" {
				url = "data:" + string(source.GetStringBytes("media_type")) + ";base64," + string(source.GetStringBytes("data"))
			}
			parts = append(parts, image(url))
		case "tool_use":
			args := ""
			if in := b.Get("input"); in != nil {
				args = string(in.MarshalTo(nil))
			}
			calls = append(calls, object("id", b.Get("id"), "type", "function", "function",
				object("name", b.Get("name"), "arguments", args)))
		case "thinking":
			thought = b.Get("thinking")
		case "tool_result":
			c.message("role", "tool", "tool_call_id", b.Get("tool_use_id"), "content", texts(b.Get("content")))
		}
	}
	switch {
	case calls != nil:
		c.message("role", role, "content", parts, "tool_calls", calls, "reasoning", thought, "reasoning_content", thought)
	case parts != nil:
		c.message("role", role, "content", parts, "reasoning", thought, "reasoning_content", thought)
	}
}

func chatOfResponses(v *fastjson.Value) ([]byte, *profile.APIError) {
	c := new(chatRequest)
	if v.GetBool("store") {
		return nil, profile.Invalid("store", "this engine stores nothing")
	}
	c.copy(v, "model", "model", "max_output_tokens", "max_tokens", "stream", "stream", "temperature", "temperature",
		"top_p", "top_p", "priority", "priority", "sim", "sim")
	if s := v.Get("instructions"); s != nil && s.Type() == fastjson.TypeString {
		c.message("role", "system", "content", s)
	}
	input := v.Get("input")
	if input != nil && input.Type() == fastjson.TypeString {
		c.message("role", "user", "content", input)
	}
	for _, item := range input.GetArray() {
		if err := c.item(item); err != nil {
			return nil, err
		}
	}
	var tools []raw
	for _, t := range v.GetArray("tools") {
		if string(t.GetStringBytes("type")) != "function" {
			return nil, profile.Invalid("tools", "only functions are tools here")
		}
		tools = append(tools, function("name", t.Get("name"), "parameters", t.Get("parameters")))
	}
	c.setTools(tools)
	if choice := v.Get("tool_choice"); choice != nil && choice.Type() == fastjson.TypeObject {
		c.set("tool_choice", function("name", choice.Get("name")))
	} else if choice != nil {
		c.set("tool_choice", choice)
	}
	if f := v.Get("text", "format"); string(f.GetStringBytes("type")) == "json_schema" {
		c.set("response_format", object("type", "json_schema", "json_schema",
			object("name", f.Get("name"), "schema", f.Get("schema"))))
	}
	if effort := v.Get("reasoning", "effort"); effort != nil && effort.Type() == fastjson.TypeString {
		c.set("reasoning_effort", effort)
	}
	return c.json(), nil
}

// item adds an input item.
func (c *chatRequest) item(item *fastjson.Value) *profile.APIError {
	switch kind := string(item.GetStringBytes("type")); kind {
	case "function_call":
		c.message("role", "assistant", "tool_calls", []raw{object("id", item.Get("call_id"), "type", "function",
			"function", object("name", item.Get("name"), "arguments", item.Get("arguments")))})
	case "function_call_output":
		c.message("role", "tool", "tool_call_id", item.Get("call_id"), "content", texts(item.Get("output")))
	case "reasoning":
		thought := texts(item.Get("content"))
		c.message("role", "assistant", "content", "", "reasoning", thought, "reasoning_content", thought)
	case "", "message":
		var parts []raw
		for _, p := range item.GetArray("content") {
			if url := p.Get("image_url"); url != nil {
				parts = append(parts, image(url))
			} else {
				parts = append(parts, text(p.Get("text")))
			}
		}
		if parts != nil {
			c.message("role", item.Get("role"), "content", parts)
		} else {
			c.message("role", item.Get("role"), "content", texts(item.Get("content")))
		}
	default:
		return profile.Invalid("input", "unknown item type %q", kind)
	}
	return nil
}
