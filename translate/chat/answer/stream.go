package answer

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Stream passes the chunks of an engine on to a client of the chat dialect. Each chunk goes out as
// it came, but for these changes: `model` becomes the public id; usage is shown only to a client
// that asked for it, and then once, in a chunk of its own, unless it wants it in every chunk;
// reasoning is removed if the client wants none; members that the SDKs need are added where they
// are missing; the pieces of tool calls get the index, id and type by which clients put them
// together, and say a name once; and [DONE] is written by us, once every choice has its
// finish_reason.
//
// A Stream belongs to one call at a time. Call Reset first, then Append for each upstream event,
// and in the end either Finish or Fail. It allocates nothing per event once its buffers have grown.
type Stream struct {
	streamState
	options Options
	chunk   *Chunk // borrowed while an event is read
	edits   jsonx.Edits

	model         []byte // the public id in quotes
	id            []byte // raw `id` and `created` of the first chunk, for a usage chunk that we make
	created       []byte
	held          []byte // held back until the end: the client's form of the engine's usage chunk, or the last chunk of a choice
	awaitsTimings bool   // held is the latter, which waits for timings
	template      eventTemplate
	tools         toolcall.Assembler
	halves        halves
	opening       translate.Opening
	started       bool
	closed        bool // Finish or Fail has been written
}

var _ translate.Stream = (*Stream)(nil)

// keepBuffer is the size up to which a buffer is kept for the next event or call.
const keepBuffer = 64 << 10

// maxID is the limit of an engine's id that is kept; where we need one, ours replaces a longer one.
const maxID = 256

// Reset makes s ready for a call. a is copied; nil only lets go of everything, for a pool.
func (s *Stream) Reset(a *Options) {
	s.edits.Reset()
	if cap(s.held) > keepBuffer {
		s.held = nil
	}
	*s = Stream{
		edits: s.edits,
		model: s.model[:0], id: s.id[:0], created: s.created[:0], held: s.held[:0],
		template: s.template, tools: s.tools,
	}
	s.template.reset()
	s.tools.Reset()
	if a != nil {
		s.options, s.promptEstimate = *a, a.PromptTokens
		s.model = jsonx.AppendStringS(s.model, a.Model)
	}
}

// Held is about how many bytes s keeps of the stream so far.
func (s *Stream) Held() int { return cap(s.held) }

// Append appends the client's form of one upstream event: one event, or nothing. The error
// is a *BadAnswer when the event is malformed, or an *engineerror.Error when the engine reports a
// failure; nothing is appended then, and the stream has failed. Events behind the end are ignored.
// The event's data is not kept.
func (s *Stream) Append(dst []byte, ev sse.Event) ([]byte, error) {
	if text, same := s.template.textOf(ev.Data); same && len(ev.Name) == 0 && len(s.halves) == 0 && !s.awaitsTimings && !s.Done() {
		if len(text) > 0 || s.template.toolCall {
			s.deltas++
			s.started = true
		}
		return s.template.append(dst, text), nil
	}
	s.chunk = chunkPool.Get().(*Chunk)
	ok, err := s.parseEvent(s.chunk, ev, s.options.N)
	if ok {
		dst, err = s.appendChunk(dst, ev.Data)
	}
	s.edits.Reset()
	s.chunk.giveBack()
	s.chunk = nil
	return dst, err
}

// appendChunk appends the client's form of the chunk that has just been parsed from data.
func (s *Stream) appendChunk(dst, data []byte) ([]byte, error) {
	c := s.chunk
	summary, err := s.readChoices()
	if err != nil {
		return dst, err
	}
	hasUsage := (c.usage.Exists() || c.timings.Exists()) && s.noteUsage(c)
	if s.options.IncludeUsage {
		s.keepIdentity(c)
	}
	if s.awaitsTimings && summary.choices == 0 && c.timings.IsObject() {
		s.addTimings(c.timings)
		return s.releaseHeld(dst), nil
	}
	switch {
	case summary.stripped && !summary.visible: // it carried reasoning alone
		return dst, nil
	case summary.choices == 0 && !c.progress && !s.options.IncludeUsage: // clients read choices[0] of any other chunk
		return dst, nil
	}
	BoundIn(&s.edits, c.timings)
	if c.usage.Exists() {
		switch {
		case summary.choices == 0 && c.usage.IsObject(): // the usage chunk
			if hasUsage && s.options.IncludeUsage {
				if s.usage.summed {
					s.edits.Set(c.usage, appendUsage(nil, s.usage.Usage))
				} else {
					BoundIn(&s.edits, c.usage)
				}
				s.completeTopLevel(c)
				s.held = s.write(s.held[:0], data)
			}
			return dst, nil
		case s.options.ContinuousUsage:
			BoundIn(&s.edits, c.usage)
		case c.usage.IsNull(): // SGLang has it in every chunk
		case s.options.IncludeUsage:
			s.edits.Set(c.usage, null)
		default:
			s.edits.Delete(c.usage)
		}
	}
	s.completeTopLevel(c)
	s.started = s.started || summary.generated
	dst = s.releaseHeld(dst)
	start := len(dst)
	dst = s.write(dst, data)
	if !s.options.IncludeUsage && !c.timings.Exists() && s.allFinished(s.options.N) {
		s.held, s.awaitsTimings = append(s.held[:0], dst[start:]...), true
		return dst[:start], nil
	}
	if v := summary.onlyText; v.Exists() && !summary.stripped && !c.usage.IsObject() && !c.timings.Exists() {
		s.template.toolCall = summary.toolCall
		s.template.remember(data, v, dst[start:], s.offsetInEvent(v.Start()+1))
	}
	return dst, nil
}

// llama.cpp sends `timings` in the chunk that ends a choice, or in the usage chunk if there is one.
// The edge always asks for the latter. For a client that did not, the timings move to the chunk
// that ends the last choice: it waits for them, until the next event or the end of the stream.

// addTimings puts timings into the chunk that is held back.
func (s *Stream) addTimings(v jsonx.Value) {
	const tail = "}\n\n"
	n := len(s.held) - len(tail)
	raw := v.Raw()
	if b := BoundNumbers(raw); b != nil {
		raw = b
	}
	s.held = append(append(s.held[:n], `,"timings":`...), raw...)
	sse.Flatten(s.held[n:])
	s.held = append(s.held, tail...)
}

// releaseHeld appends the chunk that is held back for timings, if there is one.
func (s *Stream) releaseHeld(dst []byte) []byte {
	if !s.awaitsTimings {
		return dst
	}
	s.awaitsTimings = false
	dst = append(dst, s.held...)
	s.held = s.held[:0]
	return dst
}

// keepIdentity keeps the id and the time of the first chunk that has them.
func (s *Stream) keepIdentity(c *Chunk) {
	if len(s.id) == 0 && c.id.HasText() && len(c.id.Raw()) <= maxID {
		s.id = append(s.id, c.id.Raw()...)
		jsonx.MendLone(s.id)
	}
	if len(s.created) == 0 && IsTime(c.created) {
		s.created = append(s.created, c.created.Raw()...)
	}
}

var (
	null        = []byte("null")
	emptyObject = []byte("{}")
	emptyDelta  = []byte(`"delta":{}`)

	messageAsDelta = []byte(`null,"delta":`) // before the value of message
	noneChosen     = []byte(`"choices":[]`)
	chunkObject    = []byte(`"object":"chat.completion.chunk"`)
)

// chunkSummary sums up the choices of one chunk.
type chunkSummary struct {
	choices   int
	generated bool // text, reasoning or tool calls that the client is shown
	stripped  bool // reasoning was removed
	visible   bool // the client is shown something: text, a tool call, a role, an end

	onlyText jsonx.Value // in which alone the next chunk may differ; see template
	toolCall bool        // it is in a tool call
}

// readChoices reads the choices of the chunk and notes the changes to them.
func (s *Stream) readChoices() (g chunkSummary, err error) {
	var (
		c Choice
		d Delta
	)
	for it := s.chunk.choices.Iter(); it.Next(); {
		if err := c.ReadDelta(it.Value()); err != nil {
			return g, err
		}
		g.choices++
		d.Read(c.Body)
		if err := d.check(); err != nil {
			return g, err
		}
		first := s.streamState.noteChoice(&c)
		visible, reasoning := d.Visible(), d.Reasoning.HasText()
		if visible || reasoning {
			s.deltas++
		}
		g.visible = g.visible || visible || c.Finished() || first && d.Role.Exists()
		if s.options.StripReasoning && stripReasoning(&s.edits, c.Body) {
			g.stripped, reasoning = true, false
		}
		g.generated = g.generated || visible || reasoning
		if g.choices == 1 && !c.Finished() {
			g.onlyText, g.toolCall = d.onlyText()
		} else {
			g.onlyText = jsonx.Value{}
		}
		if c.Index == 0 && !s.opening.Done {
			if s.opening.Add(d.Content); !s.opening.Done && g.onlyText == d.Content {
				g.onlyText = jsonx.Value{} // the template skips the check for markup at the beginning
			}
		}
		if !c.Numbered {
			missingIndex(it.Value(), 0).addTo(&s.edits)
		}
		mends := s.chunk.lone || len(s.halves) > 0
		if d.ToolCalls.Exists() {
			unique, err := s.toolCalls(c.Index, d.ToolCalls)
			if err != nil {
				return g, err
			}
			if unique {
				g.onlyText = jsonx.Value{}
			}
		}
		var (
			blank []int  // tool calls
			rest  []byte // members that the delta gets
		)
		if c.Finished() {
			blank = s.endToolCalls(&c)
		}
		if mends || len(s.halves) > 0 || len(blank) > 0 {
			s.mendTexts(&c)
			if g.onlyText = (jsonx.Value{}); c.Finished() {
				rest = s.endTexts(&c, blank)
			}
		}
		if c.private {
			HidePrivate(&s.edits, it.Value())
		}
		if c.spare.Exists() {
			s.edits.Delete(c.spare)
		}
		switch {
		case len(rest) > 0 && c.Body.IsObject():
			s.edits.Add(c.Body, rest)
		case len(rest) > 0 && c.Body.IsNull():
			s.edits.Set(c.Body, slices.Concat([]byte{'{'}, rest, []byte{'}'}))
		case len(rest) > 0:
			s.edits.Add(it.Value(), slices.Concat([]byte(`"delta":{`), rest, []byte{'}'}))
		case c.Body.IsNull():
			s.edits.Set(c.Body, emptyObject)
		case !c.Body.Exists():
			s.edits.Add(it.Value(), emptyDelta)
		}
		if c.Body.IsObject() && c.Body == c.message { // clients look for a delta
			s.edits.Insert(c.Body.Start(), messageAsDelta)
		}
	}
	return g, nil
}

// stripReasoning notes the removal of the reasoning members of a delta or message and reports
// whether there are any.
func stripReasoning(edits *jsonx.Edits, v jsonx.Value) (found bool) {
	for it := v.Iter(); it.Next(); {
		if isReasoning(it.Key().Name()) {
			edits.Delete(it.Value())
			found = true
		}
	}
	return found
}

func isReasoning(name []byte) bool {
	switch string(name) {
	case "reasoning", "reasoning_content", "reasoning_details":
		return true
	}
	return false
}

// completeTopLevel notes the changes to the top level: the public model, and the members that the
// SDKs need.
func (s *Stream) completeTopLevel(c *Chunk) {
	if !c.choices.Exists() {
		s.edits.Add(c.root, noneChosen)
	} else if c.choices.IsNull() {
		s.edits.Set(c.choices, []byte("[]"))
	}
	addObject(&s.edits, &c.head, chunkObject)
	if c.private {
		HidePrivate(&s.edits, c.root)
	}
	addIdentity(&s.edits, &c.head, &s.options)
	if s.edits.Len() > 0 || !c.model.Exists() {
		setModel(&s.edits, &c.head, s.model)
	} // else see write
}

// addObject notes the addition of the member object where the engine gave none.
func addObject(edits *jsonx.Edits, h *head, member []byte) {
	switch {
	case !h.object.Exists():
		edits.Add(h.root, member)
	case !h.object.HasText():
		edits.Set(h.object, member[len(`"object":`):])
	}
}

// addIdentity notes the addition of an id and a time where the engine gave none.
func addIdentity(edits *jsonx.Edits, h *head, a *Options) {
	switch {
	case !h.id.Exists():
		edits.Add(h.root, jsonx.AppendStringS([]byte(`"id":`), a.ID))
	case h.id.IsNull(), h.id.IsString() && !h.id.HasText():
		edits.Set(h.id, jsonx.AppendStringS(nil, a.ID))
	}
	switch {
	case !h.created.Exists():
		edits.Add(h.root, strconv.AppendInt([]byte(`"created":`), a.Created, 10))
	case !IsTime(h.created):
		edits.Set(h.created, strconv.AppendInt(nil, a.Created, 10))
	}
}

// setModel notes the replacement of the model by its public id, which is in quotes.
func setModel(edits *jsonx.Edits, h *head, model []byte) {
	switch {
	case !h.model.Exists():
		edits.Add(h.root, append([]byte(`"model":`), model...))
	case !bytes.Equal(h.model.Raw(), model):
		edits.Set(h.model, model)
	}
}

// write appends the chunk with its changes as one event of one line.
func (s *Stream) write(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	start := len(dst)
	model := s.chunk.model
	switch {
	case s.edits.Len() > 0:
		dst = s.edits.Append(dst, data)
	case bytes.Equal(model.Raw(), s.model):
		dst = append(dst, data...)
	default: // nearly every chunk: worth a short cut
		dst = append(dst, data[:model.Start()]...)
		dst = append(dst, s.model...)
		dst = append(dst, data[model.End():]...)
	}
	sse.Flatten(dst[start:])
	if s.chunk.lone {
		jsonx.MendLone(dst[start:])
	}
	return append(dst, "\n\n"...)
}

// offsetInEvent returns the offset in the written event of the chunk's byte at.
func (s *Stream) offsetInEvent(at int) int {
	moved := len("data: ") + at
	model := s.chunk.model
	switch {
	case s.edits.Len() > 0:
		moved += s.edits.Shift(at)
	case model.End() <= at:
		moved += len(s.model) - (model.End() - model.Start())
	}
	return moved
}

// Finish appends the end of the stream: the usage chunk if the client asked for it, with an
// estimate if the engine sent no counts, then [DONE]. It returns ErrNoFinish, and appends nothing,
// when a choice lacks its finish_reason. A second call appends nothing.
func (s *Stream) Finish(dst []byte) ([]byte, error) {
	if !s.allFinished(s.options.N) {
		return dst, translate.ErrNoFinish
	}
	if s.closed {
		return dst, nil
	}
	s.closed = true
	dst = s.releaseHeld(dst)
	switch {
	case !s.options.IncludeUsage:
	case len(s.held) > 0:
		dst = append(dst, s.held...)
	default:
		dst = s.appendUsageChunk(dst)
	}
	return append(dst, "data: [DONE]\n\n"...), nil
}

// appendUsageChunk appends a usage chunk for an engine that put its counts elsewhere, or sent none.
func (s *Stream) appendUsageChunk(dst []byte) []byte {
	dst = append(dst, `data: {"id":`...)
	if len(s.id) > 0 {
		dst = append(dst, s.id...)
	} else {
		dst = jsonx.AppendStringS(dst, s.options.ID)
	}
	dst = append(dst, `,"object":"chat.completion.chunk","created":`...)
	if len(s.created) > 0 {
		dst = append(dst, s.created...)
	} else {
		dst = strconv.AppendInt(dst, s.options.Created, 10)
	}
	dst = append(dst, `,"model":`...)
	dst = append(dst, s.model...)
	dst = append(dst, `,"choices":[],"usage":`...)
	dst = appendUsage(dst, s.usageSoFar())
	return append(dst, "}\n\n"...)
}

// Fail appends the event that reports a failure to the client. No [DONE] follows it.
func (s *Stream) Fail(dst []byte, e *apierr.Error) []byte {
	if s.closed {
		return dst
	}
	s.closed = true
	dst = append(s.releaseHeld(dst), "data: "...)
	dst = e.Append(dst)
	return append(dst, "\n\n"...)
}

// Keepalive appends a comment, which clients ignore. It may stand wherever an event may.
func (s *Stream) Keepalive(dst []byte) []byte { return sse.AppendComment(dst, "keep-alive") }

// Usage returns the token counts so far; without counts from the engine, an estimate of one token a
// delta.
func (s *Stream) Usage() translate.Usage { return s.usageSoFar() }

// Markup returns the word of a model's markup that the text of the first choice begins with.
func (s *Stream) Markup() translate.Markup { return s.opening.Markup }

// Started reports whether generated output has been written for the client: text, reasoning, a
// refusal or a tool call.
func (s *Stream) Started() bool { return s.started }

// Deltas returns the number of deltas so far with generated output, shown to the client or not.
func (s *Stream) Deltas() int { return s.deltas }

// Done reports whether the rest of the upstream's events is not needed: [DONE] came, or every
// choice has ended and the usage is known. Finish reports whether the answer is whole. Once Whole
// is true, do not wait long for usage or [DONE].
func (s *Stream) Done() bool { return s.done(s.options.N) }

// Whole reports whether every choice has its finish_reason, so that Finish will succeed.
func (s *Stream) Finished() bool { return s.allFinished(s.options.N) }
