package toolcall

import "cmp"

// Limits on tool calls. If a tool call exceeds one of them, AddPiece and AddMessageToolCall return
// false.
const (
	MaxToolCallsPerChoice = 1024
	MaxToolCallsPerAnswer = 4096
)

// Assembler decides to which tool call each piece belongs (see the package documentation). The zero
// value is ready for use. One answer at a time may use an Assembler.
type Assembler struct {
	toolCalls    []toolCall // for all choices, in order of appearance
	lastToolCall int

	names ToolNames
	held  []heldName // nearly always empty

	clock      uint32
	single     bool // the request allows one tool call per choice
	hasSurplus bool
}

type toolCall struct {
	choice, position int32

	index       int64 // index in the latest piece that has an index
	indexed     bool
	lastPieceAt uint32 // the assembler's clock at the latest piece
	id, name    uint64 // hashes; 0 if unknown
	args        objectScanner

	hasArgs     bool
	identified  bool // an id from the engine or the edge has been chosen
	typed       bool
	nameless    bool // pieces without a name have arrived
	repeatsName bool
	otherIDs    bool // the pieces had more than one id
}

// PieceContribution describes what a piece contributes to its tool call.
type PieceContribution struct {
	Position int
	TakeID   bool // the piece's id becomes the tool call's id
	MakeID   bool // the edge generates the tool call's id; see AppendGeneratedID
	TakeName bool // the piece's name becomes the tool call's name
	NeedType bool // the tool call receives its name here and has no type yet
	Hold     bool // the piece contributes nothing yet, because its name may continue in the next piece
	Joined   bool // an earlier piece of the name was held back
	Surplus  bool // the request does not allow this additional tool call

	// ID and Name are the accepted id and name, as contents of JSON strings.
	ID, Name []byte

	// If the piece starts another tool call, Before lists the names that were still held back.
	Before []PieceContribution
}

// ContributesOnce reports whether the piece contributes an id, a name or a type, which later pieces
// of the tool call cannot contribute again.
func (p *PieceContribution) ContributesOnce() bool {
	return p.TakeID || p.MakeID || p.TakeName || p.NeedType
}

const maxKeptToolCalls = 64

// Reset prepares the Assembler for another answer.
func (a *Assembler) Reset() {
	toolCalls := a.toolCalls[:0]
	if cap(toolCalls) > maxKeptToolCalls {
		toolCalls = nil
	}
	*a = Assembler{toolCalls: toolCalls}
}

// SetSingle sets whether all tool calls of a choice except the first are Surplus. Some engines send
// more than one, even though the request forbids this. Reset clears the setting.
func (a *Assembler) SetSingle(single bool) { a.single = single }

// HasSurplus reports whether any tool call was Surplus.
func (a *Assembler) HasSurplus() bool { return a.hasSurplus }

// AddPiece assigns a piece of a delta to a tool call. It returns false if the tool call exceeds a
// limit.
func (a *Assembler) AddPiece(choice int, p *ToolCallPiece) (PieceContribution, bool) {
	a.clock++
	id, name := hashStringValue(p.ID), hashStringValue(p.Name)
	index, indexed := p.Index.Int()
	if at := a.findToolCall(choice, index, indexed, id, name); at >= 0 {
		if !a.startsNewToolCall(at, p, id, name, indexed) {
			return a.applyPiece(at, p, id, name), true
		}
	}
	var before []PieceContribution
	if len(a.held) > 0 { // held names must be sent first, because clients rely on the order
		before = a.ReleaseHeldNames(choice)
	}
	part, ok := a.beginToolCall(choice, p, id, name)
	part.Before = before
	return part, ok
}

// AddMessageToolCall adds a tool call from a message. It returns false if the tool call exceeds a
// limit.
func (a *Assembler) AddMessageToolCall(choice int, p *ToolCallPiece) (PieceContribution, bool) {
	a.clock++
	return a.beginToolCall(choice, p, hashStringValue(p.ID), hashStringValue(p.Name))
}

// findToolCall returns the index of the tool call that a piece would continue, or -1.
func (a *Assembler) findToolCall(choice int, index int64, indexed bool, id, name uint64) int {
	if len(a.toolCalls) == 0 {
		return -1
	}
	if t := &a.toolCalls[a.lastToolCall]; t.isInChoice(choice) && (!indexed || t.indexed && t.index == index) && (id == 0 || t.id == id) {
		return a.lastToolCall // true for nearly every piece
	}
	byIndex, byBoth, byID := -1, -1, -1
	for i := range a.toolCalls {
		t := &a.toolCalls[i]
		if !t.isInChoice(choice) {
			continue
		}
		same := id != 0 && t.id == id
		if same {
			byID = a.moreRecent(byID, i)
		}
		if !indexed || t.indexed && t.index == index {
			byIndex = a.moreRecent(byIndex, i)
			if same {
				byBoth = a.moreRecent(byBoth, i)
			}
		}
	}
	switch {
	case byBoth >= 0:
		return byBoth
	case byID >= 0 && (name == 0 || byIndex >= 0 || a.toolCalls[byID].args.isOpen()):
		// Otherwise, a new index with a name starts a tool call, because some engines repeat an id.
		return byID
	}
	return byIndex
}

// moreRecent returns i or j, whichever tool call has the more recent piece. i may be -1.
func (a *Assembler) moreRecent(i, j int) int {
	if i >= 0 && a.toolCalls[i].lastPieceAt > a.toolCalls[j].lastPieceAt {
		return i
	}
	return j
}

func (t *toolCall) isInChoice(choice int) bool { return int(t.choice) == choice }

func (a *Assembler) startsNewToolCall(at int, p *ToolCallPiece, id, name uint64, indexed bool) bool {
	if name == 0 {
		return false
	}
	t := &a.toolCalls[at]
	var args objectScanner
	args.addValue(p.Args)
	differ := id != 0 && t.id != 0 && id != t.id
	switch {
	case t.name == 0: // the name arrives late or in pieces
		h := a.findHeldName(at)
		return differ || h != nil && a.appendNamePiece(h.name, p.Name.RawContents()) == nil
	case t.name != name:
		return true
	case t.args.isEnded() && args.isBegun():
		return true
	case differ && !indexed:
		return true
	case differ && t.nameless:
		return true
	case differ && t.args.isOpen(), differ && !t.args.isBegun() && args.isOpen(): // for old versions of vLLM, which do not send whole objects
		return false
	case differ:
		return !t.otherIDs || args.isBegun()
	case id != 0 && id == t.id:
		return false
	case t.nameless:
		return true
	case t.args.isOpen() && p.Args.IsObject(): // the arguments are an object, not a piece of a string
		return true
	}
	return t.args.isEnded() && !p.Args.HasText() && !a.repeatsNames(t.choice)
}

// repeatsNames reports whether the engine repeats names in the choice. Such an engine may also
// repeat a name after the end of the arguments.
func (a *Assembler) repeatsNames(choice int32) bool {
	for i := range a.toolCalls {
		if t := &a.toolCalls[i]; t.choice == choice && t.repeatsName {
			return true
		}
	}
	return false
}

func (a *Assembler) beginToolCall(choice int, p *ToolCallPiece, id, name uint64) (PieceContribution, bool) {
	position := int32(0)
	for i := len(a.toolCalls) - 1; i >= 0; i-- {
		if a.toolCalls[i].isInChoice(choice) {
			position = a.toolCalls[i].position + 1
			break
		}
	}
	if position == MaxToolCallsPerChoice || len(a.toolCalls) == MaxToolCallsPerAnswer {
		return PieceContribution{}, false
	}
	a.toolCalls = append(a.toolCalls, toolCall{choice: int32(choice), position: position})
	return a.applyPiece(len(a.toolCalls)-1, p, id, name), true
}

func (a *Assembler) applyPiece(at int, p *ToolCallPiece, id, name uint64) PieceContribution {
	t := &a.toolCalls[at]
	part := PieceContribution{Position: int(t.position), ID: rawString(p.ID), Name: rawString(p.Name)}
	a.lastToolCall, t.lastPieceAt = at, a.clock
	if index, indexed := p.Index.Int(); indexed {
		t.index, t.indexed = index, true
	}
	if a.single && t.position > 0 {
		part.Surplus, a.hasSurplus = true, true
		t.args.addValue(p.Args)
		t.id, t.name = cmp.Or(t.id, id), cmp.Or(t.name, name)
		return part
	}
	if len(a.names) > 0 && t.name == 0 {
		if part.Hold = a.holdName(at, p, &part); part.Hold {
			if t.id == 0 {
				t.id = id
			}
			return part
		}
		if part.Joined {
			id, name = hashText(part.ID), hashText(part.Name)
			t.nameless = !p.HasName() && p.Args.IsString()
		}
	}
	switch {
	case name == 0:
		t.nameless = t.nameless || p.Args.IsString()
	case t.name == 0:
		t.name, part.TakeName = name, true
	default:
		t.repeatsName = true
		t.otherIDs = t.otherIDs || id != 0 && t.id != 0 && id != t.id
	}
	t.hasArgs = t.hasArgs || p.Args.IsObject() || p.Args.IsString() && !IsBlank(p.Args.RawContents())
	if !t.nameless { // after a piece without a name, ids are ignored, because a template may skip such pieces
		t.args.addValue(p.Args)
	}
	a.chooseID(at, &part, id)
	switch {
	case p.Type.HasText():
		t.typed = true
	case part.TakeName && !t.typed:
		t.typed, part.NeedType = true, true
	}
	return part
}

func (a *Assembler) chooseID(at int, part *PieceContribution, id uint64) {
	t := &a.toolCalls[at]
	if !t.identified && (id != 0 || part.TakeName) {
		t.identified = true
		part.TakeID = id != 0 && !isSmallNumber(part.ID) && !a.isIDTaken(at, id)
		part.MakeID = !part.TakeID
	}
	if t.id == 0 {
		t.id = id
	}
}

// HasToolCalls reports whether a choice has tool calls.
func (a *Assembler) HasToolCalls(choice int) bool {
	for i := range a.toolCalls {
		if a.toolCalls[i].isInChoice(choice) {
			return true
		}
	}
	return false
}

// IsLatestArgumentsBlank reports whether the tool call of the latest piece has no arguments except
// whitespace.
func (a *Assembler) IsLatestArgumentsBlank() bool { return !a.toolCalls[a.lastToolCall].hasArgs }

// TakeBlankArguments appends the positions of the tool calls that have blank arguments, and marks
// these tool calls as filled.
func (a *Assembler) TakeBlankArguments(positions []int, choice int) []int {
	for i := range a.toolCalls {
		if t := &a.toolCalls[i]; t.isInChoice(choice) && !t.hasArgs && !(a.single && t.position > 0) {
			t.hasArgs = true
			positions = append(positions, int(t.position))
		}
	}
	return positions
}

func (a *Assembler) isIDTaken(at int, id uint64) bool {
	for i := range a.toolCalls {
		if i != at && a.toolCalls[i].id == id && a.toolCalls[i].choice == a.toolCalls[at].choice {
			return true
		}
	}
	return false
}
