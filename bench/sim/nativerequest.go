package sim

import (
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// messages answers POST /v1/messages, and responses POST /v1/responses: engines' own endpoints for
// these dialects. A request is made into a chat request, as all engines do that have them, and
// answered by a voice of its own.
func (e *Engine) messages(x *exchange)  { e.generateNative(x, dialectMessages, chatOfMessages) }
func (e *Engine) responses(x *exchange) { e.generateNative(x, dialectResponses, chatOfResponses) }

func (e *Engine) generateNative(x *exchange, d dialect, convert func(v *fastjson.Value) (*fastjson.Value, *profile.APIError)) {
	x.dialect = d
	e.text(x, profile.ChunkWriter{}, func(v *fastjson.Value, q *chatRequest) *profile.APIError {
		if d == dialectMessages && e.p.Family != "llamacpp" && !v.Exists("max_tokens") {
			return profile.Invalid("max_tokens", "max_tokens: Field required")
		}
		again := parsers.Get()
		defer parsers.Put(again)
		v, err := convert(v)
		if err == nil {
			v, err = parseJSON(again, v.MarshalTo(nil)) // decodeChat wants values that hang together
		}
		if err == nil {
			err = e.decodeChat(x, v, q)
		}
		if err != nil && e.p.Family == "llamacpp" && d == dialectMessages && err.Param == "messages" {
			err.Status = 500 // it blames itself
		}
		return err
	})
}

// converter builds the chat request.
type converter struct {
	arena    fastjson.Arena
	out      *fastjson.Value
	messages *fastjson.Value
	count    int
}

func newConverter() *converter {
	c := new(converter)
	c.out, c.messages = c.arena.NewObject(), c.arena.NewArray()
	c.out.Set("messages", c.messages)
	return c
}

func (c *converter) object(pairs ...any) *fastjson.Value {
	o := c.arena.NewObject()
	for i := 1; i < len(pairs); i += 2 {
		name := pairs[i-1].(string)
		switch v := pairs[i].(type) {
		case string:
			o.Set(name, c.arena.NewString(v))
		case *fastjson.Value:
			if v != nil {
				o.Set(name, v)
			}
		}
	}
	return o
}

func (c *converter) message(pairs ...any) {
	c.messages.SetArrayItem(c.count, c.object(pairs...))
	c.count++
}

// copy takes members over under the names given in pairs: theirs, chat's.
func (c *converter) copy(v *fastjson.Value, pairs ...string) {
	for i := 1; i < len(pairs); i += 2 {
		if m := v.Get(pairs[i-1]); m != nil && m.Type() != fastjson.TypeNull {
			c.out.Set(pairs[i], m)
		}
	}
}

// list is a JSON array of values.
func (c *converter) list(values []*fastjson.Value) *fastjson.Value {
	a := c.arena.NewArray()
	for i, v := range values {
		a.SetArrayItem(i, v)
	}
	return a
}

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

func chatOfMessages(v *fastjson.Value) (*fastjson.Value, *profile.APIError) {
	c := newConverter()
	if !v.Exists("messages") {
		return nil, profile.Invalid("messages", "'messages' is required")
	}
	c.copy(v, "model", "model", "max_tokens", "max_tokens", "stream", "stream", "temperature", "temperature", "top_p",
		"top_p",
		"stop_sequences", "stop", "sim", "sim")
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
	var tools []*fastjson.Value
	for _, t := range v.GetArray("tools") {
		if t.Get("input_schema") == nil {
			return nil, profile.Invalid("tools", "tools: server tools are not run here")
		}
		tools = append(tools, c.object("type", "function", "function",
			c.object("name", string(t.GetStringBytes("name")), "parameters", t.Get("input_schema"))))
	}
	if tools != nil {
		c.out.Set("tools", c.list(tools))
	}
	switch kind := string(v.GetStringBytes("tool_choice", "type")); kind {
	case "":
	case "any":
		c.out.Set("tool_choice", c.arena.NewString("required"))
	case "tool":
		c.out.Set("tool_choice", c.object("type", "function", "function", c.object("name",
			string(v.GetStringBytes("tool_choice", "name")))))
	default:
		c.out.Set("tool_choice", c.arena.NewString(kind))
	}
	switch kind := string(v.GetStringBytes("thinking", "type")); kind {
	case "enabled", "adaptive":
		c.out.Set("reasoning_effort", c.arena.NewString("medium"))
	}
	return c.out, nil
}

// turn adds a message of Messages: results first, then what was said.
func (c *converter) turn(role string, content *fastjson.Value) {
	if content.Type() != fastjson.TypeArray {
		c.message("role", role, "content", content)
		return
	}
	var parts, calls []*fastjson.Value
	var thought any
	for _, b := range content.GetArray() {
		switch string(b.GetStringBytes("type")) {
		case "text":
			parts = append(parts, c.object("type", "text", "text", b.Get("text")))
		case "image":
			url := string(b.GetStringBytes("source", "url"))
			if url == "" {
				url = "data:" + string(b.GetStringBytes("source", "media_type")) + ";base64," + string(b.GetStringBytes("source",
					"data"))
			}
			parts = append(parts, c.object("type", "image_url", "image_url", c.object("url", url)))
		case "tool_use":
			args := ""
			if in := b.Get("input"); in != nil {
				args = string(in.MarshalTo(nil))
			}
			calls = append(calls, c.object("id", b.Get("id"), "type", "function", "function", c.object("name", b.Get("name"),
				"arguments", args)))
		case "thinking":
			thought = b.Get("thinking")
		case "tool_result":
			c.message("role", "tool", "tool_call_id", b.Get("tool_use_id"), "content", texts(b.Get("content")))
		}
	}
	switch {
	case calls != nil:
		c.message("role", role, "content", c.list(parts), "tool_calls", c.list(calls),
			"reasoning", thought, "reasoning_content", thought)
	case parts != nil:
		c.message("role", role, "content", c.list(parts), "reasoning", thought, "reasoning_content", thought)
	}
}

func chatOfResponses(v *fastjson.Value) (*fastjson.Value, *profile.APIError) {
	c := newConverter()
	if v.GetBool("store") {
		return nil, profile.Invalid("store", "this engine stores nothing")
	}
	c.copy(v, "model", "model", "max_output_tokens", "max_tokens", "stream", "stream", "temperature", "temperature",
		"top_p", "top_p", "sim", "sim")
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
	var tools []*fastjson.Value
	for _, t := range v.GetArray("tools") {
		if string(t.GetStringBytes("type")) != "function" {
			return nil, profile.Invalid("tools", "only functions are tools here")
		}
		tools = append(tools, c.object("type", "function", "function", c.object("name", t.Get("name"), "parameters",
			t.Get("parameters"))))
	}
	if tools != nil {
		c.out.Set("tools", c.list(tools))
	}
	if choice := v.Get("tool_choice"); choice != nil {
		if choice.Type() == fastjson.TypeObject {
			choice = c.object("type", "function", "function", c.object("name", choice.Get("name")))
		}
		c.out.Set("tool_choice", choice)
	}
	if f := v.Get("text", "format"); string(f.GetStringBytes("type")) == "json_schema" {
		c.out.Set("response_format", c.object("type", "json_schema", "json_schema", c.object("name", f.Get("name"), "schema",
			f.Get("schema"))))
	}
	if effort := v.Get("reasoning", "effort"); effort != nil && effort.Type() == fastjson.TypeString {
		c.out.Set("reasoning_effort", effort)
	}
	return c.out, nil
}

// item adds an input item.
func (c *converter) item(item *fastjson.Value) *profile.APIError {
	switch kind := string(item.GetStringBytes("type")); kind {
	case "function_call":
		c.message("role", "assistant", "tool_calls", c.list([]*fastjson.Value{c.object("id", item.Get("call_id"), "type",
			"function",
			"function", c.object("name", item.Get("name"), "arguments", item.Get("arguments")))}))
	case "function_call_output":
		c.message("role", "tool", "tool_call_id", item.Get("call_id"), "content", texts(item.Get("output")))
	case "reasoning":
		thought := texts(item.Get("content"))
		c.message("role", "assistant", "reasoning", thought, "reasoning_content", thought)
	case "", "message":
		var parts []*fastjson.Value
		for _, p := range item.GetArray("content") {
			if url := p.Get("image_url"); url != nil {
				parts = append(parts, c.object("type", "image_url", "image_url", c.object("url", url)))
			} else {
				parts = append(parts, c.object("type", "text", "text", p.Get("text")))
			}
		}
		if parts != nil {
			c.message("role", item.Get("role"), "content", c.list(parts))
		} else {
			c.message("role", item.Get("role"), "content", texts(item.Get("content")))
		}
	default:
		return profile.Invalid("input", "unknown item type %q", kind)
	}
	return nil
}
