package answer

import (
	"penstock/translate/chat/toolcall"
	"penstock/translate/jsonx"
)

// ToolCalls contains the tool calls that a Reader has read so far.
type ToolCalls struct {
	// List contains the tool calls in order of first appearance.
	List []ToolCall
	// Touched lists the tool calls of the last event as positions in List, in event order.
	Touched []int

	tools         toolcall.Assembler
	id            string
	lastPosition  int // position of the tool call to which the last piece belongs
	bufferedBytes int
}

// ToolCall is one tool call. All texts are contents of JSON strings.
type ToolCall struct {
	ID, Name []byte // may be empty; see ToolCalls.ID
	Args     []byte

	checkedLen int // length of Args when IsComplete last checked it
	complete   bool
}

const maxKeptToolCalls = 16

func (t *ToolCalls) reset(id string) {
	t.tools.Reset()
	list := t.List[:cap(t.List)]
	if len(list) > maxKeptToolCalls {
		list = nil
	}
	for i := range list {
		c := &list[i]
		*c = ToolCall{ID: emptyForReuse(c.ID), Name: emptyForReuse(c.Name), Args: emptyForReuse(c.Args)}
	}
	*t = ToolCalls{List: list[:0], Touched: t.Touched[:0], tools: t.tools, id: id}
}

// emptyForReuse returns b[:0] for reuse, or nil if b is large.
func emptyForReuse(b []byte) []byte {
	if cap(b) > maxKeptBuffer/maxKeptToolCalls {
		return nil
	}
	return b[:0]
}

// read reads the tool calls of a delta or, if whole is true, of a message. lone is true if a string
// in v contains a lone surrogate. read returns how many bytes it stored.
func (t *ToolCalls) read(v jsonx.Value, whole, lone bool, h *heldSurrogates) (int, error) {
	before := t.bufferedBytes
	var p toolcall.ToolCallPiece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return t.bufferedBytes - before, newBadAnswer(reasonBadToolCall)
		}
		var (
			part toolcall.PieceContribution
			ok   bool
		)
		if whole {
			part, ok = t.tools.AddMessageToolCall(0, &p)
		} else {
			part, ok = t.tools.AddPiece(0, &p)
		}
		if !ok {
			return t.bufferedBytes - before, newBadAnswer(reasonTooManyToolCalls)
		}
		t.applyReleased(part.Before)
		if part.Surplus {
			continue
		}
		if t.lastPosition = part.Position; t.lastPosition == len(t.List) {
			t.addEmptyToolCall()
		}
		t.Touched = append(t.Touched, t.lastPosition)
		if err := t.readPiece(&p, &part, lone, h); err != nil {
			return t.bufferedBytes - before, err
		}
	}
	return t.bufferedBytes - before, nil
}

func (t *ToolCalls) addEmptyToolCall() {
	if n := len(t.List); n < cap(t.List) {
		t.List = t.List[:n+1]
		return
	}
	t.List = append(t.List, ToolCall{})
}

func (t *ToolCalls) readPiece(p *toolcall.ToolCallPiece, part *toolcall.PieceContribution, lone bool, h *heldSurrogates) error {
	t.applyPart(part)
	switch args := p.Args; {
	case args.IsString() && (lone || len(*h) > 0 || toolcall.HasEscapes(args.RawContents())):
		t.addArgs(part.Position, h.nextPiece(textLocation{toolCall: part.Position}, args.RawContents(), false))
	case args.IsString():
		t.addArgs(part.Position, args.RawContents())
	case args.IsObject(): // as in Ollama's native format
		t.addArgs(part.Position, appendArguments(nil, args))
	case args.Exists() && !args.IsNull():
		return newBadAnswer(reasonBadToolCall)
	}
	return nil
}

func (t *ToolCalls) applyPart(part *toolcall.PieceContribution) {
	to := &t.List[part.Position]
	before := len(to.ID) + len(to.Name)
	if part.TakeID {
		to.ID = append(to.ID, part.ID...)
		jsonx.ReplaceLoneSurrogates(to.ID)
	}
	if part.TakeName {
		to.Name = append(to.Name, part.Name...)
		jsonx.ReplaceLoneSurrogates(to.Name)
	}
	t.bufferedBytes += len(to.ID) + len(to.Name) - before
}

// applyReleased stores names that were held back because more of the name could have followed.
func (t *ToolCalls) applyReleased(parts []toolcall.PieceContribution) {
	for i := range parts {
		t.applyPart(&parts[i])
		t.Touched = append(t.Touched, parts[i].Position)
	}
}

func (t *ToolCalls) addArgs(i int, text []byte) {
	t.List[i].Args = append(t.List[i].Args, text...)
	t.bufferedBytes += len(text)
}

// appendToLastArguments appends text to the arguments of the tool call that received the last piece.
func (t *ToolCalls) appendToLastArguments(text []byte) {
	t.Touched = append(t.Touched, t.lastPosition)
	t.addArgs(t.lastPosition, text)
}

// BufferedBytes returns roughly how many bytes the tool calls use.
func (t *ToolCalls) BufferedBytes() int { return t.bufferedBytes }

// ID returns the id of tool call i. If the engine's id is unusable, the edge generates an id (see
// package toolcall). Once the tool call has a name, the id does not change.
func (t *ToolCalls) ID(i int) []byte {
	c := &t.List[i]
	if len(c.ID) == 0 {
		c.ID = toolcall.AppendGeneratedID(c.ID, t.id, 0, i)
	}
	return c.ID
}

// IsComplete reports whether the arguments of tool call i are a whole JSON object.
func (t *ToolCalls) IsComplete(i int) bool {
	c := &t.List[i]
	if c.checkedLen != len(c.Args) {
		c.checkedLen, c.complete = len(c.Args), isWholeObject(c.Args)
	}
	return c.complete
}

func isWholeObject(args []byte) bool {
	if len(args) == 0 || len(args) > maxCheckedArgs || args[len(args)-1] != '}' {
		return false
	}
	var d jsonx.Doc
	quoted := append(append([]byte{'"'}, args...), '"')
	if d.Parse(quoted, jsonx.Options{}) != nil {
		return false
	}
	text := d.Root().AppendText(nil)
	return d.Parse(text, jsonx.Options{Record: 1}) == nil
}

// maxCheckedArgs limits the cost of IsComplete, which parses all arguments again after every piece.
const maxCheckedArgs = 64 << 10
