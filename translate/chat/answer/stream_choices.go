package answer

import (
	"slices"
	"strconv"

	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

type chunkSummary struct {
	choices       int
	generated     bool // the client's chunk contains text, reasoning or tool calls
	stripped      bool
	visible       bool // the client's chunk contains text, a tool call, a role or a finish_reason
	repeatsFinish bool

	onlyText jsonx.Value // the only text that may differ in the next chunk; see template
	toolCall bool        // findOnlyText belongs to a tool call
}

func (s *Stream) editChoices(c *Chunk) (sum chunkSummary, err error) {
	for it := c.choices.Iter(); it.Next(); {
		if err := s.editChoice(c, it.Value(), &sum); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (s *Stream) editChoice(c *Chunk, v jsonx.Value, sum *chunkSummary) error {
	var (
		choice Choice
		delta  Delta
		edits  = &s.out.edits
	)
	if err := choice.ReadDelta(v); err != nil {
		return err
	}
	sum.choices++
	delta.Read(choice.Body)
	if err := delta.check(); err != nil {
		return err
	}
	if choice.HasFinished() && s.state.hasFinished(choice.Index) { // some engines send the end twice
		edits.Set(choice.Finish, nullValue)
		choice.Finish, sum.repeatsFinish = jsonx.Value{}, true
	}
	first := s.summarizeDelta(&choice, &delta, sum)
	if !choice.Numbered {
		newMissingIndexMember(v, 0).addTo(edits)
	}
	mends := c.hasLoneSurrogate || len(s.heldSurrogates) > 0
	if delta.ToolCalls.Exists() {
		unique, err := s.editToolCalls(&choice, delta.ToolCalls, mends)
		if err != nil {
			return err
		}
		if unique {
			sum.onlyText = jsonx.Value{}
		}
	}
	var (
		pieces [][]byte
		rest   []byte
	)
	if choice.HasFinished() {
		s.template.forget() // the chunk that ends a choice is held back, including its text
		pieces = finalToolCallPieces(&s.tools, &choice, s.options.ID)
		if word := replacementFinish(choice.Finish, s.tools.HasToolCalls(choice.Index)); word != nil {
			edits.Set(choice.Finish, word)
		}
	}
	if mends || len(s.heldSurrogates) > 0 || len(pieces) > 0 {
		s.heldSurrogates.editTexts(edits, &choice)
		if sum.onlyText = (jsonx.Value{}); choice.HasFinished() {
			rest = s.heldSurrogates.completeSurrogatePairs(edits, &choice, pieces, s.options.StripReasoning)
		}
	}
	if choice.hasPrivate {
		RemovePrivateMembers(edits, v)
	}
	switch {
	case s.handover.isRoleSent(choice.Index):
		if delta.Role.Exists() {
			edits.Delete(delta.Role)
		}
	case first && !delta.Role.HasText(): // openai-node fails without a role
		if sum.onlyText = (jsonx.Value{}); delta.Role.Exists() {
			edits.Set(delta.Role, assistantRole[len(`"role":`):])
		} else if len(rest) > 0 {
			rest = slices.Concat(assistantRole, []byte{','}, rest)
		} else {
			rest = assistantRole
		}
	}
	if choice.unused.Exists() {
		edits.Delete(choice.unused)
	}
	editDelta(edits, v, &choice, rest)
	return nil
}

// summarizeDelta records in sum what the client sees of the delta. It reports whether this is the
// choice's first chunk.
func (s *Stream) summarizeDelta(c *Choice, d *Delta, sum *chunkSummary) (first bool) {
	first = s.state.recordChoice(c)
	visible, reasoning := d.HasVisibleOutput(), d.Reasoning.HasText()
	if visible || reasoning {
		s.state.recordOutput(d.generatedBytes())
	}
	sum.visible = sum.visible || visible || c.HasFinished() || first
	if s.options.StripReasoning && stripReasoning(&s.out.edits, c.Body) {
		sum.stripped, reasoning = true, false
	}
	sum.generated = sum.generated || visible || reasoning || d.Content.IsArray()
	if sum.onlyText = (jsonx.Value{}); sum.choices == 1 && !c.HasFinished() {
		sum.onlyText, sum.toolCall = d.findOnlyText()
	}
	if c.Index == 0 && !s.opening.Done {
		if s.opening.AddValue(d.Content); !s.opening.Done && sum.onlyText == d.Content {
			sum.onlyText = jsonx.Value{} // the template would skip the check for markup
		}
	}
	return first
}

// editToolCalls records the changes to the tool calls of a delta. unique is true if an identical
// chunk could need different changes the next time.
func (s *Stream) editToolCalls(c *Choice, v jsonx.Value, mends bool) (unique bool, err error) {
	s.template.forget() // the template's chunk may belong to another tool call
	edits, choice, shown := &s.out.edits, c.Index, 0
	var p toolcall.ToolCallPiece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return false, newBadAnswer(reasonBadToolCall)
		}
		part, ok := s.tools.AddPiece(choice, &p)
		if !ok {
			return false, newBadAnswer(reasonTooManyToolCalls)
		}
		shown += len(part.Before)
		if part.Surplus {
			edits.Delete(p.Object)
			unique = true
			continue
		}
		if s.holdPiece(choice, &p, &part) {
			unique = true
			continue
		}
		shown++
		if index, given := p.Index.Int(); !given || index != int64(part.Position) {
			setMember(edits, p.Object, p.Index, "index", strconv.AppendInt(nil, int64(part.Position), 10))
		}
		if p.ID.HasText() && !part.TakeID && !part.MakeID { // clients would append this id to the first id
			edits.Delete(p.ID)
		}
		if p.HasName() && !part.TakeName {
			edits.Delete(p.Name)
		}
		if p.Args.IsString() && (mends || len(s.heldSurrogates) > 0 || toolcall.HasEscapes(p.Args.RawContents())) {
			s.heldSurrogates.editText(edits, textLocation{choice: choice, toolCall: part.Position}, p.Args, false)
			unique = true
		}
		addToolCallMembers(edits, &p, &part, s.options.ID, choice)
		if part.Joined {
			setJoinedName(edits, &p, &part)
		}
		if part.TakeName && !p.Args.IsString() && !p.Args.IsObject() { // clients concatenate the pieces
			setMember(edits, p.Function, p.Args, "arguments", emptyText)
		}
		unique = unique || part.ContributesOnce() || s.tools.IsLatestArgumentsBlank()
	}
	if unique && shown == 0 && !c.HasFinished() { // clients read the first element
		edits.Delete(v)
	}
	return unique, nil
}

// holdPiece reports whether the name of a piece is still held back. If the piece starts another
// tool call, names that were held back are sent before the piece.
func (s *Stream) holdPiece(choice int, p *toolcall.ToolCallPiece, part *toolcall.PieceContribution) bool {
	edits := &s.out.edits
	var before []byte
	for i := range part.Before {
		before = append(append(before, namePiece(&part.Before[i], s.options.ID, choice)...), ',')
	}
	switch {
	case part.Hold && before != nil:
		edits.Set(p.Object, before[:len(before)-1])
	case part.Hold:
		edits.Delete(p.Object)
	case before != nil:
		edits.Insert(p.Object.Start(), before)
	}
	return part.Hold
}

var (
	emptyObject             = []byte("{}")
	emptyDelta              = []byte(`"delta":{}`)
	messageToDeltaInsertion = []byte(`null,"delta":`) // inserted before the value of message
)

// editDelta adds the members in rest to the delta. If the choice has no delta, editDelta adds one.
func editDelta(edits *jsonx.Edits, v jsonx.Value, c *Choice, rest []byte) {
	switch {
	case len(rest) > 0 && c.Body.IsObject():
		edits.Add(c.Body, rest)
	case len(rest) > 0 && c.Body.IsNull():
		edits.Set(c.Body, slices.Concat([]byte{'{'}, rest, []byte{'}'}))
	case len(rest) > 0:
		edits.Add(v, slices.Concat([]byte(`"delta":{`), rest, []byte{'}'}))
	case c.Body.IsNull():
		edits.Set(c.Body, emptyObject)
	case !c.Body.Exists():
		edits.Add(v, emptyDelta)
	}
	if c.Body.IsObject() && c.Body == c.message { // clients expect a delta
		edits.Insert(c.Body.Start(), messageToDeltaInsertion)
	}
}

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
