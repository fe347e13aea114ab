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

	tools toolcall.Assembler
	id    string
	last  int // position of the tool call to which the last piece belongs
	held  int
}

// ToolCall is one tool call. All texts are contents of JSON strings.
type ToolCall struct {
	ID, Name []byte // may be empty; see ToolCalls.ID
	Args     []byte

	checkedLen int // length of Args when Complete last checked it
	complete   bool
}

const keepToolCalls = 16

func (t *ToolCalls) reset(id string) {
	t.tools.Reset()
	list := t.List[:cap(t.List)]
	if len(list) > keepToolCalls {
		list = nil
	}
	for i := range list {
		c := &list[i]
		*c = ToolCall{ID: keep(c.ID), Name: keep(c.Name), Args: keep(c.Args)}
	}
	*t = ToolCalls{List: list[:0], Touched: t.Touched[:0], tools: t.tools, id: id}
}

// keep returns b[:0] for reuse, or nil if b is large.
func keep(b []byte) []byte {
	if cap(b) > keepBuffer/keepToolCalls {
		return nil
	}
	return b[:0]
}

// read reads the tool calls of a delta or, if whole is true, of a message. lone is true if a string
// in v contains a lone surrogate. read returns how many bytes it stored.
func (t *ToolCalls) read(v jsonx.Value, whole, lone bool, h *halves) (int, error) {
	before := t.held
	var p toolcall.Piece
	for it := v.Iter(); it.Next(); {
		if !p.Read(it.Value()) {
			return t.held - before, badAnswer(badToolCall)
		}
		var (
			part toolcall.Part
			ok   bool
		)
		if whole {
			part, ok = t.tools.AddWhole(0, &p)
		} else {
			part, ok = t.tools.AddPiece(0, &p)
		}
		if !ok {
			return t.held - before, badAnswer(tooManyToolCalls)
		}
		t.takeReleased(part.Before)
		if part.Surplus {
			continue
		}
		if t.last = part.Position; t.last == len(t.List) {
			t.add()
		}
		t.Touched = append(t.Touched, t.last)
		if err := t.readPiece(&p, &part, lone, h); err != nil {
			return t.held - before, err
		}
	}
	return t.held - before, nil
}

func (t *ToolCalls) add() {
	if n := len(t.List); n < cap(t.List) {
		t.List = t.List[:n+1]
		return
	}
	t.List = append(t.List, ToolCall{})
}

func (t *ToolCalls) readPiece(p *toolcall.Piece, part *toolcall.Part, lone bool, h *halves) error {
	t.take(part)
	switch args := p.Args; {
	case args.IsString() && (lone || len(*h) > 0 || toolcall.HasEscapes(args.Inside())):
		t.addArgs(part.Position, h.piece(textPlace{toolCall: part.Position}, args.Inside(), false))
	case args.IsString():
		t.addArgs(part.Position, args.Inside())
	case args.IsObject(): // as in Ollama's native format
		t.addArgs(part.Position, appendArguments(nil, args))
	case args.Exists() && !args.IsNull():
		return badAnswer(badToolCall)
	}
	return nil
}

func (t *ToolCalls) take(part *toolcall.Part) {
	to := &t.List[part.Position]
	before := len(to.ID) + len(to.Name)
	if part.TakeID {
		to.ID = append(to.ID, part.ID...)
		jsonx.MendLone(to.ID)
	}
	if part.TakeName {
		to.Name = append(to.Name, part.Name...)
		jsonx.MendLone(to.Name)
	}
	t.held += len(to.ID) + len(to.Name) - before
}

// takeReleased stores names that were held back because more of the name could have followed.
func (t *ToolCalls) takeReleased(parts []toolcall.Part) {
	for i := range parts {
		t.take(&parts[i])
		t.Touched = append(t.Touched, parts[i].Position)
	}
}

func (t *ToolCalls) addArgs(i int, text []byte) {
	t.List[i].Args = append(t.List[i].Args, text...)
	t.held += len(text)
}

// continueLast appends text to the arguments of the tool call that received the last piece.
func (t *ToolCalls) continueLast(text []byte) {
	t.Touched = append(t.Touched, t.last)
	t.addArgs(t.last, text)
}

// Held returns roughly how many bytes the tool calls use.
func (t *ToolCalls) Held() int { return t.held }

// ID returns the id of tool call i. If the engine's id is unusable, the edge generates an id (see
// package toolcall). Once the tool call has a name, the id does not change.
func (t *ToolCalls) ID(i int) []byte {
	c := &t.List[i]
	if len(c.ID) == 0 {
		c.ID = toolcall.AppendID(c.ID, t.id, 0, i)
	}
	return c.ID
}

// Complete reports whether the arguments of tool call i are a whole JSON object.
func (t *ToolCalls) Complete(i int) bool {
	c := &t.List[i]
	if c.checkedLen != len(c.Args) {
		c.checkedLen, c.complete = len(c.Args), isWholeObject(c.Args)
	}
	return c.complete
}

func isWholeObject(args []byte) bool {
	if len(args) == 0 || len(args) > maxComplete || args[len(args)-1] != '}' {
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

// maxComplete limits the cost of Complete, which parses all arguments again after every piece.
const maxComplete = 64 << 10
