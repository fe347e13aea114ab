package answer

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// Choice is a view of one choice of a chunk or of a completion.
type Choice struct {
	Index    int
	Numbered bool // the engine gave the index
	// Body is the delta in a chunk or the message in a completion; see Delta. It is absent or null
	// if the engine omitted it. If a choice has only the wrong one of the two members, Body is that
	// one.
	Body jsonx.Value
	// Finish is finish_reason. Absent, null and "" all mean that the choice has not ended (see
	// Finished).
	Finish jsonx.Value
	// Stop is the reason why the engine stopped, if the engine reports it (vLLM stop_reason, SGLang
	// matched_stop). A string is the stop sequence, and a number is a token id.
	Stop     jsonx.Value
	Logprobs jsonx.Value
	private  bool // see isPrivate

	piece, message jsonx.Value // the members delta and message
	spare          jsonx.Value // piece or message, whichever is not the Body
}

// ReadDelta reads an element of a chunk's choices. The delta may be missing, as in the last chunk
// of a choice and, from some hosts, in the first chunk. The errors are the same as from
// ReadMessage.
func (c *Choice) ReadDelta(v jsonx.Value) error {
	if err := c.read(v); err != nil {
		return err
	}
	c.choose(c.piece, c.message)
	missing := c.Body.IsNull() || !c.Body.Exists()
	if c.Body.IsObject() || missing && (c.Finished() || !v.Get("text").Exists()) { // text belongs to completions
		return nil
	}
	return badAnswer(noDelta)
}

// ReadMessage reads an element of a completion's choices. The error is a *translate.BadAnswer, or
// an *engineerror.Error for a choice that the engine aborted; see failureStems.
func (c *Choice) ReadMessage(v jsonx.Value) error {
	err := c.read(v)
	c.choose(c.message, c.piece)
	return err
}

func (c *Choice) read(v jsonx.Value) error {
	*c = Choice{}
	if !v.IsObject() {
		return badAnswer(badChoice)
	}
	for it := v.Iter(); it.Next(); {
		name := it.Key().Name()
		known, err := c.member(name, it.Value())
		if err != nil {
			return err
		}
		c.private = c.private || !known && isPrivate(name) && !it.Value().IsNull()
	}
	if c.Finished() {
		if _, failed := finishOf(c.Finish); failed {
			return Aborted()
		}
	}
	return nil
}

// choose makes first the Body, or second if only second is an object. Some engines use one type for
// chunks and completions, and send the member that does not apply as null or as the text so far.
func (c *Choice) choose(first, second jsonx.Value) {
	if !first.IsObject() && second.IsObject() {
		first, second = second, first
	}
	c.Body, c.spare = first, second
}

// check refuses texts and tool calls that no client could read. A text may be null or missing, and
// content may be a list of parts.
func (d *Delta) check() error {
	for _, text := range [...]jsonx.Value{d.Content, d.Refusal} {
		switch text.Kind() {
		case jsonx.Number, jsonx.True, jsonx.False, jsonx.Object:
			return badAnswer(notText)
		}
	}
	if toolCalls := d.ToolCalls; toolCalls.Exists() && !toolCalls.IsArray() && !toolCalls.IsNull() {
		return badAnswer(badToolCall)
	}
	return nil
}

// member reads one member, and reports whether the member is known.
func (c *Choice) member(name []byte, v jsonx.Value) (known bool, err error) {
	switch string(name) {
	case "index":
		n, ok := v.Int()
		switch {
		case v.IsNull():
		case !ok || n < 0:
			return true, badAnswer(badChoice)
		case n >= translate.MaxChoices:
			return true, badAnswer(tooManyChoices)
		default:
			c.Index, c.Numbered = int(n), true
		}
	case "delta":
		c.piece = v
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

// Finished reports whether the choice has a finish_reason.
func (c *Choice) Finished() bool {
	return c.Finish.IsString() && c.Finish.End()-c.Finish.Start() > 2
}

// cut reports whether the choice ended in a way that may leave its last tool call incomplete.
func (c *Choice) cut() bool {
	finish, _ := finishOf(c.Finish)
	return isCut(finish)
}

// Delta is a view of a delta, or of a message, which has the same members.
type Delta struct {
	Role, Content, Refusal jsonx.Value
	// Reasoning is the member reasoning or reasoning_content, whichever is not empty.
	Reasoning jsonx.Value
	ToolCalls jsonx.Value
}

// Read reads the Body of a Choice. A value that is not an object has no members.
func (d *Delta) Read(v jsonx.Value) {
	*d = Delta{}
	for it := v.Iter(); it.Next(); {
		d.member(it.Key().Name(), it.Value())
	}
}

// member reads one member.
func (d *Delta) member(name []byte, v jsonx.Value) {
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

// Generated reports whether the delta contains anything that the model generated.
func (d *Delta) Generated() bool { return d.Visible() || d.Reasoning.HasText() }

// Visible reports whether the delta contains anything other than reasoning that the model
// generated.
func (d *Delta) Visible() bool {
	return d.Content.HasText() || d.Refusal.HasText() || d.ToolCalls.Index(0).Exists() || d.Content.Index(0).Exists()
}
