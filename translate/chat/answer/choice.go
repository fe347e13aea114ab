package answer

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// Choice is a view of one choice of a chunk or of a completion.
type Choice struct {
	Index    int
	Numbered bool // the engine sent the index
	// Body is the delta in a chunk and the message in a completion. If the engine sent only the
	// wrong member, Body is that member. Body may be absent or null.
	Body jsonx.Value
	// Finish is finish_reason. Absent, null and "" mean that the choice has not ended.
	Finish jsonx.Value
	// Stop says why the engine stopped (stop_reason in vLLM, matched_stop in SGLang). A string is
	// the stop sequence, and a number is a token id.
	Stop       jsonx.Value
	Logprobs   jsonx.Value
	hasPrivate bool

	delta, message jsonx.Value // the delta and message members
	unused         jsonx.Value // delta or message, whichever is not Body
}

// ReadDelta reads an element of a chunk's choices. The delta may be missing, as in the last chunk
// of a choice. The errors are the same as for ReadMessage.
func (c *Choice) ReadDelta(v jsonx.Value) error {
	if err := c.read(v); err != nil {
		return err
	}
	c.chooseBody(c.delta, c.message)
	missing := c.Body.IsNull() || !c.Body.Exists()
	// The member text occurs only in legacy completions.
	if c.Body.IsObject() || missing && (c.HasFinished() || !v.Get("text").Exists()) {
		return nil
	}
	return newBadAnswer(reasonNoDelta)
}

// ReadMessage reads an element of a completion's choices. If the engine aborted the choice, the
// error is an *engineerror.Error. Otherwise it is a *translate.BadAnswerError.
func (c *Choice) ReadMessage(v jsonx.Value) error {
	err := c.read(v)
	c.chooseBody(c.message, c.delta)
	return err
}

func (c *Choice) read(v jsonx.Value) error {
	*c = Choice{}
	if !v.IsObject() {
		return newBadAnswer(reasonBadChoice)
	}
	for it := v.Iter(); it.Next(); {
		name := it.Key().Name()
		known, err := c.readMember(name, it.Value())
		if err != nil {
			return err
		}
		c.hasPrivate = c.hasPrivate || !known && isPrivate(name) && !it.Value().IsNull()
	}
	if c.HasFinished() {
		if _, failed := parseFinish(c.Finish); failed {
			return AbortedError()
		}
	}
	return nil
}

// chooseBody sets Body to first, or to second if only second is an object. Some engines use the
// same type for chunks and completions. These engines send the superfluous member as null or with
// the text so far.
func (c *Choice) chooseBody(first, second jsonx.Value) {
	if !first.IsObject() && second.IsObject() {
		first, second = second, first
	}
	c.Body, c.unused = first, second
}

// check rejects texts and tool calls that no client could read. Texts may be null, and content may
// be a list of parts.
func (d *Delta) check() error {
	for _, text := range [...]jsonx.Value{d.Content, d.Refusal} {
		switch text.Kind() {
		case jsonx.Number, jsonx.True, jsonx.False, jsonx.Object:
			return newBadAnswer(reasonNotText)
		}
	}
	if toolCalls := d.ToolCalls; toolCalls.Exists() && !toolCalls.IsArray() && !toolCalls.IsNull() {
		return newBadAnswer(reasonBadToolCall)
	}
	return nil
}

func (c *Choice) readMember(name []byte, v jsonx.Value) (known bool, err error) {
	switch string(name) {
	case "index":
		n, ok := v.Int()
		switch {
		case v.IsNull():
		case !ok || n < 0:
			return true, newBadAnswer(reasonBadChoice)
		case n >= translate.MaxChoices:
			return true, newBadAnswer(reasonTooManyChoices)
		default:
			c.Index, c.Numbered = int(n), true
		}
	case "delta":
		c.delta = v
	case "message":
		c.message = v
	case "finish_reason":
		c.Finish = v
	case "stop_reason", "matched_stop":
		if !v.IsNull() {
			c.Stop = v
		}
	case "logprobs":
		c.Logprobs = v
	default:
		return false, nil
	}
	return true, nil
}

// HasFinished reports whether the choice has a finish_reason.
func (c *Choice) HasFinished() bool {
	return c.Finish.IsString() && c.Finish.End()-c.Finish.Start() > 2
}

// hasTruncatedToolCall reports whether the last tool call of the choice may be incomplete, because
// of how the choice ended.
func (c *Choice) hasTruncatedToolCall() bool {
	finish, _ := parseFinish(c.Finish)
	return isTruncated(finish)
}

// Delta is a view of a delta or a message, which have the same members.
type Delta struct {
	Role, Content, Refusal jsonx.Value
	// Reasoning is the reasoning or reasoning_content member, whichever is not empty.
	Reasoning jsonx.Value
	ToolCalls jsonx.Value
}

// Read reads the Body of a Choice.
func (d *Delta) Read(v jsonx.Value) {
	*d = Delta{}
	for it := v.Iter(); it.Next(); {
		d.readMember(it.Key().Name(), it.Value())
	}
}

func (d *Delta) readMember(name []byte, v jsonx.Value) {
	switch string(name) {
	case "role":
		d.Role = v
	case "content":
		d.Content = v
	case "refusal":
		d.Refusal = v
	case "reasoning", "reasoning_content":
		if !d.Reasoning.HasText() {
			d.Reasoning = v
		}
	case "tool_calls":
		d.ToolCalls = v
	}
}

// HasOutput reports whether the delta contains model output.
func (d *Delta) HasOutput() bool { return d.HasVisibleOutput() || d.Reasoning.HasText() }

// generatedBytes returns the number of bytes in the delta's texts, names and arguments. Unlike
// outputBytes, it leaves out the JSON around them, which is longer than the text of most deltas.
func (d *Delta) generatedBytes() int {
	n := contentBytes(d.Content) + contentBytes(d.Refusal) + contentBytes(d.Reasoning)
	for it := d.ToolCalls.Iter(); it.Next(); {
		f := it.Value().Get("function")
		n += contentBytes(f.Get("name")) + contentBytes(f.Get("arguments"))
	}
	return n
}

// contentBytes returns the length of a string, an array or an object without its delimiters.
func contentBytes(v jsonx.Value) int {
	if v.IsString() || v.IsArray() || v.IsObject() {
		return len(v.RawContents())
	}
	return 0
}

// HasVisibleOutput reports whether the delta contains output other than reasoning.
func (d *Delta) HasVisibleOutput() bool {
	return d.Content.HasText() || d.Refusal.HasText() || d.ToolCalls.Index(0).Exists() || d.Content.Index(0).Exists()
}
