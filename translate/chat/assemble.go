package chat

import (
	"bytes"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Assembler puts the chunks of a stream together into the whole completion that the engine would have given without
// streaming. The edge asks engines for a stream where only streams can be cancelled.
//
// Texts are collected as they stand in the source, escapes and all, so nothing is decoded and a character that was cut
// in two is whole again. Members that we do not know are kept: the last value of each, arrays of a delta joined.
//
// The zero value is ready. An Assembler belongs to one call at a time; Reset makes it ready for the next.
type Assembler struct {
	tally
	chunk   Chunk
	tools   toolcall.Assembler
	list    []assembled // by first appearance
	id      []byte      // raw
	created []byte      // raw
	more    members     // of the top level
	size    int         // bytes kept, for the bound
	lone    bool        // a string holds half of a surrogate pair
}

// Reset makes a ready for another stream and lets go of the last one.
func (a *Assembler) Reset() {
	a.chunk.reset()
	a.tools.Reset()
	*a = Assembler{chunk: a.chunk, tools: a.tools}
}

// Add takes one upstream event. The error is a *BadAnswer when the event is malformed or the answer is too large, or an
// *EngineError when the engine reports a failure; the answer has failed then. Events behind the end are ignored. The
// event's data is not kept.
func (a *Assembler) Add(ev sse.Event) error {
	ok, err := a.begin(&a.chunk, ev, 0)
	if !ok {
		return err
	}
	c := &a.chunk
	a.lone = a.lone || c.lone
	if err := a.top(c, a.count(c)); err != nil {
		return err
	}
	for it := c.choices.Iter(); it.Next(); {
		if err := a.choose(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// keep appends raw to dst and counts it against the bound.
func (a *Assembler) keep(dst *[]byte, raw []byte) error {
	if a.size += len(raw); a.size > MaxAnswer {
		return bad(TooLarge)
	}
	*dst = append(*dst, raw...)
	return nil
}

// top takes the top level of a chunk, which has told the usage or not.
func (a *Assembler) top(c *Chunk, told bool) error {
	if len(a.id) == 0 && HasText(c.id) {
		if err := a.keep(&a.id, c.id.Raw()); err != nil {
			return err
		}
	}
	if len(a.created) == 0 && IsTime(c.created) {
		if err := a.keep(&a.created, c.created.Raw()); err != nil {
			return err
		}
	}
	for it := c.root.Iter(); it.Next(); {
		switch name := string(plain(it.Key())); {
		case name == "id", name == "object", name == "created", name == "model", name == "choices", name == "error",
			name == "prompt_progress", name == "usage" && !told:
		case (name == "usage" || name == "timings") && BoundNumbers(it.Value().Raw()) != nil: // the counts that were read are bounded
		default:
			if err := a.set(&a.more, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	return nil
}

// set keeps a member, in place of an older one of the same name; the elements of an array are added to the older ones
// if join. Null says nothing.
func (a *Assembler) set(to *members, k jsonx.Key, v jsonx.Value, join bool) error {
	if v.IsNull() {
		return nil
	}
	m := to.find(k.Raw())
	if m == nil {
		if len(*to) == maxMembers {
			return bad(TooLarge)
		}
		*to = append(*to, member{list: join && v.IsArray()})
		m = &(*to)[len(*to)-1]
		if err := a.keep(&m.name, k.Raw()); err != nil {
			return err
		}
	}
	if m.list && v.IsArray() {
		return a.join(&m.value, v)
	}
	a.size -= len(m.value)
	m.value, m.list = m.value[:0], false
	return a.keep(&m.value, v.Raw())
}

// join adds the elements of the array v to a list.
func (a *Assembler) join(to *[]byte, v jsonx.Value) error {
	elements := bytes.TrimSpace(inside(v))
	if len(elements) == 0 {
		return nil
	}
	if len(*to) > 0 {
		*to = append(*to, ',')
	}
	return a.keep(to, elements)
}

// inside returns a string or an array without its quotes or brackets.
func inside(v jsonx.Value) []byte {
	raw := v.Raw()
	return raw[1 : len(raw)-1]
}

// choose takes one choice of a chunk.
func (a *Assembler) choose(v jsonx.Value) error {
	var c Choice
	if err := c.Read(v); err != nil {
		return err
	}
	if err := c.delta(); err != nil {
		return err
	}
	if a.choice(&c) {
		a.list = append(a.list, assembled{index: c.Index})
	}
	to := &a.list[0]
	for i := range a.list {
		if a.list[i].index == c.Index {
			to = &a.list[i]
		}
	}
	if c.Finished() {
		to.finish = to.finish[:0]
		if err := a.keep(&to.finish, c.Finish.Raw()); err != nil {
			return err
		}
	}
	for it := v.Iter(); it.Next(); {
		var err error
		switch string(plain(it.Key())) {
		case "index", "delta", "message", "finish_reason", "logprobs":
		default:
			err = a.set(&to.more, it.Key(), it.Value(), false)
		}
		if err != nil {
			return err
		}
	}
	if err := a.logprobs(to, c.Logprobs); err != nil {
		return err
	}
	return a.delta(to, c.Body)
}

// logprobs takes the log probabilities of some tokens.
func (a *Assembler) logprobs(to *assembled, v jsonx.Value) error {
	if !v.IsObject() {
		return nil
	}
	to.hasLogprobs = true
	for it := v.Iter(); it.Next(); {
		var err error
		switch name := string(plain(it.Key())); {
		case name == "content" && it.Value().IsArray():
			err = a.join(&to.logprobs, it.Value())
		case name == "refusal" && it.Value().IsArray():
			err = a.join(&to.denied, it.Value())
		case name == "content", name == "refusal":
		default:
			err = a.set(&to.logprobsMore, it.Key(), it.Value(), true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delta takes the delta of a choice.
func (a *Assembler) delta(to *assembled, v jsonx.Value) error {
	var d Delta
	d.Read(v)
	if d.Generated() {
		a.deltas++
	}
	for it := v.Iter(); it.Next(); {
		var err error
		switch name := string(plain(it.Key())); name {
		case "role", "content", "refusal", "tool_calls":
		case "reasoning", "reasoning_content":
			if to.reasoningName == "" && HasText(it.Value()) {
				to.reasoningName = name
			}
		default:
			err = a.set(&to.message, it.Key(), it.Value(), true)
		}
		if err != nil {
			return err
		}
	}
	if err := a.text(&to.content, d.Content); err != nil {
		return err
	}
	if err := a.text(&to.refusal, d.Refusal); err != nil {
		return err
	}
	if HasText(d.Reasoning) {
		if err := a.text(&to.reasoning, d.Reasoning); err != nil {
			return err
		}
	}
	return a.toolCalls(to, d.ToolCalls)
}

// text takes a piece of a text.
func (a *Assembler) text(to *text, v jsonx.Value) error {
	switch {
	case v.IsString():
		to.given = true
		return a.keep(&to.raw, inside(v))
	case v.IsNull(), !v.Exists():
		return nil
	}
	return bad(notText)
}

// toolCalls takes the tool calls of a delta: a whole one, the beginning of one, or a piece of its arguments.
func (a *Assembler) toolCalls(to *assembled, v jsonx.Value) error {
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return bad(badToolCall)
		}
		part, ok := a.tools.Piece(to.index, &p)
		if !ok {
			return bad(tooManyToolCalls)
		}
		if part.Position == len(to.toolCalls) {
			to.toolCalls = append(to.toolCalls, assembledToolCall{})
		}
		if err := a.piece(&to.toolCalls[part.Position], &p, &part); err != nil {
			return err
		}
	}
	return nil
}

// piece takes a piece of a tool call.
func (a *Assembler) piece(to *assembledToolCall, p *toolcall.Piece, part *toolcall.Part) error {
	for it := p.Object.Iter(); it.Next(); {
		switch string(plain(it.Key())) {
		case "index", "id", "type", "function":
		default:
			if err := a.set(&to.more, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	for it := p.Function.Iter(); it.Next(); {
		switch string(plain(it.Key())) {
		case "name", "arguments":
		default:
			if err := a.set(&to.function, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	for _, m := range [...]struct {
		to   *[]byte
		from jsonx.Value
		take bool
	}{
		{&to.id, p.ID, part.TakeID},
		{&to.kind, p.Type, len(to.kind) == 0 && HasText(p.Type)},
		{&to.name, p.Name, part.TakeName},
	} {
		if !m.take {
			continue
		}
		if err := a.keep(m.to, inside(m.from)); err != nil {
			return err
		}
	}
	return a.arguments(&to.args, p.Args)
}

// arguments takes a piece of the arguments. An object in place of a string is Ollama's native shape.
func (a *Assembler) arguments(to *[]byte, v jsonx.Value) error {
	switch {
	case v.IsString():
		return a.keep(to, inside(v))
	case v.IsObject():
		return a.keep(to, appendArguments(nil, v))
	case v.IsNull(), !v.Exists():
		return nil
	}
	return bad(badToolCall)
}

// Usage returns the token counts so far; when the engine told none, an estimate of one token a delta.
func (a *Assembler) Usage() Usage { return a.total() }

// Deltas returns the number of deltas so far that carried generated matter.
func (a *Assembler) Deltas() int { return a.deltas }

// Done reports whether nothing more is wanted from upstream; see Stream.Done.
func (a *Assembler) Done() bool { return a.done(0) }

// Append appends the completion as the client is to see it. It returns ErrNoFinish, and appends nothing, when a choice
// lacks its finish_reason or too few came.
func (a *Assembler) Append(dst []byte, ans *AnswerOptions) ([]byte, error) {
	if !a.whole(ans.N) {
		return dst, ErrNoFinish
	}
	start := len(dst)
	dst = append(dst, `{"id":`...)
	if len(a.id) > 0 {
		dst = append(dst, a.id...) // in quotes
	} else {
		dst = jsonx.AppendStringS(dst, ans.ID)
	}
	dst = append(dst, `,"object":"chat.completion","created":`...)
	if len(a.created) > 0 {
		dst = append(dst, a.created...)
	} else {
		dst = strconv.AppendInt(dst, ans.Created, 10)
	}
	dst = append(dst, `,"model":`...)
	dst = jsonx.AppendStringS(dst, ans.Model)
	dst = append(dst, `,"choices":[`...)
	sorted := 0
	for index := range MaxChoices {
		for i := range a.list {
			if a.list[i].index != index {
				continue
			}
			if sorted > 0 {
				dst = append(dst, ',')
			}
			dst = a.list[i].append(dst, ans.ID, ans.StripReasoning)
			sorted++
		}
		if sorted == len(a.list) {
			break
		}
	}
	dst = append(dst, ']')
	if a.more.find([]byte("usage")) == nil && a.usage.Known {
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, a.total())
	}
	if a.more.find([]byte("system_fingerprint")) == nil {
		dst = append(append(dst, ','), noFingerprint...)
	}
	dst = a.more.append(dst, false)
	if a.lone { // the pieces of each text are joined by now
		jsonx.MendLone(dst[start:])
	}
	return append(dst, '}'), nil
}

// Whole reports whether every choice has its finish_reason, so that Append will succeed.
func (a *Assembler) Whole() bool { return a.whole(0) }

// Held is about how many bytes a keeps of the stream so far.
func (a *Assembler) Held() int { return a.size }
