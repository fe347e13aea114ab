package answer

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Assembler builds a whole completion from a stream, for engines that can cancel only streams.
//
// Texts are joined unchanged, with their escapes. If an unknown member occurs more than once, the
// last value is used. Arrays in deltas are joined.
//
// The zero value is ready for use. An Assembler belongs to one call at a time.
type Assembler struct {
	state            streamState
	chunk            Chunk
	tools            toolcall.Assembler
	assembledChoices []assembledChoice // in order of first appearance
	identity         answerIdentity
	otherMembers     passedMembers
	keptBytes        int  // number of stored bytes, for the size limit
	hasLoneSurrogate bool // a string contains half of a surrogate pair
}

// Reset prepares the Assembler for another stream.
func (a *Assembler) Reset() {
	a.chunk.reset()
	a.tools.Reset()
	*a = Assembler{chunk: a.chunk, tools: a.tools}
}

// SetToolNames sets the names of the request's tools (see toolcall.Assembler).
func (a *Assembler) SetToolNames(names toolcall.ToolNames) { a.tools.SetToolNames(names) }

// AddEvent adds one upstream event. If the event is malformed or the answer is too large, the error
// is a *translate.BadAnswerError. If the engine reports a failure, the error is an
// *engineerror.Error. AddEvent ignores events after the end. It does not retain the event's data.
func (a *Assembler) AddEvent(ev sse.Event) error {
	ok, err := a.state.parseEvent(&a.chunk, ev, 0)
	if !ok {
		return err
	}
	c := &a.chunk
	a.hasLoneSurrogate = a.hasLoneSurrogate || c.hasLoneSurrogate
	if err := a.addTopLevel(c, a.state.recordUsage(c)); err != nil {
		return err
	}
	for it := c.choices.Iter(); it.Next(); {
		if err := a.addChoice(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// storeBytes appends raw to dst and counts it against the size limit of an answer.
func (a *Assembler) storeBytes(dst *[]byte, raw []byte) error {
	if a.keptBytes += len(raw); a.keptBytes > translate.MaxAnswerBytes {
		return newBadAnswer(translate.ReasonTooLarge)
	}
	*dst = append(*dst, raw...)
	return nil
}

func (a *Assembler) addTopLevel(c *Chunk, hasUsage bool) error {
	if len(a.identity.id) == 0 && c.id.HasText() {
		if err := a.storeBytes(&a.identity.id, c.id.Raw()); err != nil {
			return err
		}
	}
	if len(a.identity.created) == 0 && IsValidCreated(c.created) {
		if err := a.storeBytes(&a.identity.created, c.created.Raw()); err != nil {
			return err
		}
	}
	for it := c.root.Iter(); it.Next(); {
		switch name := string(it.Key().Name()); {
		case name == "id", name == "object", name == "created", name == "model", name == "choices", name == "error",
			name == "prompt_progress", name == "usage" && !hasUsage:
		case (name == "usage" || name == "timings") && BoundNumbers(it.Value().Raw()) != nil:
			// Append writes the usage, limiting its counts.
		default:
			if err := a.storeMember(&a.otherMembers, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeMember stores an unknown member. If join is true and v is an array, its elements are
// appended to the existing elements. Otherwise v replaces an existing member of the same name. Null
// is ignored.
func (a *Assembler) storeMember(to *passedMembers, k jsonx.Key, v jsonx.Value, join bool) error {
	if v.IsNull() {
		return nil
	}
	m := to.find(k.Raw())
	if m == nil {
		if len(*to) == maxPassedMembers {
			return newBadAnswer(translate.ReasonTooLarge)
		}
		*to = append(*to, passedMember{list: join && v.IsArray()})
		m = &(*to)[len(*to)-1]
		if err := a.storeBytes(&m.name, k.Raw()); err != nil {
			return err
		}
	}
	if m.list && v.IsArray() {
		return a.storeElements(&m.value, v)
	}
	a.keptBytes -= len(m.value)
	m.value, m.list = m.value[:0], false
	return a.storeBytes(&m.value, v.Raw())
}

func (a *Assembler) storeElements(to *[]byte, v jsonx.Value) error {
	elements := bytes.TrimSpace(v.RawContents())
	if len(elements) == 0 {
		return nil
	}
	if len(*to) > 0 {
		*to = append(*to, ',')
	}
	return a.storeBytes(to, elements)
}

func (a *Assembler) addChoice(v jsonx.Value) error {
	var c Choice
	if err := c.ReadDelta(v); err != nil {
		return err
	}
	if a.state.recordChoice(&c) {
		a.assembledChoices = append(a.assembledChoices, assembledChoice{index: c.Index})
	}
	to := &a.assembledChoices[0]
	for i := range a.assembledChoices {
		if a.assembledChoices[i].index == c.Index {
			to = &a.assembledChoices[i]
		}
	}
	if c.HasFinished() && to.finishKind == FinishNone { // some engines send the end twice
		to.finishKind, _ = parseFinish(c.Finish)
		word := replacementFinish(c.Finish, false)
		if word == nil {
			word = c.Finish.Raw()
		}
		if err := a.storeBytes(&to.finish, word); err != nil {
			return err
		}
	}
	for it := v.Iter(); it.Next(); {
		var err error
		switch string(it.Key().Name()) {
		case "index", "delta", "message", "finish_reason", "logprobs":
		default:
			err = a.storeMember(&to.otherMembers, it.Key(), it.Value(), false)
		}
		if err != nil {
			return err
		}
	}
	if err := a.addLogprobs(to, c.Logprobs); err != nil {
		return err
	}
	if err := a.addDelta(to, c.Body); err != nil || !c.HasFinished() {
		return err
	}
	return a.applyToolCallParts(to, a.tools.ReleaseHeldNames(c.Index)...)
}

func (a *Assembler) addLogprobs(to *assembledChoice, v jsonx.Value) error {
	if !v.IsObject() {
		return nil
	}
	to.hasLogprobs = true
	for it := v.Iter(); it.Next(); {
		var err error
		switch name := string(it.Key().Name()); {
		case name == "content" && it.Value().IsArray():
			err = a.storeElements(&to.logprobs, it.Value())
		case name == "refusal" && it.Value().IsArray():
			err = a.storeElements(&to.refusalLogprobs, it.Value())
		case name == "content", name == "refusal":
		default:
			err = a.storeMember(&to.logprobsMore, it.Key(), it.Value(), true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Assembler) addDelta(to *assembledChoice, v jsonx.Value) error {
	var d Delta
	d.Read(v)
	if d.HasOutput() {
		a.state.recordOutput(d.generatedBytes())
	}
	for it := v.Iter(); it.Next(); {
		var err error
		switch name := string(it.Key().Name()); name {
		case "role", "content", "refusal", "tool_calls":
		case "reasoning", "reasoning_content":
			if to.reasoningName == "" && it.Value().HasText() {
				to.reasoningName = name
			}
		default:
			err = a.storeMember(&to.messageMembers, it.Key(), it.Value(), true)
		}
		if err != nil {
			return err
		}
	}
	if err := a.addContent(to, d.Content); err != nil {
		return err
	}
	if err := a.addText(&to.refusal, d.Refusal); err != nil {
		return err
	}
	if d.Reasoning.HasText() {
		if err := a.addText(&to.reasoning, d.Reasoning); err != nil {
			return err
		}
	}
	return a.addToolCalls(to, d.ToolCalls)
}

func (a *Assembler) addContent(to *assembledChoice, v jsonx.Value) error {
	if !v.IsArray() {
		return a.addText(&to.content, v)
	}
	return visitTextParts(v, func(text []byte, thought bool) error {
		if !thought {
			to.content.given = true
			return a.storeBytes(&to.content.raw, text)
		}
		if to.reasoning.given = true; to.reasoningName == "" {
			to.reasoningName = memberReasoning
		}
		return a.storeBytes(&to.reasoning.raw, text)
	})
}

func (a *Assembler) addText(to *optionalText, v jsonx.Value) error {
	switch {
	case v.IsString():
		to.given = true
		return a.storeBytes(&to.raw, v.RawContents())
	case v.IsNull(), !v.Exists():
		return nil
	}
	return newBadAnswer(reasonNotText)
}

func (a *Assembler) addToolCalls(to *assembledChoice, v jsonx.Value) error {
	var p toolcall.ToolCallPiece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return newBadAnswer(reasonBadToolCall)
		}
		part, ok := a.tools.AddPiece(to.index, &p)
		if !ok {
			return newBadAnswer(reasonTooManyToolCalls)
		}
		if err := a.applyToolCallParts(to, part.Before...); err != nil {
			return err
		}
		if part.Position == len(to.toolCalls) {
			to.toolCalls = append(to.toolCalls, assembledToolCall{})
		}
		if err := a.applyToolCallParts(to, part); err != nil {
			return err
		}
		if err := a.addToolCallPiece(&to.toolCalls[part.Position], &p); err != nil {
			return err
		}
	}
	return nil
}

func (a *Assembler) addToolCallPiece(to *assembledToolCall, p *toolcall.ToolCallPiece) error {
	for it := p.Object.Iter(); it.Next(); {
		switch string(it.Key().Name()) {
		case "index", "id", "type", "function":
		default:
			if err := a.storeMember(&to.otherMembers, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	for it := p.Function.Iter(); it.Next(); {
		switch string(it.Key().Name()) {
		case "name", "arguments":
		default:
			if err := a.storeMember(&to.function, it.Key(), it.Value(), false); err != nil {
				return err
			}
		}
	}
	if len(to.kind) == 0 && p.Type.HasText() {
		if err := a.storeBytes(&to.kind, p.Type.RawContents()); err != nil {
			return err
		}
	}
	return a.addArguments(&to.args, p.Args)
}

func (a *Assembler) applyToolCallParts(choice *assembledChoice, parts ...toolcall.PieceContribution) error {
	for i := range parts {
		part, to := &parts[i], &choice.toolCalls[parts[i].Position]
		if part.TakeID {
			if err := a.storeBytes(&to.id, part.ID); err != nil {
				return err
			}
		}
		if part.TakeName {
			if err := a.storeBytes(&to.name, part.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// addArguments appends a piece of arguments. In Ollama's native format, v is an object instead of a
// string.
func (a *Assembler) addArguments(to *[]byte, v jsonx.Value) error {
	switch {
	case v.IsString():
		return a.storeBytes(to, v.RawContents())
	case v.IsObject():
		return a.storeBytes(to, appendArguments(nil, v))
	case v.IsNull(), !v.Exists():
		return nil
	}
	return newBadAnswer(reasonBadToolCall)
}

// Usage returns the token counts so far, or an estimate.
func (a *Assembler) Usage() translate.Usage { return a.state.usageSoFar() }

// IsDone reports whether the caller can ignore later upstream events.
func (a *Assembler) IsDone() bool { return a.state.isDone(0) }

// AppendCompletion appends the completion for the client. If a choice is missing or lacks its
// finish_reason, Append appends nothing and returns ErrNoFinish.
func (a *Assembler) AppendCompletion(dst []byte, options *WriteOptions) ([]byte, error) {
	if !a.state.allFinished(options.N) {
		return dst, translate.ErrNoFinish
	}
	start := len(dst)
	dst = a.identity.append(dst, "chat.completion", options)
	dst = append(dst, `,"choices":[`...)
	sorted := 0
	for index := range translate.MaxChoices {
		for i := range a.assembledChoices {
			if a.assembledChoices[i].index != index {
				continue
			}
			if sorted > 0 {
				dst = append(dst, ',')
			}
			dst = a.assembledChoices[i].appendJSON(dst, options.ID, options.StripReasoning)
			sorted++
		}
		if sorted == len(a.assembledChoices) {
			break
		}
	}
	dst = append(dst, ']')
	// The engine's usage member counts only one choice.
	if m := a.otherMembers.find([]byte("usage")); m != nil && a.state.usage.summed {
		m.value, m.list = appendUsage(m.value[:0], a.state.usageSoFar()), false
	} else if m == nil && a.state.usage.Known {
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, a.state.usageSoFar())
	}
	if a.otherMembers.find([]byte("system_fingerprint")) == nil {
		dst = append(append(dst, ','), nullFingerprint...)
	}
	dst = a.otherMembers.appendJSON(dst, false)
	if a.hasLoneSurrogate { // surrogate pairs split between pieces are complete now
		jsonx.ReplaceLoneSurrogates(dst[start:])
	}
	return append(dst, '}'), nil
}

// IsFinished reports whether every choice has a finish_reason.
func (a *Assembler) IsFinished() bool { return a.state.allFinished(0) }

// BufferedBytes returns the approximate number of bytes that the Assembler stores.
func (a *Assembler) BufferedBytes() int { return a.keptBytes }
